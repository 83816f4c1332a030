"""An engine's answer on its way to the client: passed on as it comes, unparsed, within limits.

Nothing is answered before the first piece is here, so that an engine that fails at once still gives a proper error.
A stream is passed on in whole events: where it breaks, an error event can follow that clients understand.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterable
from contextlib import aclosing
from typing import Final

import aiohttp

from deploy.gateway import enginefaults
from deploy.gateway.errors import Refused
from deploy.gateway.exchange import EVENTS, JSON, Exchange
from deploy.gateway.upstream import read_most
from deploy.gateway.usage import Tail

logger = logging.getLogger(__name__)

HOLD_BYTES: Final = 1024 * 1024
"""A JSON answer up to this is passed on whole: it arrives entirely or as an error."""
ANSWER_MOST_BYTES: Final = 512 * 1024 * 1024
EVENT_MOST_BYTES: Final = 8 * 1024 * 1024
ERROR_SECONDS: Final = 10
ENDS: Final = (b"\n\n", b"\r\n\r\n")
DONE: Final = b"[DONE]"
BROKEN: Final = (aiohttp.ClientError, TimeoutError, ValueError)
"""What reading from an engine raises when it breaks off, falls silent or talks nonsense."""


async def relay(exchange: Exchange, response: aiohttp.ClientResponse, tail: Tail, *, model: str, done: bool) -> None:
    """Answer the client with what the engine says; `done`: a stream must end with [DONE].

    Refused: what the engine refused, or bad_gateway, or stream_broken once the answer has begun.
    """
    headers = response.headers
    content_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    if response.status != 200:
        body = await read_most(response, enginefaults.BODY_MOST_BYTES, ERROR_SECONDS)
        retry_after = headers.get("retry-after", "")
        raise enginefaults.refused(response.status, content_type, body, model=model, retry_after=retry_after)
    if headers.get("content-encoding", "identity").lower() != "identity":
        raise Refused("bad_gateway")
    try:
        if content_type == "text/event-stream":
            await _stream(exchange, response.content.iter_any(), tail, done)
        elif content_type == "application/json":
            await _json(exchange, response.content.iter_any(), tail)
        else:
            raise Refused("bad_gateway")
    except BROKEN as error:
        logger.warning("%s: the engine broke off: %r", exchange.id, error)
        raise Refused("stream_broken" if exchange.started else "bad_gateway") from error


async def _stream(exchange: Exchange, chunks: AsyncIterable[bytes], tail: Tail, done: bool) -> None:
    total = 0
    async with aclosing(whole_events(chunks)) as events:
        async for events_now in events:
            if not exchange.started:
                await exchange.start(200, EVENTS, ((b"x-accel-buffering", b"no"),))
            total += len(events_now)
            if total > ANSWER_MOST_BYTES:
                raise Refused("stream_broken")
            tail.add(events_now)
            await exchange.chunk(events_now)
    if not exchange.started:
        raise Refused("bad_gateway")
    if done and DONE not in tail.bytes():
        raise Refused("stream_broken")
    await exchange.chunk(b"", last=True)


async def whole_events(chunks: AsyncIterable[bytes]) -> AsyncGenerator[bytes]:
    """The same bytes, cut only where an event ends. ValueError for an event that never does."""
    held = bytearray()
    async for chunk in chunks:
        if not held and chunk.endswith(ENDS):
            yield chunk
            continue
        seam = max(0, len(held) - 3)
        held += chunk
        cut = max(at + len(end) if (at := held.rfind(end, seam)) >= 0 else 0 for end in ENDS)
        if cut:
            yield bytes(held[:cut])
            del held[:cut]
        if len(held) > EVENT_MOST_BYTES:
            raise ValueError("an event without end")
    if held:
        yield bytes(held)


async def _json(exchange: Exchange, chunks: AsyncIterable[bytes], tail: Tail) -> None:
    held: list[bytes] = []
    total = 0
    async for chunk in chunks:
        total += len(chunk)
        tail.add(chunk)
        if exchange.started:
            if total > ANSWER_MOST_BYTES:
                raise Refused("stream_broken")
            await exchange.chunk(chunk)
            continue
        held.append(chunk)
        if total > HOLD_BYTES:
            await exchange.start(200, JSON)
            await exchange.chunk(b"".join(held))
    if exchange.started:
        await exchange.chunk(b"", last=True)
    else:
        await exchange.answer(200, b"".join(held))
