"""What a workspace may have at once: machines, US dollars per hour, free starts (DESIGN 5.2).

Called in the transaction that makes a deployment, with the workspace's row locked, so that two at once cannot both take
the last of it.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal

from django.conf import settings
from django.db.models import Sum
from django.db.models.functions import Now

from arrakis.accounts.models import Workspace
from arrakis.errors import Conflict
from deploy.models import Deployment
from deploy.states import ENDED, STARTING

LEAST_MINUTES = 1
"""What a start counts at least, however soon it was cancelled: else cancelling in a loop would never use it up."""


def check_limits(workspace: Workspace, price_per_hour: Decimal) -> None:
    """Raises Conflict: workspace_frozen, limit_machines (most), limit_usd_per_hour (most_usd, would_be_usd)."""
    if workspace.frozen_reason:
        raise Conflict("workspace_frozen", why=workspace.frozen_reason)
    live = Deployment.objects.filter(workspace=workspace).exclude(state__in=ENDED)
    if live.count() >= workspace.max_machines:
        raise Conflict("limit_machines", most=workspace.max_machines)
    rate = (live.aggregate(rate=Sum("price_per_hour"))["rate"] or Decimal(0)) + price_per_hour
    if rate > workspace.max_usd_per_hour:
        raise Conflict("limit_usd_per_hour", most_usd=str(workspace.max_usd_per_hour), would_be_usd=str(rate))


def free_until(workspace: Workspace, now: datetime) -> datetime:
    """Until when this start is free: FREE_START_MINUTES, or what is left of the day's minutes.

    Raises Conflict: free_starts_at_once (params: most), free_start_used_up (params: minutes).
    """
    if not (settings.FREE_START_MINUTES and settings.FREE_START_MINUTES_A_DAY):
        return now  # the shop gives no free start-up: charged from when the machine can be reached
    starting = Deployment.objects.filter(workspace=workspace, state__in=STARTING, let_in_at__isnull=True)
    if starting.count() >= settings.FREE_START_AT_ONCE:
        raise Conflict("free_starts_at_once", most=settings.FREE_START_AT_ONCE)
    left = timedelta(minutes=settings.FREE_START_MINUTES_A_DAY) - _used(workspace, now)
    if left < timedelta(minutes=LEAST_MINUTES):
        raise Conflict("free_start_used_up", minutes=settings.FREE_START_MINUTES_A_DAY)
    return now + min(left, timedelta(minutes=settings.FREE_START_MINUTES))


def _used(workspace: Workspace, now: datetime) -> timedelta:
    """Free start-up time of the last day; of a start under way, all that it may still take."""
    rows = Deployment.objects.filter(
        workspace=workspace, requested_at__gt=Now() - timedelta(days=1), free_until__isnull=False
    ).values_list("requested_at", "free_until", "let_in_at", "first_served_at", "stop_requested_at", "ended_at")
    total = timedelta()
    for asked, until, *ends in rows:
        end = min((moment for moment in (until, *ends) if moment is not None), default=now)
        total += max(end - asked, timedelta(minutes=LEAST_MINUTES))
    return total
