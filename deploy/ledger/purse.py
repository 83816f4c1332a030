"""What an owner can spend, and in which order: one locked view of the owner's accounts.

Locking. The owner's paid account is the anchor: it is made before any other account of that owner, so it has the
lowest id, and it is locked first. A second statement, whose snapshot is younger than the lock, then reads and locks
the rest in id order; one statement would miss accounts that another transaction committed while this one waited.
Several owners are locked by the same two statements, anchors in id order. A transaction that moves money of several
owners must ask for all of them at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal

from arrakis import clock
from arrakis.errors import InsufficientBalance
from deploy.ledger.amounts import ZERO
from deploy.ledger.models import SYSTEM, Account, Kind

_NEVER = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Piece:
    """Part of an amount, and the account it is taken from."""

    account: Account
    amount: Decimal


@dataclass(slots=True)
class Purse:
    """An owner's accounts at one moment of the database's clock; `take` counts down what is left of them."""

    owner: str
    paid: Account
    now: datetime
    accounts: list[Account] = field(default_factory=list)

    def free(self) -> list[Account]:
        """What is not held, in the order it is spent: granted by priority and expiry, then paid."""
        usable = [a for a in self.accounts if a.kind != Kind.HELD and (a.expires_at or _NEVER) > self.now]
        return sorted(usable, key=_order)

    def held(self, hold_ref: str) -> list[Account]:
        """What is left of one hold, in the order of what it was taken from."""
        mine = [a for a in self.accounts if a.kind == Kind.HELD and a.grant_ref == hold_ref]
        return sorted(mine, key=lambda account: _order(source_of(account)))

    def available(self) -> Decimal:
        return sum((account.money for account in self.free()), ZERO)

    def held_rest(self, hold_ref: str) -> Decimal:
        return sum((account.money for account in self.held(hold_ref)), ZERO)

    def take(self, amount: Decimal, *, hold_ref: str = "") -> list[Piece]:
        """Pieces that make up `amount`: from the hold first, then from what is free.

        Raises:
            InsufficientBalance: they do not cover it; nothing is taken.
        """
        sources = [*(self.held(hold_ref) if hold_ref else []), *self.free()]
        pieces, missing = [], amount
        for account in sources:
            part = min(account.money, missing)
            if part > 0:
                pieces.append(Piece(account, part))
                missing -= part
        if missing > 0:
            raise InsufficientBalance("insufficient_balance", needed=str(amount), available=str(amount - missing))
        for piece in pieces:
            piece.account.balance = piece.account.money - piece.amount
        return pieces


def source_of(account: Account) -> Account:
    """The account that money in `account` belongs to in the end: of a held one, where it was taken from."""
    return account.source if account.source is not None else account


def open_purse(owner: str) -> Purse:
    """One owner's purse, locked until the transaction ends."""
    return open_purses([owner])[owner]


def open_purses(owners: Iterable[str]) -> dict[str, Purse]:
    """Purses of many owners, locked until the transaction ends, in two statements."""
    names = set(owners)
    anchors = _anchors(names)
    if missing := names - anchors.keys():
        if SYSTEM in missing:
            raise ValueError("the system has no purse")
        Account.objects.bulk_create(
            [Account(owner=owner, kind=Kind.PAID, balance=ZERO) for owner in sorted(missing)], ignore_conflicts=True
        )
        anchors = _anchors(names)
    locked = Account.objects.select_for_update(no_key=True, of=("self",))
    return _filled(anchors, locked.filter(owner__in=names, balance__gt=0))


def read_purses(owners: Iterable[str]) -> dict[str, Purse]:
    """The same without locks, to look at, not to spend from; owners without accounts are left out."""
    names = set(owners)
    paid = Account.objects.filter(owner__in=names, kind=Kind.PAID)
    return _filled({account.owner: account for account in paid}, Account.objects.filter(owner__in=names, balance__gt=0))


def _anchors(owners: set[str]) -> dict[str, Account]:
    rows = Account.objects.select_for_update(no_key=True).filter(owner__in=owners, kind=Kind.PAID).order_by("pk")
    return {account.owner: account for account in rows}


def _filled(anchors: dict[str, Account], accounts: Iterable[Account]) -> dict[str, Purse]:
    rows = list(accounts.select_related("source").order_by("pk"))  # type: ignore[attr-defined]
    moment = clock.now()
    purses = {owner: Purse(owner, paid, moment) for owner, paid in anchors.items()}
    for account in rows:
        purses[account.owner].accounts.append(account)
    return purses


def _order(account: Account) -> tuple[bool, int, datetime, int]:
    return account.kind != Kind.GRANTED, account.priority, account.expires_at or _NEVER, account.pk
