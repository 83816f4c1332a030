"""What an engine wrote, made fit to be shown: no terminal codes, no control characters, no keys. Pure."""

from __future__ import annotations

import re
from typing import Final

MAX_BYTES: Final = 256 * 1024
MAX_LINE_CHARACTERS: Final = 4000

# CSI, OSC (ended by BEL or ST) and the two-character escapes.
_TERMINAL_CODES: Final = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-_])|\x9b[0-?]*[ -/]*[@-~]"
)
_SECRETS: Final = re.compile(
    r"(sk-ark-|sk-|hf_|ark_)[A-Za-z0-9_-]{6,}|(?<=api_key': ')[^']*(?=')|(?<=Bearer )\S+",
)


def cleaned(raw: bytes) -> str:
    """The text of a log: at most MAX_BYTES from its end, lines cut, bidirectional overrides and controls dropped."""
    text = raw[-MAX_BYTES:].decode("utf-8", errors="replace")
    lines = _TERMINAL_CODES.sub("", text).replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return "\n".join(_SECRETS.sub("***", _printable(line))[:MAX_LINE_CHARACTERS] for line in lines)


def _printable(line: str) -> str:
    return "".join(character for character in line if character == "\t" or character.isprintable())
