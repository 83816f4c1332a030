"""Where arrakis.demo.host hands over, in a new program run by the machine's own user."""

from __future__ import annotations

import json
from pathlib import Path

from arrakis.demo.rented.server import Settings, run


def main(text: str) -> None:
    told = json.loads(text)
    run(Settings(Path(told["folder"]), int(told["port"]), told["authorized_key"], told["parent"]))
