"""What one gateway process keeps: routes, connections, counts, and the work that goes on beside the requests."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final

from deploy.asyncdb import Database
from deploy.gateway.admission import Admission
from deploy.gateway.directory import Directory
from deploy.gateway.exchange import Exchange
from deploy.gateway.upstream import Upstreams
from deploy.gateway.usage import Counts
from deploy.tunnels.paths import make_socket_folder

logger = logging.getLogger(__name__)

FLUSH_SECONDS: Final = 3.0
SWEEP_SECONDS: Final = 10.0
STALLED_SECONDS: Final = 180.0
"""A client that takes no byte for this long has gone, and its engine is freed."""
RESTART_SECONDS: Final = 1.0


class Core:
    """Made inside the loop it runs in."""

    def __init__(self) -> None:
        self._database, self._usage_database = Database("arrakis-gateway"), Database("arrakis-gateway-usage")
        self.directory = Directory(self._database)
        self.counts = Counts(self._usage_database)
        self.upstreams = Upstreams()
        self.admission = Admission()
        self.exchanges: dict[Exchange, Callable[[], object]] = {}
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        make_socket_folder()  # or refuse to start: nobody else may put a socket there
        work = (self.directory.run, self._flush, self._sweep)
        self._tasks = [asyncio.create_task(_for_ever(run), name=f"gateway {run.__name__}") for run in work]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.counts.flush()
        await self.upstreams.close()
        await self._database.close()
        await self._usage_database.close()

    async def _flush(self) -> None:
        while True:
            await asyncio.sleep(FLUSH_SECONDS)
            await self.counts.flush()

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            await self.upstreams.sweep()
            self.end_stalled(time.monotonic() - STALLED_SECONDS)

    def end_stalled(self, since: float) -> None:
        """Give up on clients that have taken nothing since then."""
        for exchange, give_up in list(self.exchanges.items()):
            if exchange.sending_since is not None and exchange.sending_since < since:
                exchange.gone = True
                give_up()


async def _for_ever(work: Callable[[], Awaitable[None]]) -> None:
    """Work that must not end because of one surprise."""
    while True:
        try:
            await work()
        except Exception:
            logger.exception("the gateway's work beside its requests failed, and is begun again")
        await asyncio.sleep(RESTART_SECONDS)
