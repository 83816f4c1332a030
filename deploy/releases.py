"""Giving machines back: tried until the absence is proven, from every state, for ever (DESIGN 5.4)."""

from __future__ import annotations

import logging
from datetime import timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import F

from arrakis import clock
from arrakis.clock import ClockTimestamp
from deploy import claims, events, failpoints, wake
from deploy.claims import StaleClaim
from deploy.models import Deployment, Machine, MachineSshKey, Replica
from deploy.providers import provider_of
from deploy.providers.base import NotYet
from deploy.states import MachineState, State

logger = logging.getLogger(__name__)

LONGEST_WAIT = 900
ALERT_AFTER = timedelta(days=1)


def step(machine_id: UUID) -> None:
    """Try once to give a machine back. Nothing happens where another is at it, or it is not to be released."""
    claim = claims.take_machine(machine_id)
    if claim is None:
        return
    if claim.state != MachineState.RELEASING:
        claims.let_go(claim)
        return
    machine = Machine.objects.select_related("provider", "fleet_host", "quote__deployment").get(pk=machine_id)
    provider = provider_of(machine)
    try:
        with claims.renewed(claim):
            failpoints.hit("releasing", "before")
            provider.release(machine)
            failpoints.hit("releasing", "after")
        with transaction.atomic():
            Deployment.objects.select_for_update().get(quote_id=machine.quote_id)
            claims.apply(claim, state=MachineState.GONE, absence_proven_at=ClockTimestamp())
            provider.released(machine)
            _gone(machine)
    except NotYet as error:
        logger.info("%s is not released yet: %s", machine.label, error)
        _later(claim, machine, error)
    except StaleClaim:
        claims.let_go(claim)
    except BaseException:
        claims.let_go(claim, due_at=ClockTimestamp() + timedelta(seconds=60), tries=F("tries") + 1)
        raise


def _gone(machine: Machine) -> None:
    MachineSshKey.objects.filter(machine=machine, installed_at__isnull=False, removed_at__isnull=True).update(
        removed_at=ClockTimestamp()
    )
    deployment = Deployment.objects.get(quote_id=machine.quote_id)
    events.write(deployment, "machine_released", machine=machine)
    waiting = Replica.objects.filter(deployment=deployment, state=State.STOPPING)
    for pk in waiting.values_list("pk", flat=True):
        Replica.objects.filter(pk=pk).update(due_at=ClockTimestamp())
        wake.replica(pk)


def _later(claim: claims.Claim, machine: Machine, error: NotYet) -> None:
    wait = min(2 ** min(machine.tries + 1, 10), LONGEST_WAIT)
    claims.let_go(claim, due_at=ClockTimestamp() + timedelta(seconds=wait), tries=machine.tries + 1)
    asked = machine.release_asked_at
    if machine.alerted_at is None and asked is not None and clock.now() - asked > ALERT_AFTER:
        logger.error("%s was asked to be released a day ago and is still there: %s", machine.label, error)
        with transaction.atomic():
            if Machine.objects.filter(pk=machine.pk, alerted_at__isnull=True).update(alerted_at=ClockTimestamp()):
                deployment = Deployment.objects.get(quote_id=machine.quote_id)
                events.write(deployment, "release_overdue", machine=machine, detail=error.code)
