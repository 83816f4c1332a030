"""The machine's SSH server: who may log in, what they may do there, and what is left when it ends."""

from __future__ import annotations

import asyncio
import fcntl
import ipaddress
import json
import os
import re
import signal
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

import asyncssh

from arrakis.demo.rented import authorized
from arrakis.demo.rented.authorized import LINE, MARK
from arrakis.demo.rented.processes import HOST_VARIABLE, Children, become_reaper, end_with_parent, kill_all
from arrakis.demo.rented.sessions import SHELL, Process, Session

USER: Final = "arrakis"
SESSION_VARIABLE: Final = "ARRAKIS_SESSION"
LOGIN_SECONDS: Final = 20
MAX_CONNECTIONS: Final = 256
MAX_STRANGERS: Final = 32
"""Connections that have not logged in yet."""
LOOK_SECONDS: Final = 1.0
_SYSTEM_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_PASSED: Final = re.compile(r"(LANG|LC_[A-Z]+)\Z")


@dataclass(frozen=True)
class Settings:
    """`folder` holds home/, bin/ and the host's key; `parent` is whose end is ours too, or None."""

    folder: Path
    port: int
    authorized_key: str | None
    parent: int | None

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def keys(self) -> Path:
        return self.home / ".ssh" / "authorized_keys"


def run(settings: Settings) -> None:
    """Until SIGTERM or SIGINT; then nothing it started is left. SystemExit with a sentence when it cannot begin."""
    os.umask(0o077)
    become_reaper()
    if settings.parent is not None:
        end_with_parent(settings.parent)
    lock = os.open(settings.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise SystemExit(f"A host is running in {settings.folder} already.") from None
    (settings.folder / "host.json").unlink(missing_ok=True)
    kill_all(settings.folder)  # what a host that was killed here left behind
    _let_in(settings)
    os.chdir(settings.home)
    try:
        asyncio.run(Host(settings).serve())
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise SystemExit(f"Port {settings.port} of loopback cannot be listened on: {reason}.") from error
    finally:
        (settings.folder / "host.json").unlink(missing_ok=True)
        left = kill_all(settings.folder)
    if left:
        raise SystemExit(f"These processes did not end: {left}.")


def _let_in(settings: Settings) -> None:
    """The given key is the only one but those of labels: what customers let in themselves does not outlive a start."""
    settings.keys.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if settings.authorized_key is None:
        return
    kept = [line for line in authorized.read(settings.keys).lines if authorized.mark_of(line)]
    _write(settings.keys, "".join(f"{line}\n" for line in [settings.authorized_key.strip(), *kept]))


def _write(path: Path, text: str) -> None:
    draft = path.with_name(f".{path.name}.draft")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def host_key(path: Path) -> asyncssh.SSHKey:
    """The host's own key: made once, kept."""
    with suppress(FileNotFoundError):
        return asyncssh.read_private_key(path)
    made = asyncssh.generate_private_key("ssh-ed25519", comment="")
    _write(path, made.export_private_key().decode())
    return made


@dataclass
class Host:
    settings: Settings
    doors: set[Door] = field(default_factory=set)

    async def serve(self) -> None:
        loop, over = asyncio.get_running_loop(), asyncio.Event()
        self.children = Children(loop)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(number, over.set)
        key = host_key(self.settings.folder / "host_key")
        acceptor = await self._listen(key)
        self._tell(acceptor.get_port(), key)
        watching = asyncio.ensure_future(self._watch())
        await over.wait()
        watching.cancel()
        acceptor.close()
        for door in list(self.doors):
            door.close()

    async def _listen(self, key: asyncssh.SSHKey) -> asyncssh.SSHAcceptor:
        options: dict[str, Any] = {
            "server_host_keys": [key],
            "process_factory": self._session,
            "encoding": None,
            "sftp_factory": asyncssh.SFTPServer,
            "line_editor": False,
            "agent_forwarding": False,
            "x11_forwarding": False,
            "password_auth": False,
            "kbdint_auth": False,
            "host_based_auth": False,
            "gss_host": None,
            "login_timeout": LOGIN_SECONDS,
            "keepalive_interval": 15,
            "keepalive_count_max": 4,
        }
        return await asyncssh.create_server(lambda: Door(self), "127.0.0.1", self.settings.port, backlog=256, **options)

    def _tell(self, port: int, key: asyncssh.SSHKey) -> None:
        told = {
            "port": port,
            "user": USER,
            "host_key": key.export_public_key().decode().strip(),
            "fingerprint": key.get_fingerprint(),
        }
        _write(self.settings.folder / "host.json", json.dumps(told))
        print(json.dumps(told), flush=True)

    async def _session(self, process: Process) -> None:
        await Session(process, self.children, self._environment(process)).run()

    def _environment(self, process: Process) -> dict[str, str]:
        """Built anew: nothing of the server's own, and of the client's only the language."""
        passed = {name: value for name, value in process.env.items() if _PASSED.match(name)}
        connection = cast(asyncssh.SSHServerConnection, process.channel.get_connection())
        mark = str(connection.get_key_option(MARK, "") or "")
        return {
            "LANG": "C.UTF-8",
            **passed,
            "HOME": str(self.settings.home),
            "USER": USER,
            "LOGNAME": USER,
            "SHELL": SHELL,
            "PATH": f"{self.settings.folder / 'bin'}:{_SYSTEM_PATH}",
            HOST_VARIABLE: str(self.settings.folder),
            **({SESSION_VARIABLE: mark} if mark else {}),
        }

    async def _watch(self) -> None:
        """Close the connections of customers and tunnels whose key was taken away: forwards and files end with it."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            lines = set(authorized.read(self.settings.keys).lines)
            for door in list(self.doors):
                if door.is_out(lines):
                    door.close()


class Door(asyncssh.SSHServer):
    """One connection."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._connection: asyncssh.SSHServerConnection | None = None
        self._is_inside = False

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        strangers = sum(not door._is_inside for door in self._host.doors)
        if len(self._host.doors) >= MAX_CONNECTIONS or strangers >= MAX_STRANGERS:
            conn.abort()
            return
        self._connection = conn
        self._host.doors.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._host.doors.discard(self)

    def begin_auth(self, username: str) -> bool:
        """The file is read at every login."""
        if self._connection is not None:
            known = authorized.read(self._host.settings.keys) if username == USER else authorized.AuthorizedKeys()
            self._connection.set_authorized_keys(known)
        return True

    def auth_completed(self) -> None:
        self._is_inside = True

    def connection_requested(self, dest_host: str, dest_port: int, orig_host: str, orig_port: int) -> bool:
        """Loopback only, by its name or address; `permitopen` was asked before."""
        return is_loopback(dest_host) and 0 < dest_port < 65536

    def is_out(self, lines: set[str]) -> bool:
        """Whether the line that let a customer or a tunnel in is gone. The workers' own end by themselves."""
        if self._connection is None or not self._is_inside:
            return False
        mark = str(self._connection.get_key_option(MARK, "") or "")
        return bool(mark) and not mark.endswith(":admin") and self._connection.get_key_option(LINE) not in lines

    def close(self) -> None:
        if self._connection is not None:
            self._connection.abort()


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
