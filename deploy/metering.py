"""Charging machines by the second: time is bought ahead in windows, what was not used returns (DESIGN 5.2).

A machine's bought time is [charged_from, charged_until): its windows, one after the other without a gap. Who begins,
buys or ends holds the machine's row; money is taken under the locks of deploy.ledger.purse. The order, everywhere:
deployment, replica, machines by id, accounts by id. All of it happens in the caller's transaction, and doing it again
changes nothing.

- `hold_for_start` sets the price of HOLD_MINUTES aside; windows are paid from that hold first, then from the balance.
- `begin` buys the first window, `buy_due` the next ones, shortly before the last one ends. Where not even 60 seconds
  can be paid, nothing is bought and deploy.limits names the deployment, so that it stops before the balance is empty.
- A tick that comes late charges the time it missed only as far as the machine was seen up (ReplicaStatus.seen_at).
- `end` cuts at the moment the customer asked to stop and returns the rest, exactly; time that was not bought is never
  charged. `refund` returns everything, because the fault was not the customer's.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import ROUND_DOWN, Decimal
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import F, Sum
from django.db.models.functions import Greatest, Least

from arrakis import clock
from arrakis.accounts.models import Workspace
from arrakis.clock import ClockTimestamp
from arrakis.errors import Fault, InsufficientBalance
from deploy import purchases, windows
from deploy.ledger import services as ledger
from deploy.ledger.amounts import ZERO
from deploy.ledger.models import Code, Entry
from deploy.models import Deployment, Machine, Window
from deploy.states import ENDED, State

BACKDATED_SECONDS = 60
"""The furthest that charging may begin in the past: what a busy worker needs, no more."""


def hold_amount(price_per_hour: Decimal) -> Decimal:
    """US dollars set aside when a deployment at this price is asked for."""
    return windows.due(price_per_hour, settings.HOLD_MINUTES * 60)


def hold_for_start(deployment: Deployment) -> Entry:
    """Hold the price of HOLD_MINUTES; in the transaction that makes the deployment.

    Raises:
        InsufficientBalance: no start without it.
    """
    return ledger.hold(
        owner=deployment.workspace_id,
        amount=hold_amount(deployment.price_per_hour),
        entry_id=purchases.hold_ref(deployment.pk),
        ref_type="deployment",
        ref_id=str(deployment.pk),
    )


@transaction.atomic
def begin(machine: Machine, *, at: datetime | None = None) -> None:
    """Charge a machine from `at` (now by the database, at most a minute back): buys the first window.

    Nothing happens if it is charged already, was settled, or its deployment was asked to stop or is over.

    Raises:
        InsufficientBalance: neither the hold nor the balance pays for 60 seconds; nothing is changed.
    """
    row = purchases.lock(machine.pk)
    deployment = row.quote.deployment
    if row.charged_from is None and row.settled_at is None and not _is_over(deployment):
        now = clock.now()
        row.charged_from = max(min(at or now, now), now - timedelta(seconds=BACKDATED_SECONDS))
        row.charged_until = row.charged_from
        if not purchases.buy([row], now):
            needed = windows.due(row.price_per_hour, windows.SHORTEST_SECONDS)
            available = str(ledger.balance(row.workspace_id).available)
            raise InsufficientBalance("insufficient_balance", needed=str(needed), available=available)
    _copy(row, machine)


def buy_due() -> int:
    """Buy the next window of each machine whose time ends soon; the number bought. Each batch is one transaction."""
    bought, after = 0, None
    while True:
        with transaction.atomic():
            now = clock.now()
            due = purchases.due_machines(now, after=after, lock=True)
            after = purchases.cursor(due[-1]) if due else None
            bought += len(purchases.buy(due, now)) if due else 0
        if len(due) < purchases.BATCH:
            return bought


@transaction.atomic
def end(machine: Machine, *, used_until: datetime, fault: Fault | None = None, reason_code: str = "") -> None:
    """Settle a machine: unused seconds return; where its deployment is over, the rest of the hold too.

    Charged until `used_until`, or when the stop was asked for if that is earlier, or where bought time ends. With the
    fault of `provider` or `platform`, everything charged for this machine returns, with `reason_code`.
    """
    row = purchases.lock(machine.pk)
    _settle(row, used_until)
    if fault in ("provider", "platform"):
        _refund(row, reason_code or fault)
    if _is_over(row.quote.deployment):
        release_hold(row.quote.deployment)
    _copy(row, machine)


@transaction.atomic
def refund(deployment: Deployment, *, reason_code: str) -> Decimal:
    """Return everything charged for a deployment, because the fault was the provider's or ours; US dollars returned.

    Machines still charged are settled first, so that nothing more is bought for them.
    """
    now, returned = clock.now(), ZERO
    for row in purchases.lock_all(deployment):
        _settle(row, now)
        returned += _refund(row, reason_code)
    fresh = Deployment.objects.get(pk=deployment.pk)
    if _is_over(fresh):
        release_hold(fresh)
    return returned


@transaction.atomic
def close(deployment: Deployment) -> None:
    """Settle every machine of a deployment that is over and release its hold, charged or never begun."""
    fresh = Deployment.objects.get(pk=deployment.pk)
    until = fresh.stop_requested_at or fresh.ended_at or clock.now()
    for row in purchases.lock_all(fresh):
        _settle(row, until)
    release_hold(fresh)


def release_hold(deployment: Deployment) -> None:
    """Return what is left of the hold to where it came from."""
    ledger.release(
        owner=deployment.workspace_id,
        entry_id=f"release:{deployment.pk}",
        hold_ref=purchases.hold_ref(deployment.pk),
        ref_type="deployment",
        ref_id=str(deployment.pk),
    )


def cost_so_far(deployment: Deployment) -> Decimal:
    """US dollars used up to this instant; after the end, exactly what the ledger took less what it gave back."""
    return costs_so_far([deployment])[deployment.pk]


def costs_so_far(deployments: Iterable[Deployment]) -> dict[UUID, Decimal]:
    """`cost_so_far` of many, in one query at one instant."""
    of_quote = {deployment.quote_id: deployment.pk for deployment in deployments}
    costs = dict.fromkeys(of_quote.values(), ZERO)
    for machine in _charged(quote_id__in=of_quote):
        costs[of_quote[machine.quote_id]] += _used(machine)
    return costs


def unused(workspace: Workspace) -> Decimal:
    """US dollars of time that is bought and not used yet: with it a balance falls by the second, not by the window."""
    rest = ZERO
    for machine in _charged(workspace=workspace, settled_at__isnull=True):
        rest += purchases.charged(machine) - _used(machine)
    return rest


@dataclass(frozen=True, slots=True)
class Funds:
    """US dollars of a workspace. `balance` is what it still has: what is free to spend (`available`, granted or paid),
    set aside (`held`), or bought ahead and not used yet (`bought`). It falls by the second."""

    available: Decimal
    held: Decimal
    bought: Decimal
    granted: Decimal
    paid: Decimal

    @property
    def balance(self) -> Decimal:
        return self.available + self.set_aside

    @property
    def set_aside(self) -> Decimal:
        return self.held + self.bought


def funds(workspace: Workspace) -> Funds:
    kept = ledger.balance(workspace.pk)
    return Funds(kept.available, kept.held, unused(workspace), kept.granted, kept.paid)


def running_rate(workspace: Workspace) -> Decimal:
    """US dollars per hour of what is being charged now."""
    running = Machine.objects.filter(workspace=workspace, charged_from__isnull=False, settled_at__isnull=True)
    rate: Decimal | None = running.aggregate(rate=Sum("price_per_hour"))["rate"]
    return rate or ZERO


def hours_left(workspace: Workspace, price_per_hour: Decimal) -> Decimal:
    """Hours (one place, rounded down) that the balance lasts if this price is paid beside what already runs.

    Pass 0 for what runs now alone; `Infinity` where nothing would be paid.
    """
    rate = price_per_hour + running_rate(workspace)
    if rate <= 0:
        return Decimal("Infinity")
    return (ledger.balance(workspace.pk).available / rate).quantize(Decimal("0.1"), rounding=ROUND_DOWN)


def _charged(**which: object) -> Iterable[Machine]:
    """Charged machines with their deployment and the instant they were read at, as `read_at`."""
    rows = Machine.objects.filter(charged_from__isnull=False, **which)
    return rows.select_related("quote__deployment").annotate(read_at=ClockTimestamp())


def _used(machine: Machine) -> Decimal:
    if machine.refunded_at is not None or machine.charged_from is None or machine.charged_until is None:
        return ZERO
    until = machine.charged_until
    if machine.settled_at is None:
        asked = machine.quote.deployment.stop_requested_at
        until = min(until, machine.read_at, asked or until)  # type: ignore[attr-defined]  # annotated by _charged
    return windows.due(machine.price_per_hour, windows.seconds_between(machine.charged_from, until))


def _settle(row: Machine, used_until: datetime) -> None:
    """Cut a locked machine's bought time at `used_until` and return the rest; a settled one stays as it is."""
    if row.settled_at is not None:
        return
    row.settled_at = clock.now()
    if row.charged_from is not None and row.charged_until is not None:
        asked = row.quote.deployment.stop_requested_at
        wanted = min(used_until, row.charged_until, asked or used_until)
        cut = row.charged_from + timedelta(seconds=windows.seconds_between(row.charged_from, wanted))
        _return_unused(row, cut)
        row.charged_until = cut
    row.save(update_fields=["settled_at", "charged_until"])


def _return_unused(row: Machine, cut: datetime) -> None:
    mine = Window.objects.filter(machine=row)
    amount = purchases.charged(row) - purchases.charged(row, until=cut)
    if amount > 0:
        entry = ledger.give_back(
            owner=row.workspace_id,
            entry_id=f"settle:{row.pk}",
            of=list(mine.filter(ends_at__gt=cut).values_list("bought_entry_id", flat=True)),
            amount=amount,
            code=Code.SETTLE,
            ref_type="deployment",
            ref_id=str(row.quote.deployment.pk),
        )
        mine.filter(ends_at__gt=cut).update(settled_entry=entry)
    mine.update(used_until=Greatest(F("starts_at"), Least(F("ends_at"), cut)))


def _refund(row: Machine, reason_code: str) -> Decimal:
    """Give back what a locked, settled machine was charged in all; US dollars."""
    if row.refunded_at is not None or row.charged_from is None:
        return ZERO
    amount = purchases.charged(row)
    rows = Window.objects.filter(machine=row).values_list("bought_entry_id", "settled_entry_id")
    ledger.give_back(
        owner=row.workspace_id,
        entry_id=f"refund:{row.pk}",
        of=sorted({entry for pair in rows for entry in pair if entry is not None}),
        amount=None,
        code=Code.REFUND,
        ref_type="deployment",
        ref_id=str(row.quote.deployment.pk),
        reason=reason_code,
    )
    row.refunded_at = clock.now()
    row.save(update_fields=["refunded_at"])
    return amount


def _is_over(deployment: Deployment) -> bool:
    asked = deployment.desired == Deployment.Desired.STOPPED or deployment.stop_requested_at is not None
    return asked or deployment.state in (State.STOPPING, *ENDED)


def _copy(row: Machine, machine: Machine) -> None:
    """Let the caller's instance say what the row says."""
    for name in ("charged_from", "charged_until", "windows_bought", "settled_at", "refunded_at"):
        setattr(machine, name, getattr(row, name))
