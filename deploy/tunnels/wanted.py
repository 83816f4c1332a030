"""Which machines need a tunnel: the one query, and what a shard is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from arrakis import vault
from arrakis.errors import ArrakisError
from deploy.asyncdb import Database
from deploy.states import MachineState, State

TUNNELLED: Final = (State.INSTALLING, State.DOWNLOADING, State.LOADING, State.RUNNING, State.UNHEALTHY)
UP: Final = (MachineState.CREATED, MachineState.READY)
QUERY: Final = """
SELECT DISTINCT ON (m.id) m.id, r.id, m.ssh_host, m.ssh_port, m.ssh_user, m.host_key, m.tunnel_key, s.engine_port
FROM deploy_machine m
JOIN deploy_attempt a ON a.machine_id = m.id
JOIN deploy_replica r ON r.id = a.replica_id
JOIN deploy_replicastatus s ON s.replica_id = r.id
WHERE r.state = ANY(%s) AND m.state = ANY(%s) AND s.engine_port IS NOT NULL
  AND m.ssh_host <> '' AND m.host_key <> '' AND m.tunnel_key <> ''
  AND ('x' || right(m.id::text, 8))::bit(32)::bigint %% %s = %s
ORDER BY m.id, a.n DESC
"""


@dataclass(frozen=True, slots=True)
class Shard:
    """Part `index` of `count`: the machines whose id, by its last eight hex digits, falls there."""

    index: int = 0
    count: int = 1

    @classmethod
    def parse(cls, text: str) -> Shard:
        """`0/1`, `2/4`... ValueError for anything else."""
        index, _, count = text.partition("/")
        shard = cls(int(index), int(count))
        if not 0 <= shard.index < shard.count <= 1_000:
            raise ValueError(f"{text} is not INDEX/COUNT with INDEX below COUNT")
        return shard

    def holds(self, machine: UUID) -> bool:
        return int(machine.hex[-8:], 16) % self.count == self.index


@dataclass(frozen=True, slots=True)
class Wanted:
    """A machine that needs a tunnel, and how it is reached. `sealed_key` is encrypted until the moment of use."""

    machine: UUID
    replica: UUID
    host: str
    port: int
    user: str
    host_key: str
    sealed_key: str = field(repr=False)
    engine_port: int

    def private_key(self) -> str:
        """OpenSSH text. ValueError where the key that sealed it is not there any more."""
        try:
            return vault.decrypt(self.sealed_key)
        except ArrakisError as error:
            raise ValueError(error.code) from error


async def wanted(database: Database, shard: Shard) -> dict[UUID, Wanted]:
    """The shard's machines that need a tunnel now, by id. Raises one of asyncdb.OUTAGE."""
    rows = await database.fetch(QUERY, [list(TUNNELLED), list(UP), shard.count, shard.index])
    return {row[0]: Wanted(row[0], row[1], row[2], row[3] or 22, *row[4:]) for row in rows}
