"""Any story of credits, starts, ticks, stops and faults: what must hold after each of its steps."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arrakis.errors import InsufficientBalance
from arrakis.ids import new_id
from deploy import limits, metering, metering_checks
from deploy.ledger import checks, services
from deploy.ledger.models import Account, Entry
from deploy.models import Deployment, Machine, Window
from deploy.states import State
from tests.deploy.conftest import DatabaseClock
from tests.deploy.shop import a_deployment, a_machine, a_workspace, ask_to_stop, seen

money = st.decimals(min_value="0.000001", max_value="3", places=6)
prices = st.decimals(min_value="0.01", max_value="9", places=6)
which = st.integers(0, 5)
steps = st.one_of(
    st.tuples(st.just("credit"), money, st.sampled_from(["paid", "granted"]), st.booleans()),
    st.tuples(st.just("start"), prices),
    st.tuples(st.just("pass_time"), st.integers(1, 900), st.booleans()),
    st.tuples(st.just("pass_time"), st.integers(1, 900), st.booleans()),
    st.tuples(st.just("stop"), which, st.booleans()),
    st.tuples(st.just("fail"), which, st.sampled_from(["provider", "platform", "customer"])),
    st.tuples(st.just("begin_again"), which),
)


class Story:
    """One customer with some deployments; each step is a method."""

    def __init__(self, clock: DatabaseClock) -> None:
        self.clock, self.workspace = clock, a_workspace()
        self.credited = Decimal(0)
        self.running: list[tuple[Deployment, Machine]] = []

    def credit(self, amount: Decimal, kind: str, expires: bool) -> None:
        until = self.clock.moment + timedelta(minutes=30) if expires and kind == "granted" else None
        services.credit(
            owner=self.workspace.pk,
            amount=amount,
            kind=kind,
            entry_id=f"credit:{new_id()}",
            reason="",
            author=None,
            expires_at=until,
        )
        self.credited += amount

    def start(self, price: Decimal) -> None:
        try:
            with transaction.atomic():
                deployment = a_deployment(self.workspace, price=price)
                metering.hold_for_start(deployment)
                machine = a_machine(deployment, seen_at=self.clock.moment)
        except InsufficientBalance:
            return
        metering.begin(machine)
        self.running.append((deployment, machine))

    def pass_time(self, seconds: int, ticking: bool) -> None:
        for _step in range(4):
            self.clock.forward(seconds / 4)
            if ticking:
                for _deployment, machine in self.running:
                    seen(machine, self.clock.moment)
                metering.buy_due()
                for deployment in limits.exhausted():
                    self._end(deployment, {})

    def stop(self, n: int, at_once: bool) -> None:
        for deployment, _machine in self.running[n : n + 1]:
            ask_to_stop(deployment, self.clock.moment)
            if not at_once:
                self.clock.forward(17)
                metering.buy_due()
            self._end(deployment, {})

    def fail(self, n: int, fault: Any) -> None:
        for deployment, _machine in self.running[n : n + 1]:
            deployment.state = State.FAILED
            deployment.save(update_fields=["state"])
            self._end(deployment, {"fault": fault, "reason_code": "test"})

    def begin_again(self, n: int) -> None:
        for _deployment, machine in self.running[n : n + 1]:
            metering.begin(machine)

    def _end(self, deployment: Deployment, how: dict[str, Any]) -> None:
        if deployment.desired == Deployment.Desired.RUNNING and deployment.state == State.RUNNING:
            ask_to_stop(deployment, self.clock.moment)
        for other, machine in self.running:
            if other == deployment:
                metering.end(machine, used_until=self.clock.moment, **how)
        self.running = [pair for pair in self.running if pair[0] != deployment]


def assert_in_order(story: Story) -> None:
    assert checks.check() + metering_checks.check() == []
    accounts = Account.objects.filter(owner=str(story.workspace.pk))
    taken = services.net_taken(list(Entry.objects.filter(ref_type="deployment").values_list("pk", flat=True)))
    assert sum(account.money for account in accounts) + taken == story.credited
    for machine in Machine.objects.filter(charged_from__isnull=False):
        assert machine.charged_from is not None and machine.charged_until is not None
        seconds = (machine.charged_until - machine.charged_from) // timedelta(seconds=1)
        ids = Window.objects.filter(machine=machine).values_list("bought_entry_id", flat=True)
        net = services.net_taken([*ids, f"settle:{machine.pk}"])
        assert abs(Fraction(net) - Fraction(machine.price_per_hour) * seconds / 3600) < Fraction(1, 1_000_000)
    of_deployments = Deployment.objects.all()
    for deployment, cost in metering.costs_so_far(of_deployments).items():
        net = services.net_taken(list(Entry.objects.filter(ref_id=str(deployment)).values_list("pk", flat=True)))
        ended = not Machine.objects.filter(quote__deployment=deployment, settled_at__isnull=True).exists()
        assert cost == net if ended else cost <= net


@pytest.mark.django_db
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.lists(steps, min_size=4, max_size=14))
def test_any_story_leaves_the_books_in_order(db_clock: DatabaseClock, story: list[tuple[Any, ...]]) -> None:
    moment = db_clock.moment
    point = transaction.savepoint()
    told = Story(db_clock)
    for amount in ("2", "1"):
        told.credit(Decimal(amount), "paid", False)
    for name, *how in story:
        step: Callable[..., None] = getattr(told, name)
        step(*how)
        assert_in_order(told)
    transaction.savepoint_rollback(point)
    db_clock.set(moment)
