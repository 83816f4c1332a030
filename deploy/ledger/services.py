"""What moves money: credit, hold, release, charge, give back. Each is one entry, in the caller's transaction.

Three rules, and who keeps each:

- *Money only moves.* A transfer debits one account and credits another, so an entry sums to zero by construction.
- *Balances are what the transfers say.* The statement that inserts transfers also moves the stored balances: an AFTER
  INSERT trigger with a transition table adds each account's net change, once a statement (migration 0003). The other
  way, an UPDATE by these services and a deferred check that balance equals sum, was not taken: the check reads every
  transfer an account ever had, and a transfer inserted by any other hand would fail the next innocent commit instead
  of being right. The trigger cannot be forgotten, and a second one refuses every write to `balance` but its own.
- *Never below zero.* A CHECK on the stored balance. Services lock an owner's accounts first (deploy.ledger.purse), so
  that the CHECK is a net, and the customer hears a sentence instead.

The id of an entry is its idempotency key: the same request again gets the first answer, another request with the same
id is an IdempotencyConflict. System accounts are never locked and store no balance: nothing waits for them.

Where money comes from and goes to (debit -> credit):

    credit, paid        receivable          -> paid              money received outside a processor
    credit, granted     writeoff            -> granted           given, so a cost of the shop
    hold                granted, paid       -> held              one held account for each source
    release             held                -> its source
    charge              held, granted, paid -> revenue           revenue/granted or revenue/paid, by the source
    give back, unused   revenue             -> source            latest taken, first returned
    give back, fault    refunds             -> source            refunds/granted or refunds/paid
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from uuid import UUID

from django.db import transaction
from django.db.models import OuterRef, Q, QuerySet, Subquery, Sum
from django.db.models.functions import Coalesce

from arrakis.accounts.models import User, Workspace
from arrakis.audit.services import record
from arrakis.clock import ClockTimestamp
from deploy.ledger.amounts import ZERO, money
from deploy.ledger.models import SYSTEM, Account, Code, Entry, Kind, Transfer
from deploy.ledger.posting import Draft, IdempotencyConflict, Move, answered, post, post_all, system_accounts
from deploy.ledger.purse import Piece, Purse, open_purse, open_purses, read_purses, source_of

__all__ = [
    "Balance",
    "Charge",
    "IdempotencyConflict",
    "Purse",
    "balance",
    "charge",
    "credit",
    "entries",
    "give_back",
    "hold",
    "net_taken",
    "open_purses",
    "post_charges",
    "read_purses",
    "release",
    "summed",
]

_CREDITED_FROM = {Kind.PAID: Kind.RECEIVABLE, Kind.GRANTED: Kind.WRITEOFF}


@dataclass(frozen=True, slots=True)
class Balance:
    """US dollars of one owner: `available` is `granted` (not expired) plus `paid`; `held` is set aside by holds."""

    available: Decimal
    held: Decimal
    granted: Decimal
    paid: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """An amount to be taken from an owner, from the hold `hold_ref` first, and what it is for."""

    entry_id: str
    owner: str
    amount: Decimal
    code: Code
    ref_type: str
    ref_id: str
    hold_ref: str = ""

    def draft(self) -> Draft:
        facts = {"amount": str(money(self.amount)), "hold": self.hold_ref}
        return Draft(
            entry_id=self.entry_id,
            owner=self.owner,
            code=self.code,
            facts=facts,
            ref_type=self.ref_type,
            ref_id=self.ref_id,
        )


@transaction.atomic
def credit(
    *,
    owner: UUID | str,
    amount: Decimal,
    kind: str,
    entry_id: str,
    reason: str,
    author: User | None,
    grant_ref: str | None = None,
    expires_at: datetime | None = None,
    priority: int = 100,
) -> Entry:
    """Give an owner money. A grant without `grant_ref` is a grant of its own, named by the entry.

    Raises:
        InvalidAmount, IdempotencyConflict
    """
    if (target_kind := Kind(kind)) not in _CREDITED_FROM:
        raise ValueError("only paid and granted credit can be given")
    source, amount = _CREDITED_FROM[target_kind], money(amount)
    facts = {
        "amount": str(amount),
        "kind": target_kind.value,
        "grant": grant_ref or "",
        "expires": expires_at.isoformat() if expires_at else "",
        "priority": str(priority),
    }
    draft = Draft(entry_id=entry_id, owner=str(owner), code=Code.CREDIT, facts=facts, reason=reason, author=author)
    purse = open_purse(draft.owner)
    if before := answered(draft):
        return before
    target = purse.paid if target_kind == Kind.PAID else _grant(purse, grant_ref or entry_id, expires_at, priority)
    entry = post(draft, [Move(system_accounts((source, None))[source, None], target.pk, amount)])
    if author is not None:
        after = {"owner": draft.owner, **facts, "reason": reason}
        workspace = Workspace.objects.filter(pk=owner).first()
        record(actor=author, action="ledger.credit", obj=entry, after=after, workspace=workspace)
    return entry


@transaction.atomic
def hold(*, owner: UUID | str, amount: Decimal, entry_id: str, ref_type: str, ref_id: str) -> Entry:
    """Set `amount` aside. What it was taken from is remembered: one held account for each source.

    Raises:
        InsufficientBalance: what is available does not cover it.
        InvalidAmount, IdempotencyConflict
    """
    amount = money(amount)
    draft = Draft(
        entry_id=entry_id,
        owner=str(owner),
        code=Code.HOLD,
        facts={"amount": str(amount)},
        ref_type=ref_type,
        ref_id=ref_id,
    )
    purse = open_purse(draft.owner)
    if before := answered(draft):
        return before
    pieces = purse.take(amount)
    held = [
        Account(owner=draft.owner, kind=Kind.HELD, grant_ref=entry_id, source=p.account, balance=ZERO) for p in pieces
    ]
    Account.objects.bulk_create(held)
    return post(draft, [Move(p.account.pk, h.pk, p.amount) for p, h in zip(pieces, held, strict=True)])


@transaction.atomic
def release(*, owner: UUID | str, entry_id: str, hold_ref: str, ref_type: str = "", ref_id: str = "") -> Entry | None:
    """Return what is left of a hold to where it came from; None where nothing was left."""
    draft = Draft(
        entry_id=entry_id,
        owner=str(owner),
        code=Code.RELEASE,
        facts={"hold": hold_ref},
        ref_type=ref_type,
        ref_id=ref_id,
    )
    purse = open_purse(draft.owner)
    if before := answered(draft):
        return before
    moves = [Move(held.pk, source_of(held).pk, held.money) for held in purse.held(hold_ref)]
    return post(draft, moves) if moves else None


@transaction.atomic
def charge(wanted: Charge) -> Entry:
    """Take one amount as revenue.

    Raises:
        InsufficientBalance, InvalidAmount, IdempotencyConflict
    """
    purse = open_purse(wanted.owner)
    draft = wanted.draft()
    if before := answered(draft):
        return before
    pieces = purse.take(money(wanted.amount), hold_ref=wanted.hold_ref)
    return post_charges([(wanted, pieces)])[wanted.entry_id]


def post_charges(taken: Sequence[tuple[Charge, list[Piece]]]) -> dict[str, Entry]:
    """Write what was already taken from locked purses, many entries in a few statements, whatever their number."""
    streams: tuple[tuple[Kind, str | None], ...] = ((Kind.REVENUE, Kind.GRANTED), (Kind.REVENUE, Kind.PAID))
    revenue = system_accounts(*streams)
    return post_all(
        [
            (
                charge.draft(),
                [
                    Move(piece.account.pk, revenue[Kind.REVENUE, source_of(piece.account).kind], piece.amount)
                    for piece in pieces
                ],
            )
            for charge, pieces in taken
        ]
    )


@transaction.atomic
def give_back(
    *,
    owner: UUID | str,
    entry_id: str,
    of: Sequence[str],
    amount: Decimal | None,
    code: Code,
    ref_type: str,
    ref_id: str,
    reason: str = "",
) -> Entry | None:
    """Return `amount`, or all, of what the entries `of` took, to the very accounts: latest taken, first returned.

    Unused time (`SETTLE`) comes out of revenue, which it never was; anything else out of refunds, which it costs.

    Raises:
        ValueError: the entries took less than `amount`.
    """
    draft = Draft(
        entry_id=entry_id,
        owner=str(owner),
        code=code,
        facts={"amount": "all" if amount is None else str(money(amount))},
        ref_type=ref_type,
        ref_id=ref_id,
        reason=reason,
    )
    open_purse(draft.owner)
    if before := answered(draft):
        return before
    pieces = _latest_first(_taken_by_source(of), amount)
    if not pieces:
        return None
    outlet = Kind.REVENUE if code == Code.SETTLE else Kind.REFUNDS
    streams = system_accounts((outlet, Kind.GRANTED), (outlet, Kind.PAID))
    return post(draft, [Move(streams[outlet, p.account.kind], p.account.pk, p.amount) for p in pieces])


def balance(owner: UUID | str) -> Balance:
    """What an owner has, by the database's clock."""
    live = Q(expires_at__isnull=True) | Q(expires_at__gt=ClockTimestamp())
    sums = Account.objects.filter(owner=str(owner), balance__gt=0).aggregate(
        **{kind: Coalesce(Sum("balance", filter=Q(kind=kind) & live), ZERO) for kind in ("held", "granted", "paid")}
    )
    return Balance(available=sums["granted"] + sums["paid"], **sums)


def entries(owner: UUID | str) -> QuerySet[Entry]:
    """An owner's entries, newest first; `amount` is what each added to (or took from) what is available."""
    rows = Entry.objects.filter(owner=str(owner)).annotate(amount=_moved("credit") - _moved("debit"))
    return rows.order_by("-event_at", "-id")


def summed(account: Account) -> Decimal:
    """What an account's transfers come to: of a system account, its balance."""
    mine = Transfer.objects.filter(Q(credit=account) | Q(debit=account))
    into = Coalesce(Sum("amount", filter=Q(credit=account)), ZERO)
    out = Coalesce(Sum("amount", filter=Q(debit=account)), ZERO)
    total: Decimal = mine.aggregate(total=into - out)["total"]
    return total


def net_taken(entry_ids: Sequence[str]) -> Decimal:
    """What entries took from customers as revenue or gave back, taken minus given."""
    rows = Transfer.objects.filter(entry_id__in=entry_ids)
    taken = Coalesce(Sum("amount", filter=Q(credit__owner=SYSTEM)), ZERO)
    given = Coalesce(Sum("amount", filter=Q(debit__owner=SYSTEM)), ZERO)
    net: Decimal = rows.aggregate(net=taken - given)["net"]
    return net


def _moved(side: str) -> Coalesce:
    """What an entry moved on this side of free customer accounts: a subquery a row, so that a page costs a page."""
    free = {f"{side}__kind__in": (Kind.PAID, Kind.GRANTED)}
    rows = Transfer.objects.filter(entry=OuterRef("pk"), **free).order_by().values("entry")
    return Coalesce(Subquery(rows.annotate(total=Sum("amount")).values("total")), ZERO)


def _grant(purse: Purse, grant_ref: str, expires_at: datetime | None, priority: int) -> Account:
    account, _made = Account.objects.get_or_create(
        owner=purse.owner,
        kind=Kind.GRANTED,
        grant_ref=grant_ref,
        source=None,
        defaults={"balance": ZERO, "expires_at": expires_at, "priority": priority},
    )
    return account


def _taken_by_source(entry_ids: Sequence[str]) -> dict[int, Piece]:
    """What the entries took, net of what was given back, by the account it came from, latest first."""
    rows = Transfer.objects.filter(entry_id__in=entry_ids).select_related("debit__source", "credit").order_by("-pk")
    net: dict[int, Piece] = {}
    for row in rows:
        taken = row.credit.owner == SYSTEM
        account = source_of(row.debit if taken else row.credit)
        before = net[account.pk].amount if account.pk in net else ZERO
        net[account.pk] = Piece(account, before + (row.amount if taken else -row.amount))
    return net


def _latest_first(taken: dict[int, Piece], amount: Decimal | None) -> list[Piece]:
    if amount is None:
        return [piece for piece in taken.values() if piece.amount > 0]
    pieces, missing = [], amount
    for piece in taken.values():
        part = min(piece.amount, missing)
        if part > 0:
            pieces.append(Piece(piece.account, part))
            missing -= part
    if missing > 0:
        raise ValueError("more to give back than was taken")
    return pieces
