"""Several connections at once, everything really committed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.db import Error, connection, transaction

from arrakis import clock
from arrakis.errors import InsufficientBalance
from arrakis.ids import new_id
from deploy import metering, purchases
from deploy.ledger import services
from deploy.ledger.models import Entry
from deploy.ledger.posting import IdempotencyConflict
from deploy.models import Deployment, Machine, Window
from tests.deploy.shop import a_deployment, a_machine, a_workspace, ask_to_stop, in_order

pytestmark = pytest.mark.usefixtures("committed")


def at_once(calls: Sequence[Callable[[], Any]]) -> list[Any]:
    """Results or exceptions of the calls, each begun at the same moment on a connection of its own."""
    barrier = threading.Barrier(len(calls))

    def one(call: Callable[[], Any]) -> Any:
        try:
            connection.ensure_connection()
            barrier.wait()
            return call()
        except (InsufficientBalance, IdempotencyConflict) as error:
            return error
        finally:
            connection.close()

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(one, calls))


def a_running_machine() -> tuple[Deployment, Machine]:
    deployment = a_deployment(a_workspace(paid="5", granted="0.01"))
    metering.hold_for_start(deployment)
    machine = a_machine(deployment, seen_at=clock.now())
    metering.begin(machine)
    return deployment, machine


def let_time_pass(machine: Machine, seconds: int) -> None:
    """Move what was bought into the past instead of waiting."""
    shift = timedelta(seconds=seconds)
    machine.refresh_from_db()
    assert machine.charged_from is not None and machine.charged_until is not None
    Machine.objects.filter(pk=machine.pk).update(
        charged_from=machine.charged_from - shift, charged_until=machine.charged_until - shift
    )
    for window in Window.objects.filter(machine=machine).order_by("n"):
        window.starts_at, window.ends_at = window.starts_at - shift, window.ends_at - shift
        window.save(update_fields=["starts_at", "ends_at"])


def test_two_requests_for_one_balance() -> None:
    workspace = a_workspace(paid="0.50")
    first, second = a_deployment(workspace), a_deployment(workspace)
    answers = at_once([partial(metering.hold_for_start, deployment) for deployment in (first, second)])
    assert sorted(type(answer).__name__ for answer in answers) == ["Entry", "InsufficientBalance"]
    assert services.balance(workspace.pk).available == Decimal("0.14")
    assert in_order() == []


def test_many_holds_of_a_balance_that_covers_some() -> None:
    workspace = a_workspace(paid="0.75", granted="0.75")
    deployments = [a_deployment(workspace) for _n in range(8)]
    answers = at_once([partial(metering.hold_for_start, deployment) for deployment in deployments])
    assert sum(isinstance(answer, Entry) for answer in answers) == 4
    assert services.balance(workspace.pk).available == Decimal("0.06")
    assert in_order() == []


def test_the_same_credit_sent_many_times_for_an_owner_without_accounts() -> None:
    owner = new_id()

    def credit(amount: str) -> Entry:
        return services.credit(
            owner=owner, amount=Decimal(amount), kind="granted", entry_id="credit:1", reason="", author=None
        )

    answers = at_once([lambda: credit("3")] * 6 + [lambda: credit("4")] * 2)
    winners = [answer for answer in answers if isinstance(answer, Entry)]
    assert len({entry.payload_sha256 for entry in winners}) == 1
    assert len(winners) in (2, 6)
    assert services.balance(owner).available in (Decimal("3"), Decimal("4"))
    assert in_order() == []


def test_different_first_credits_all_arrive() -> None:
    owner = new_id()

    def credit(n: int) -> Entry:
        return services.credit(
            owner=owner, amount=Decimal(1), kind=("paid", "granted")[n % 2], entry_id=f"c:{n}", reason="", author=None
        )

    at_once([partial(credit, n) for n in range(8)])
    assert services.balance(owner).available == 8
    assert in_order() == []


def test_begin_many_times_at_once_buys_one_window() -> None:
    deployment = a_deployment(a_workspace(paid="5"))
    metering.hold_for_start(deployment)
    machine = a_machine(deployment)
    at_once([lambda: metering.begin(Machine.objects.get(pk=machine.pk))] * 6)
    assert Window.objects.filter(machine=machine).count() == 1
    assert in_order() == []


@pytest.mark.parametrize("attempt", range(3))
def test_begin_buy_end_and_refund_at_once(attempt: int) -> None:
    deployment, machine = a_running_machine()
    let_time_pass(machine, 290)
    stopped_at = clock.now()

    def stop_and_end() -> None:
        ask_to_stop(Deployment.objects.get(pk=deployment.pk), stopped_at)
        metering.end(Machine.objects.get(pk=machine.pk), used_until=stopped_at)

    last = (lambda: metering.close(deployment)) if attempt else (lambda: metering.refund(deployment, reason_code="x"))
    calls = [metering.buy_due] * 3 + [stop_and_end] * 2 + [lambda: metering.begin(machine), last]
    answers = at_once(calls)
    assert not [answer for answer in answers if isinstance(answer, Exception)]
    assert metering.buy_due() == 0
    metering.close(deployment)
    assert metering.cost_so_far(deployment) == services.net_taken(_entries_of(deployment))
    assert services.balance(deployment.workspace_id).held == 0
    assert in_order() == []


def test_ending_one_machine_while_the_deployment_is_refunded() -> None:
    """Both need two machines and one purse: machines come first for everybody, so neither waits for the other."""
    deployment, first = a_running_machine()
    second = a_machine(deployment, seen_at=clock.now())
    metering.begin(second)
    now = clock.now()
    ends = 2 * [partial(metering.end, machine, used_until=now) for machine in (first, second)]
    at_once([*ends, partial(metering.refund, deployment, reason_code="x"), partial(metering.close, deployment)])
    assert services.net_taken(_entries_of(deployment)) == metering.cost_so_far(deployment) == 0
    assert in_order() == []


def test_the_check_reads_one_snapshot_while_the_shop_goes_on() -> None:
    machines = [a_running_machine()[1] for _n in range(5)]
    for machine in machines:
        let_time_pass(machine, 285)

    def check() -> str:
        out = StringIO()
        call_command("ledger_check", stdout=out)
        return out.getvalue()

    answers = at_once([check, metering.buy_due, check, metering.buy_due, check])
    assert all(answer.splitlines()[-1].split() == ["total", "0.000000"] for answer in answers[::2])


def test_many_ticks_at_once_buy_each_window_once() -> None:
    machines = [a_running_machine()[1] for _n in range(6)]
    for machine in machines:
        let_time_pass(machine, 285)
    bought = at_once([metering.buy_due] * 5)
    assert sum(bought) + metering.buy_due() == len(machines)
    assert {m.windows_bought for m in Machine.objects.filter(pk__in=[m.pk for m in machines])} == {2}
    assert in_order() == []


def test_a_machine_that_somebody_holds_is_skipped_and_not_waited_for() -> None:
    _deployment, busy = a_running_machine()
    _deployment, idle = a_running_machine()
    for machine in (busy, idle):
        let_time_pass(machine, 285)
    held, done = threading.Event(), threading.Event()

    def hold_the_row() -> None:
        with transaction.atomic():
            purchases.lock(busy.pk)
            held.set()
            assert done.wait(30)
        connection.close()

    thread = threading.Thread(target=hold_the_row)
    thread.start()
    assert held.wait(30)
    try:
        assert metering.buy_due() == 1
    finally:
        done.set()
        thread.join()
    assert metering.buy_due() == 1


def test_a_tick_killed_half_way_leaves_nothing_and_the_next_buys(monkeypatch: pytest.MonkeyPatch) -> None:
    deployment, machine = a_running_machine()
    let_time_pass(machine, 285)
    before = list(Entry.objects.values_list("pk", flat=True)), services.balance(deployment.workspace_id)

    def killed(_machines: list[Machine]) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")

    with monkeypatch.context() as patch:
        patch.setattr(purchases, "_update", killed)
        at_once([lambda: _swallow(metering.buy_due)])
    assert (list(Entry.objects.values_list("pk", flat=True)), services.balance(deployment.workspace_id)) == before
    assert metering.buy_due() == 1
    assert in_order() == []


def test_money_that_arrives_while_a_hold_waits_is_counted() -> None:
    """The purse reads what is there after it got the lock, not when it began to wait."""
    workspace = a_workspace(paid="0.10")
    deployment = a_deployment(workspace)
    with transaction.atomic():
        services.credit(owner=workspace.pk, amount=Decimal(1), kind="granted", entry_id="late", reason="", author=None)
        thread = ThreadPoolExecutor(1)
        answer = thread.submit(lambda: at_once([lambda: metering.hold_for_start(deployment)])[0])
        _until_somebody_waits()
    assert isinstance(answer.result(30), Entry)
    assert services.balance(workspace.pk).available == Decimal("0.74")


def _swallow(call: Callable[[], Any]) -> None:
    with pytest.raises(Error):
        call()


def _until_somebody_waits() -> None:
    deadline = datetime.now(tz=clock.now().tzinfo) + timedelta(seconds=30)
    while datetime.now(tz=deadline.tzinfo) < deadline:
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted")
            if cursor.fetchone()[0]:
                return
    raise AssertionError("nobody waits for a lock")


def _entries_of(deployment: Deployment) -> list[str]:
    return list(Entry.objects.filter(ref_id=str(deployment.pk)).values_list("pk", flat=True))
