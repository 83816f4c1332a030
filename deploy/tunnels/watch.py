"""The state stream of one machine. Whoever has root there may write anything into it, at any speed.

A few times a second what has come is looked at; the last whole line is the state, older ones are dropped. Nothing more
is read in between, so a flood fills the SSH window and stops at its source. A line longer than the cap ends the watch.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from deploy.machine.errors import MachineProblem
from deploy.machine.status import MAX_LINE_BYTES, Status, parse_status

logger = logging.getLogger(__name__)

EVERY_SECONDS: Final = 0.25
READ_BYTES: Final = 64 * 1024
GARBLED_MOST: Final = 20
"""Lines in a row that say nothing, before the stream is cut."""


class Stream(Protocol):
    async def read(self, n: int) -> bytes: ...


class Cut(Exception):
    """The stream is not worth reading on."""


async def watch(
    stream: Stream, told: Callable[[Status], None], pause: Callable[[float], Awaitable[object]] = asyncio.sleep
) -> None:
    """Call `told` with each newest state until the stream ends. Cut where it is nonsense."""
    held = b""
    garbled = 0
    while data := await stream.read(READ_BYTES):
        *lines, held = (held + data).split(b"\n")
        if len(held) > MAX_LINE_BYTES:
            raise Cut("a line without end")
        if lines:
            try:
                told(parse_status(lines[-1]))
            except MachineProblem as problem:
                garbled += 1
                if garbled >= GARBLED_MOST:
                    raise Cut(str(problem)) from problem
            else:
                garbled = 0
        await pause(EVERY_SECONDS)
