"""What the machines say, written a few times a second in one statement for all of them.

A change of stage wakes the replica: it is due now, and a worker is told; the sweep finds it where that is lost.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from typing import Any, Final
from uuid import UUID

from deploy.asyncdb import OUTAGE, Database
from deploy.machine.status import Status
from deploy.states import LIVE

logger = logging.getLogger(__name__)

EVERY_SECONDS: Final = 0.25
STORE: Final = """
INSERT INTO deploy_replicastatus AS s
  (replica_id, stage, bytes_done, bytes_total, engine_port, engine_state, restarts, error_code, gpu, seen_at)
SELECT n.replica, n.stage, n.bytes_done, n.bytes_total, n.engine_port, n.engine_state, n.restarts, n.error_code,
       n.gpu, clock_timestamp()
FROM json_to_recordset(%s) AS n(replica uuid, stage text, bytes_done bigint, bytes_total bigint, engine_port int,
                                engine_state text, restarts int, error_code text, gpu jsonb)
JOIN deploy_replica r ON r.id = n.replica AND r.state = ANY(%s)
ORDER BY n.replica
ON CONFLICT (replica_id) DO UPDATE SET
  stage = excluded.stage, bytes_done = excluded.bytes_done,
  bytes_total = CASE WHEN excluded.bytes_total > 0 THEN excluded.bytes_total ELSE s.bytes_total END,
  engine_port = coalesce(s.engine_port, excluded.engine_port), engine_state = excluded.engine_state,
  restarts = excluded.restarts, error_code = excluded.error_code, gpu = excluded.gpu, seen_at = excluded.seen_at
"""
WAKE: Final = "UPDATE deploy_replica SET due_at = clock_timestamp() WHERE id = ANY(%s) AND state = ANY(%s)"


class Reports:
    """The newest state of each replica that is not written yet. `hint` tells the workers, and does not block."""

    def __init__(self, database: Database, hint: Callable[[UUID], None]) -> None:
        self._database = database
        self._hint = hint
        self._newest: dict[UUID, Status] = {}
        self._written: dict[UUID, tuple[str, ...]] = {}

    def told(self, replica: UUID, status: Status) -> None:
        self._newest[replica] = status

    def forget(self, replica: UUID) -> None:
        """It has no tunnel any more; the first thing said after the next one opens counts as a change."""
        self._newest.pop(replica, None)
        self._written.pop(replica, None)

    async def run(self) -> None:
        while True:
            await asyncio.sleep(EVERY_SECONDS)
            await self.flush()

    async def flush(self) -> None:
        """Write what there is. What cannot be written is kept, unless something newer has come."""
        newest, self._newest = self._newest, {}
        if not newest:
            return
        changed = [replica for replica, status in newest.items() if self._written.get(replica) != _stage(status)]
        try:
            await self._database.fetch(STORE, [json.dumps([_row(*item) for item in newest.items()]), list(LIVE)])
            if changed:
                await self._database.fetch(WAKE, [changed, list(LIVE)])
        except OUTAGE as error:
            logger.warning("machine states are not written yet: %s", error)
            self._newest = {**newest, **self._newest}
            return
        for replica in changed:
            self._written[replica] = _stage(newest[replica])
            self._hint(replica)


def _stage(status: Status) -> tuple[str, ...]:
    """What a step waits for a change of."""
    return status.stage, status.engine_state, status.error_code or ""


def _row(replica: UUID, status: Status) -> dict[str, Any]:
    gpus = [
        {"utilization": gpu.utilization, "used_mib": gpu.memory_used_mib, "total_mib": gpu.memory_total_mib}
        for gpu in status.gpu
    ]
    return {
        "replica": str(replica),
        "stage": status.stage,
        "bytes_done": status.bytes_done,
        "bytes_total": status.bytes_total,
        "engine_port": status.engine_port,
        "engine_state": status.engine_state,
        "restarts": status.restarts,
        "error_code": status.error_code or "",
        "gpu": {"gpus": gpus} if gpus else {},
    }
