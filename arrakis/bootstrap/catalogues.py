"""`python -m arrakis.bootstrap.catalogues FILE.po...`: compile translations with Babel, in the clone's Python."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po


def compile_catalogue(source: Path) -> Path:
    """The .mo beside `source`, replaced whole."""
    with source.open("rb") as file:
        catalogue = read_po(file)
    made = source.with_suffix(".mo")
    draft = made.with_name(f".{made.name}.{os.getpid()}")
    with draft.open("wb") as target:
        write_mo(target, catalogue)
    draft.replace(made)
    return made


if __name__ == "__main__":
    for name in sys.argv[1:]:
        compile_catalogue(Path(name))
