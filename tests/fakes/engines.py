"""An engine that answers HTTP on a Unix socket, well or badly: what a machine with a hostile root might say.

    with FakeEngine(path) as engine:
        engine.answer = cut_stream
        ...
        assert engine.requests[0].headers == [...]

It is a real server in a thread of its own; nothing of the gateway is replaced.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

WAIT_SECONDS = 20


@dataclass
class Received:
    """One request, as the bytes of it came."""

    method: str
    target: str
    headers: list[tuple[str, str]]
    body: bytes

    @property
    def data(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)
        return found

    def header_names(self) -> set[str]:
        return {name for name, _value in self.headers}


Answer = Callable[[Received, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class FakeEngine:
    path: Path
    answer: Answer = field(default=lambda request, writer: well(request, writer))
    requests: list[Received] = field(default_factory=list)
    connections: int = 0

    def __post_init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._changed = threading.Condition()
        self._left = 0
        self._tasks: set[asyncio.Task[None]] = set()

    def __enter__(self) -> FakeEngine:
        ready = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(ready,), daemon=True)
        self._thread.start()
        assert ready.wait(WAIT_SECONDS)
        return self

    def __exit__(self, *exc: object) -> None:
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(WAIT_SECONDS)
        self._loop.close()

    def _run(self, ready: threading.Event) -> None:
        self._loop.run_until_complete(self._serve(ready))

    async def _serve(self, ready: threading.Event) -> None:
        self._stopping = asyncio.Event()
        self.path.unlink(missing_ok=True)
        server = await asyncio.start_unix_server(self._connected, self.path, backlog=1024)
        ready.set()
        await self._stopping.wait()
        server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        try:
            while (request := await _read(reader)) is not None:
                self.requests.append(request)
                await self._answer_or_left(request, reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _answer_or_left(
        self, request: Received, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Answer, and notice when the other side hangs up before the answer has ended."""
        answering = asyncio.ensure_future(self.answer(request, writer))
        hung_up = asyncio.ensure_future(_hung_up(reader))
        await asyncio.wait({answering, hung_up}, return_when=asyncio.FIRST_COMPLETED)
        left = not answering.done()
        for one in (answering, hung_up):
            one.cancel()
        try:
            with suppress(asyncio.CancelledError):
                await answering
        except OSError:
            left = True
        if left:
            with self._changed:
                self._left += 1
                self._changed.notify_all()
            raise ConnectionResetError

    def run(self, work: Callable[[], object]) -> None:
        """Do something in the engine's own loop."""
        self._loop.call_soon_threadsafe(work)

    def wait_until_left(self, times: int = 1) -> bool:
        """Whether so many callers hung up before their answer was whole."""
        with self._changed:
            return self._changed.wait_for(lambda: self._left >= times, WAIT_SECONDS)


async def _hung_up(reader: asyncio.StreamReader) -> None:
    # feed_eof is how the transport says so; nothing is sent before an answer is whole, so nothing is read here.
    while not reader.at_eof():
        await asyncio.sleep(0.005)


async def _read(reader: asyncio.StreamReader) -> Received | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode("latin-1").split("\r\n")[:-2]
    method, target, _version = first.split(" ")
    headers = [(name.lower(), value.strip()) for name, _, value in (line.partition(":") for line in lines)]
    size = int(dict(headers).get("content-length", "0"))
    return Received(method, target, headers, await reader.readexactly(size))


# ---------------------------------------------------------------- answers
def head(status: str, *headers: str) -> bytes:
    return ("\r\n".join((f"HTTP/1.1 {status}", *headers)) + "\r\n\r\n").encode("latin-1")


async def send(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(data)
    await writer.drain()


def whole(status: str, body: bytes, content_type: str = "application/json", *headers: str) -> Answer:
    """An answer with a length."""

    async def answer(request: Received, writer: asyncio.StreamWriter) -> None:
        lines = (f"Content-Type: {content_type}", f"Content-Length: {len(body)}", *headers)
        await send(writer, head(status, *lines) + body)

    return answer


def says(status: int, body: object) -> Answer:
    """JSON with that status."""
    return whole(f"{status} Whatever", json.dumps(body).encode())


def raw(data: bytes) -> Answer:
    """Bytes as they are, and the connection closed after them."""

    async def answer(request: Received, writer: asyncio.StreamWriter) -> None:
        await send(writer, data)
        writer.close()

    return answer


def http_chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


STREAM_HEAD = head("200 OK", "Content-Type: text/event-stream", "Transfer-Encoding: chunked")
USAGE = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
WORDS = ("Hello", " from", " here")


def event(content: str | None = None, *, model: str = "m", **more: Any) -> bytes:
    choices = [] if content is None else [{"index": 0, "delta": {"content": content}, "finish_reason": None}]
    data = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": model, "choices": choices, **more}
    return b"data: " + json.dumps(data).encode() + b"\n\n"


async def well(request: Received, writer: asyncio.StreamWriter) -> None:
    """As an engine should: a completion, or a stream with usage where it was asked for."""
    data = request.data
    if request.target.endswith("/embeddings"):
        rows = [{"object": "embedding", "index": 0, "embedding": [0.5, 0.25]}]
        await says(200, {"object": "list", "model": data["model"], "data": rows, "usage": USAGE})(request, writer)
        return
    if not data.get("stream"):
        message = {"role": "assistant", "content": "".join(WORDS)}
        choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
        body = {"id": "c1", "object": "chat.completion", "created": 1, "model": data.get("model"), "choices": choices}
        await says(200, {**body, "usage": USAGE})(request, writer)
        return
    await send(writer, STREAM_HEAD)
    for word in WORDS:
        await send(writer, http_chunk(event(word)))
    if (data.get("stream_options") or {}).get("include_usage"):
        await send(writer, http_chunk(event(usage=USAGE)))
    await send(writer, http_chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n")


async def cut_stream(request: Received, writer: asyncio.StreamWriter) -> None:
    """Half an event more than one, then gone."""
    await send(writer, STREAM_HEAD + http_chunk(event("Hello")) + http_chunk(event("lost")[:20]))
    writer.close()


async def never_ends(request: Received, writer: asyncio.StreamWriter) -> None:
    """Events for as long as anybody listens."""
    await send(writer, STREAM_HEAD)
    while True:
        await send(writer, http_chunk(event("more")))
        await asyncio.sleep(0.01)


async def flood(request: Received, writer: asyncio.StreamWriter) -> None:
    """As much as the other side takes, as fast as it takes it."""
    await send(writer, STREAM_HEAD)
    while True:
        await send(writer, http_chunk(event("x" * 60_000)))


async def silent(request: Received, writer: asyncio.StreamWriter) -> None:
    """Not a byte, for as long as anybody waits."""
    await asyncio.Event().wait()


def in_pieces(pieces: list[bytes]) -> Answer:
    """A stream cut into HTTP chunks anywhere."""

    async def answer(request: Received, writer: asyncio.StreamWriter) -> None:
        await send(writer, STREAM_HEAD)
        for piece in pieces:
            await send(writer, http_chunk(piece))
        await send(writer, b"0\r\n\r\n")

    return answer


page_with_cookies = whole(
    "200 OK",
    b"<html><script>alert(document.cookie)</script>",
    "text/html",
    "Set-Cookie: session=stolen; Path=/",
    "Clear-Site-Data: *",
)
redirect = whole("302 Found", b"{}", "application/json", "Location: https://evil.example/", "Set-Cookie: a=b")
giant_header = whole("200 OK", b"{}", "application/json", "X-Big: " + "x" * 100_000)
