"""All machines of a shard: a tunnel for each that needs one, none for the others."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Final
from uuid import UUID

from deploy.asyncdb import OUTAGE, Database
from deploy.tunnels.paths import make_socket_folder
from deploy.tunnels.reports import Reports
from deploy.tunnels.tunnel import Tunnel
from deploy.tunnels.wanted import Shard, Wanted, wanted

logger = logging.getLogger(__name__)

LOOK_SECONDS: Final = 1.0
HANDSHAKES_AT_ONCE: Final = 32


class Keeper:
    """`run` until cancelled; every tunnel is closed and every socket gone when it returns."""

    def __init__(self, shard: Shard, database: Database, reports: Reports) -> None:
        self._shard = shard
        self._database = database
        self._reports = reports
        self._tunnels: dict[UUID, tuple[Wanted, asyncio.Task[None]]] = {}
        self._handshakes = asyncio.Semaphore(HANDSHAKES_AT_ONCE)

    async def run(self) -> None:
        self._sweep()
        try:
            while True:
                began = time.monotonic()
                try:
                    await self._follow(await wanted(self._database, self._shard))
                except OUTAGE as error:  # what is open stays open
                    logger.warning("which machines need a tunnel is not known: %s", error)
                await asyncio.sleep(max(0.05, LOOK_SECONDS - (time.monotonic() - began)))
        finally:
            await self._end(list(self._tunnels))

    def _sweep(self) -> None:
        """Sockets that a crash left: we hold the shard's lock, so nobody answers at them."""
        for path in make_socket_folder().glob("*.*"):
            try:
                machine = UUID(path.stem)
            except ValueError:
                continue
            if self._shard.holds(machine):
                path.unlink(missing_ok=True)

    async def _follow(self, needed: dict[UUID, Wanted]) -> None:
        ended = [machine for machine, (had, task) in self._tunnels.items() if needed.get(machine) != had or task.done()]
        await self._end(ended)
        for machine, one in needed.items():
            if machine not in self._tunnels:
                tunnel = Tunnel(one, self._reports.told, self._handshakes)
                self._tunnels[machine] = one, asyncio.create_task(tunnel.run(), name=f"tunnel {machine}")

    async def _end(self, machines: list[UUID]) -> None:
        ending = [self._tunnels.pop(machine) for machine in machines]
        for had, task in ending:
            task.cancel()
            self._reports.forget(had.replica)
        for (had, _task), result in zip(
            ending, await asyncio.gather(*(task for _had, task in ending), return_exceptions=True), strict=True
        ):
            if isinstance(result, Exception):  # one bad machine is no reason to stop for the others
                logger.error("tunnel to %s failed and is begun again", had.machine, exc_info=result)
