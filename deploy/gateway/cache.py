"""Rows known by their id: read on a miss, many in one query, and read again when told that they changed."""

from __future__ import annotations

import asyncio
import itertools
import logging
import random
import time
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Final, Generic, TypeVar

from deploy.asyncdb import OUTAGE
from deploy.gateway.errors import Refused

logger = logging.getLogger(__name__)

BATCH: Final = 500
PENDING_MOST: Final = 10_000
ABSENT_MOST: Final = 20_000
ABSENT_SECONDS: Final = 30.0
RETRY_SECONDS: Final = (0.5, 1.0)

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Cache(Generic[K, V]):
    """`run` must be running. However many ask for whatever ids, one query at a time goes to the database."""

    def __init__(self, load: Callable[[Sequence[K]], Awaitable[dict[K, V]]], most: int) -> None:
        self._load = load
        self._most = most
        self._known: dict[K, V] = {}
        self._absent: dict[K, float] = {}
        self._asked: dict[K, asyncio.Future[V | None]] = {}
        self._told: dict[K, None] = {}
        self._reading: set[K] = set()
        self._work = asyncio.Event()

    def peek(self, key: K) -> V | None:
        """What is known without asking."""
        return self._known.get(key)

    async def get(self, key: K) -> V | None:
        """The row, or None where there is none. Refused("try_later") where the database cannot be asked."""
        if (value := self._known.get(key)) is not None:
            return value
        if (until := self._absent.get(key)) is not None and time.monotonic() < until:
            return None
        future = self._asked.get(key)
        if future is None:
            if len(self._asked) >= PENDING_MOST:
                raise Refused("overloaded")
            future = self._asked[key] = asyncio.get_running_loop().create_future()
            self._work.set()
        return await asyncio.shield(future)

    def changed(self, key: K) -> None:
        """Read it again, if anybody ever asked. What is being read now may be older than the change: read that too."""
        self._absent.pop(key, None)
        if key in self._known or key in self._reading:
            self._told[key] = None
            self._work.set()

    def changed_all(self) -> None:
        """Read everything again, a batch at a time; until then what is known goes on being used."""
        self._absent.clear()
        self._told.update(dict.fromkeys(self._known))
        self._told.update(dict.fromkeys(self._reading))
        self._work.set()

    async def run(self) -> None:
        """Read what is asked for, then what changed, until cancelled."""
        try:
            while True:
                await self._work.wait()
                await self._read_some()
        finally:
            self._refuse(list(self._asked))

    async def _read_some(self) -> None:
        asked = list(itertools.islice(self._asked, BATCH))
        told = list(itertools.islice(self._told, BATCH - len(asked)))
        if not asked and not told:
            self._work.clear()
            return
        for key in told:
            del self._told[key]
        self._reading = {*asked, *told}
        try:
            found = await self._load(list(self._reading))
        except OUTAGE as error:
            logger.warning("the database cannot be asked: %s", error)
            self._told.update(dict.fromkeys(told))
            self._refuse(asked)
            await asyncio.sleep(random.uniform(*RETRY_SECONDS))  # noqa: S311  (spreads load, guards nothing)
        else:
            self._store(found)
        finally:
            self._reading = set()

    def _store(self, found: dict[K, V]) -> None:
        until = time.monotonic() + ABSENT_SECONDS
        for key in self._reading:
            value = found.get(key)
            if value is None:
                self._known.pop(key, None)
                self._absent[key] = until
            else:
                self._known[key] = value
            if (future := self._asked.pop(key, None)) is not None and not future.done():
                future.set_result(value)
        _trim(self._known, self._most)
        _trim(self._absent, ABSENT_MOST)

    def _refuse(self, asked: Sequence[K]) -> None:
        for key in asked:
            future = self._asked.pop(key)
            if not future.done():
                future.set_exception(Refused("try_later"))
                future.exception()  # seen: whoever asked may have gone away


def _trim(rows: dict[K, V], most: int) -> None:
    """Forget the oldest beyond `most`; asked for again, they are read again."""
    for key in list(itertools.islice(rows, max(0, len(rows) - most))):
        del rows[key]
