"""One request and its answer: what of them crosses the gateway, and the limits on both.

Every answer carries the same guards: nothing that a machine says is sniffed, framed, cached or run as a page of ours
(DESIGN 5.6). Browsers may call from any site: a key in a header is all that opens anything, there are no cookies.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any, Final

from django.utils.translation import get_supported_language_variant
from django.utils.translation.trans_real import parse_accept_lang_header

from deploy.gateway.errors import Refused

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Header = tuple[bytes, bytes]

BODY_MOST_BYTES: Final = 32 * 1024 * 1024
JSON: Final = b"application/json"
EVENTS: Final = b"text/event-stream; charset=utf-8"
GUARDS: Final[tuple[Header, ...]] = (
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"sandbox; default-src 'none'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
    (b"access-control-allow-origin", b"*"),
    (b"access-control-expose-headers", b"x-request-id, retry-after, x-should-retry, x-deployment-stage"),
)
PREFLIGHT: Final[tuple[Header, ...]] = (
    (b"access-control-allow-methods", b"GET, POST"),
    (b"access-control-allow-headers", b"authorization, *"),
    (b"access-control-max-age", b"600"),
)


class Disconnected(Exception):
    """The client went away before its request was whole."""


class Exchange:
    """The ASGI messages of one request, with a name that both sides can look up (`x-request-id`)."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scope = scope
        self._receive = receive
        self._send = send
        self.id = f"req_{secrets.token_hex(12)}"
        self.headers: dict[bytes, bytes] = {}
        for name, value in scope["headers"]:
            self.headers.setdefault(name, value)
        self.started = False
        self.streaming = False
        self.finished = False
        self.gone = False
        self.sending_since: float | None = None
        self._watch: asyncio.Task[None] | None = None

    @property
    def address(self) -> str | None:
        client = self.scope.get("client")
        return client[0] if client else None

    def credential(self) -> str:
        """The key that was sent, as Bearer or in `x-api-key`. Refused: missing_api_key."""
        scheme, _, token = self.headers.get(b"authorization", b"").partition(b" ")
        if scheme.lower() != b"bearer" or not token.strip():
            token = self.headers.get(b"x-api-key", b"")
        if not token.strip():
            raise Refused("missing_api_key")
        return token.strip().decode("latin-1")

    async def body(self, take: Callable[[int], None]) -> bytes:
        """The whole body; `take` is asked for room as it arrives.

        Refused: body_too_large, unsupported_encoding, and what `take` raises; or Disconnected.
        """
        if self.headers.get(b"content-encoding", b"identity").strip().lower() != b"identity":
            raise Refused("unsupported_encoding")
        declared = self.headers.get(b"content-length", b"0")
        if not declared.isdigit() or len(declared) > 18 or int(declared) > BODY_MOST_BYTES:
            raise Refused("body_too_large", most_mib=BODY_MOST_BYTES // 2**20)
        parts = bytearray()
        while True:
            message = await self._message()
            part = message.get("body", b"")
            if len(parts) + len(part) > BODY_MOST_BYTES:
                raise Refused("body_too_large", most_mib=BODY_MOST_BYTES // 2**20)
            take(len(part))
            if not message.get("more_body"):
                return bytes(parts + part) if parts else part
            parts += part

    async def _message(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise Disconnected
        return message

    def watch(self, on_gone: Callable[[], object]) -> None:
        """From now on, call `on_gone` the moment the client goes away. The body must have been read."""
        self._watch = asyncio.create_task(self._watch_for(on_gone))

    async def _watch_for(self, on_gone: Callable[[], object]) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        if not self.finished:
            self.gone = True
            on_gone()

    def close(self) -> None:
        if self._watch is not None:
            self._watch.cancel()

    async def start(self, status: int, content_type: bytes, more: Iterable[Header] = ()) -> None:
        """Send the head of the answer; chunks follow."""
        own = ((b"content-type", content_type), (b"x-request-id", self.id.encode()))
        self.started, self.streaming = True, content_type is EVENTS
        await self._send({"type": "http.response.start", "status": status, "headers": [*own, *GUARDS, *more]})

    async def chunk(self, data: bytes, *, last: bool = False) -> None:
        """Send a piece of the body; waits while the client reads slower than the engine writes."""
        self.finished = self.finished or last
        self.sending_since = time.monotonic()
        await self._send({"type": "http.response.body", "body": data, "more_body": not last})
        self.sending_since = None

    async def answer(self, status: int, body: bytes, more: Iterable[Header] = ()) -> None:
        """Send a whole JSON answer."""
        await self.start(status, JSON, [(b"content-length", str(len(body)).encode()), *more])
        await self.chunk(body, last=True)

    async def preflight(self) -> None:
        """What browsers ask before they send a key from another site."""
        await self.start(204, JSON, PREFLIGHT)
        await self.chunk(b"", last=True)

    async def refuse(self, refused: Refused) -> None:
        """Send an error; in the middle of a stream, as its last event, which clients raise as an error too.

        A long JSON answer that broke is left unfinished: the server then closes the connection.
        """
        body = refused.body(self._language())
        if not self.started:
            await self.answer(refused.status, body, refused.headers())
        elif self.streaming and not self.finished:
            await self.chunk(b"data: " + body + b"\n\n", last=True)

    def _language(self) -> str:
        for code, _quality in parse_accept_lang_header(self.headers.get(b"accept-language", b"").decode("latin-1")):
            if code == "*":
                break
            try:
                return get_supported_language_variant(code)
            except LookupError:
                continue
        return "en"
