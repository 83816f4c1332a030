"""What staff do to customers' things: the same services, and a record of who did it."""

from __future__ import annotations

from django.db import transaction

from arrakis.accounts.models import User
from arrakis.audit.services import record
from arrakis.clock import ClockTimestamp
from deploy import attempts, services, wake
from deploy.models import Deployment, Machine
from deploy.states import ENDED, MachineState, State


@transaction.atomic
def stop(*, deployment: Deployment, actor: User) -> Deployment:
    """Stops a customer's deployment; one that is stopping or over stays as it is, and nothing is recorded."""
    before = Deployment.objects.select_for_update().get(pk=deployment.pk).state
    after = services.stop(deployment=deployment, actor=actor, reason_code="stopped_by_staff")
    if after.state != before:
        _record(actor, "staff.deployment_stopped", deployment, before, after.state)
    return after


@transaction.atomic
def release(*, machine: Machine, actor: User) -> None:
    """Gives a machine back: stops what runs on it, or, where nothing does, asks for its release again at once."""
    deployment = machine.quote.deployment
    if deployment.state not in (State.STOPPING, *ENDED):
        stop(deployment=deployment, actor=actor)
        return
    before = Machine.objects.select_for_update().get(pk=machine.pk).state
    if before == MachineState.GONE:
        return
    attempts.let_go(machine.pk)
    Machine.objects.filter(pk=machine.pk, state=MachineState.RELEASING).update(due_at=ClockTimestamp())
    _record(actor, "staff.machine_released", machine, before, MachineState.RELEASING)
    wake.machine(machine.pk)


def _record(actor: User, action: str, obj: Deployment | Machine, before: str, after: str) -> None:
    record(
        actor=actor, action=action, obj=obj, workspace=obj.workspace, before={"state": before}, after={"state": after}
    )
