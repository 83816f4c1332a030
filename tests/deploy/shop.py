"""Customers, deployments and machines for tests of money: plain rows, nothing started."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from arrakis import clock
from arrakis.accounts.models import User, Workspace
from arrakis.ids import new_id
from catalog.models import Provider
from deploy import metering, metering_checks
from deploy.ledger import checks
from deploy.ledger import services as ledger
from deploy.ledger.models import Entry
from deploy.models import Attempt, Deployment, Machine, Quote, Replica, ReplicaStatus, Window
from deploy.states import MachineState, State

if TYPE_CHECKING:
    from tests.deploy.conftest import DatabaseClock

PRICE = Decimal("0.36")
"""Per hour: one hundredth of a cent a second."""


def a_user(*, is_staff: bool = False) -> User:
    return User.objects.create(email=f"{new_id()}@example.com", is_staff=is_staff, is_superuser=is_staff)


def a_workspace(*, paid: str = "0", granted: str = "0") -> Workspace:
    workspace = Workspace.objects.create(name="Lab", slug=f"lab-{new_id().hex}")
    for kind, amount in (("granted", granted), ("paid", paid)):
        if Decimal(amount):
            ledger.credit(
                owner=workspace.pk,
                amount=Decimal(amount),
                kind=kind,
                entry_id=f"credit:{new_id()}",
                reason="for the test",
                author=None,
            )
    return workspace


def a_deployment(workspace: Workspace, *, price: Decimal = PRICE, **fields: Any) -> Deployment:
    user, now = a_user(), clock.now()
    quote = Quote.objects.create(
        workspace=workspace,
        user=user,
        offer_facts={},
        repo_id="o/m",
        engine="llamacpp",
        price_per_hour=price,
        max_cost_per_hour=price,
        hold=price,
        estimated_ready_seconds=60,
        expires_at=now,
    )
    values = {"state": State.RUNNING, "price_per_hour": price, "price_until": now, **fields}
    return Deployment.objects.create(
        workspace=workspace,
        quote=quote,
        name="m",
        repo_id="o/m",
        engine="llamacpp",
        served_name="o/m",
        created_by=user,
        **values,
    )


def a_machine(deployment: Deployment, *, seen_at: datetime | None = None) -> Machine:
    provider, _made = Provider.objects.get_or_create(key="test-shop", defaults={"name": "Test shop"})
    machine = Machine.objects.create(
        workspace_id=deployment.workspace_id,
        quote_id=deployment.quote_id,
        provider=provider,
        label=f"arrakis-test-{new_id()}",
        state=MachineState.READY,
        price_per_hour=deployment.price_per_hour,
    )
    n = deployment.replica_set.count() + 1
    replica = Replica.objects.create(deployment=deployment, generation=n, state=State.RUNNING)
    Attempt.objects.create(replica=replica, n=1, machine=machine, outcome=Attempt.Outcome.OK)
    ReplicaStatus.objects.create(replica=replica, seen_at=seen_at)
    return machine


def seen(machine: Machine, at: datetime) -> None:
    """The machine said something at this moment."""
    ReplicaStatus.objects.filter(replica__attempts__machine=machine).update(seen_at=at)


def ask_to_stop(deployment: Deployment, at: datetime) -> None:
    deployment.desired, deployment.stop_requested_at = Deployment.Desired.STOPPED, at
    deployment.state = State.STOPPING
    deployment.save(update_fields=["desired", "stop_requested_at", "state"])


def lengths(machine: Machine) -> list[int]:
    """Seconds of each window, in order."""
    windows = Window.objects.filter(machine=machine).order_by("n")
    return [int((window.ends_at - window.starts_at).total_seconds()) for window in windows]


def ledger_net(deployment: Deployment) -> Decimal:
    """What the ledger took for a deployment as revenue, less what it gave back, read from its entries."""
    return ledger.net_taken(list(Entry.objects.filter(ref_id=str(deployment.pk)).values_list("pk", flat=True)))


def in_order() -> list[str]:
    return checks.check() + metering_checks.check()


def run(machine: Machine, clock: DatabaseClock, seconds: int, *, every: int = 10) -> None:
    """Let time pass with a tick every few seconds."""
    end = clock.moment + timedelta(seconds=seconds)
    while clock.moment < end:
        clock.set(min(clock.moment + timedelta(seconds=every), end))
        metering.buy_due()
