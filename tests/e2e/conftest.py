"""The whole product, started as a person starts it, in a clone of its own: nothing is replaced, nothing is shared."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parents[2]
READY_SECONDS = 180
STOP_SECONDS = 60
_OWN = (".git", ".venv", ".arrakis", ".uv", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".hypothesis", "__pycache__")


@dataclass(frozen=True)
class Running:
    """What `.arrakis/demo.json` says, and where the clone is."""

    folder: Path
    url: str
    gateway_url: str
    customer: dict[str, str]
    staff: dict[str, str]
    machine_gpu: str

    def manage(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "manage.py", *arguments]
        return subprocess.run(
            command, cwd=self.folder, env=_environment(), capture_output=True, text=True, timeout=120, check=False
        )


@pytest.fixture(scope="session")
def product(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("e2e") / "clone"
    shutil.copytree(HERE, folder, ignore=shutil.ignore_patterns(*_OWN), symlinks=True)
    log = folder.parent / "demo.log"
    with log.open("wb") as out:
        demo = subprocess.Popen(
            [sys.executable, "-m", "arrakis.demo"],
            cwd=folder,
            env=_environment() | {"PORT": str(_free_port())},
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        told = folder / ".arrakis" / "demo.json"
        until(lambda: told.exists() or demo.poll() is not None, READY_SECONDS, lambda: log.read_text())
        assert demo.poll() is None, log.read_text()
        yield Running(folder=folder, **json.loads(told.read_text()))
    finally:
        demo.send_signal(signal.SIGINT)
        try:
            demo.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(demo.pid, signal.SIGKILL)
            raise


def until(condition: Callable[[], Any], seconds: float, otherwise: Callable[[], str] = lambda: "") -> Any:
    """Whatever true thing `condition` says at last; after `seconds` it fails, and says `otherwise`."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"not within {seconds} s: {otherwise()}"
        time.sleep(0.2)
    return found


def _environment() -> dict[str, str]:
    """The caller's, without what a test run sets for itself."""
    mine = ("DATABASE_URL", "REDIS_URL", "DJANGO_SETTINGS_MODULE", "HF_ENDPOINT", "TEST_", "PYTEST_", "RUN_DIR")
    return {name: value for name, value in os.environ.items() if not name.startswith(mine)}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
