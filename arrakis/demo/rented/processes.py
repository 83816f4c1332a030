"""Processes of the machine: started, reaped, found again whoever their parent is now, and ended all together."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

HOST_VARIABLE: Final = "ARRAKIS_HOST"
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 1, 36, 38


class Children:
    """Every child of this process, also those whose own parents ended: it is their reaper, and nobody else may be."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._known: dict[int, tuple[subprocess.Popen[bytes], asyncio.Future[int]]] = {}
        loop.add_signal_handler(signal.SIGCHLD, self._reap)

    def spawn(
        self, argv: Sequence[str], env: Mapping[str, str], stdin: int, stdout: int, stderr: int
    ) -> tuple[int, asyncio.Future[int]]:
        """Start it in a session of its own. Its pid, and its return code to come (negative: a signal). OSError."""
        process = subprocess.Popen(argv, env=env, stdin=stdin, stdout=stdout, stderr=stderr, start_new_session=True)
        ended: asyncio.Future[int] = self._loop.create_future()
        self._known[process.pid] = (process, ended)
        return process.pid, ended

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if (known := self._known.pop(pid, None)) is not None:
                process, ended = known
                process.returncode = os.waitstatus_to_exitcode(status)
                if not ended.cancelled():
                    ended.set_result(process.returncode)


def become_reaper() -> None:
    """Descendants stay descendants, whatever they do; and none becomes more than we are by a set-uid program."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)


def end_with_parent(parent: int) -> None:
    """SIGTERM when the parent dies; at once if it has died already. After every change of user: that clears it."""
    _prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM))
    if os.getppid() != parent:
        raise SystemExit("whoever started this has ended")


def _prctl(option: int, value: int) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if library.prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option})")


def kill_all(home: Path, seconds: float = 10.0) -> list[int]:
    """SIGKILL all that descends from us or carries the machine's mark, until there is none; who is left after that.

    Again and again, because a process may have made another between the look and the blow.
    """
    end = time.monotonic() + seconds
    while True:
        found = set(_descendants()) | set(_marked(f"{HOST_VARIABLE}={home}"))
        left = sorted(pid for pid in found if _is_alive(pid))
        if not left or time.monotonic() > end:
            return left
        for pid in left:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


def _descendants() -> Iterator[int]:
    children: dict[int, list[int]] = {}
    for pid in _pids():
        if fields := _stat(pid):
            children.setdefault(int(fields[1]), []).append(pid)
    waiting = [os.getpid()]
    while waiting:
        found = children.get(waiting.pop(), [])
        yield from found
        waiting += found


def _marked(wanted: str) -> Iterator[int]:
    for pid in _pids():
        with suppress(OSError):
            if os.fsencode(wanted) in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                yield pid


def _is_alive(pid: int) -> bool:
    fields = _stat(pid)
    return bool(fields) and fields[0] not in {"Z", "X"} and pid != os.getpid()


def _stat(pid: int) -> list[str]:
    """State, parent, ...; nothing when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return []


def _pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
