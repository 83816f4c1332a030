"""Which machines get a next window, how long, and buying them all at once (the engine room of deploy.metering).

However many machines are due, a batch is a dozen statements: one reads and locks the machines, two lock the customers'
accounts, the plan is made in memory, and entries, transfers, windows and machines are each written by one. System
accounts are not locked. A machine that somebody else holds right now is skipped and found again by the next tick.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Literal
from uuid import UUID

from django.db import connection
from django.db.models import Q, QuerySet, Sum

from deploy import windows
from deploy.allowed import Limits
from deploy.ledger.amounts import ZERO
from deploy.ledger.models import Code
from deploy.ledger.purse import Piece, Purse
from deploy.ledger.services import Charge, open_purses, post_charges
from deploy.models import Deployment, Machine, Quote, ReplicaStatus, Window
from deploy.states import SERVING, STARTING, MachineState

BATCH = 2000
LEAD_SECONDS = 30
"""A next window is bought this long before the last one ends: several ticks."""
LATE_SECONDS = 60
"""A tick that comes this much after a window's end missed time, and asks for evidence before charging it;
a machine seen this recently is up now."""

Verdict = Literal["buy", "balance_empty", "limit_usd", "limit_stop_at", "unseen"]


@dataclass(frozen=True, slots=True)
class Plan:
    machine: Machine
    verdict: Verdict
    seconds: int = 0
    amount: Decimal = ZERO
    pieces: tuple[Piece, ...] = ()

    @property
    def until(self) -> datetime:
        return _until(self.machine) + timedelta(seconds=self.seconds)


def hold_ref(deployment_id: UUID) -> str:
    """Id of the entry that holds the price of a deployment's start."""
    return f"hold:{deployment_id}"


def lock(machine_id: UUID) -> Machine:
    """The machine's row as it is now, held until the transaction ends, with its deployment.

    Two statements: one that joins would show the deployment as it was before this transaction waited for the machine.
    """
    machine = Machine.objects.select_for_update(no_key=True).get(pk=machine_id)
    machine.quote = Quote.objects.select_related("deployment").get(pk=machine.quote_id)
    return machine


def lock_all(deployment: Deployment) -> list[Machine]:
    """Every machine a deployment has had, held in id order before any of their money is touched."""
    machines = list(Machine.objects.select_for_update(no_key=True).filter(quote_id=deployment.quote_id).order_by("pk"))
    quote = Quote.objects.select_related("deployment").get(pk=deployment.quote_id)
    for machine in machines:
        machine.quote = quote
    return machines


def charged(machine: Machine, *, until: datetime | None = None) -> Decimal:
    """US dollars due for a machine's bought time, or for that before `until`."""
    if machine.charged_from is None:
        return ZERO
    end = _until(machine) if until is None else until
    return windows.due(machine.price_per_hour, windows.seconds_between(machine.charged_from, end))


def due_machines(
    now: datetime, *, after: tuple[datetime, UUID] | None = None, lock: bool, lead: int = LEAD_SECONDS
) -> list[Machine]:
    """Machines whose bought time ends within `lead` seconds and that are wanted further, soonest first, one batch."""
    rows = Machine.objects.filter(
        charged_from__isnull=False,
        settled_at__isnull=True,
        charged_until__lte=now + timedelta(seconds=lead),
        state__in=(MachineState.CREATED, MachineState.READY),
        quote__deployment__desired=Deployment.Desired.RUNNING,
        quote__deployment__stop_requested_at__isnull=True,
        quote__deployment__state__in=(*STARTING, *SERVING),
    )
    if after is not None:
        until, pk = after
        rows = rows.filter(Q(charged_until__gt=until) | Q(charged_until=until, pk__gt=pk))
    if lock:
        rows = rows.select_for_update(no_key=True, of=("self",), skip_locked=True)
    return list(_slim(rows).order_by("charged_until", "pk")[:BATCH])


def buy(machines: list[Machine], now: datetime) -> list[Plan]:
    """Buy the next window of each locked machine that can pay for one; what was bought."""
    purses = open_purses(str(machine.workspace_id) for machine in machines)
    bought = [plan for plan in plans(machines, purses, now) if plan.verdict == "buy"]
    if bought:
        _write(bought)
    return bought


def plans(machines: list[Machine], purses: dict[str, Purse], now: datetime) -> list[Plan]:
    """What would be bought for each machine, in their order; takes from the purses as it goes."""
    rates = _rates(machines)
    spent = _spent_elsewhere(machines)
    seen = _seen(machines, now)
    made = []
    for machine in machines:
        owner = str(machine.workspace_id)
        evidence = _evidence_seconds(machine, seen.get(machine.pk), now)
        share = machine.price_per_hour / rates[owner]
        purse = purses.get(owner)
        made.append(
            Plan(machine, "balance_empty")
            if purse is None
            else _plan(machine, purse, share, evidence, spent.get(machine.quote_id, ZERO))
        )
    return made


def cursor(machine: Machine) -> tuple[datetime, UUID]:
    """Where `due_machines` goes on after this machine."""
    return _until(machine), machine.pk


def _plan(machine: Machine, purse: Purse, share: Decimal, evidence: int, spent: Decimal) -> Plan:
    price, hold = machine.price_per_hour, hold_ref(machine.quote.deployment.pk)
    limits = Limits.of(machine.quote.deployment)
    held, free = purse.held_rest(hold), purse.available()
    allowed = limits.seconds_left(price, spent + charged(machine))
    if evidence < windows.SHORTEST_SECONDS:
        return Plan(machine, "unseen")
    if allowed is not None and allowed < windows.SHORTEST_SECONDS:
        return Plan(machine, "limit_usd")
    if limits.stop_at is not None and limits.stop_at <= _until(machine):
        return Plan(machine, "limit_stop_at")
    seconds = windows.next_seconds(
        affordable=windows.affordable_seconds(price, held + free),
        fair=windows.affordable_seconds(price, held + free * share),
        age=windows.seconds_between(_since(machine), _until(machine)),
        bound=min(evidence, limits.seconds_to_stop(_until(machine)), allowed or windows.LONGEST_SECONDS),
    )
    if seconds == 0:
        return Plan(machine, "balance_empty")
    end = _until(machine) + timedelta(seconds=seconds)
    amount = windows.between(price, since=_since(machine), start=_until(machine), end=end)
    return Plan(machine, "buy", seconds, amount, tuple(purse.take(amount, hold_ref=hold)))


def _evidence_seconds(machine: Machine, seen_at: datetime | None, now: datetime) -> int:
    """How far past its bought time a machine may be charged: without bound in time, else as far as it was seen."""
    until = _until(machine)
    if windows.seconds_between(until, now) <= LATE_SECONDS:
        return windows.LONGEST_SECONDS
    if seen_at is None:
        return 0
    if windows.seconds_between(seen_at, now) <= LATE_SECONDS:
        return windows.LONGEST_SECONDS
    return windows.seconds_between(until, seen_at)


def _write(bought: list[Plan]) -> None:
    numbered = [(plan, plan.machine.windows_bought + 1) for plan in bought]
    entries = post_charges([(_charge(plan, n), list(plan.pieces)) for plan, n in numbered])
    Window.objects.bulk_create(
        [
            Window(
                machine=plan.machine,
                n=n,
                starts_at=_until(plan.machine),
                ends_at=plan.until,
                price_per_hour=plan.machine.price_per_hour,
                bought_entry=entries[window_entry_id(plan.machine.pk, n)],
            )
            for plan, n in numbered
        ]
    )
    for plan, n in numbered:
        plan.machine.charged_until, plan.machine.windows_bought = plan.until, n
    _update([plan.machine for plan in bought])


def window_entry_id(machine_id: UUID, n: int) -> str:
    return f"window:{machine_id}:{n}"


def _charge(plan: Plan, n: int) -> Charge:
    deployment_id = plan.machine.quote.deployment.pk
    return Charge(
        entry_id=window_entry_id(plan.machine.pk, n),
        owner=str(plan.machine.workspace_id),
        amount=plan.amount,
        code=Code.WINDOW,
        ref_type="deployment",
        ref_id=str(deployment_id),
        hold_ref=hold_ref(deployment_id),
    )


def _update(machines: list[Machine]) -> None:
    """One UPDATE for any number: bulk_update would write a CASE with a branch a machine."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE deploy_machine SET charged_from = new.since, charged_until = new.until, windows_bought = new.n"
            " FROM unnest(%s::uuid[], %s::timestamptz[], %s::timestamptz[], %s::integer[]) AS new(id, since, until, n)"
            " WHERE deploy_machine.id = new.id",
            [
                [machine.pk for machine in machines],
                [machine.charged_from for machine in machines],
                [machine.charged_until for machine in machines],
                [machine.windows_bought for machine in machines],
            ],
        )


def _rates(machines: list[Machine]) -> dict[str, Decimal]:
    """US dollars per hour of all that each owner is charged for, the given machines included."""
    owners = {machine.workspace_id for machine in machines}
    others = Machine.objects.filter(workspace_id__in=owners, charged_from__isnull=False, settled_at__isnull=True)
    others = others.exclude(pk__in=[machine.pk for machine in machines])
    sums = others.order_by().values_list("workspace_id").annotate(rate=Sum("price_per_hour"))
    rates = {str(owner): rate for owner, rate in sums}
    for machine in machines:
        owner = str(machine.workspace_id)
        rates[owner] = rates.get(owner, ZERO) + machine.price_per_hour
    return rates


def _spent_elsewhere(machines: list[Machine]) -> dict[UUID, Decimal]:
    """By quote: what a deployment limited in US dollars was charged for its other machines."""
    limited = {machine.quote_id for machine in machines if "usd" in machine.quote.deployment.limits}
    if not limited:
        return {}
    others = Machine.objects.filter(quote_id__in=limited, charged_from__isnull=False, refunded_at__isnull=True)
    spent = dict.fromkeys(limited, ZERO)
    for other in others.exclude(pk__in=[machine.pk for machine in machines]):
        spent[other.quote_id] += charged(other)
    return spent


def _seen(machines: Iterable[Machine], now: datetime) -> dict[UUID, datetime | None]:
    """When machines that missed a tick were last seen up."""
    late = [machine.pk for machine in machines if windows.seconds_between(_until(machine), now) > LATE_SECONDS]
    if not late:
        return {}
    rows = ReplicaStatus.objects.filter(replica__attempts__machine_id__in=late)
    return dict(rows.values_list("replica__attempts__machine_id", "seen_at"))


def _slim(rows: QuerySet[Machine]) -> QuerySet[Machine]:
    """With the deployment and without the plans, keys and offers that nothing here reads."""
    deployment = "quote__deployment"
    return rows.select_related(deployment).only(
        "workspace_id",
        "price_per_hour",
        "charged_from",
        "charged_until",
        "windows_bought",
        "quote__id",
        f"{deployment}__quote_id",
        f"{deployment}__limits",
        f"{deployment}__state",
    )


def _since(machine: Machine) -> datetime:
    if machine.charged_from is None:
        raise ValueError("the machine is not charged")
    return machine.charged_from


def _until(machine: Machine) -> datetime:
    if machine.charged_until is None:
        raise ValueError("the machine is not charged")
    return machine.charged_until
