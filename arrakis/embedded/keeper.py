"""The keeper: one process per clone and instance that starts, watches and stops the services."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import IO

from arrakis.embedded import clone, software
from arrakis.embedded.errors import EmbeddedError
from arrakis.embedded.files import open_lock, try_lock, write_private
from arrakis.embedded.postgres import Postgres
from arrakis.embedded.processes import wait_until
from arrakis.embedded.valkey import Valkey

_STOPPERS = {signal.SIGTERM, signal.SIGINT}
_START_SECONDS = 60.0
_LOG_BYTES = 5_000_000
_QUICK_DEATHS = 5
"""So many deaths within a minute, and the keeper gives up: what ails the service is not helped by starting it again."""


class Keeper:
    def __init__(self, *, root: Path, instance: str, durable: bool, idle_seconds: float) -> None:
        self.root, self.folder, self.idle_seconds = root, clone.private_folder(root) / instance, idle_seconds
        self.folder.mkdir(mode=0o700, exist_ok=True)
        self.instance, self.durable = instance, durable
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.deaths: list[float] = []

    def run(self) -> None:
        """Serve until told to stop, until nobody has used the services for a while, or until the clone is gone."""
        lock = open_lock(self.folder / "lock")
        if not try_lock(lock):
            return  # another keeper was quicker: whoever started this one finds that one
        os.ftruncate(lock, 0)
        os.write(lock, str(os.getpid()).encode())
        self.failure.unlink(missing_ok=True)
        signal.pthread_sigmask(signal.SIG_BLOCK, {*_STOPPERS, signal.SIGCHLD})
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        try:
            self._start()
            self._watch(lock)
        except (EmbeddedError, OSError) as error:
            self._say_failure(error)
        finally:
            self._stop()
            os.close(lock)

    @property
    def state(self) -> Path:
        return self.folder / "state.json"

    @property
    def failure(self) -> Path:
        return self.folder / "failure"

    def _start(self) -> None:
        self.state.unlink(missing_ok=True)
        uid, secrets = clone.service_uid(self.root), clone.clone_secrets(self.root)
        home = clone.data_home(self.root) / self.instance
        home.mkdir(mode=0o711 if os.geteuid() == 0 else 0o700, exist_ok=True)
        self.postgres = Postgres(
            bin=software.postgres_bin(self.root),
            data=home / "postgres",
            sockets=clone.socket_dir(self.root, self.instance, uid),
            uid=uid,
            password=secrets.postgres_password,
            durable=self.durable,
        )
        self.valkey = Valkey(
            binary=software.valkey_server(self.root),
            folder=self.postgres.sockets,
            uid=uid,
            password=secrets.valkey_password,
        )
        self._start_valkey()
        self._start_postgres()
        self._publish()

    def _start_postgres(self) -> None:
        self.postgres.prepare()
        with self._log("postgres") as log:
            process = self.running["postgres"] = self.postgres.start(log)
        wait_until(lambda: self.postgres.answers() or process.poll() is not None, _START_SECONDS)
        if process.poll() is not None or not self.postgres.answers():
            raise EmbeddedError(f"PostgreSQL did not start; {self.folder / 'postgres.log'} says why.")

    def _start_valkey(self) -> None:
        for _try in range(5):
            with self._log("valkey") as log:
                process = self.running["valkey"] = self.valkey.start(log)
            wait_until(lambda: self.valkey.answers() or process.poll() is not None, _START_SECONDS)  # noqa: B023
            if process.poll() is None and self.valkey.answers():
                return
            self.valkey.stop(process)
            self.valkey.move()
        raise EmbeddedError(f"Valkey did not start; {self.folder / 'valkey.log'} says why.")

    def _publish(self) -> None:
        state = {
            "keeper": os.getpid(),
            "database_url": self.postgres.url,
            "redis_url": self.valkey.url,
            "durable": self.durable,
            "pids": {name: process.pid for name, process in self.running.items()},
        }
        write_private(self.state, json.dumps(state, indent=1))

    def _watch(self, lock: int) -> None:
        users, unused_since = open_lock(self.folder / "users"), None
        while True:
            got = signal.sigtimedwait({*_STOPPERS, signal.SIGCHLD}, min(1.0, self.idle_seconds / 4))
            if got is not None and got.si_signo in _STOPPERS:
                return
            if not self._lock_is_in_place(lock):
                return
            self._revive()
            if not try_lock(users):
                unused_since = None
                continue
            unused_since = unused_since or time.monotonic()
            if time.monotonic() - unused_since >= self.idle_seconds:
                return  # the lock on `users` is kept until this process ends: who comes now waits, and starts anew
            os.close(users)
            users = open_lock(self.folder / "users")

    def _lock_is_in_place(self, lock: int) -> bool:
        """False once the clone, or its private folder, was removed."""
        try:
            return os.fstat(lock).st_ino == (self.folder / "lock").stat().st_ino
        except OSError:
            return False

    def _revive(self) -> None:
        dead = [name for name, process in self.running.items() if process.poll() is not None]
        for name in dead:
            now = time.monotonic()
            self.deaths = [at for at in self.deaths if now - at < 60] + [now]
            if len(self.deaths) > _QUICK_DEATHS:
                raise EmbeddedError(f"{name} keeps dying; {self.folder / f'{name}.log'} says why.")
            self._start_postgres() if name == "postgres" else self._start_valkey()
        if dead:
            self._publish()

    def _stop(self) -> None:
        self.state.unlink(missing_ok=True)
        if process := self.running.get("valkey"):
            self.valkey.stop(process)
        if process := self.running.get("postgres"):
            self.postgres.stop(process)

    def _say_failure(self, error: Exception) -> None:
        if not self.folder.is_dir():
            return
        write_private(self.failure, str(error))

    def _log(self, name: str) -> IO[bytes]:
        path = self.folder / f"{name}.log"
        if path.exists() and path.stat().st_size > _LOG_BYTES:
            path.replace(path.with_suffix(".log.1"))
        return path.open("ab", buffering=0)
