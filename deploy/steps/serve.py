"""running and unhealthy: an engine that answers, is charged, and is brought back when it does not."""

from __future__ import annotations

from datetime import timedelta

from deploy import failpoints, watch
from deploy.machine import host
from deploy.machine.errors import MachineError
from deploy.models import Replica
from deploy.states import State
from deploy.steps.base import Fail, Move, Outcome, Stay, Work

LOOK_SECONDS = 10
RESTARTS = 3
"""Times that we start an engine which its supervisor gave up, before the deployment has failed."""
STUCK_AFTER = timedelta(seconds=60)
"""How long an engine may be up without answering before it is restarted."""
GIVE_UP_AFTER = timedelta(minutes=10)
"""How long a machine may be out of reach, or an engine may need to recover."""
COMING = frozenset({"starting", "loading", "crashed"})
"""On its way by itself: the supervisor is at it."""


def running(work: Work) -> Outcome:
    """Nothing to do while it is ready; the tunnels write the status and wake this step when it changes."""
    try:
        status = watch.read(work)
    except MachineError as error:
        return Move(State.UNHEALTHY, {"detail": error.code}, event="machine_unreachable")
    if status.engine_state == "ready":
        return Stay(LOOK_SECONDS)
    return Move(State.UNHEALTHY, {"engine": status.engine_state, "restarts": status.restarts})


def unhealthy(work: Work) -> Outcome:
    """Wait for the supervisor, restart what it gave up, and give up in the end."""
    try:
        status = watch.read(work)
    except MachineError as error:
        return _out_of_reach(work, error)
    if status.engine_state == "ready":
        return Move(State.RUNNING, event="recovered")
    if work.in_state_for > GIVE_UP_AFTER:
        return Fail("engine_did_not_recover", work.blame("platform"))
    if status.engine_state in COMING or (status.engine_state == "unhealthy" and work.in_state_for < STUCK_AFTER):
        return Stay(3)
    if work.replica.tries >= RESTARTS:
        return Fail(status.error_code or "engine_crash_limit", work.blame("platform"), {"restarts": status.restarts})
    _restart(work)
    return Stay(5, event="restarted", tried=True, write=lambda: watch.forget(work.replica))


def restarting(work: Work) -> Outcome:
    """The customer asked for it: stop and start, then prove it again as after the first start."""
    _restart(work)

    def write() -> None:
        Replica.objects.filter(pk=work.replica.pk).update(restart_asked_at=None)
        watch.forget(work.replica)

    return Move(State.LOADING, write=write, event="restarted")


def _restart(work: Work) -> None:
    failpoints.hit("restarting", "before")
    host.restart_engine(work.target, work.rented.label)
    failpoints.hit("restarting", "after")


def _out_of_reach(work: Work, error: MachineError) -> Outcome:
    """A machine that its customer's root may have cut off is charged to its last sign of life; else it is all returned.

    Neither is charged for the time since.
    """
    if work.in_state_for <= GIVE_UP_AFTER:
        return Stay(10)
    status = watch.last_seen(work.replica)
    seen_at = status.seen_at if status is not None else None
    return Fail(
        "machine_lost_touch",
        work.blame("provider"),
        {"detail": error.code},
        used_until=seen_at or work.replica.state_since,
    )
