"""What a process of the clone does with the services: find or start them, stop them, look, start over."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from arrakis.embedded import clone
from arrakis.embedded.errors import EmbeddedError
from arrakis.embedded.files import is_locked, open_lock, read_json, share_lock
from arrakis.embedded.processes import runs, signal_quietly, wait_until

IDLE_SECONDS = 600.0
_READY_SECONDS = 120.0
_held: dict[Path, int] = {}
"""Locks that say "in use" for as long as this process lives."""


@dataclass(frozen=True)
class Services:
    database_url: str
    redis_url: str


def ensure(
    *, instance: str = "main", durable: bool = True, root: Path | None = None, idle_seconds: float = IDLE_SECONDS
) -> Services:
    """The clone's services, started if they are not there; they stay for as long as this process lives.

    `instance` keeps data apart (the tests' from the demo's); `durable=False` trades safety at a power cut for speed.
    Raises EmbeddedError with a sentence for the person.
    """
    root = root or clone.THIS_CLONE
    folder = _folder(root, instance)
    folder.mkdir(mode=0o700, exist_ok=True)
    _hold(folder)
    deadline = time.monotonic() + _READY_SECONDS
    while time.monotonic() < deadline:
        if is_locked(folder / "lock"):
            wait_until(lambda: _running(folder) is not None or not is_locked(folder / "lock"), 30)
            if services := _running(folder):
                return services
        else:
            _start_keeper(root, instance, durable, idle_seconds)
            wait_until(lambda: is_locked(folder / "lock") or (folder / "failure").exists(), 10)
        if (folder / "failure").exists() and not is_locked(folder / "lock"):
            raise EmbeddedError((folder / "failure").read_text())
    raise EmbeddedError(f"The embedded services did not start in {_READY_SECONDS:.0f} s; see the logs in {folder}.")


def stop(*, instance: str = "main", root: Path | None = None) -> bool:
    """Stop the services, whoever uses them; whether they ran."""
    folder = _folder(root or clone.THIS_CLONE, instance)
    if (held := _held.pop(folder, None)) is not None:
        os.close(held)
    lock = folder / "lock"
    if not is_locked(lock):
        return False
    wait_until(lambda: bool(lock.read_text()), 5)
    keeper = int(lock.read_text())
    for number, seconds in ((signal.SIGTERM, 40), (signal.SIGKILL, 10)):
        if is_locked(lock) and runs(keeper, "arrakis.embedded"):
            signal_quietly(keeper, number)
            wait_until(lambda: not is_locked(lock), seconds)
    return True


def status(*, instance: str = "main", root: Path | None = None) -> Services | None:
    """The running services, or None. Starts nothing, and does not keep them."""
    folder = _folder(root or clone.THIS_CLONE, instance)
    return _running(folder) if is_locked(folder / "lock") else None


def reset(*, instance: str = "main", root: Path | None = None) -> None:
    """Stop the services and remove their data."""
    root = root or clone.THIS_CLONE
    stop(instance=instance, root=root)
    for folder in (clone.data_home(root) / instance, clone.forget_socket_dir(root, instance)):
        shutil.rmtree(folder, ignore_errors=True)
    notes = _folder(root, instance)
    if notes.is_dir():
        for path in notes.iterdir():
            if path.name not in {"lock", "users"} and path.is_file():
                path.unlink(missing_ok=True)


def _folder(root: Path, instance: str) -> Path:
    if not re.fullmatch(r"[a-z0-9-]{1,24}", instance):
        raise EmbeddedError(f"{instance!r} is no name for an instance: lower case, digits and - only.")
    return clone.private_folder(root) / instance


def _running(folder: Path) -> Services | None:
    """What the keeper published; a killed keeper's word is still there, and worth nothing."""
    state = read_json(folder / "state.json")
    if not state or not runs(state["keeper"], "arrakis.embedded"):
        return None
    return Services(state["database_url"], state["redis_url"])


def _hold(folder: Path) -> None:
    if folder not in _held:
        _held[folder] = open_lock(folder / "users")
        share_lock(_held[folder])


def _start_keeper(root: Path, instance: str, durable: bool, idle_seconds: float) -> None:
    """Start it detached: it must outlive this process, its terminal and its process group."""
    command = [sys.executable, "-m", "arrakis.embedded", "keep", "--clone", str(root), "--instance", instance]
    command += ["--idle-seconds", str(idle_seconds), *([] if durable else ["--not-durable"])]
    (_folder(root, instance) / "failure").unlink(missing_ok=True)
    with (_folder(root, instance) / "keeper.log").open("ab") as log:
        started = subprocess.run(
            command,
            cwd=clone.THIS_CLONE,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    if started.returncode != 0:
        raise EmbeddedError(f"The keeper of the services did not start; see {_folder(root, instance)}/keeper.log.")
