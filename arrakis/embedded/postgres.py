"""The clone's PostgreSQL: Unix socket only, one password role, data under a lock that the keeper holds."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
from pathlib import Path
from typing import IO
from urllib.parse import quote

from arrakis.embedded.errors import EmbeddedError
from arrakis.embedded.processes import (
    die_with_parent,
    groups_of,
    runs,
    signal_quietly,
    user_of,
    wait_until,
    working_in,
)

ROLE = "arrakis"
_COMMON = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "max_connections": "200",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_min_messages": "warning",
}
# For tests, whose data nobody misses after a power cut.
_UNSAFE = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "autovacuum_naptime": "10s"}


class Postgres:
    def __init__(self, *, bin: Path, data: Path, sockets: Path, uid: int, password: str, durable: bool) -> None:
        self.bin, self.data, self.sockets, self.uid = bin, data, sockets, uid
        self.password, self.durable = password, durable

    @property
    def url(self) -> str:
        return f"postgresql://{ROLE}:{quote(self.password)}@/{ROLE}?host={quote(str(self.sockets))}"

    def prepare(self) -> None:
        """Make the cluster if there is none, and clear what a killed one left."""
        if (self.data / "PG_VERSION").exists():
            self._check_version()
            self._clear_leftovers()
        else:
            self._make_cluster()

    def start(self, log: IO[bytes]) -> subprocess.Popen[bytes]:
        """The running server, not yet answering. It shuts down by itself when the calling thread's process dies."""
        settings = {**_COMMON, **({} if self.durable else _UNSAFE), "unix_socket_directories": str(self.sockets)}
        arguments = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        return subprocess.Popen(
            [str(self.bin / "postgres"), "-D", str(self.data), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=_environment(),
            cwd="/",
            start_new_session=True,
            preexec_fn=die_with_parent(signal.SIGINT),
            user=user_of(self.uid),
            group=user_of(self.uid),
            extra_groups=groups_of(self.uid),
        )

    def answers(self) -> bool:
        """Whether it takes connections: the last line of its pid file says so."""
        try:
            status = (self.data / "postmaster.pid").read_text().splitlines()[7].strip()
            with socket.socket(socket.AF_UNIX) as probe:
                probe.connect(str(self.sockets / ".s.PGSQL.5432"))
        except (OSError, IndexError):
            return False
        return status == "ready"

    def stop(self, process: subprocess.Popen[bytes]) -> None:
        """Fast shutdown, then without a checkpoint, then by force; the next start recovers."""
        for number, seconds in ((signal.SIGINT, 20), (signal.SIGQUIT, 5), (signal.SIGKILL, 5)):
            if process.poll() is not None:
                return
            signal_quietly(process.pid, number)
            wait_until(lambda: process.poll() is not None, seconds)

    def _check_version(self) -> None:
        have = (self.data / "PG_VERSION").read_text().strip()
        shown = subprocess.run([self.bin / "postgres", "--version"], capture_output=True, text=True, check=True)
        want = shown.stdout.split()[-1].split(".")[0]
        if have != want:
            raise EmbeddedError(
                f"{self.data} was made by PostgreSQL {have}; this is {want}. Start empty with `make demo RESET=1`."
            )

    def _clear_leftovers(self) -> None:
        """End a server that outlived its keeper, and remove its pid file: the number in it may be anybody's by now.

        The keeper's lock says that no other keeper serves this data; what still works in the folder is a leftover.
        """
        pid_file = self.data / "postmaster.pid"
        try:
            pid = int(pid_file.read_text().split("\n", 1)[0])
        except (OSError, ValueError):
            pid = 0
        for number, seconds in ((signal.SIGINT, 10), (signal.SIGQUIT, 5), (signal.SIGKILL, 5)):
            left = {other for other in working_in(self.data) if runs(other, "postgres")}
            if pid and runs(pid, "postgres", str(self.data)):
                left.add(pid)
            if not left:
                break
            for other in left if number == signal.SIGKILL else left & {pid}:
                signal_quietly(other, number)
            wait_until(lambda: not any(runs(other, "postgres") for other in left), seconds)  # noqa: B023
        pid_file.unlink(missing_ok=True)

    def _make_cluster(self) -> None:
        """Make it beside its place and rename it there whole."""
        draft = self.data.with_name(f"{self.data.name}.new")
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(mode=0o700)
        maker = _maker(self.uid)
        os.chown(draft, maker, maker)
        # Locale of the server's own, so that no package of the system decides how text sorts.
        flags = "--encoding=UTF8 --locale-provider=builtin --builtin-locale=C.UTF-8 --locale=C --no-instructions"
        auth = "--auth-local=reject --auth-host=reject"
        _run([self.bin / "initdb", "-D", draft, "-U", "postgres", *flags.split(), *auth.split(), "--no-sync"], maker)
        role = f"CREATE ROLE {ROLE} LOGIN CREATEDB PASSWORD '{self.password}';"
        database = f"CREATE DATABASE {ROLE} OWNER {ROLE};"
        _run([self.bin / "postgres", "--single", "-D", draft, "postgres"], maker, f"{role}\n{database}\n")
        # The superuser has no way in; the application's role owns its database and needs no more.
        (draft / "pg_hba.conf").write_text(f"local all {ROLE} scram-sha-256\n")
        if maker != self.uid:
            for entry in (draft, *draft.rglob("*")):
                os.chown(entry, self.uid, self.uid, follow_symlinks=False)
        draft.rename(self.data)


def _maker(uid: int) -> int:
    """initdb wants a user that has a name; the server itself does not. For root's services that is `nobody`."""
    if os.geteuid() != 0:
        return uid
    named = {account.pw_name: account.pw_uid for account in pwd.getpwall() if account.pw_uid != 0}
    if not named:
        raise EmbeddedError("/etc/passwd names no user but root; PostgreSQL's initdb needs one such as `nobody`.")
    return named.get("nobody", next(iter(named.values())))


def _run(command: list[str | Path], uid: int, given: str = "") -> None:
    done = subprocess.run(
        [str(word) for word in command],
        input=given,
        capture_output=True,
        text=True,
        env=_environment(),
        cwd="/",
        user=user_of(uid),
        group=user_of(uid),
        extra_groups=groups_of(uid),
    )
    if done.returncode != 0 or "FATAL" in done.stderr or "ERROR" in done.stderr:
        raise EmbeddedError(_explained(done.stderr.strip()))


def _explained(said: str) -> str:
    if "could not look up effective user ID" in said:
        return (
            f"Your user id ({os.geteuid()}) has no name on this machine, and PostgreSQL's initdb needs one."
            " Run this as a user listed in /etc/passwd, or set DATABASE_URL and REDIS_URL."
        )
    if "No space left on device" in said:
        return "The disk is full: PostgreSQL needs about 100 MB for a new database."
    return f"PostgreSQL could not make its database: {said}"


def _environment() -> dict[str, str]:
    """No PG* variable of the caller's may lead it elsewhere."""
    return {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"}
