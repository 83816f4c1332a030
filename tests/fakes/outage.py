"""A way to a server that can be cut and joined again, as when a database is restarted under those who use it."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from pathlib import Path

WAIT_SECONDS = 20


class Way:
    """Listens on `path` and leads to the Unix socket `to`, in a thread of its own."""

    def __init__(self, path: Path, to: Path) -> None:
        self._path, self._to = path, to
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self.passed = 0

    def __enter__(self) -> Way:
        self._thread.start()
        self.join()
        return self

    def __exit__(self, *exc: object) -> None:
        self.cut()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(WAIT_SECONDS)
        self._loop.close()

    def cut(self) -> None:
        """Everything that passes breaks off, and nobody answers any more."""
        asyncio.run_coroutine_threadsafe(self._cut(), self._loop).result(WAIT_SECONDS)

    def join(self) -> None:
        asyncio.run_coroutine_threadsafe(self._join(), self._loop).result(WAIT_SECONDS)

    async def _cut(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in list(self._writers):
            writer.transport.abort()
        self._path.unlink(missing_ok=True)

    async def _join(self) -> None:
        self._server = await asyncio.start_unix_server(self._pass, self._path)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.passed += 1
        there_reader, there_writer = await asyncio.open_unix_connection(self._to)
        self._writers |= {writer, there_writer}
        try:
            await asyncio.gather(_pump(reader, there_writer), _pump(there_reader, writer))
        finally:
            self._writers -= {writer, there_writer}


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()
