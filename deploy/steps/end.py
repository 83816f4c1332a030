"""stopping: the machine is given back, and it is over when its absence is proven."""

from __future__ import annotations

from contextlib import suppress

from deploy import attempts, failpoints, wake
from deploy.machine import host
from deploy.machine.errors import MachineError
from deploy.models import Attempt, Machine
from deploy.states import MachineState, State
from deploy.steps.base import Move, Outcome, Stay, Work

OVER = (MachineState.GONE, MachineState.LOST)


def stopping(work: Work) -> Outcome:
    """Charging ended when the stop was asked for. The release goes on whether or not the machine can be reached."""
    machine = work.machine
    if not Machine.objects.filter(quote=work.quote).exclude(state__in=OVER).exists():
        return Move(State.STOPPED)
    if machine is None or machine.state in (MachineState.RELEASING, *OVER):
        return Stay(30)
    if machine.state == MachineState.READY:
        _end_engine(work)

    def write() -> None:
        if work.attempt is not None:
            attempts.give_up(work.attempt, outcome=Attempt.Outcome.OK, reason_code=work.deployment.reason_code)
        wake.machine(machine.pk)

    return Stay(30, write=write)


def _end_engine(work: Work) -> None:
    """Take the customer's way in and the engine away now, as far as the machine answers; releasing repeats it."""
    failpoints.hit("stopping", "before")
    with suppress(MachineError):
        host.remove_customer_keys(work.target, work.rented.label)
        host.stop_engine(work.target, work.rented.label)
    failpoints.hit("stopping", "after")
