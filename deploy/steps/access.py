"""Letting the customer in: charging begins, then their SSH keys are installed; not before (DESIGN 5.2)."""

from __future__ import annotations

from deploy import failpoints, metering
from deploy.machine import host
from deploy.models import MachineSshKey
from deploy.states import SERVING, MachineState, State
from deploy.steps.base import Outcome, Stay, Work

REACHED = (State.CHECKING, State.INSTALLING, State.DOWNLOADING, State.LOADING, *SERVING)


def due(work: Work) -> Outcome | None:
    """What of it is to be done now, before anything else; None where nothing is."""
    machine = work.machine
    if machine is None or machine.state != MachineState.READY or work.replica.state not in REACHED:
        return None
    if machine.charged_from is None:
        return charge(work) if _allowance_over(work) else None
    return _install(work) if keys_wait(work) else None


def keys_wait(work: Work) -> bool:
    """Whether the customer has keys that are not on the machine yet."""
    return MachineSshKey.objects.filter(deployment=work.deployment, installed_at__isnull=True).exists()


def _allowance_over(work: Work) -> bool:
    deployment = work.deployment
    if deployment.let_in_at is not None:
        return True
    return deployment.free_until is None or work.now >= deployment.free_until


def charge(work: Work) -> Outcome:
    """Buy the first window; the keys go in with the next step."""
    return Stay(0, event="charging_began", write=lambda: metering.begin(work.rented), in_passing=True)


def _install(work: Work) -> Outcome:
    rows = MachineSshKey.objects.filter(deployment=work.deployment, removed_at__isnull=True)
    keys = {str(row.pk): row.public_key for row in rows}
    failpoints.hit("keys", "before")
    host.install_customer_keys(work.target, work.rented.label, keys)
    failpoints.hit("keys", "after")
    installed = rows.filter(pk__in=list(keys))

    def write() -> None:
        installed.update(installed_at=work.now, machine=work.rented)

    return Stay(0, event="customer_let_in", params={"keys": len(keys)}, write=write, in_passing=True)
