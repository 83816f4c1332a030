"""What stops deployments: an empty balance, their own limits."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest

from arrakis.accounts.models import Workspace
from deploy import limits, metering
from deploy.ledger import services
from deploy.states import State
from tests.deploy.conftest import DatabaseClock
from tests.deploy.shop import a_deployment, a_machine, a_workspace, ask_to_stop, in_order, ledger_net, lengths, run


def usd(text: str) -> Decimal:
    return Decimal(text)


@pytest.fixture
def workspace(db_clock: DatabaseClock) -> Workspace:
    return a_workspace(paid="10")


def test_one_cent_runs_for_ninety_nine_seconds_and_never_below_zero(db_clock: DatabaseClock) -> None:
    poor = a_workspace(granted="0.01")
    deployment = a_deployment(poor)
    machine = a_machine(deployment, seen_at=db_clock.moment)
    metering.begin(machine)
    assert lengths(machine) == [99]  # the hundredth second would need the last micro-dollar that rounding may ask
    db_clock.forward(88)
    assert limits.exhausted() == []
    db_clock.forward(2)
    assert metering.buy_due() == 0
    assert limits.to_stop() == [limits.Stop(deployment, "balance_empty")]
    ask_to_stop(deployment, db_clock.moment)
    metering.end(machine, used_until=db_clock.moment)
    assert services.balance(poor.pk).granted == usd("0.001")
    assert in_order() == []


def test_an_hour_of_balance_is_used_to_its_end(db_clock: DatabaseClock) -> None:
    workspace = a_workspace(paid="0.36")
    deployment = a_deployment(workspace)
    metering.hold_for_start(deployment)
    machine = a_machine(deployment, seen_at=db_clock.moment)
    metering.begin(machine)
    run(machine, db_clock, 3600 - 12)
    assert limits.exhausted() == []
    run(machine, db_clock, 12, every=1)
    assert limits.exhausted() == [deployment]
    assert sum(lengths(machine)) == 3599
    assert services.balance(workspace.pk).available >= 0
    assert in_order() == []


def test_a_limit_in_dollars_stops_and_is_not_passed(workspace: Workspace, db_clock: DatabaseClock) -> None:
    deployment = a_deployment(workspace, limits={"usd": "0.05"})
    machine = a_machine(deployment, seen_at=db_clock.moment)
    metering.begin(machine)
    run(machine, db_clock, 420)
    assert limits.exhausted() == []
    run(machine, db_clock, 80)
    assert limits.to_stop() == [limits.Stop(deployment, "limit_usd")]
    run(machine, db_clock, 600)
    assert ledger_net(deployment) <= usd("0.05")


def test_a_stop_time_stops(workspace: Workspace, db_clock: DatabaseClock) -> None:
    stop_at = db_clock.moment + timedelta(seconds=400)
    deployment = a_deployment(workspace, limits={"stop_at": stop_at.isoformat()})
    starting = a_deployment(workspace, limits={"stop_at": stop_at.isoformat()}, state=State.DOWNLOADING)
    machine = a_machine(deployment, seen_at=db_clock.moment)
    metering.begin(machine)
    run(machine, db_clock, 399)
    assert limits.to_stop() == []
    assert lengths(machine) == [300, 100]
    db_clock.forward(1)
    assert {stop.deployment for stop in limits.to_stop()} == {deployment, starting}
    assert {stop.reason_code for stop in limits.to_stop()} == {"limit_stop_at"}


@pytest.mark.parametrize(
    "wrong", [{"usd": "NaN"}, {"usd": "much"}, {"stop_at": "soon"}, {"stop_at": "2026-12-01"}, {"stop_at": 5}]
)
def test_limits_that_cannot_be_read_stop_nobody(
    workspace: Workspace, db_clock: DatabaseClock, wrong: dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    metering.begin(a_machine(a_deployment(workspace, limits=wrong)))
    db_clock.forward(280)
    assert metering.buy_due() == 1
    assert limits.exhausted() == []
    assert "cannot be read" in caplog.text
