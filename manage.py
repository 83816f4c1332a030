#!/usr/bin/env python3
"""Django's commands for this clone: `.venv/bin/python manage.py COMMAND`."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def main() -> int:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "arrakis.settings")
    try:
        from django.core.management import execute_from_command_line
    except ImportError:
        return _wrong_python()
    from arrakis.embedded import EmbeddedError

    try:
        execute_from_command_line(sys.argv)
    except EmbeddedError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _wrong_python() -> int:
    own = Path(__file__).resolve().parent / ".venv" / "bin" / "python"
    if own.exists():
        print(f"{sys.executable} lacks this project's packages. Run: {own} manage.py ...", file=sys.stderr)
    else:
        print("This clone is not set up yet. Run `make venv` (or `make demo`) first.", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
