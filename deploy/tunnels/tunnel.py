"""One machine's connection: opened with the tunnel's own key to the host that is pinned, kept warm, opened again."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final
from uuid import UUID

import asyncssh

from deploy.machine.status import Status
from deploy.tunnels.backoff import Backoff
from deploy.tunnels.listener import Listener
from deploy.tunnels.paths import socket_path
from deploy.tunnels.wanted import Wanted
from deploy.tunnels.watch import Cut, watch

logger = logging.getLogger(__name__)

CONNECT_SECONDS: Final = 15
KEEPALIVE_SECONDS: Final = 5
KEEPALIVES_MISSED: Final = 3
STEADY_SECONDS: Final = 30
"""A connection that held this long was good: the next try after it comes at once."""
FAILURES: Final = (asyncssh.Error, asyncssh.KeyImportError, OSError, TimeoutError, ValueError)
# AES in hardware is several times faster here than the default, ChaCha20 in software; all are the peer's to refuse.
CIPHERS: Final = (
    "aes128-gcm@openssh.com",
    "aes256-gcm@openssh.com",
    "chacha20-poly1305@openssh.com",
    "aes128-ctr",
    "aes256-ctr",
)

Told = Callable[[UUID, Status], None]


class Tunnel:
    """`run` holds the connection until it is cancelled. `told` gets each state of the machine's replica."""

    def __init__(self, wanted: Wanted, told: Told, handshakes: asyncio.Semaphore) -> None:
        self.wanted = wanted
        self._told = told
        self._handshakes = handshakes

    async def run(self) -> None:
        backoff = Backoff()
        while True:
            began = time.monotonic()
            try:
                async with self._connected() as connection:
                    await self._hold(connection)
            except FAILURES as error:
                logger.info("tunnel to %s: %s: %s", self.wanted.machine, type(error).__name__, error)
            if time.monotonic() - began > STEADY_SECONDS:
                backoff.reset()
            await asyncio.sleep(backoff.next())

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[asyncssh.SSHClientConnection]:
        async with self._handshakes:
            connection = await self._connect()
        try:
            yield connection
        finally:
            connection.abort()
            with suppress(asyncssh.Error, OSError, TimeoutError):
                await asyncio.wait_for(connection.wait_closed(), 1)

    async def _connect(self) -> asyncssh.SSHClientConnection:
        """Nothing of this process's own account is used: no agent, no config, no known hosts, no other keys."""
        wanted = self.wanted
        async with asyncio.timeout(CONNECT_SECONDS):
            return await asyncssh.connect(
                wanted.host,
                wanted.port,
                username=wanted.user,
                client_keys=[asyncssh.import_private_key(wanted.private_key())],
                known_hosts=([asyncssh.import_public_key(wanted.host_key)], [], []),
                config=None,
                agent_path=None,
                x509_trusted_certs=None,
                preferred_auth="publickey",
                login_timeout=CONNECT_SECONDS,
                keepalive_interval=KEEPALIVE_SECONDS,
                keepalive_count_max=KEEPALIVES_MISSED,
                compression_algs=None,
                encryption_algs=CIPHERS,
            )

    async def _hold(self, connection: asyncssh.SSHClientConnection) -> None:
        """Serve the socket and read the stream until the connection ends."""
        listener = Listener(socket_path(self.wanted.machine), connection, self.wanted.engine_port)
        await listener.open()
        watching = asyncio.create_task(self._watch(connection))
        try:
            await connection.wait_closed()
        finally:
            listener.close()
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def _watch(self, connection: asyncssh.SSHClientConnection) -> None:
        """The stream, begun again whenever it ends: a customer may have killed it, the engine serves on."""
        backoff = Backoff(first=0.5, most=10.0)
        while True:
            began = time.monotonic()
            try:
                # The machine runs the command that the key's line forces, whatever is asked for.
                async with connection.create_process("watch", stdin=asyncssh.DEVNULL, encoding=None) as process:
                    await watch(process.stdout, self._tell)
            except Cut as cut:
                logger.warning("the state stream of %s is cut: %s", self.wanted.machine, cut)
            except (asyncssh.Error, OSError) as error:
                logger.info("the state stream of %s: %s", self.wanted.machine, error)
            if time.monotonic() - began > STEADY_SECONDS:
                backoff.reset()
            await asyncio.sleep(backoff.next())

    def _tell(self, status: Status) -> None:
        self._told(self.wanted.replica, status)
