"""The demo's outside world for tests: its machine (a real SSH server, real processes) and its hub (a real model).

`demo_host` and `demo_hub` are one of each for the whole run; a test that breaks one, or wants faults, starts its own.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncssh
import pytest
from aiohttp import web

from arrakis.demo.hub import Faults, smollm2
from arrakis.embedded.clone import THIS_CLONE
from deploy.machine.ssh import Target

WAIT_SECONDS = 30


@contextmanager
def reachable_folder() -> Iterator[Path]:
    """A folder that the machine's user can pass through; pytest's own is closed to it when we are root."""
    folder = Path(tempfile.mkdtemp(prefix="arrakis-test-", dir="/var/tmp"))
    folder.chmod(0o711)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@dataclass
class RunningHost:
    """`python -m arrakis.demo.host` in `folder`. `private_key` logs in as the operator would."""

    folder: Path
    private_key: asyncssh.SSHKey = field(default_factory=lambda: asyncssh.generate_private_key("ssh-ed25519"))
    environment: dict[str, str] = field(default_factory=dict)
    told: dict[str, Any] = field(default_factory=dict)

    @property
    def port(self) -> int:
        return int(self.told["port"])

    @property
    def user(self) -> str:
        return str(self.told["user"])

    @property
    def host_key(self) -> str:
        return str(self.told["host_key"])

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def keys(self) -> Path:
        return self.home / ".ssh" / "authorized_keys"

    @property
    def target(self) -> Target:
        return Target("127.0.0.1", self.port, self.user, self.host_key, self.private_key.export_private_key().decode())

    def command(self, *more: str) -> list[str]:
        line = self.private_key.export_public_key().decode().strip()
        start = [sys.executable, "-m", "arrakis.demo.host", "--dir", str(self.folder), "--port", "0"]
        return [*start, "--authorized-key", line, *more]

    def start(self) -> RunningHost:
        """Returns when it takes logins. RuntimeError with what it said when it does not come up."""
        self.process = subprocess.Popen(
            self.command("--parent-death"),
            cwd=THIS_CLONE,
            env={**os.environ, **self.environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(self.process.communicate(timeout=WAIT_SECONDS)[1])
        self.told = json.loads(line)
        return self

    def stop(self) -> int:
        self.process.terminate()
        self.process.communicate(timeout=WAIT_SECONDS)
        return self.process.returncode

    def add_key(self, options: str = "", comment: str = "") -> asyncssh.SSHKey:
        """A new key that may log in, with these options before it."""
        key = asyncssh.generate_private_key("ssh-ed25519")
        words = [options, *key.export_public_key().decode().split()[:2], comment]
        with self.keys.open("a") as file:
            file.write(" ".join(word for word in words if word) + "\n")
        return key

    def connect(self, key: asyncssh.SSHKey | None = None, user: str | None = None) -> Any:
        """asyncssh's client, with nothing of this account's."""
        return asyncssh.connect(
            "127.0.0.1",
            self.port,
            username=user or self.user,
            client_keys=[key or self.private_key],
            known_hosts=([asyncssh.import_public_key(self.host_key)], [], []),
            config=None,
            agent_path=None,
        )

    def __enter__(self) -> RunningHost:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


class RunningHub:
    """A hub in a thread. Change `faults` at will; `hub.log` holds what came."""

    def __init__(self, faults: Faults | None = None) -> None:
        self.hub = smollm2(faults)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    @property
    def faults(self) -> Faults:
        return self.hub.faults

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> RunningHub:
        self._thread.start()
        self._do(self._start())
        return self

    def __exit__(self, *_: object) -> None:
        self._do(self._runner.cleanup())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(WAIT_SECONDS)
        self._loop.close()

    def _do(self, work: Any) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(WAIT_SECONDS)

    async def _start(self) -> None:
        self._runner = web.AppRunner(self.hub.application(), access_log=None, shutdown_timeout=1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.port: int = self._runner.addresses[0][1]


@pytest.fixture(scope="session")
def demo_host() -> Iterator[RunningHost]:
    with reachable_folder() as folder, RunningHost(folder / "machine") as host:
        yield host


@pytest.fixture
def own_host() -> Iterator[RunningHost]:
    """One for this test alone, not started yet."""
    with reachable_folder() as folder:
        host = RunningHost(folder / "machine")
        yield host
        if hasattr(host, "process") and host.process.poll() is None:
            host.stop()


@pytest.fixture(scope="session")
def demo_hub() -> Iterator[RunningHub]:
    with RunningHub() as hub:
        yield hub


@pytest.fixture
def own_hub() -> Iterator[RunningHub]:
    """One for this test alone, to break."""
    with RunningHub() as hub:
        yield hub
