"""Where a worker can be made to die, to show that a crash between any two lines loses nothing.

`ARRAKIS_FAILPOINT=<step>:<before|after>_call` kills the worker's whole process tree with SIGKILL right before or right
after the call that the step makes to the world outside. Without the variable `hit` does nothing.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Final, Literal

VARIABLE: Final = "ARRAKIS_FAILPOINT"
STEPS: Final = (
    "renting",
    "booting",
    "checking",
    "installing",
    "downloading",
    "loading",
    "running",
    "restarting",
    "keys",
    "stopping",
    "releasing",
)
"""Every step that calls a provider, a machine or a hub; `running` is the proof of the first token."""


def hit(step: str, moment: Literal["before", "after"]) -> None:
    """Die here if the environment says so."""
    if os.environ.get(VARIABLE) == f"{step}:{moment}_call":
        kill_tree(_top())


def kill_tree(pid: int) -> None:
    """SIGKILL a process and all below it; the parent first, which would replace children that die before it."""
    below = _descendants(pid)
    own = os.getpid()
    for victim in [pid, *below]:
        if victim != own:
            _kill(victim)
    if own in (pid, *below):
        _kill(own)


def _top() -> int:
    """The worker's main process: in a pool, the parent that would start a replacement for this one."""
    parent = os.getppid()
    same = _command(parent)
    return parent if same and same == _command(os.getpid()) else os.getpid()


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _descendants(pid: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            children.setdefault(_parent(entry), []).append(int(entry.name))
    found, todo = [], [pid]
    while todo:
        below = children.get(todo.pop(), [])
        found += below
        todo += below
    return found


def _parent(entry: Path) -> int:
    try:
        return int((entry / "stat").read_text(errors="replace").rpartition(")")[2].split()[1])
    except OSError:
        return 0


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
