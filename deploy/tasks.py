"""Celery's way in: each task calls one function of the domain. Messages are hints; a lost one costs seconds."""

from __future__ import annotations

import logging
from uuid import UUID

from celery import shared_task

from deploy import reconcile, releases, sweeps

logger = logging.getLogger(__name__)


@shared_task
def advance(replica_id: str) -> None:
    """Move a replica one step, and on if it is due again at once."""
    try:
        wait = reconcile.step(UUID(replica_id))
    except Exception:
        # One of the three loop edges: a surprise in one deployment must not stop the others (reconcile gave it back).
        logger.exception("replica %s: the step failed", replica_id)
        return
    if wait is not None and wait <= 0:
        advance.delay(replica_id)


@shared_task
def release(machine_id: str) -> None:
    """Try once to give a machine back."""
    try:
        releases.step(UUID(machine_id))
    except Exception:
        logger.exception("machine %s: the release failed", machine_id)


@shared_task
def tick() -> None:
    """Every second: what is due and was not told."""
    with sweeps.alone("due") as alone:
        if alone:
            sweeps.due()


@shared_task
def money() -> None:
    """Every few seconds: the next windows, then what can no longer pay."""
    with sweeps.alone("money") as alone:
        if alone:
            sweeps.money()


@shared_task
def machines() -> None:
    """Every minute: terms of prices, and our rows against the providers' lists."""
    with sweeps.alone("machines") as alone:
        if alone:
            sweeps.terms()
            sweeps.machines()
