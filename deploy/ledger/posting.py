"""Writing entries: the id is the idempotency key, the payload is part of the look-up."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from arrakis import clock
from arrakis.accounts.models import User
from arrakis.errors import Conflict
from deploy.ledger.amounts import money
from deploy.ledger.models import SYSTEM, Account, Code, Entry, Kind, Transfer


class IdempotencyConflict(Conflict):
    """The entry id was used before, for something else."""


@dataclass(frozen=True, slots=True)
class Move:
    """`amount` US dollars from the account `debit` to the account `credit` (their ids)."""

    debit: int
    credit: int
    amount: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """What is asked of the ledger; `facts` are what, beside the named fields, makes two requests the same."""

    entry_id: str
    owner: str
    code: Code
    facts: Mapping[str, str] = field(default_factory=dict)
    ref_type: str = ""
    ref_id: str = ""
    reason: str = ""
    author: User | None = None

    def digest(self) -> str:
        """SHA-256 over everything that was asked, in one fixed form."""
        author = str(self.author.pk) if self.author else ""
        asked = [self.owner, self.code.value, self.ref_type, self.ref_id, self.reason, author, dict(self.facts)]
        return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


def answered(draft: Draft) -> Entry | None:
    """The entry that answered the same request before; ask while the owner's accounts are locked.

    Raises:
        IdempotencyConflict: the id stands for another request.
    """
    return answered_of([draft]).get(draft.entry_id)


def answered_of(drafts: Iterable[Draft]) -> dict[str, Entry]:
    """`answered` for many, in one query."""
    digests = {draft.entry_id: draft.digest() for draft in drafts}
    entries = Entry.objects.in_bulk(list(digests))
    for entry_id, entry in entries.items():
        if entry.payload_sha256 != digests[entry_id]:
            raise IdempotencyConflict("idempotency_conflict", entry=entry_id)
    return entries


def post(draft: Draft, moves: Iterable[Move]) -> Entry:
    """Write one entry with its transfers."""
    return post_all([(draft, list(moves))])[draft.entry_id]


def post_all(drafts: list[tuple[Draft, list[Move]]]) -> dict[str, Entry]:
    """Write many entries with their transfers in two statements; the trigger on transfers moves the balances."""
    event_at = clock.now()
    entries = [
        Entry(
            id=draft.entry_id,
            payload_sha256=draft.digest(),
            owner=draft.owner,
            code=draft.code,
            ref_type=draft.ref_type,
            ref_id=draft.ref_id,
            reason=draft.reason,
            author=draft.author,
            event_at=event_at,
        )
        for draft, _moves in drafts
    ]
    transfers = [
        Transfer(entry_id=draft.entry_id, debit_id=move.debit, credit_id=move.credit, amount=money(move.amount))
        for draft, moves in drafts
        for move in moves
    ]
    Entry.objects.bulk_create(entries)
    Transfer.objects.bulk_create(transfers)
    return {entry.id: entry for entry in entries}


def system_accounts(*wanted: tuple[Kind, str | None]) -> dict[tuple[Kind, str | None], int]:
    """Ids of system accounts, made when first needed. They are never locked: only their transfers are summed."""
    found = _system_ids()
    if missing := [key for key in wanted if key not in found]:
        Account.objects.bulk_create(
            [Account(owner=SYSTEM, kind=kind, grant_ref=ref) for kind, ref in missing], ignore_conflicts=True
        )
        found = _system_ids()
    return {key: found[key] for key in wanted}


def _system_ids() -> dict[tuple[Kind, str | None], int]:
    rows = Account.objects.filter(owner=SYSTEM).values_list("kind", "grant_ref", "pk")
    return {(Kind(kind), ref): pk for kind, ref, pk in rows}
