"""The nets: what is due and nobody was told of, money, and both lists of machines compared (DESIGN 5.4, 5.5).

Each runs alone in the whole installation, under an advisory lock of the database; a second one at the same time does
nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.db import connection, transaction
from django.db.models import F, Q, QuerySet

from arrakis import clock
from arrakis.clock import ClockTimestamp
from catalog.models import Provider as ProviderRow
from deploy import attempts, endings, events, limits, metering, services, wake
from deploy.models import Attempt, Deployment, Machine, MachineSshKey, Orphan, Replica
from deploy.providers import PROVIDERS
from deploy.providers.base import Found, Listing, NotYet, Provider
from deploy.states import ENDED, LIVE, MACHINE_LIVE, MachineState

logger = logging.getLogger(__name__)

HINT_SECONDS: Final = 10
"""How long a message may take to be acted on before another is sent."""
BATCH: Final = 500
MISSES: Final = 2
"""Complete lists in a row that a machine must be missing from before it is lost."""
TOLD_AHEAD: Final = timedelta(days=7)
"""How long before its end a price's term is told."""
SETTLED_AFTER: Final = timedelta(minutes=2)
"""A machine younger than this may not be in the provider's list yet."""

_LOCKS: Final = {"due": 7301, "money": 7302, "machines": 7303}


@contextmanager
def alone(name: str) -> Iterator[bool]:
    """True for one process at a time; the lock goes with the connection, so a killed process frees it."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s)", [_LOCKS[name]])
        (got,) = cursor.fetchone()
    try:
        yield bool(got)
    finally:
        if got:
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_unlock(%s)", [_LOCKS[name]])


def due() -> int:
    """Tell the workers of everything that is due and that nobody was told of lately; how many."""
    now = ClockTimestamp()
    free = Q(lease_until__isnull=True) | Q(lease_until__lt=now)
    unheard = Q(hinted_until__isnull=True) | Q(hinted_until__lt=now)
    replicas = _hint(Replica.objects.filter(free, unheard, state__in=LIVE, due_at__lte=now))
    machines = _hint(Machine.objects.filter(free, unheard, state=MachineState.RELEASING, due_at__lte=now))
    for pk in replicas:
        wake.replica(pk)
    for pk in machines:
        wake.machine(pk)
    return len(replicas) + len(machines)


def _hint(rows: QuerySet[Any]) -> list[UUID]:
    pks = list(rows.order_by("due_at").values_list("pk", flat=True)[:BATCH])
    until = ClockTimestamp() + timedelta(seconds=HINT_SECONDS)
    rows.model._default_manager.filter(pk__in=pks).update(hinted_until=until)
    return pks


def money() -> None:
    """Buy the next windows, then stop what can no longer pay or has reached a limit."""
    metering.buy_due()
    for stop in limits.to_stop():
        services.stop(deployment=stop.deployment, actor=None, reason_code=stop.reason_code)


def terms() -> None:
    """Tell the end of a price's term ahead, and begin the next one: at the same price, never a higher one unasked."""
    now = clock.now()
    live = Deployment.objects.exclude(state__in=ENDED).filter(price_until__lte=now + TOLD_AHEAD)
    for pk in live.values_list("pk", flat=True):
        with transaction.atomic():
            row = Deployment.objects.select_for_update().get(pk=pk)
            until = row.price_until
            if until <= now:
                row.price_until = until + timedelta(days=settings.PRICE_TERM_DAYS)
                row.save(update_fields=["price_until"])
                events.write(row, "price_renewed", price_usd=str(row.price_per_hour), day=f"{row.price_until:%Y-%m-%d}")
            elif not row.events.filter(code="price_term_ends", params__day=f"{until:%Y-%m-%d}").exists():
                events.write(row, "price_term_ends", price_usd=str(row.price_per_hour), day=f"{until:%Y-%m-%d}")


def machines() -> None:
    """Compare what providers have of ours with what our rows say; both ways."""
    for row in ProviderRow.objects.filter(adaptor__in=PROVIDERS, is_sample=False):
        provider = PROVIDERS[row.adaptor]
        for listing in provider.listings():
            _compare(row, provider, listing)


def _compare(row: ProviderRow, provider: Provider, listing: Listing) -> None:
    # Read after the listing: a machine made in between is known, so it is never taken for an orphan.
    known = {
        machine.label: machine
        for machine in Machine.objects.filter(provider=row, state__in=MACHINE_LIVE).select_related("fleet_host")
    }
    there = {found.label for found in listing.found}
    for found in listing.found:
        if found.label not in known:
            _orphan(row, provider, listing.place, found)
    Orphan.objects.filter(provider=row, place=listing.place, released_at__isnull=True).exclude(label__in=there).delete()
    for machine in known.values():
        if provider.place_of(machine) == listing.place:
            _present(machine) if machine.label in there else _missing(machine, provider)


def _orphan(row: ProviderRow, provider: Provider, place: str, found: Found) -> None:
    """Released once it was seen twice and its grace is over; a row of it is kept."""
    orphan, new = Orphan.objects.get_or_create(
        provider=row, place=place, label=found.label, defaults={"external_id": found.external_id}
    )
    if not new:
        Orphan.objects.filter(pk=orphan.pk).update(
            sightings=F("sightings") + 1, last_seen=ClockTimestamp(), released_at=None
        )
    age = clock.now() - orphan.first_seen
    if new or age < timedelta(seconds=settings.ORPHAN_GRACE_SECONDS):
        return
    logger.error("releasing %s: it is at %s and no machine of ours has that label", found.label, row.key)
    try:
        provider.release_orphan(place, found)
    except NotYet as error:
        logger.warning("%s is not released yet: %s", found.label, error)
        return
    Orphan.objects.filter(pk=orphan.pk).update(released_at=ClockTimestamp())


def _present(machine: Machine) -> None:
    if machine.missed:
        Machine.objects.filter(pk=machine.pk).update(missed=0)


def _missing(machine: Machine, provider: Provider) -> None:
    """Missing from two complete lists: lost. A machine about to be made or given back may well be missing."""
    if machine.state not in (MachineState.CREATED, MachineState.READY):
        return
    if clock.now() - machine.asked_at < SETTLED_AFTER:
        return
    if machine.missed + 1 < MISSES:
        Machine.objects.filter(pk=machine.pk).update(missed=F("missed") + 1)
        return
    _lost(machine, provider)


@transaction.atomic
def _lost(machine: Machine, provider: Provider) -> None:
    attempt = Attempt.objects.select_related("machine").filter(machine=machine).first()
    if attempt is None:
        attempts.let_go(machine.pk)
        return
    replica = Replica.objects.select_related("deployment").get(pk=attempt.replica_id)
    with_root = MachineSshKey.objects.filter(machine=machine, installed_at__isnull=False).exists()
    logger.error("%s is lost: missing from %d complete lists", machine.label, MISSES)
    endings.fail(
        replica.deployment,
        replica=replica,
        attempt=attempt,
        code="machine_lost",
        fault="customer" if with_root and provider.machine_answers else "provider",
        params={},
    )
    attempts.let_go(machine.pk)
