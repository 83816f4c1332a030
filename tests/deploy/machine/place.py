"""A label's folder as `install` leaves it, with an engine of a few lines: what runs on machines, run here for real."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from deploy.machine.host import REMOTE, SUPERVISOR
from deploy.machine.status import Status, parse_status

T = TypeVar("T")
WAIT_SECONDS = 20.0

# Answers /health, and has a worker that left its session, as vLLM's may.
ENGINE = """
import http.server, subprocess, sys
worker = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
print("worker", worker.pid, "token sk-abcdefghijkl", flush=True)
class Health(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.send_header("Content-Length", "0"); self.end_headers()
    def log_message(self, *_): pass
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Health).serve_forever()
"""


@dataclass(frozen=True)
class Place:
    base: Path

    @classmethod
    def make(cls, base: Path) -> Place:
        base.mkdir(mode=0o700)
        for name in SUPERVISOR:
            shutil.copy(REMOTE / name, base / name)
        return cls(base)

    @property
    def label(self) -> str:
        return self.base.name

    def call(self, *words: str, stdin: bytes = b"") -> bytes:
        command = ["sh", str(self.base / "supervisor.sh"), *words]
        done = subprocess.run(command, input=stdin, capture_output=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout

    def init(self) -> int:
        return int(json.loads(self.call("init"))["port"])

    def engine(self, *argv: str, limit: int = 3) -> None:
        told = {"argv": argv, "env": {}, "health_path": "/health", "restart_limit": limit, "backoff_seconds": 0.05}
        (self.base / "engine.json").write_text(json.dumps(told))

    def real_engine(self, *, limit: int = 3) -> int:
        port = self.init()
        (self.base / "engine.py").write_text(ENGINE)
        self.engine(sys.executable, str(self.base / "engine.py"), str(port), limit=limit)
        return port

    def status(self) -> Status:
        return parse_status(self.call("status").strip())

    def wait(self, *states: str) -> Status:
        return wait(
            f"engine_state in {states}", lambda: found if (found := self.status()).engine_state in states else None
        )

    def processes(self, what: str = "") -> list[int]:
        """Living processes that carry the label's mark and have `what` in their command."""
        mark = f"ARRAKIS_LABEL={self.label}".encode()
        found = []
        for entry in Path("/proc").iterdir():
            try:
                is_ours = entry.name.isdigit() and mark in (entry / "environ").read_bytes().split(b"\0")
                if is_ours and what.encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
        return sorted(found)

    def end(self) -> None:
        for _ in range(100):
            left = self.processes()
            if not left:
                return
            for pid in left:
                with_quiet_kill(pid)


def with_quiet_kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def wait(what: str, look: Callable[[], T | None], seconds: float = WAIT_SECONDS) -> T:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := look():
            return found
        time.sleep(0.03)
    raise AssertionError(f"{what} did not happen in {seconds:.0f} s")


def state_file(place: Place) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((place.base / "state.json").read_text())
    return found
