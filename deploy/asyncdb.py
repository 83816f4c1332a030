"""PostgreSQL for the two asynchronous processes, gateway and tunnels: one connection each that heals itself.

Django's own connections belong to threads; these belong to a loop and hold no transaction between statements.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from typing import Any, Final

import psycopg
from django.db import connections
from psycopg import sql
from psycopg.conninfo import make_conninfo

CONNECT_SECONDS: Final = 5
STATEMENT_SECONDS: Final = 10
HEARTBEAT_SECONDS: Final = 1.0
LISTENING: Final = "listening"
OUTAGE: Final = (psycopg.Error, OSError, TimeoutError)
"""What a database that cannot be asked raises."""


def conninfo(application_name: str) -> str:
    """Where Django's default database is."""
    settings = connections["default"].settings_dict
    named = {
        "dbname": settings["NAME"],
        "user": settings["USER"],
        "password": settings["PASSWORD"],
        "host": settings["HOST"],
        "port": settings["PORT"],
    }
    options = f"-c statement_timeout={STATEMENT_SECONDS * 1000}"
    given = {name: str(value) for name, value in named.items() if value}
    return make_conninfo(**given, connect_timeout=CONNECT_SECONDS, options=options, application_name=application_name)


class Database:
    """One connection, used by one query at a time. Every failure is one of OUTAGE, and the next query connects anew."""

    def __init__(self, application_name: str) -> None:
        self._name = application_name
        self._connection: psycopg.AsyncConnection[tuple[Any, ...]] | None = None
        self._lock = asyncio.Lock()

    async def fetch(self, query: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        async with self._lock:
            for last in (False, True):  # a connection that died while idle is found out only by using it
                fresh = self._connection is None
                try:
                    async with asyncio.timeout(CONNECT_SECONDS + STATEMENT_SECONDS):
                        return await self._fetch(query, parameters)
                except OUTAGE:
                    await self._drop()
                    if fresh or last:
                        raise
                except asyncio.CancelledError:
                    await self._drop()
                    raise
        raise AssertionError("unreachable")

    async def _fetch(self, query: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
        if self._connection is None:
            self._connection = await psycopg.AsyncConnection.connect(conninfo(self._name), autocommit=True)
        cursor = await self._connection.execute(query.encode(), parameters)
        return await cursor.fetchall() if cursor.description else []

    async def close(self) -> None:
        async with self._lock:
            await self._drop()

    async def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(psycopg.Error, OSError):
                await connection.close()


async def listen(channel: str, application_name: str) -> AsyncGenerator[str | None]:
    """What is told on a channel, one text each; LISTENING first, once nothing more is missed; None at each heartbeat.

    Ends with one of OUTAGE when the database is gone, within seconds of it.
    """
    async with await psycopg.AsyncConnection.connect(conninfo(application_name), autocommit=True) as connection:
        await connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
        yield LISTENING
        while True:
            async for notice in connection.notifies(timeout=HEARTBEAT_SECONDS):
                yield notice.payload
            async with asyncio.timeout(CONNECT_SECONDS):
                await connection.execute("SELECT 1")
            yield None
