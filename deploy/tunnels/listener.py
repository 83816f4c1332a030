"""The Unix socket of one machine, and the bytes to and from its engine.

asyncssh's own listener keeps asyncio's backlog of 100, so that a burst of 200 connects fails at once; this one does
not. The socket is there only while the connection is: without it, whoever connects learns at once that nobody answers.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import asyncssh
from asyncssh.forward import SSHForwarder, SSHLocalForwarder

logger = logging.getLogger(__name__)

BACKLOG: Final = 4_096
CHANNELS_MOST: Final = 4_096
ENGINE_HOST: Final = "127.0.0.1"


class Listener:
    """Open from `open` to `close`; each connection is a channel to the engine's port on the machine."""

    def __init__(self, path: Path, connection: asyncssh.SSHClientConnection, port: int) -> None:
        self._path = path
        self._connection = connection
        self._port = port
        self._doors: set[Door] = set()
        self._server: asyncio.Server | None = None
        self._inode = 0

    async def open(self) -> None:
        """Listen. An older socket of that name, left by a crash or by our predecessor, is replaced in one step."""
        part = self._path.with_suffix(".new")
        part.unlink(missing_ok=True)
        listening = socket.socket(socket.AF_UNIX)
        try:
            listening.bind(os.fspath(part))
            part.chmod(0o600)
            listening.setblocking(False)
            listening.listen(BACKLOG)
            self._inode = part.stat().st_ino
            part.replace(self._path)
            loop = asyncio.get_running_loop()
            self._server = await loop.create_unix_server(self._door, sock=listening, backlog=BACKLOG)
        except BaseException:
            listening.close()
            raise

    def close(self) -> None:
        """End what passes, and take the socket away unless a successor has put its own there."""
        with suppress(FileNotFoundError):
            if self._path.stat().st_ino == self._inode:
                self._path.unlink()
        if self._server is not None:
            self._server.close()
        for door in list(self._doors):
            door.close()

    def _door(self) -> Door:
        return Door(self._connection, self._port, self._doors)


class Door(SSHLocalForwarder):
    """One connection of the gateway, and the channel that carries it."""

    def __init__(self, connection: asyncssh.SSHClientConnection, port: int, doors: set[Door]) -> None:
        super().__init__(connection, connection.create_connection)
        self._ssh = connection
        self._port = port
        self._doors = doors

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if len(self._doors) >= CHANNELS_MOST:
            self.close()
            return
        self._doors.add(self)
        self.forward(ENGINE_HOST, self._port)

    async def _forward(self, *where: Any) -> None:
        try:
            # asyncssh's own forwarders speak bytes, which its annotations for sessions leave out
            open_channel: Any = self._ssh.create_connection
            _channel, forwarder = await open_channel(lambda: SSHForwarder(self), *where)
        except (asyncssh.Error, OSError) as error:
            logger.debug("no way to the engine: %s", error)
            self.close()
            return
        if self._transport is None:  # the caller left while the channel was being opened
            forwarder.close()
            return
        if self._inpbuf:
            forwarder.write(self._inpbuf)
            self._inpbuf = b""
        if self._eof_received:
            forwarder.write_eof()

    def close(self) -> None:
        self._doors.discard(self)
        super().close()
