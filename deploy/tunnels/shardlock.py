"""One process a shard, said by the database: an advisory lock for as long as its connection lives."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Any, Final

import psycopg

from deploy.asyncdb import CONNECT_SECONDS, OUTAGE, conninfo
from deploy.tunnels.wanted import Shard

logger = logging.getLogger(__name__)

LOCK_CLASS: Final = 0x7475
AGAIN_SECONDS: Final = 1.0


class ShardTaken(Exception):
    """Another process serves this shard."""


class ShardLock:
    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._connection: psycopg.AsyncConnection[tuple[Any, ...]] | None = None

    async def take(self) -> None:
        """Take the lock, waiting for the database if need be, but not for another process: ShardTaken."""
        while True:
            try:
                await self._take()
                return
            except OUTAGE as error:
                logger.warning("the shard's lock cannot be asked for: %s", error)
                await asyncio.sleep(AGAIN_SECONDS)

    async def keep(self) -> None:
        """Watch over the lock, and take it again after the database was away. ShardTaken: another was quicker."""
        while True:
            await asyncio.sleep(AGAIN_SECONDS)
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    if self._connection is not None:
                        await self._connection.execute("SELECT 1")
            except OUTAGE:
                await self.drop()
                await self.take()

    async def drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(psycopg.Error, OSError):
                await connection.close()

    async def _take(self) -> None:
        name = f"arrakis-tunnels {self._shard.index}/{self._shard.count}"
        self._connection = await psycopg.AsyncConnection.connect(conninfo(name), autocommit=True)
        number = self._shard.count * 1_000 + self._shard.index
        cursor = await self._connection.execute("SELECT pg_try_advisory_lock(%s, %s)", [LOCK_CLASS, number])
        row = await cursor.fetchone()
        if row is None or not row[0]:
            await self.drop()
            raise ShardTaken(f"another process serves shard {self._shard.index}/{self._shard.count}")
