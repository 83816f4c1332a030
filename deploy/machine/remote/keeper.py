"""Keeps the engine up: starts it in a session of its own, asks after its health, restarts it with back-off and a limit.

Standard library of Python 3.8. The engine is ended by process group, then by the mark in its environment, so that
workers it left (vLLM's, which hold GPU memory) do not survive it.
"""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import label
import statefile

ENGINE_VARIABLE = "ARRAKIS_ENGINE"
LOG_CAP_BYTES = 4 * 1024 * 1024
LOG_KEEP_BYTES = 1024 * 1024
TICK_SECONDS = 0.2
PROBE_SECONDS = 0.5
PROBE_READY_SECONDS = 2.0
PROBE_TIMEOUT_SECONDS = 10.0
GPU_SECONDS = 10.0
STARTING_SECONDS = 2.0
UNHEALTHY_AFTER_SECONDS = 20.0
RESTART_UNHEALTHY_SECONDS = 180.0
STABLE_SECONDS = 600.0
TERM_SECONDS = 20.0
BACKOFF_CAP_SECONDS = 60.0


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


class Prober(threading.Thread):
    """Asks the engine's health address, apart from the keeper's loop: an answer may take seconds under load."""

    def __init__(self, port: int, path: str) -> None:
        super().__init__(daemon=True)
        self._port = port
        self._path = path
        self.answered = False
        self.ok_at = 0.0
        self.gpu: Any = None
        self._over = threading.Event()

    def run(self) -> None:
        gpu_at = 0.0
        while not self._over.is_set():
            code = self._ask()
            self.answered = self.answered or code > 0
            if code == 200:
                self.ok_at = time.monotonic()
            if time.monotonic() - gpu_at > GPU_SECONDS:
                self.gpu, gpu_at = gpus(), time.monotonic()
            self._over.wait(PROBE_READY_SECONDS if code == 200 else PROBE_SECONDS)

    def end(self) -> None:
        self._over.set()

    def _ask(self) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=PROBE_TIMEOUT_SECONDS)
        try:
            connection.request("GET", self._path)
            return connection.getresponse().status
        except (OSError, http.client.HTTPException):
            return 0
        finally:
            connection.close()


def gpus() -> list[dict[str, int]] | None:
    if not shutil.which("nvidia-smi"):
        return None
    query = "--query-gpu=utilization.gpu,memory.used,memory.total"
    try:
        text = subprocess.run(
            ["nvidia-smi", query, "--format=csv,noheader,nounits"], capture_output=True, timeout=5, check=True
        ).stdout.decode()
        rows = [[int(cell) for cell in row.split(",")] for row in text.splitlines()[:16]]
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return [{"utilization": row[0], "memory_used_mib": row[1], "memory_total_mib": row[2]} for row in rows]


class Keeper:
    def __init__(self, base: Path) -> None:
        self._base = base
        self._port = int((base / "port").read_text(encoding="utf-8"))
        self._engine = json.loads((base / "engine.json").read_text(encoding="utf-8"))
        self._stopping = False
        self._crashes = 0
        self._shown: dict[str, Any] = {}
        restarts = statefile.read(base)["restarts"]
        self._restarts = restarts if type(restarts) is int else 0  # the customer may have written there

    def run(self) -> None:
        lock = statefile.Held(self._base / "run" / "keeper.lock")
        if not lock.take():
            return
        pid = os.getpid()
        (self._base / "run" / "keeper.pid").write_text(json.dumps([pid, label.start_time(pid)]), encoding="utf-8")
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._stop)
        self._kill_rest()  # what a keeper before us left when it was killed
        while not self._stopping:
            self._one_life()

    def _stop(self, *_: object) -> None:
        self._stopping = True

    def _one_life(self) -> None:
        """From one start of the engine to its end, and the wait before the next."""
        self._show(engine_state="starting")
        if not is_free(self._port):
            self._crashed(None, "port_taken")
            return
        child = self._spawn()
        prober = Prober(self._port, self._engine["health_path"])
        prober.start()
        began = time.monotonic()
        try:
            while child.poll() is None and not self._stopping and self._look(prober, began):
                time.sleep(TICK_SECONDS)
        finally:
            prober.end()
        code = self._end(child)
        if prober.ok_at - began > STABLE_SECONDS:
            self._crashes = 0
        if self._stopping:
            self._show(engine_state="stopped", exit_code=None)
        else:
            self._crashed(code, None)

    def _spawn(self) -> subprocess.Popen[bytes]:
        environment = {**os.environ, **self._engine["env"], ENGINE_VARIABLE: self._base.name}
        with (self._base / "log" / "engine.log").open("ab") as log:
            try:
                return subprocess.Popen(
                    self._engine["argv"],
                    cwd=self._base,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            except OSError as error:
                log.write(f"{error}\n".encode())
        self._give_up("engine_missing")

    def _look(self, prober: Prober, began: float) -> bool:
        """Say how the engine is; False when it has been unhealthy for so long that it must be restarted."""
        self._cap_log()
        now = time.monotonic()
        silent = now - (prober.ok_at or began)
        if prober.ok_at and silent < UNHEALTHY_AFTER_SECONDS:
            state = "ready"
        elif prober.ok_at:
            state = "unhealthy"
        else:
            state = "loading" if prober.answered or now - began > STARTING_SECONDS else "starting"
        self._show(engine_state=state, gpu=prober.gpu)
        if state == "ready":
            self._show(error_code=None, exit_code=None)
        return state != "unhealthy" or silent < RESTART_UNHEALTHY_SECONDS

    def _end(self, child: subprocess.Popen[bytes]) -> int | None:
        """End the whole group, kindly first, and what left the group after that."""
        _signal_group(child.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            child.wait(TERM_SECONDS)
        _signal_group(child.pid, signal.SIGKILL)
        code = child.wait()
        self._kill_rest()
        return code

    def _kill_rest(self) -> None:
        label.kill_all(lambda: label.marked(ENGINE_VARIABLE, self._base.name))

    def _crashed(self, code: int | None, error: str | None) -> None:
        self._crashes += 1
        if self._crashes > int(self._engine["restart_limit"]):
            self._give_up(error or "engine_crash_limit", code)
        self._restarts += 1
        self._show(engine_state="crashed", exit_code=code, restarts=self._restarts, error_code=error)
        wait = min(BACKOFF_CAP_SECONDS, self._engine["backoff_seconds"] * 2 ** (self._crashes - 1))
        end = time.monotonic() + wait
        while not self._stopping and time.monotonic() < end:
            time.sleep(min(TICK_SECONDS, wait))

    def _give_up(self, error: str, code: int | None = None) -> NoReturn:
        (self._base / "desired").write_text("failed", encoding="utf-8")
        self._show(engine_state="failed", error_code=error, exit_code=code)
        raise SystemExit(0)

    def _show(self, **changes: Any) -> None:
        if any(self._shown.get(name, self) != value for name, value in changes.items()):
            statefile.update(self._base, **changes)
            self._shown.update(changes)

    def _cap_log(self) -> None:
        """Engines append, so the file can be cut under them: the tail is kept beside it."""
        path = self._base / "log" / "engine.log"
        try:
            size = path.stat().st_size
            if size > LOG_CAP_BYTES:
                with path.open("r+b") as file:
                    file.seek(size - LOG_KEEP_BYTES)
                    (path.parent / "engine.log.1").write_bytes(file.read(LOG_KEEP_BYTES))
                    file.truncate(0)
        except OSError:
            return


def _signal_group(group: int, number: int) -> None:
    try:
        os.killpg(group, number)
    except OSError:
        return
