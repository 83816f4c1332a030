"""What stops a deployment that nobody asked to stop: an empty balance, its own limit in US dollars, its stop time."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from arrakis import clock
from deploy import purchases
from deploy.allowed import Limits
from deploy.ledger.services import read_purses
from deploy.models import Deployment
from deploy.states import SERVING, STARTING

STOP_SECONDS = 10
"""Named this long before bought time ends: ask at least this often, or the time in between is ours to pay."""


class Stop(NamedTuple):
    deployment: Deployment
    reason_code: str
    """`balance_empty`, `limit_usd` or `limit_stop_at`."""


def exhausted() -> list[Deployment]:
    """Deployments to stop now, so that no balance goes below zero and no limit is passed."""
    return [stop.deployment for stop in to_stop()]


def to_stop() -> list[Stop]:
    """The same with the reason; to be asked after `metering.buy_due`. Reads only: a stop is the caller's."""
    now = clock.now()
    stops = {stop.deployment.pk: stop for stop in (*_out_of_money(now), *_out_of_time(now))}
    return list(stops.values())


def _out_of_money(now: datetime) -> Iterator[Stop]:
    """Whose bought time ends and whose next window cannot be paid, for want of balance or by their limit."""
    after = None
    while True:
        due = purchases.due_machines(now, after=after, lock=False, lead=STOP_SECONDS)
        purses = read_purses(str(machine.workspace_id) for machine in due)
        for plan in purchases.plans(due, purses, now) if due else ():
            if plan.verdict in ("balance_empty", "limit_usd"):
                yield Stop(plan.machine.quote.deployment, plan.verdict)
        if len(due) < purchases.BATCH:
            return
        after = purchases.cursor(due[-1])


def _out_of_time(now: datetime) -> Iterator[Stop]:
    limited = Deployment.objects.filter(
        desired=Deployment.Desired.RUNNING, state__in=(*STARTING, *SERVING), limits__has_key="stop_at"
    )
    for deployment in limited:
        stop_at = Limits.of(deployment).stop_at
        if stop_at is not None and stop_at <= now:
            yield Stop(deployment, "limit_stop_at")
