"""A machine that answers SSH on loopback, well or badly: its key, its state stream and its forwarding are the test's.

The real ones, with the real supervisor and a real engine, are in tests/deploy/machine and the stories.
"""

from __future__ import annotations

import asyncio
import json
import threading
from dataclasses import dataclass, field
from typing import Any

import asyncssh

WAIT_SECONDS = 20
STATE: dict[str, Any] = {
    "stage": "downloaded",
    "bytes_done": 100,
    "bytes_total": 100,
    "engine_port": None,
    "engine_state": "ready",
    "restarts": 0,
    "exit_code": None,
    "seen_at": 1,
    "error_code": None,
    "gpu": None,
}


def state(**changes: Any) -> bytes:
    return json.dumps({**STATE, **changes}).encode() + b"\n"


@dataclass
class FakeHost:
    """`say(line)` puts bytes into every open state stream; new streams begin with `first`."""

    forward_to: int
    first: bytes = field(default_factory=state)
    may_enter: asyncssh.SSHKey = field(default_factory=lambda: asyncssh.generate_private_key("ssh-ed25519"))
    host_key: asyncssh.SSHKey = field(default_factory=lambda: asyncssh.generate_private_key("ssh-ed25519"))
    connections: int = 0
    commands: list[str | None] = field(default_factory=list)
    port: int = 0

    def __post_init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._streams: set[asyncssh.SSHServerProcess[bytes]] = set()
        self._open: set[asyncssh.SSHServerConnection] = set()
        self._acceptor: asyncssh.SSHAcceptor | None = None

    @property
    def public_host_key(self) -> str:
        return self.host_key.export_public_key().decode().strip()

    @property
    def private_key(self) -> str:
        return self.may_enter.export_private_key().decode()

    def __enter__(self) -> FakeHost:
        self._thread.start()
        self.up()
        return self

    def __exit__(self, *exc: object) -> None:
        self.down()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(WAIT_SECONDS)
        self._loop.close()

    def up(self) -> None:
        self._do(self._up())

    def down(self) -> None:
        """Every connection breaks off, and nobody answers any more."""
        self._do(self._down())

    def say(self, data: bytes) -> None:
        self._do(self._say(data))

    @property
    def streams(self) -> int:
        return len(self._streams)

    def _do(self, work: Any) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(WAIT_SECONDS)

    async def _up(self) -> None:
        host = self

        class Server(asyncssh.SSHServer):
            def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
                host.connections += 1
                host._open.add(conn)
                self._conn = conn

            def connection_lost(self, exc: Exception | None) -> None:
                host._open.discard(self._conn)

            def connection_requested(self, dest_host: str, dest_port: int, orig_host: str, orig_port: int) -> bool:
                return (dest_host, dest_port) == ("127.0.0.1", host.forward_to)

        keys = asyncssh.import_authorized_keys(self.may_enter.export_public_key().decode())
        self._acceptor = await asyncssh.create_server(
            Server,
            "127.0.0.1",
            self.port,
            server_host_keys=[self.host_key],
            authorized_client_keys=keys,
            process_factory=self._process,
            encoding=None,
        )
        self.port = self._acceptor.get_port()

    async def _process(self, process: asyncssh.SSHServerProcess[bytes]) -> None:
        self.commands.append(process.command)
        self._streams.add(process)
        try:
            process.stdout.write(self.first)
            await process.wait_closed()
        finally:
            self._streams.discard(process)

    async def _say(self, data: bytes) -> None:
        for stream in list(self._streams):
            stream.stdout.write(data)

    async def _down(self) -> None:
        if self._acceptor is not None:
            self._acceptor.close()
        for connection in list(self._open):
            connection.abort()
        await asyncio.sleep(0)
