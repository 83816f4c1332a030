"""What a body asks for. Pure.

A body is parsed once and, where the engine knows the model by the name that was asked for, passed on byte for byte.
What two readers could read in two ways is refused: duplicate names, NaN, other encodings than UTF-8.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from deploy.gateway.errors import Refused, shorten

STRUCTURE_MOST: Final = 2_000_000
"""Values in one body at most: 32 MiB of `[],` would be a gigabyte once parsed."""


@dataclass(frozen=True, slots=True)
class Asked:
    """`model` None: not named. `raw` is the body as it came, `data` what it says."""

    raw: bytes
    data: dict[str, Any]
    model: str | None

    def named(self, served_name: str) -> bytes:
        """The body for an engine that knows its model by `served_name`."""
        if self.model == served_name:
            return self.raw
        try:
            return json.dumps({**self.data, "model": served_name}, allow_nan=False, separators=(",", ":")).encode()
        except ValueError as error:  # 1e999 was read as infinity
            raise Refused("invalid_json", problem=shorten(str(error))) from error


def parse(raw: bytes) -> Asked:
    """Refused: invalid_json, model_invalid, body_too_large."""
    if len(raw) > STRUCTURE_MOST and raw.count(b",") + raw.count(b"[") + raw.count(b"{") > STRUCTURE_MOST:
        raise Refused("body_too_complex", most=STRUCTURE_MOST)
    try:
        data = DECODER.decode(raw.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise Refused("invalid_json", problem=_problem(error)) from error
    if not isinstance(data, dict):
        raise Refused("invalid_json", problem="not an object")
    model = data.get("model")
    if model is not None and not isinstance(model, str):
        raise Refused("model_invalid")
    return Asked(raw, data, model)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name occurs twice in one object")
    return found


def _constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _problem(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg.lower()}, line {error.lineno} column {error.colno}"
    if isinstance(error, UnicodeDecodeError):
        return "not UTF-8"
    return "nested too deep" if isinstance(error, RecursionError) else shorten(str(error))


DECODER: Final = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant)
"""Made once: `json.loads` with hooks makes one for each call."""
