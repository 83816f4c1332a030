"""What must hold of accounts, entries and transfers, asked of the rows themselves rather than of the code."""

from __future__ import annotations

from decimal import Decimal

from django.db import connection

from deploy.ledger.amounts import ZERO

_TRIGGERS = {
    "ledger_entry_append_only",
    "ledger_entry_no_truncate",
    "ledger_entry_moves_money",
    "ledger_transfer_append_only",
    "ledger_transfer_no_truncate",
    "ledger_transfer_moves_balances",
    "ledger_account_guard",
}

_SUMMED = """
SELECT account.id, account.owner, account.kind, account.balance,
       COALESCE(moved_in.total, 0) - COALESCE(moved_out.total, 0) AS summed
FROM ledger_account account
LEFT JOIN (SELECT credit_id, SUM(amount) AS total FROM ledger_transfer GROUP BY 1) moved_in
    ON moved_in.credit_id = account.id
LEFT JOIN (SELECT debit_id, SUM(amount) AS total FROM ledger_transfer GROUP BY 1) moved_out
    ON moved_out.debit_id = account.id
"""


def sums() -> dict[str, Decimal]:
    """US dollars by kind of account: what customers' accounts store, what transfers say of the system's."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT kind, SUM(COALESCE(balance, summed)) FROM ({_SUMMED}) a GROUP BY kind ORDER BY kind"  # noqa: S608
        )
        return dict(cursor.fetchall())


def check() -> list[str]:
    """What is wrong, a line each; empty where all is well."""
    wrong = [*_unequal_balances(), *_empty_entries(), *_foreign_money(), *_missing_triggers()]
    if total := sum(sums().values(), ZERO):
        wrong.append(f"all accounts together come to {total}, not to zero")
    return wrong


def _unequal_balances() -> list[str]:
    rows = _rows(f"SELECT id, owner, kind, balance, summed FROM ({_SUMMED}) a WHERE balance <> summed ORDER BY id")  # noqa: S608
    return [
        f"account {pk} ({owner} {kind}) stores {stored}, its transfers say {summed}"
        for pk, owner, kind, stored, summed in rows
    ]


def _empty_entries() -> list[str]:
    rows = _rows(
        "SELECT id FROM ledger_entry entry"
        " WHERE NOT EXISTS (SELECT FROM ledger_transfer WHERE entry_id = entry.id) ORDER BY id"
    )
    return [f"entry {pk} has no transfers" for (pk,) in rows]


def _foreign_money() -> list[str]:
    rows = _rows(
        "SELECT DISTINCT entry.id FROM ledger_transfer moved"
        " JOIN ledger_entry entry ON entry.id = moved.entry_id"
        " JOIN ledger_account account ON account.id IN (moved.debit_id, moved.credit_id)"
        " WHERE account.owner NOT IN (entry.owner, 'system') ORDER BY 1"
    )
    return [f"entry {pk} moves money that is not its owner's" for (pk,) in rows]


def _missing_triggers() -> list[str]:
    """The rules are only as good as the triggers that keep them; a restored or altered database may lack some."""
    rows = _rows("SELECT tgname FROM pg_trigger WHERE NOT tgisinternal AND tgenabled = 'O'")
    return [f"trigger {name} is missing or disabled" for name in sorted(_TRIGGERS - {name for (name,) in rows})]


def _rows(query: str) -> list[tuple[object, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(query)
        return list(cursor.fetchall())
