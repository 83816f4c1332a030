"""What a machine last said of itself: the hot row that the tunnels write, and a look of our own where that is old."""

from __future__ import annotations

from datetime import timedelta

from arrakis.clock import ClockTimestamp
from deploy.machine import host
from deploy.machine.status import Status
from deploy.models import Replica, ReplicaStatus
from deploy.steps.base import Work

FRESH = timedelta(seconds=20)
"""A row older than this is not believed: the tunnel may be down although the machine is well."""


def read(work: Work) -> ReplicaStatus:
    """The newest status, not older than FRESH.

    Raises MachineError: it is older and the machine cannot be asked; `last_seen` says since when.
    """
    row = ReplicaStatus.objects.filter(replica=work.replica).first()
    if row is not None and row.seen_at is not None and work.now - row.seen_at < FRESH:
        return row
    store(work.replica, host.read_status(work.target, work.rented.label))
    return ReplicaStatus.objects.get(replica=work.replica)


def store(replica: Replica, status: Status) -> None:
    """Write a status over the row there is. `seen_at` is our clock's: the machine's own is not believed."""
    values = {
        "stage": status.stage,
        "bytes_done": status.bytes_done,
        "bytes_total": status.bytes_total,
        "engine_state": status.engine_state,
        "restarts": status.restarts,
        "error_code": status.error_code or "",
        "seen_at": ClockTimestamp(),
    }
    ReplicaStatus.objects.update_or_create(replica=replica, defaults=values)


def installed(replica: Replica, *, port: int, bytes_total: int) -> None:
    """The engine's port, known from the installation; from now on the tunnels have something to read."""
    values = {"engine_port": port, "bytes_total": bytes_total, "seen_at": None}
    ReplicaStatus.objects.update_or_create(replica=replica, defaults=values)


def fetching(replica: Replica, *, bytes_total: int) -> None:
    """The download was begun: what was known before it is not to be believed any more."""
    ReplicaStatus.objects.filter(replica=replica).update(bytes_total=bytes_total, seen_at=None)


def forget(replica: Replica) -> None:
    """The engine was started or stopped by us: look anew."""
    ReplicaStatus.objects.filter(replica=replica).update(seen_at=None, engine_state="")


def last_seen(replica: Replica) -> ReplicaStatus | None:
    return ReplicaStatus.objects.filter(replica=replica).first()
