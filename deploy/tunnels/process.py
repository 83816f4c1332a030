"""The process: one loop, one shard, until it is told to stop."""

from __future__ import annotations

import asyncio
import logging
import queue
import signal
import threading
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Final
from uuid import UUID

import uvloop
from kombu.exceptions import OperationalError

from arrakis.celery import app as celery
from deploy.asyncdb import Database
from deploy.tunnels.keeper import Keeper
from deploy.tunnels.reports import Reports
from deploy.tunnels.shardlock import ShardLock
from deploy.tunnels.wanted import Shard

logger = logging.getLogger(__name__)

CLOSE_SECONDS: Final = 1.5
HINTS_MOST: Final = 10_000


def main(shard: Shard) -> None:
    """Serve the shard until SIGTERM or SIGINT. ShardTaken: another process does."""
    uvloop.run(_main(shard))


async def _main(shard: Shard) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    await serve(shard, stopped)


async def serve(shard: Shard, stopped: asyncio.Event) -> None:
    """Hold the shard's lock and its tunnels until `stopped`; what was heard last is written before the end."""
    lock = ShardLock(shard)
    if not await _unless(stopped, lock.take()):
        return
    database, reports_database = Database("arrakis-tunnels"), Database("arrakis-tunnels-states")
    reports = Reports(reports_database, Hints().put)
    work = (lock.keep(), Keeper(shard, database, reports).run(), reports.run())
    tasks = [asyncio.create_task(one) for one in (*work, stopped.wait())]
    logger.info("tunnels of shard %s/%s are served", shard.index, shard.count)
    try:
        ended, _running = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in ended:
            await task
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=CLOSE_SECONDS)
        await asyncio.gather(database.close(), reports_database.close(), lock.drop())


async def _unless(stopped: asyncio.Event, work: Coroutine[Any, Any, None]) -> bool:
    """Do the work, or leave it when told to stop meanwhile. Whether it was done."""
    task, stop = asyncio.create_task(work), asyncio.create_task(stopped.wait())
    await asyncio.wait({task, stop}, return_when=asyncio.FIRST_COMPLETED)
    stop.cancel()
    if not task.done():
        task.cancel()
        return False
    await task
    return True


class Hints:
    """Sent by a thread of its own: a broker that hangs holds up neither the states nor the end of the process."""

    def __init__(self) -> None:
        self._queue: queue.Queue[UUID] = queue.Queue(HINTS_MOST)
        threading.Thread(target=self._send, name="hints", daemon=True).start()

    def put(self, replica: UUID) -> None:
        with suppress(queue.Full):
            self._queue.put_nowait(replica)

    def _send(self) -> None:
        while True:
            hint(self._queue.get())


def hint(replica: UUID) -> None:
    """Tell the workers that a replica is due. Blocks; lost messages are found by the sweep."""
    try:
        celery.send_task("deploy.tasks.advance", args=(str(replica),), retry=False)
    except (OperationalError, OSError):
        logger.warning("a hint for %s was not sent; the sweep will find it", replica)
