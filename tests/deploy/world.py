"""Every part real, around the test database: hub, host, tunnels, workers, gateway and web as processes of their own."""

from __future__ import annotations

import json
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

import asyncssh
from django.conf import settings
from django.db import connection

from arrakis import vault
from catalog.models import FleetHost, Gpu
from tests.deploy.rentals import a_host

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
            if ended := [name for name, process in self.running.items() if process.poll() is not None]:
                what = f"{what} (ended: {', '.join(ended)})"
                break
            time.sleep(0.05)
        logs = "\n".join(f"--- {name}\n{self.said(name)}" for name in self.running)
        raise AssertionError(f"{what} did not happen in {seconds:.0f} s\n{logs}")


def _database_url() -> str:
    """The test database as other processes name it: it is on the server of the settings, under another name."""
    here: dict[str, Any] = connection.settings_dict
    user, password = quote(here["USER"]), quote(here["PASSWORD"])
    host, port = quote(here["HOST"], safe=""), here["PORT"]
    return f"postgresql://{user}:{password}@/{here['NAME']}?host={host}" + (f"&port={port}" if port else "")


@dataclass
class DemoHost:
    """The machine of arrakis.demo.host in a folder of its own, with a witness of every label that was created."""

    world: World
    folder: Path
    access_key: str = field(default="", repr=False)

    def start(self) -> None:
        key = asyncssh.generate_private_key("ssh-ed25519")
        self.access_key = key.export_private_key().decode()
        line = key.export_public_key().decode().strip()
        where = ("--dir", str(self.folder), "--port", "0")
        self.world.start("host", "-m", "arrakis.demo.host", *where, "--authorized-key", line, "--parent-death")
        told = self.folder / "host.json"
        self.world.wait("the host", lambda: told.exists() and self.told())
        self._set_witness()

    def told(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / "host.json").read_text())
        return found

    def offer(self, gpu: Gpu) -> FleetHost:
        told = self.told()
        return a_host(
            gpu,
            mode="bare",
            is_demo=True,
            port=told["port"],
            user=told["user"],
            host_key=told["host_key"],
            access_key=vault.encrypt(self.access_key),
        )

    def claims(self) -> list[str]:
        """Labels in the order they were created on the host; one that was created twice is there twice."""
        log = self.folder / "bin" / "claims"
        return log.read_text().split() if log.exists() else []

    def left(self, label: str) -> list[str]:
        """What there is of a label: folders, processes (by their environment), lines of authorized_keys."""
        left = [str(path) for path in (self.folder / "home").rglob(f"*{label}*")]
        for entry in Path("/proc").iterdir():
            with suppress(OSError):
                if entry.name.isdigit() and label.encode() in (entry / "environ").read_bytes():
                    left.append(f"process {entry.name}")
        if label in (self.folder / "home" / ".ssh" / "authorized_keys").read_text():
            left.append("a key")
        return left

    def _set_witness(self) -> None:
        """The host's python3 runs label.py from stdin; this one writes down what a claim answered."""
        python, real = self.folder / "bin" / "python3", self.folder / "bin" / "python3.real"
        owner = python.stat()
        python.rename(real)
        python.write_text(
            f"""#!/bin/sh
[ "$4" = claim ] || exec {real} "$@"
answer=$({real} "$@") || exit
case $answer in *true*) echo "$5" >> {self.folder}/bin/claims ;; esac
echo "$answer"
"""
        )
        python.chmod(0o755)
        os.chown(python, owner.st_uid, owner.st_gid)
