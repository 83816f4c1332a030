"""The one state file: state.json in the label's folder. Two processes write it (fetch, keeper), each its own fields.

A write takes the lock, changes its fields and replaces the file whole, so that a reader never sees a part of one and
neither writer undoes the other's. Standard library of Python 3.8.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from pathlib import Path
from typing import Any

EMPTY: dict[str, Any] = {
    "stage": "installed",
    "bytes_done": 0,
    "bytes_total": 0,
    "engine_port": None,
    "engine_state": "none",
    "restarts": 0,
    "exit_code": None,
    "gpu": None,
    "error_code": None,
}


def read(base: Path) -> dict[str, Any]:
    """The fields now; those of a new machine where the file is missing or was damaged."""
    try:
        found = json.loads((base / "state.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        found = {}
    known = found if isinstance(found, dict) else {}
    return {**EMPTY, **{name: known[name] for name in EMPTY if name in known}}


def update(base: Path, **changes: Any) -> None:
    """Change these fields, and only these."""
    lock = os.open(base / "run" / "state.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        state = {**read(base), **changes}
        part = base / "state.json.part"
        part.write_text(json.dumps(state), encoding="utf-8")
        part.replace(base / "state.json")
    finally:
        os.close(lock)


def line(state: dict[str, Any]) -> str:
    return json.dumps({**state, "seen_at": int(time.time())}, separators=(",", ":"))


class Held:
    """A lock file held for this process's life: the kernel lets go of it however the process ends."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = -1

    def take(self) -> bool:
        """Take the lock unless another process has it."""
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._file)
            return False
        return True

    def release(self) -> None:
        os.close(self._file)


def is_held(path: Path) -> bool:
    """Whether some process holds the lock."""
    probe = Held(path)
    try:
        free = probe.take()
    except FileNotFoundError:
        return False
    if free:
        probe.release()
    return not free
