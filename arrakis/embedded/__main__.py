"""`python -m arrakis.embedded start|stop|status|reset`: the clone's services from a shell."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from arrakis.embedded import EmbeddedError, ensure, reset, status, stop
from arrakis.embedded.clone import THIS_CLONE
from arrakis.embedded.keeper import Keeper


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m arrakis.embedded", description=__doc__)
    parser.add_argument("what", choices=["start", "stop", "status", "reset", "keep"])
    parser.add_argument("--clone", type=Path, default=THIS_CLONE)
    parser.add_argument("--instance", default="main")
    parser.add_argument("--idle-seconds", type=float, default=600.0)
    parser.add_argument("--not-durable", action="store_true")
    given = parser.parse_args()
    try:
        return _keep(given) if given.what == "keep" else _do(given)
    except EmbeddedError as error:
        print(error, file=sys.stderr)
        return 1


def _do(given: argparse.Namespace) -> int:
    where = {"root": given.clone, "instance": given.instance}
    if given.what == "start":
        ensure(**where, durable=not given.not_durable, idle_seconds=given.idle_seconds)
        print("The embedded services run; they stop by themselves when nothing has used them for ten minutes.")
    elif given.what == "status":
        running = status(**where)
        print("The embedded services run." if running else "The embedded services do not run.")
        return 0 if running else 3
    elif given.what == "stop":
        print("Stopped." if stop(**where) else "The embedded services did not run.")
    else:
        reset(**where)
        print("Stopped and removed; the next start is empty.")
    return 0


def _keep(given: argparse.Namespace) -> int:
    keeper = Keeper(
        root=given.clone, instance=given.instance, durable=not given.not_durable, idle_seconds=given.idle_seconds
    )
    if os.fork():  # so that whoever started it is not its parent, and needs not collect it
        os._exit(0)
    os.chdir("/")
    keeper.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
