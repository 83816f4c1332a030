"""`make demo`: the whole product on this machine, until Ctrl-C. Set-up is done by then (arrakis.bootstrap)."""

from __future__ import annotations

import os
import sys
import time

STARTED = float(os.environ.get("ARRAKIS_STARTED") or time.time())
"""When the person began to wait, in seconds since 1970: set-up ran before this process did."""


def main() -> int:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "arrakis.settings")
    from arrakis.demo.run import run
    from arrakis.embedded import EmbeddedError

    try:
        return run(started=STARTED, wanted_port=_port(), reset=os.environ.get("RESET", "") not in ("", "0"))
    except EmbeddedError as error:
        print(error, file=sys.stderr)
        return 1


def _port() -> int:
    text = os.environ.get("PORT", "").strip() or "8000"
    if not text.isdigit() or not 1 <= int(text) <= 65_000:
        sys.exit(f"PORT must be a number from 1 to 65000, not {text!r}.")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
