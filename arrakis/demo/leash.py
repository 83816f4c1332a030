"""Run a command that gets SIGTERM when whoever started this dies, however it dies. Linux; elsewhere it just runs.

    python -I -S leash.py PARENT_PID COMMAND ARGUMENT...

A program and not a `preexec_fn`: the demo has threads, and between fork and exec nothing of theirs may be needed.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    parent, command = int(sys.argv[1]), sys.argv[2:]
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    with contextlib.suppress(AttributeError):  # no such call on this system
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
    if os.getppid() != parent:  # it died before the leash was on
        sys.exit(1)
    os.execv(command[0], command)  # noqa: S606  (the shell is what is not wanted)


if __name__ == "__main__":
    main()
