"""Tokens as engines report them, counted by key, deployment and hour, written in batches off the request's path.

The numbers come from machines that customers own while they rent them: they inform, no money hangs on them.
"""

from __future__ import annotations

import json
import logging
import re
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from deploy.asyncdb import OUTAGE, Database
from deploy.gateway.database import add_usage

logger = logging.getLogger(__name__)

TAIL_BYTES: Final = 16 * 1024
TOKENS_MOST: Final = 10**9
HOURS_MOST: Final = 100_000
"""Rows kept while the database is away; beyond that the oldest are dropped, and said so in the log."""

# Inside a JSON string every quotation mark is escaped, so a model that writes "usage" into its text is not matched.
_USAGE: Final = re.compile(rb'"usage"\s*:\s*(\{(?:[^{}]|\{[^{}]*\})*\})')
_TIMINGS: Final = re.compile(rb'"timings"\s*:\s*(\{[^{}]*\})')
_PROMPT: Final = ("prompt_tokens", "input_tokens", "prompt_n")
_COMPLETION: Final = ("completion_tokens", "output_tokens", "predicted_n")


@dataclass(frozen=True, slots=True)
class Tokens:
    prompt: int = 0
    completion: int = 0


class Tail:
    """The last bytes of an answer, kept as they pass."""

    def __init__(self) -> None:
        self._chunks: deque[bytes] = deque()
        self._size = 0

    def add(self, chunk: bytes) -> None:
        self._chunks.append(chunk)
        self._size += len(chunk)
        while self._size - len(self._chunks[0]) >= TAIL_BYTES:
            self._size -= len(self._chunks.popleft())

    def bytes(self) -> bytes:
        return b"".join(self._chunks)[-TAIL_BYTES:]


def tokens_in(tail: bytes) -> Tokens:
    """The last `usage` in an answer's last bytes, or llama.cpp's `timings` where a stream carries no usage."""
    for pattern in (_USAGE, _TIMINGS):
        found = pattern.findall(tail)
        if found and (tokens := _tokens(found[-1])) is not None:
            return tokens
    return Tokens()


def _tokens(text: bytes) -> Tokens | None:
    try:
        usage = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return Tokens(_number(usage, _PROMPT), _number(usage, _COMPLETION)) if isinstance(usage, dict) else None


def _number(usage: dict[str, Any], names: Iterable[str]) -> int:
    for name in names:
        value = usage.get(name)
        if type(value) is int and 0 <= value <= TOKENS_MOST:
            return value
    return 0


class Counts:
    """What was used since it was last written."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._rows: dict[tuple[str, str, int], list[int]] = {}

    def add(self, key: str, deployment: str, tokens: Tokens, *, failed: bool) -> None:
        self._merge((key, deployment, int(time.time() // 3600)), (1, int(failed), tokens.prompt, tokens.completion))

    async def flush(self) -> None:
        """Write what is there; what cannot be written is kept for the next time."""
        rows, self._rows = self._rows, {}
        if not rows:
            return
        try:
            await add_usage(
                self._database,
                [(key, dep, datetime.fromtimestamp(hour * 3600, UTC), row) for (key, dep, hour), row in rows.items()],
            )
        except OUTAGE as error:
            logger.warning("usage is not written yet: %s", error)
            for which, row in rows.items():
                self._merge(which, row)

    def _merge(self, which: tuple[str, str, int], numbers: Iterable[int]) -> None:
        row = self._rows.get(which)
        if row is not None:
            row[:] = [a + b for a, b in zip(row, numbers, strict=True)]
            return
        if len(self._rows) >= HOURS_MOST:
            oldest = next(iter(self._rows))
            logger.error("usage of key %s is lost: %s", oldest[0], self._rows.pop(oldest))
        self._rows[which] = list(numbers)
