"""Leases: who may move a replica, or release a machine, right now (DESIGN 5.5).

A step takes the lease by one conditional UPDATE, works outside of any transaction while a thread renews it, and
applies what it found only where the lease is still its own and the state is still the one it began with. Of any number
of workers one gets the lease; the result of one that lost it is dropped. Told by the database's clock alone.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import DatabaseError, connection
from django.db.models import Q

from arrakis.clock import ClockTimestamp
from arrakis.ids import new_id
from deploy.models import Machine, Replica
from deploy.states import LIVE, MACHINE_LIVE

logger = logging.getLogger(__name__)


class StaleClaim(Exception):
    """The lease went to another, or the state moved on: what was found out is not written."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to work on one row that was in `state`, as long as `token` is the row's."""

    model: type[Replica] | type[Machine]
    pk: UUID
    token: UUID
    state: str


def take_replica(pk: UUID) -> Claim | None:
    """The lease on a live replica that is due; None where another has it or there is nothing to do yet."""
    return _take(Replica, pk, Q(state__in=LIVE))


def take_machine(pk: UUID) -> Claim | None:
    """The lease on a machine that is due; None where another has it or it is gone."""
    return _take(Machine, pk, Q(state__in=MACHINE_LIVE))


def apply(claim: Claim, **changes: Any) -> None:
    """Write `changes` and give the lease back, in the caller's transaction.

    Raises:
        StaleClaim: the row is no longer ours, or no longer in the state it was claimed in; nothing was written.
    """
    mine = claim.model._default_manager.filter(pk=claim.pk, lease_token=claim.token, state=claim.state)
    if not mine.update(**changes, lease_token=None, lease_until=None):
        raise StaleClaim(claim)


def let_go(claim: Claim, **changes: Any) -> None:
    """Give the lease back where it is still ours, whatever became of the state."""
    mine = claim.model._default_manager.filter(pk=claim.pk, lease_token=claim.token)
    mine.update(**changes, lease_token=None, lease_until=None)


@contextmanager
def renewed(claim: Claim) -> Iterator[None]:
    """Keep the lease while the body works, from a thread with a connection of its own.

    So a lease can be short, and what a killed worker left is taken up soon, although a step may take minutes.
    """
    done = threading.Event()
    thread = threading.Thread(target=_renew, args=(claim, done), name=f"lease-{claim.pk}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _take(model: type[Replica] | type[Machine], pk: UUID, live: Q) -> Claim | None:
    token = new_id()
    now = ClockTimestamp()
    free = Q(lease_until__isnull=True) | Q(lease_until__lt=now)
    rows = model._default_manager.filter(live, free, pk=pk, due_at__lte=now)
    if not rows.update(lease_token=token, lease_until=now + _lease(), hinted_until=None):
        return None
    state = model._default_manager.values_list("state", flat=True).get(pk=pk)
    return Claim(model, pk, token, state)


def _renew(claim: Claim, done: threading.Event) -> None:
    try:
        while not done.wait(settings.LEASE_SECONDS / 3):
            mine = claim.model._default_manager.filter(pk=claim.pk, lease_token=claim.token)
            if not mine.update(lease_until=ClockTimestamp() + _lease()):
                return
    except DatabaseError:
        # The step goes on: if the lease is lost, what it finds out is dropped when it is applied.
        logger.warning("the lease of %s could not be renewed", claim.pk, exc_info=True)
    finally:
        connection.close()


def _lease() -> timedelta:
    return timedelta(seconds=settings.LEASE_SECONDS)
