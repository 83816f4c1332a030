"""Keys and routes in memory, kept true by what the database tells.

A change is heard within milliseconds of its commit, a broken connection within seconds; then everything known is read
again. Besides, everything is read again each minute, so that no bug in the telling lasts. While the database is away,
what is known goes on being served and what is not is asked to come back later.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from contextlib import aclosing
from functools import partial
from typing import Final

from deploy.asyncdb import LISTENING, OUTAGE, Database, listen
from deploy.gateway.cache import Cache
from deploy.gateway.database import CHANNEL, load_keys, load_workspaces
from deploy.gateway.errors import Refused
from deploy.gateway.routes import Key, Workspace

logger = logging.getLogger(__name__)

KEYS_MOST: Final = 200_000
WORKSPACES_MOST: Final = 50_000
EVERYTHING_SECONDS: Final = 60.0
RECONNECT_SECONDS: Final = (0.2, 1.0)


class Directory:
    def __init__(self, database: Database) -> None:
        self.keys: Cache[str, Key] = Cache(partial(load_keys, database), KEYS_MOST)
        self.workspaces: Cache[str, Workspace] = Cache(partial(load_workspaces, database), WORKSPACES_MOST)

    async def key(self, sha256: str) -> Key:
        """Refused: invalid_api_key, or try_later where that cannot be known."""
        key = self.keys.peek(sha256) or await self.keys.get(sha256)
        if key is None:
            raise Refused("invalid_api_key")
        return key

    async def workspace(self, id_: str) -> Workspace:
        """What that workspace deploys."""
        workspace = self.workspaces.peek(id_) or await self.workspaces.get(id_)
        if workspace is None:
            raise Refused("invalid_api_key")  # deleted with its keys, a moment ago
        return workspace

    async def run(self) -> None:
        """Keep both true until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.keys.run())
            group.create_task(self.workspaces.run())
            group.create_task(self._listen())

    async def _listen(self) -> None:
        while True:
            try:
                await self._hear()
            except OUTAGE as error:
                logger.warning("the database is not heard: %s", error)
            await asyncio.sleep(random.uniform(*RECONNECT_SECONDS))  # noqa: S311

    async def _hear(self) -> None:
        async with aclosing(listen(CHANNEL, "arrakis-gateway-listen")) as notices:
            due = 0.0
            async for told in notices:
                if told == LISTENING or time.monotonic() >= due:
                    due = time.monotonic() + EVERYTHING_SECONDS
                    self.keys.changed_all()
                    self.workspaces.changed_all()
                elif told is not None:
                    self.hear(told)

    def hear(self, told: str) -> None:
        """One notification: `key <sha256>` or `workspace <id>`."""
        what, _, which = told.partition(" ")
        if what == "key":
            self.keys.changed(which)
        elif what == "workspace":
            self.workspaces.changed(which)
