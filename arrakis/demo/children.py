"""The demo's processes: started on a leash, started again when they die, stopped in order and all of them."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_LEASH = Path(__file__).with_name("leash.py")
_PR_SET_CHILD_SUBREAPER = 36
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 30.0
_STEADY_S = 30.0
"""After so long up, a process that dies is started again at once, as the first time."""


class ChildFailed(Exception):
    """A process that did not come up; the message says which and where its log is."""


@dataclass
class Child:
    name: str
    command: Sequence[str]
    log: Path
    environment: Mapping[str, str]
    is_ready: Callable[[], bool]
    stop_seconds: float = 10.0
    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0
    pause: float = field(default=_FIRST_PAUSE_S)
    start_at: float | None = None
    """When it is to be started again, by the monotonic clock; None while it runs."""

    def start(self) -> None:
        leash = [sys.executable, "-I", "-S", str(_LEASH), str(os.getpid())]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*leash, *self.command],
                env={**os.environ, **self.environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # the terminal's Ctrl-C is for the demo, which stops each in its turn
            )
        self.started_at, self.start_at = time.monotonic(), None

    @property
    def ended(self) -> int | None:
        """The exit status of a process that died by itself."""
        return self.process.poll() if self.process is not None else None


class Children:
    def __init__(self, children: Sequence[Child], say: Callable[[str], None]) -> None:
        self.children, self.say = list(children), say

    def start(self) -> None:
        for child in self.children:
            child.start()

    def wait_until_ready(self, seconds: float) -> None:
        """Until each answers. Raises ChildFailed for one that ended, or did not answer in time."""
        deadline = time.monotonic() + seconds
        for child in self.children:
            while not child.is_ready():
                if child.ended is not None:
                    raise ChildFailed(f"{child.name} ended with status {child.ended}; {child.log} says why.")
                if time.monotonic() > deadline:
                    raise ChildFailed(f"{child.name} did not answer in {seconds:.0f} s; see {child.log}.")
                time.sleep(0.05)

    def revive(self) -> None:
        """Look once: note who died, and start again whose pause is over."""
        now = time.monotonic()
        for child in self.children:
            if child.start_at is None and child.ended is not None:
                child.pause = min(child.pause * 2, _LONGEST_PAUSE_S)
                if now - child.started_at > _STEADY_S:
                    child.pause = _FIRST_PAUSE_S
                child.start_at = now + child.pause
                self.say(f"{child.name} ended ({_how(child.ended)}); started again in {child.pause:.1f} s.")
                _signal_group(child, signal.SIGKILL)  # what it had started itself
            elif child.start_at is not None and now >= child.start_at:
                child.environment = {**child.environment, "ARRAKIS_FAILPOINT": ""}  # a crash asked for happens once
                child.start()

    def stop(self) -> None:
        """Stop all, the last started first; what does not end in its time is killed with all it started."""
        for child in reversed(self.children):
            _signal(child, signal.SIGTERM)
        for child in reversed(self.children):
            if child.process is None:
                continue
            try:
                child.process.wait(child.stop_seconds)
            except subprocess.TimeoutExpired:
                self.say(f"{child.name} did not stop in {child.stop_seconds:.0f} s and is killed.")
            _signal_group(child, signal.SIGKILL)
            child.process.wait()


def adopt_orphans() -> None:
    """From now on what outlives its parent, anywhere below us, becomes ours and not init's (Linux only)."""
    library = ctypes.CDLL(None)
    if hasattr(library, "prctl"):
        library.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_orphans() -> None:
    """Kill and collect what is still below us when all that we know of has ended."""
    while True:
        try:
            pid, _status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            orphans = _own_children()
            for orphan in orphans:
                os.kill(orphan, signal.SIGKILL)
            if not orphans:
                return
            os.waitpid(-1, 0)


def _own_children() -> list[int]:
    listed = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children")
    return [int(pid) for pid in listed.read_text().split()] if listed.exists() else []


def _how(status: int) -> str:
    return f"signal {-status}" if status < 0 else f"status {status}"


def _signal(child: Child, number: signal.Signals) -> None:
    if child.process is not None and child.process.poll() is None:
        child.process.send_signal(number)


def _signal_group(child: Child, number: signal.Signals) -> None:
    """To the processes of its group; it leads its own, whose number stays taken while any member lives."""
    if child.process is None:
        return
    try:
        os.killpg(child.process.pid, number)
    except ProcessLookupError:
        return
