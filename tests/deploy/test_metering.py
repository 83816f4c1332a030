"""Stories of charged time at $0.36 an hour: a hundredth of a cent a second, so that the sums can be read."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from arrakis.accounts.models import Workspace
from arrakis.errors import InsufficientBalance
from arrakis.ids import new_id
from deploy import limits, metering, purchases
from deploy.ledger import services
from deploy.ledger.models import Entry, Kind
from deploy.ledger.posting import system_accounts
from deploy.models import Deployment, Machine, Window
from deploy.states import MachineState, State
from tests.deploy.conftest import DatabaseClock
from tests.deploy.shop import (
    PRICE,
    a_deployment,
    a_machine,
    a_workspace,
    ask_to_stop,
    in_order,
    ledger_net,
    lengths,
    run,
    seen,
)

SECOND = Decimal("0.0001")


def usd(text: str) -> Decimal:
    return Decimal(text)


@pytest.fixture
def workspace(db_clock: DatabaseClock) -> Workspace:
    return a_workspace(paid="10")


@pytest.fixture
def deployment(workspace: Workspace) -> Deployment:
    deployment = a_deployment(workspace)
    metering.hold_for_start(deployment)
    return deployment


@pytest.fixture
def machine(deployment: Deployment, db_clock: DatabaseClock) -> Machine:
    machine = a_machine(deployment, seen_at=db_clock.moment)
    metering.begin(machine)
    return machine


def test_seven_minutes_and_thirteen_seconds(
    workspace: Workspace, deployment: Deployment, machine: Machine, db_clock: DatabaseClock
) -> None:
    assert services.balance(workspace.pk).available == usd("9.64")
    assert services.balance(workspace.pk).held == usd("0.33")  # the first five minutes came out of the hold
    run(machine, db_clock, 433)
    ask_to_stop(deployment, db_clock.moment)
    assert metering.cost_so_far(deployment) == usd("0.0433")
    db_clock.forward(8)  # the worker comes a little later; the customer pays until the stop was asked for
    metering.end(machine, used_until=db_clock.moment)
    assert metering.cost_so_far(deployment) == ledger_net(deployment) == usd("0.0433")
    after = services.balance(workspace.pk)
    assert (after.available, after.held) == (usd("9.9567"), usd("0"))
    assert in_order() == []


def test_the_balance_falls_by_the_second(workspace: Workspace, machine: Machine, db_clock: DatabaseClock) -> None:
    def money() -> Decimal:
        balance = services.balance(workspace.pk)
        return balance.available + balance.held + metering.unused(workspace)

    for second in range(1, 400):
        db_clock.forward(1)
        metering.buy_due()
        assert money() == 10 - second * SECOND


def test_cost_so_far_counts_whole_seconds_up_to_this_instant(
    deployment: Deployment, machine: Machine, db_clock: DatabaseClock
) -> None:
    assert metering.cost_so_far(deployment) == 0
    db_clock.forward(12.9)
    assert metering.cost_so_far(deployment) == 12 * SECOND
    db_clock.forward(86_400)  # nothing was bought meanwhile, so nothing more was used up
    assert metering.cost_so_far(deployment) == 300 * SECOND


def test_windows_are_contiguous_and_grow(machine: Machine, db_clock: DatabaseClock) -> None:
    run(machine, db_clock, 4 * 3600)
    assert lengths(machine)[:4] == [300, 300, 600, 1200]
    assert max(lengths(machine)) == 3600
    assert in_order() == []


def test_begin_and_end_again_change_nothing(
    workspace: Workspace, deployment: Deployment, machine: Machine, db_clock: DatabaseClock
) -> None:
    db_clock.forward(20)
    metering.begin(machine)
    metering.begin(Machine.objects.get(pk=machine.pk))
    assert lengths(machine) == [300]
    for _again in range(3):
        metering.end(machine, used_until=db_clock.moment)
        db_clock.forward(50)
    assert metering.buy_due() == 0
    metering.begin(machine)
    assert ledger_net(deployment) == 20 * SECOND
    assert machine.settled_at is not None


def test_begin_may_look_back_a_minute_and_never_ahead(deployment: Deployment, db_clock: DatabaseClock) -> None:
    late, early = a_machine(deployment), a_machine(deployment)
    metering.begin(late, at=db_clock.moment - timedelta(hours=1))
    metering.begin(early, at=db_clock.moment + timedelta(hours=1))
    assert late.charged_from == db_clock.moment - timedelta(seconds=60)
    assert early.charged_from == db_clock.moment


def test_nothing_begins_after_the_stop_was_asked_for(deployment: Deployment, db_clock: DatabaseClock) -> None:
    machine = a_machine(deployment)
    ask_to_stop(deployment, db_clock.moment)
    metering.begin(machine)
    assert machine.charged_from is None
    metering.end(machine, used_until=db_clock.moment)
    assert services.balance(deployment.workspace_id).available == 10
    assert in_order() == []


def test_a_cancelled_start_gives_the_whole_hold_back(deployment: Deployment, db_clock: DatabaseClock) -> None:
    ask_to_stop(deployment, db_clock.moment)
    for _again in range(2):
        metering.close(deployment)
    assert services.balance(deployment.workspace_id) == services.Balance(usd("10"), usd("0"), usd("0"), usd("10"))


def test_a_hold_is_for_an_hour_and_none_without_it(db_clock: DatabaseClock) -> None:
    poor = a_workspace(paid="0.01")
    with pytest.raises(InsufficientBalance) as refused:
        metering.hold_for_start(a_deployment(poor))
    assert refused.value.params == {"needed": "0.360000", "available": "0.010000"}
    with pytest.raises(InsufficientBalance):
        metering.begin(a_machine(a_deployment(poor, price=usd("0.72"))))  # a minute is $0.012
    assert services.balance(poor.pk).available == usd("0.01")
    assert not Window.objects.exists()


def test_a_stop_while_the_next_window_is_already_bought_returns_it_whole(
    deployment: Deployment, machine: Machine, db_clock: DatabaseClock
) -> None:
    run(machine, db_clock, 280)
    assert lengths(machine) == [300, 300]
    metering.end(machine, used_until=db_clock.moment)
    used = [window.used_until for window in Window.objects.filter(machine=machine).order_by("n")]
    assert used == [db_clock.moment, db_clock.moment + timedelta(seconds=20)]
    assert ledger_net(deployment) == 280 * SECOND
    assert in_order() == []


def test_time_that_was_not_bought_is_never_charged(
    deployment: Deployment, machine: Machine, db_clock: DatabaseClock
) -> None:
    db_clock.forward(7200)
    ask_to_stop(deployment, db_clock.moment)
    metering.end(machine, used_until=db_clock.moment)
    assert ledger_net(deployment) == 300 * SECOND


def test_a_late_tick_charges_missed_time_of_a_machine_that_is_up(
    deployment: Deployment, machine: Machine, db_clock: DatabaseClock
) -> None:
    db_clock.forward(2 * 3600)
    seen(machine, db_clock.moment - timedelta(seconds=5))
    while metering.buy_due():
        pass
    ask_to_stop(deployment, db_clock.moment)
    metering.end(machine, used_until=db_clock.moment)
    assert ledger_net(deployment) == 7200 * SECOND
    assert in_order() == []


def test_a_late_tick_charges_no_further_than_the_machine_was_seen(
    deployment: Deployment, machine: Machine, db_clock: DatabaseClock
) -> None:
    seen(machine, db_clock.moment + timedelta(seconds=1000))
    db_clock.forward(2 * 3600)
    while metering.buy_due():
        pass
    assert 300 + 600 <= sum(lengths(machine)) <= 1000
    assert limits.exhausted() == []  # nothing is wrong with the balance
    assert in_order() == []


@pytest.mark.parametrize("seen_after", [None, -10, 30])
def test_a_late_tick_without_evidence_charges_nothing(
    deployment: Deployment, machine: Machine, db_clock: DatabaseClock, seen_after: int | None
) -> None:
    """`seen_after` is seconds after bought time ended; under a minute of evidence is too little for a window."""
    assert machine.charged_until is not None
    if seen_after is not None:
        seen(machine, machine.charged_until + timedelta(seconds=seen_after))
    db_clock.forward(2 * 3600)
    assert metering.buy_due() == 0
    assert limits.exhausted() == []
    assert metering.cost_so_far(deployment) == 300 * SECOND


@pytest.mark.parametrize("fault", ["provider", "platform"])
def test_a_fault_that_is_not_the_customers_returns_everything(
    workspace: Workspace, deployment: Deployment, machine: Machine, db_clock: DatabaseClock, fault: str
) -> None:
    run(machine, db_clock, 1000)
    deployment.state = State.FAILED
    deployment.save(update_fields=["state"])
    metering.end(machine, used_until=db_clock.moment, fault=fault, reason_code="machine_lost")  # type: ignore[arg-type]
    assert metering.refund(deployment, reason_code="machine_lost") == 0
    assert services.balance(workspace.pk).available == 10
    assert metering.cost_so_far(deployment) == ledger_net(deployment) == 0
    assert Entry.objects.get(code="refund").reason == "machine_lost"
    assert in_order() == []


def test_the_customers_fault_lets_the_charge_stand(
    workspace: Workspace, deployment: Deployment, machine: Machine, db_clock: DatabaseClock
) -> None:
    run(machine, db_clock, 100)
    ask_to_stop(deployment, db_clock.moment)
    metering.end(machine, used_until=db_clock.moment, fault="customer")
    assert services.balance(workspace.pk).available == usd("9.99")


def test_a_refund_covers_every_machine_and_ends_their_charging(
    workspace: Workspace, deployment: Deployment, machine: Machine, db_clock: DatabaseClock
) -> None:
    run(machine, db_clock, 50)
    metering.end(machine, used_until=db_clock.moment)
    second = a_machine(deployment, seen_at=db_clock.moment)
    metering.begin(second)
    run(second, db_clock, 70)
    assert metering.cost_so_far(deployment) == 120 * SECOND
    assert services.balance(workspace.pk).held > 0  # the deployment goes on, and so does its hold
    assert metering.refund(deployment, reason_code="provider_down") == 120 * SECOND
    assert metering.refund(deployment, reason_code="provider_down") == 0
    run(second, db_clock, 600)
    assert ledger_net(deployment) == 0
    metering.close(deployment)
    assert services.balance(workspace.pk).available == 10
    assert in_order() == []


def test_what_was_granted_and_what_was_paid_return_to_where_they_came_from(db_clock: DatabaseClock) -> None:
    workspace = a_workspace(granted="0.02", paid="5")
    deployment = a_deployment(workspace)
    metering.hold_for_start(deployment)
    machine = a_machine(deployment, seen_at=db_clock.moment)
    metering.begin(machine)
    run(machine, db_clock, 250)
    ask_to_stop(deployment, db_clock.moment)
    metering.end(machine, used_until=db_clock.moment)
    balance = services.balance(workspace.pk)
    assert (balance.granted, balance.paid) == (usd("0"), usd("4.995"))


def test_two_machines_share_a_balance_and_neither_takes_the_others_hold(db_clock: DatabaseClock) -> None:
    workspace = a_workspace(paid="1")
    machines = []
    for _n in range(2):
        deployment = a_deployment(workspace)
        metering.hold_for_start(deployment)
        machines.append(a_machine(deployment, seen_at=db_clock.moment))
        metering.begin(machines[-1])
    for _tick in range(500):
        db_clock.forward(10)
        metering.buy_due()
        for machine in machines:
            seen(machine, db_clock.moment)
    assert [sum(lengths(machine)) >= 3599 for machine in machines] == [True, True]
    assert 9880 < sum(map(sum, map(lengths, machines))) < 10_000  # each leaves less than a minute
    assert len(limits.exhausted()) == 2
    assert in_order() == []


def test_machines_that_are_going_or_stopping_get_no_further_window(
    deployment: Deployment, machine: Machine, db_clock: DatabaseClock
) -> None:
    Machine.objects.filter(pk=machine.pk).update(state=MachineState.RELEASING)
    db_clock.forward(290)
    assert metering.buy_due() == 0
    Machine.objects.filter(pk=machine.pk).update(state=MachineState.READY)
    ask_to_stop(deployment, db_clock.moment)
    assert metering.buy_due() == 0
    assert limits.exhausted() == []


def test_hours_left_counts_what_already_runs(workspace: Workspace, machine: Machine) -> None:
    assert metering.running_rate(workspace) == PRICE
    assert metering.hours_left(workspace, usd("0")) == usd("26.7")  # 9.64 / 0.36
    assert metering.hours_left(workspace, usd("0.64")) == usd("9.6")
    assert metering.hours_left(a_workspace(), usd("0")) == Decimal("Infinity")


def many_machines(count: int, clock: DatabaseClock) -> list[Workspace]:
    """So many charged machines, ten a workspace, whose bought time is about to end."""
    owners = [a_workspace(paid="1000", granted="0.05") for _n in range(count // 10)]
    first = a_machine(a_deployment(owners[0]))
    deployments, machines, quotes = [], [], []
    for n in range(count - 1):
        quote, deployment, machine = first.quote, first.quote.deployment, Machine.objects.get(pk=first.pk)
        quote = type(quote)(**{f.attname: getattr(quote, f.attname) for f in quote._meta.fields})
        deployment = Deployment(**{f.attname: getattr(deployment, f.attname) for f in Deployment._meta.fields})
        quote.pk, deployment.pk, machine.pk = new_id(), new_id(), new_id()
        owner = owners[n % len(owners)]
        quote.workspace = deployment.workspace = machine.workspace = owner
        deployment.quote_id = machine.quote_id = quote.pk
        machine.label = f"many-{n}"
        quotes.append(quote)
        deployments.append(deployment)
        machines.append(machine)
    type(first.quote).objects.bulk_create(quotes)
    Deployment.objects.bulk_create(deployments)
    Machine.objects.bulk_create(machines)
    everything = Machine.objects.all()
    everything.update(charged_from=clock.moment, charged_until=clock.moment)
    return owners


@pytest.mark.parametrize("count", [20, 2000])
def test_any_number_of_machines_is_bought_for_in_a_few_statements(db_clock: DatabaseClock, count: int) -> None:
    many_machines(count, db_clock)
    system_accounts((Kind.REVENUE, "granted"), (Kind.REVENUE, "paid"))  # made once in a shop's life
    with CaptureQueriesContext(connection) as queries:
        assert metering.buy_due() == count
    statements = [q["sql"] for q in queries if "SAVEPOINT" not in q["sql"]]
    assert len(statements) == (12 if count < purchases.BATCH else 12 + 2)  # a full batch is followed by another look
    locks = [q["sql"] for q in queries if "FOR NO KEY UPDATE" in q["sql"] and "ledger_account" in q["sql"]]
    assert len(locks) == 2
    assert all('"owner" IN' in sql for sql in locks)
    assert Window.objects.count() == count
    assert in_order() == []


def test_more_than_a_batch_is_bought_in_several(db_clock: DatabaseClock, monkeypatch: pytest.MonkeyPatch) -> None:
    many_machines(50, db_clock)
    monkeypatch.setattr(purchases, "BATCH", 20)
    assert metering.buy_due() == 50
    assert metering.buy_due() == 0


def test_those_that_cannot_pay_do_not_keep_others_waiting(
    db_clock: DatabaseClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    poor = a_workspace(paid="0.01")
    for _n in range(5):
        stuck = a_machine(a_deployment(poor, price=usd("36")))
        Machine.objects.filter(pk=stuck.pk).update(charged_from=db_clock.moment, charged_until=db_clock.moment)
    db_clock.forward(1)
    many_machines(20, db_clock)
    Machine.objects.filter(workspace=poor).update(charged_until=db_clock.moment - timedelta(seconds=1))
    monkeypatch.setattr(purchases, "BATCH", 4)
    assert metering.buy_due() == 20
    assert len(limits.exhausted()) == 5
