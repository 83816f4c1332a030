"""Whose process is behind a number: pids are reused, so none is trusted without a look at what runs there."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

_PR_SET_PDEATHSIG = 1


def command_line(pid: int) -> list[str]:
    """The arguments of a process; empty if there is none."""
    proc = Path("/proc")
    if (proc / "self").exists():
        try:
            return [os.fsdecode(part) for part in (proc / str(pid) / "cmdline").read_bytes().split(b"\0") if part]
        except OSError:
            return []
    shown = subprocess.run(["/bin/ps", "-ww", "-o", "command=", "-p", str(pid)], capture_output=True, text=True)
    return shown.stdout.split()


def runs(pid: int, *words: str) -> bool:
    """Whether process `pid` exists and has all of `words` in its command line."""
    line = " ".join(command_line(pid))
    return bool(line) and all(word in line for word in words)


def user_of(uid: int) -> int | None:
    """What subprocess takes as `user` and `group`: only root can be another than it is."""
    return uid if os.geteuid() == 0 else None


def groups_of(uid: int) -> list[int] | None:
    """What subprocess takes as `extra_groups`: root's own are dropped with it."""
    return [] if os.geteuid() == 0 and uid != 0 else None


def working_in(folder: Path) -> list[int]:
    """The processes whose working folder this is: a PostgreSQL's processes all work in their data folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cwd"):
        try:
            if str(entry.readlink()) == str(folder):
                found.append(int(entry.parent.name))
        except OSError:  # gone meanwhile, or not ours to see
            continue
    return found


def signal_quietly(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def wait_until(done: Callable[[], bool], seconds: float) -> bool:
    """Ask until it is so, at most `seconds`; whether it came so."""
    deadline, pause = time.monotonic() + seconds, 0.005
    while not done():
        if time.monotonic() > deadline:
            return False
        time.sleep(pause)
        pause = min(pause * 1.5, 0.1)
    return True


def die_with_parent(number: signal.Signals) -> Callable[[], None]:
    """A `preexec_fn`: the child gets `number` when the thread that started it ends. Linux only; elsewhere nothing.

    subprocess changes the user before it calls this; the other order would clear the setting again.
    """
    library, parent = ctypes.CDLL(None), os.getpid()

    def arrange() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, [])  # what the keeper waits for, the child must not sleep through
        if hasattr(library, "prctl"):
            library.prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0)
        if os.getppid() != parent:  # it died in between
            os._exit(1)

    return arrange
