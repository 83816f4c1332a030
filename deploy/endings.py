"""How a deployment ends otherwise than asked: the reason and whose fault, the money, the machine let go.

In the caller's transaction, with the deployment's row locked.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from arrakis import clock
from arrakis.clock import ClockTimestamp
from arrakis.errors import Fault
from deploy import attempts, events, metering, wake
from deploy.models import Attempt, Deployment, Machine, Replica
from deploy.states import ENDED, State


def fail(
    deployment: Deployment,
    *,
    replica: Replica,
    attempt: Attempt | None,
    code: str,
    fault: Fault,
    params: dict[str, Any],
    used_until: datetime | None = None,
) -> None:
    """Failed: by the provider's or our fault everything charged returns, by the customer's what was used stands.

    Does nothing to one that is over or stopping: what it was stopped for stands.
    """
    row = Deployment.objects.select_for_update().get(pk=deployment.pk)
    if row.state in (State.STOPPING, *ENDED):
        return
    row.state = State.FAILED
    row.desired = Deployment.Desired.STOPPED
    row.reason_code, row.reason_params, row.fault = code, params, fault
    row.ended_at = clock.now()
    row.hf_token = ""
    row.save(update_fields=["state", "desired", "reason_code", "reason_params", "fault", "ended_at", "hf_token"])
    Replica.objects.filter(pk=replica.pk).update(state=State.FAILED, state_since=ClockTimestamp())
    machine = attempt.machine if attempt else None
    if machine is not None and used_until is not None:
        metering.end(machine, used_until=used_until)
    if fault == "customer":
        metering.close(row)
    else:
        metering.refund(row, reason_code=code)
    if attempt is not None:
        attempts.give_up(attempt, outcome=Attempt.Outcome.FAILED, reason_code=code)
        if attempt.machine_id is not None:
            wake.machine(attempt.machine_id)
    events.write(row, code, replica=replica, machine=machine, fault=fault, **params)


def drop_machine(attempt: Attempt, *, outcome: str, reason_code: str) -> None:
    """This machine will not do: nothing is charged for it, and it is released while the next one is tried."""
    if attempt.machine_id is not None:
        machine = Machine.objects.get(pk=attempt.machine_id)
        metering.end(machine, used_until=clock.now(), fault="provider", reason_code=reason_code)
        wake.machine(machine.pk)
    attempts.give_up(attempt, outcome=outcome, reason_code=reason_code)
