"""The one function that moves a deployment one step (DESIGN 5.5).

    claim the replica -> decide by its state -> call the machine, provider or hub outside of any transaction
    -> apply what came of it in one short transaction, where the lease and the state are still those of the claim

No step waits for anything: what is not there yet is looked at again when the row is due. What raises an error is tried
again with back-off until the state's deadline, which is kept in the database.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Value
from django.db.models.functions import Greatest

from arrakis import clock
from arrakis.clock import ClockTimestamp
from arrakis.errors import ArrakisError, Fault, InsufficientBalance, Unavailable
from deploy import attempts, claims, endings, events, wake
from deploy.claims import Claim, StaleClaim
from deploy.machine.errors import HostKeyChanged, MachineError
from deploy.models import Deployment, Replica
from deploy.providers.base import ProviderError, Refused
from deploy.quotes import next_offers
from deploy.states import SERVING, State, may_become
from deploy.steps import access, end, prepare, rent, serve
from deploy.steps.base import Fail, Move, NextOffer, Outcome, Stay, Work

logger = logging.getLogger(__name__)

STEPS: dict[State, Callable[[Work], Outcome]] = {
    State.REQUESTED: rent.requested,
    State.RENTING: rent.renting,
    State.BOOTING: rent.booting,
    State.CHECKING: rent.checking,
    State.INSTALLING: prepare.installing,
    State.DOWNLOADING: prepare.downloading,
    State.LOADING: prepare.loading,
    State.RUNNING: serve.running,
    State.UNHEALTHY: serve.unhealthy,
    State.STOPPING: end.stopping,
}
DEADLINES: dict[State, timedelta] = {
    State.REQUESTED: timedelta(minutes=5),
    State.RENTING: timedelta(minutes=10),
    State.BOOTING: timedelta(minutes=15),
    State.CHECKING: timedelta(minutes=3),
    State.INSTALLING: timedelta(minutes=10),
    State.DOWNLOADING: timedelta(minutes=10),  # without progress; each look that sees some moves it
    State.LOADING: timedelta(minutes=40),
}
BEFORE_INSTALLING = (State.RENTING, State.BOOTING, State.CHECKING)
"""A machine that fails here was of no use to anybody yet: another may be tried."""
LONGEST_WAIT = 60
AFTER_SURPRISE = 30
"""Seconds until a step that failed for a reason nobody thought of is tried again."""


def step(replica_id: UUID) -> float | None:
    """Move one replica one step; seconds until it is due again, None where nothing is left or another is at it."""
    claim = claims.take_replica(replica_id)
    if claim is None:
        return None
    work = _load(replica_id)
    try:
        with claims.renewed(claim):
            outcome = _decide(work)
        return _apply(claim, work, outcome)
    except StaleClaim:
        claims.let_go(claim)
        wake.replica(replica_id)
        return 0
    except BaseException:
        # Whatever it was (a bug, a task's time limit), the row must not be stuck, nor block the loop.
        _surprised(claim, work)
        raise


def _surprised(claim: Claim, work: Work) -> None:
    deadline = work.replica.deadline_at
    if deadline is None or work.now < deadline:
        claims.let_go(claim, due_at=ClockTimestamp() + timedelta(seconds=AFTER_SURPRISE))
        return
    with suppress(StaleClaim):
        _apply(claim, work, Fail("internal_error", "platform"))


def _load(replica_id: UUID) -> Work:
    replica = Replica.objects.select_related("deployment__quote__model", "deployment__quote__offer").get(pk=replica_id)
    attempt = attempts.current(replica)
    return Work(
        deployment=replica.deployment,
        replica=replica,
        quote=replica.deployment.quote,
        attempt=attempt,
        machine=attempt.machine if attempt else None,
        now=clock.now(),
    )


def _decide(work: Work) -> Outcome:
    state = State(work.replica.state)
    try:
        if outcome := access.due(work):
            return outcome
        if state in SERVING and work.replica.restart_asked_at is not None:
            return serve.restarting(work)
        return STEPS[state](work)
    except HostKeyChanged as error:
        return Fail(error.code, work.blame("provider"), error.params)
    except (MachineError, ProviderError, Unavailable) as error:
        return _again(work, error)


def _again(work: Work, error: ArrakisError) -> Outcome:
    """Try again with back-off; after the deadline it has failed, for that reason."""
    deadline = work.replica.deadline_at
    if deadline is None or work.now < deadline:
        logger.info("%s of %s: %s", work.replica.state, work.deployment.pk, error)
        return Stay(min(2 ** min(work.replica.tries, 10), LONGEST_WAIT), tried=True)
    if work.replica.state in BEFORE_INSTALLING:
        return NextOffer(error.code, error.params)
    return Fail(error.code, work.blame(error.fault), error.params)


def _apply(claim: Claim, work: Work, outcome: Outcome) -> float | None:
    if isinstance(outcome, Stay) and _too_late(work, outcome):
        outcome = _out_of_time(work)
    try:
        with transaction.atomic():
            # Deployment first, replica second, machine third, accounts last: as in deploy.services and deploy.metering.
            Deployment.objects.select_for_update().get(pk=work.deployment.pk)
            return _write(claim, work, outcome)
    except InsufficientBalance as error:
        with transaction.atomic():
            Deployment.objects.select_for_update().get(pk=work.deployment.pk)
            _fail(claim, work, Fail("balance_empty", "customer", error.params))
            return None


def _too_late(work: Work, stay: Stay) -> bool:
    deadline = work.replica.deadline_at
    if deadline is None or work.now < deadline or stay.in_passing:
        return False
    return stay.progress is None or stay.progress <= work.replica.progress


def _out_of_time(work: Work) -> Outcome:
    state = work.replica.state
    if state in BEFORE_INSTALLING:
        return NextOffer("deadline_passed", {"state": state})
    fault: Fault = "platform" if state == State.LOADING else "provider"
    return Fail("deadline_passed", work.blame(fault), {"state": state})


def _write(claim: Claim, work: Work, outcome: Outcome) -> float | None:
    if isinstance(outcome, Move):
        return _move(claim, work, outcome)
    if isinstance(outcome, Stay):
        return _stay(claim, work, outcome)
    if isinstance(outcome, NextOffer):
        return _next_offer(claim, work, outcome)
    _fail(claim, work, outcome)
    return None


def _move(claim: Claim, work: Work, move: Move) -> float | None:
    if not may_become(work.replica.state, move.to):
        raise AssertionError(f"{work.replica.state} -> {move.to} is not a transition")
    ended = move.to == State.STOPPED
    claims.apply(claim, **_entered(move.to))
    Deployment.objects.filter(pk=work.deployment.pk).update(
        state=move.to, **({"ended_at": ClockTimestamp(), "hf_token": ""} if ended else {})
    )
    if move.write is not None:
        move.write()
    _event(work, move.event or move.to, move.params)
    return None if ended else 0


def _entered(state: State) -> dict[str, object]:
    deadline = DEADLINES.get(state)
    return {
        "state": state,
        "state_since": ClockTimestamp(),
        "due_at": ClockTimestamp(),
        "deadline_at": ClockTimestamp() + deadline if deadline else None,
        "tries": 0,
        "progress": 0,
    }


def _stay(claim: Claim, work: Work, stay: Stay) -> float:
    # Who wrote due_at during the step (a tunnel, a service) wants to be heard: then it is due now.
    changes: dict[str, object] = {"due_at": ClockTimestamp() + timedelta(seconds=stay.seconds)}
    woken = not Replica.objects.filter(pk=claim.pk, due_at=work.replica.due_at).exists()
    if woken:
        del changes["due_at"]
    if stay.tried:
        changes["tries"] = work.replica.tries + 1
    if stay.progress is not None and stay.progress > work.replica.progress:
        changes["progress"] = Greatest(Value(stay.progress), "progress")
        if deadline := DEADLINES.get(State(work.replica.state)):
            changes["deadline_at"] = ClockTimestamp() + deadline
    claims.apply(claim, **changes)
    if stay.write is not None:
        stay.write()
    if stay.event:
        _event(work, stay.event, stay.params)
    return 0 if woken else stay.seconds


def _next_offer(claim: Claim, work: Work, refused: NextOffer) -> float | None:
    """Let the machine go, charge nothing for it, and take the next offer of its kind that nobody takes first."""
    replica = work.replica
    if work.attempt is not None:
        endings.drop_machine(work.attempt, outcome=refused.outcome, reason_code=refused.code)
    if replica.attempts.count() < attempts.MOST:
        for priced in next_offers(work.quote, tried=attempts.tried(replica)):
            try:
                with transaction.atomic():
                    attempts.begin(replica, work.quote, priced)
            except Refused:
                continue
            _event(work, "next_offer", {"why": refused.code, **refused.params})
            claims.apply(claim, **_entered(State.RENTING))
            Deployment.objects.filter(pk=work.deployment.pk).update(state=State.RENTING)
            return 0
    _fail(claim, work, Fail(refused.code, "provider", refused.params))
    return None


def _fail(claim: Claim, work: Work, failure: Fail) -> None:
    claims.apply(claim, **_entered(State.FAILED))
    endings.fail(
        work.deployment,
        replica=work.replica,
        attempt=work.attempt,
        code=failure.code,
        fault=failure.fault,
        params=failure.params,
        used_until=failure.used_until,
    )


def _event(work: Work, code: str, params: dict[str, Any]) -> None:
    events.write(work.deployment, code, replica=work.replica, machine=work.machine, **params)
