"""Every part real, around the test database: hub, host, tunnels, workers, gateway and web as processes of their own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from django.conf import settings
from django.db import connection

WAIT_SECONDS = 60
T = TypeVar("T")


@dataclass
class World:
    """Processes that share this test's database, broker and keys. `folder` is short: Unix sockets go there."""

    folder: Path
    settings: dict[str, str] = field(default_factory=dict)
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def environment(self, more: Mapping[str, str]) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if name in {"PATH", "HOME", "LANG", "TMPDIR"}}
        return {
            **kept,
            "DJANGO_SETTINGS_MODULE": "arrakis.settings",
            "DATABASE_URL": _database_url(),
            "REDIS_URL": settings.REDIS_URL,
            "SECRET_KEY": settings.SECRET_KEY,
            "ENCRYPTION_KEYS": ",".join(settings.ENCRYPTION_KEYS),
            "RUN_DIR": str(self.folder),
            "PYTHONUNBUFFERED": "1",
            "PYTHONPATH": str(settings.BASE_DIR),
            **self.settings,
            **more,
        }

    def start(self, name: str, *arguments: str, **environment: str) -> subprocess.Popen[bytes]:
        with self.log(name).open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, *arguments],
                env=self.environment(environment),
                cwd=settings.BASE_DIR,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.running[name] = process
        return process

    @staticmethod
    def free_port() -> int:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port: int = taken.getsockname()[1]
            return port

    @staticmethod
    def listens(port: int) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=2):
                return True
        except OSError:
            return False

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def said(self, name: str) -> str:
        return self.log(name).read_text(errors="replace")[-6000:] if self.log(name).exists() else ""

    def stop(self, name: str) -> None:
        process = self.running.pop(name)
        process.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(20)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def stop_all(self) -> None:
        for name in reversed(list(self.running)):
            self.stop(name)

    def wait(self, what: str, look: Callable[[], T | None], seconds: float = WAIT_SECONDS) -> T:
        """What `look` finds, as soon as it is true; else the logs of what runs say why."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = look()
            if found:
                return found
            time.sleep(0.05)
        logs = "\n".join(f"--- {name}\n{self.said(name)}" for name in self.running)
        raise AssertionError(f"{what} did not happen in {seconds:.0f} s\n{logs}")


def _database_url() -> str:
    """The test database as other processes name it: it is on the server of the settings, under another name."""
    here: dict[str, Any] = connection.settings_dict
    user, password = quote(here["USER"]), quote(here["PASSWORD"])
    host, port = quote(here["HOST"], safe=""), here["PORT"]
    return f"postgresql://{user}:{password}@/{here['NAME']}?host={host}" + (f"&port={port}" if port else "")
