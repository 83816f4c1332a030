"""Worked examples of the ledger's services, and what the database itself refuses."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import DatabaseError, IntegrityError, connection, transaction

from arrakis.audit.models import Record
from arrakis.errors import InsufficientBalance
from arrakis.ids import new_id
from deploy.ledger import checks, services
from deploy.ledger.amounts import InvalidAmount
from deploy.ledger.models import SYSTEM, Account, Code, Entry, Kind, Transfer
from deploy.ledger.posting import IdempotencyConflict
from tests.deploy.conftest import DatabaseClock
from tests.deploy.shop import a_user, a_workspace

pytestmark = pytest.mark.django_db


def usd(text: str) -> Decimal:
    return Decimal(text)


def credit(owner: str, amount: str, kind: str = "paid", **options: Any) -> Entry:
    values: dict[str, Any] = {"entry_id": f"credit:{new_id()}", "reason": "test", "author": None, **options}
    return services.credit(owner=owner, amount=usd(amount), kind=kind, **values)


def hold(owner: str, amount: str, entry_id: str) -> Entry:
    return services.hold(owner=owner, amount=usd(amount), entry_id=entry_id, ref_type="deployment", ref_id="d")


def charge(owner: str, amount: str, entry_id: str, hold_ref: str = "") -> Entry:
    return services.charge(
        services.Charge(
            entry_id=entry_id,
            owner=owner,
            amount=usd(amount),
            code=Code.WINDOW,
            ref_type="deployment",
            ref_id="d",
            hold_ref=hold_ref,
        )
    )


def give_back(owner: str, of: list[str], amount: str | None, entry_id: str, code: Code = Code.SETTLE) -> Entry | None:
    return services.give_back(
        owner=owner,
        entry_id=entry_id,
        of=of,
        amount=None if amount is None else usd(amount),
        code=code,
        ref_type="deployment",
        ref_id="d",
    )


def sum_of(kind: Kind, ref: str | None) -> Decimal:
    return services.summed(Account.objects.get(owner=SYSTEM, kind=kind, grant_ref=ref))


@pytest.fixture
def owner() -> str:
    return str(a_workspace().pk)


def test_a_hold_takes_granted_money_first_and_its_rest_returns_to_where_it_came_from(owner: str) -> None:
    credit(owner, "10")
    credit(owner, "2", "granted")
    hold(owner, "5", "hold:d")
    assert services.balance(owner) == services.Balance(
        available=usd("7"), held=usd("5"), granted=usd("0"), paid=usd("7")
    )
    charge(owner, "1.5", "window:1", "hold:d")
    services.release(owner=owner, entry_id="release:d", hold_ref="hold:d")
    assert services.balance(owner) == services.Balance(
        available=usd("10.5"), held=usd("0"), granted=usd("0.5"), paid=usd("10")
    )
    assert sum_of(Kind.REVENUE, "granted") == usd("1.5")
    assert checks.check() == []


def test_grants_are_spent_by_priority_then_expiry_then_age(owner: str, db_clock: DatabaseClock) -> None:
    soon, late = db_clock.moment + timedelta(days=1), db_clock.moment + timedelta(days=9)
    credit(owner, "1", "granted", grant_ref="forever")
    credit(owner, "1", "granted", grant_ref="late", expires_at=late)
    credit(owner, "1", "granted", grant_ref="soon", expires_at=soon)
    credit(owner, "1", "granted", grant_ref="first", priority=1)
    credit(owner, "1")
    entry = charge(owner, "4.5", "window:1")
    spent = [(t.debit.grant_ref, t.amount) for t in entry.transfers.order_by("pk")]
    assert spent == [("first", 1), ("soon", 1), ("late", 1), ("forever", 1), (None, usd("0.5"))]


def test_an_expired_grant_is_not_spendable_by_the_databases_clock(owner: str, db_clock: DatabaseClock) -> None:
    credit(owner, "5", "granted", expires_at=db_clock.moment + timedelta(hours=1))
    credit(owner, "1")
    assert services.balance(owner).available == usd("6")
    db_clock.forward(3600)
    assert services.balance(owner).available == usd("1")
    with pytest.raises(InsufficientBalance) as refused:
        hold(owner, "1.000001", "hold:d")
    assert refused.value.params == {"needed": "1.000001", "available": "1.000000"}


def test_unused_time_returns_latest_source_first_and_out_of_revenue(owner: str) -> None:
    credit(owner, "3", "granted")
    credit(owner, "10")
    charge(owner, "2", "window:1")
    charge(owner, "4", "window:2")  # 1 granted, 3 paid
    give_back(owner, ["window:2"], "3.5", "settle")
    assert services.balance(owner).paid == usd("10")
    assert services.balance(owner).granted == usd("0.5")
    assert (sum_of(Kind.REVENUE, "granted"), sum_of(Kind.REVENUE, "paid")) == (usd("2.5"), usd("0"))
    assert services.net_taken(["window:1", "window:2", "settle"]) == usd("2.5")


def test_a_refund_returns_all_net_of_what_already_returned_and_costs_refunds(owner: str) -> None:
    credit(owner, "1", "granted")
    credit(owner, "10")
    charge(owner, "2", "window:1")
    give_back(owner, ["window:1"], "0.25", "settle")
    give_back(owner, ["window:1", "settle"], None, "refund", Code.REFUND)
    assert services.balance(owner) == services.Balance(
        available=usd("11"), held=usd("0"), granted=usd("1"), paid=usd("10")
    )
    assert (sum_of(Kind.REFUNDS, "granted"), sum_of(Kind.REFUNDS, "paid")) == (usd("-1"), usd("-0.75"))
    assert checks.check() == []


def test_more_than_was_taken_is_never_given_back(owner: str) -> None:
    credit(owner, "10")
    charge(owner, "2", "window:1")
    with pytest.raises(ValueError, match="more to give back"):
        give_back(owner, ["window:1"], "2.000001", "settle")
    assert give_back(owner, [], None, "refund", Code.REFUND) is None


def test_the_same_request_again_gets_the_first_answer(owner: str) -> None:
    first = credit(owner, "10", entry_id="credit:1")
    assert credit(owner, "10", entry_id="credit:1") == first
    held = hold(owner, "6", "hold:d")
    assert hold(owner, "6", "hold:d") == held  # although 6 more are not there
    services.release(owner=owner, entry_id="release:d", hold_ref="hold:d")
    services.release(owner=owner, entry_id="release:d", hold_ref="hold:d")
    assert services.balance(owner).available == usd("10")
    assert Entry.objects.filter(owner=owner).count() == 3


@pytest.mark.parametrize(
    "other",
    [
        lambda owner: credit(owner, "10.000001", entry_id="id"),
        lambda owner: credit(owner, "10", "granted", entry_id="id"),
        lambda owner: credit(owner, "10", entry_id="id", reason="another"),
        lambda owner: credit(str(new_id()), "10", entry_id="id"),
        lambda owner: hold(owner, "10", "id"),
    ],
)
def test_the_same_id_for_another_request_is_a_conflict(owner: str, other: Callable[[str], Entry]) -> None:
    credit(owner, "10", entry_id="id")
    with pytest.raises(IdempotencyConflict):
        other(owner)
    assert services.balance(owner).available == usd("10")


@pytest.mark.parametrize("amount", ["0", "-1", "0.0000001", "NaN", "Infinity", "-Infinity", "100000000000000", "1e30"])
def test_other_amounts_are_refused(owner: str, amount: str) -> None:
    with pytest.raises(InvalidAmount):
        credit(owner, amount)
    assert not Entry.objects.filter(owner=owner).exists()


def test_a_float_is_refused(owner: str) -> None:
    with pytest.raises(InvalidAmount):
        services.credit(owner=owner, amount=1.5, kind="paid", entry_id="x", reason="", author=None)  # type: ignore[arg-type]


def test_only_paid_and_granted_credit_can_be_given(owner: str) -> None:
    for kind in ("held", "revenue", "gift"):
        with pytest.raises(ValueError):
            credit(owner, "1", kind)


def test_the_system_has_no_purse() -> None:
    with pytest.raises(ValueError, match="system"):
        credit(SYSTEM, "1")


def test_a_credit_by_staff_leaves_an_audit_record_once(owner: str) -> None:
    author = a_user(is_staff=True)
    for _again in range(2):
        credit(owner, "7.25", "granted", entry_id="credit:1", reason="sorry for the wait", author=author)
    record = Record.objects.get(action="ledger.credit")
    assert record.actor == author
    assert str(record.workspace_id) == owner
    assert record.after is not None
    assert record.after["amount"] == "7.250000"
    assert record.after["reason"] == "sorry for the wait"


def test_entries_say_what_each_changed_of_what_is_available(owner: str) -> None:
    credit(owner, "10", entry_id="credit:1")
    hold(owner, "4", "hold:d")
    charge(owner, "1", "window:1", "hold:d")
    services.release(owner=owner, entry_id="release:d", hold_ref="hold:d")
    changes = {entry.pk: entry.amount for entry in services.entries(owner)}  # type: ignore[attr-defined]
    assert changes == {"credit:1": usd("10"), "hold:d": usd("-4"), "window:1": usd("0"), "release:d": usd("3")}
    assert not services.entries(new_id()).exists()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE ledger_transfer SET amount = amount + 1",
        "DELETE FROM ledger_transfer",
        "TRUNCATE ledger_transfer",
        "UPDATE ledger_entry SET reason = 'other'",
        "DELETE FROM ledger_entry",
        "TRUNCATE ledger_entry CASCADE",
        "UPDATE ledger_account SET balance = balance + 1 WHERE balance IS NOT NULL",
        "UPDATE ledger_account SET owner = 'thief' WHERE balance IS NOT NULL",
        "UPDATE ledger_account SET kind = 'granted' WHERE kind = 'paid'",
        "DELETE FROM ledger_account",
        "INSERT INTO ledger_account (owner, kind, priority, balance) VALUES ('thief', 'paid', 1, 5)",
    ],
)
def test_raw_sql_is_refused(owner: str, statement: str) -> None:
    credit(owner, "10")
    before = list(Transfer.objects.values_list()), list(Account.objects.values_list().order_by("pk"))
    with pytest.raises(DatabaseError), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement)
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
    assert (list(Transfer.objects.values_list()), list(Account.objects.values_list().order_by("pk"))) == before


def test_a_transfer_written_by_any_hand_moves_the_balances(owner: str) -> None:
    entry = credit(owner, "10")
    paid, source = Account.objects.get(owner=owner, kind="paid"), Account.objects.get(owner=SYSTEM, kind="receivable")
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO ledger_transfer (entry_id, debit_id, credit_id, amount)"
            " VALUES (%s, %s, %s, 1), (%s, %s, %s, 4)",
            [entry.pk, source.pk, paid.pk, entry.pk, paid.pk, source.pk],
        )
    assert services.balance(owner).available == usd("7")
    assert checks.check() == []


def test_the_database_lets_no_balance_go_below_zero(owner: str) -> None:
    entry = credit(owner, "10")
    paid, source = Account.objects.get(owner=owner, kind="paid"), Account.objects.get(owner=SYSTEM, kind="receivable")
    with pytest.raises(IntegrityError, match="account_not_negative"), transaction.atomic():
        Transfer.objects.create(entry=entry, debit=paid, credit=source, amount=usd("10.000001"))


def test_an_entry_moves_no_other_customers_money(owner: str) -> None:
    entry, other = credit(owner, "10"), str(a_workspace(paid="5").pk)
    mine, theirs = (Account.objects.get(owner=name, kind="paid") for name in (owner, other))
    with pytest.raises(IntegrityError, match="its owner only"), transaction.atomic():
        Transfer.objects.create(entry=entry, debit=theirs, credit=mine, amount=usd("1"))


def test_an_entry_without_transfers_cannot_be_committed(owner: str) -> None:
    with pytest.raises(IntegrityError, match="moves no money"), transaction.atomic():
        Entry.objects.create(id="empty", payload_sha256="", owner=owner, code="credit", event_at="2026-12-01T00:00:00Z")
        connection.check_constraints()


def test_system_accounts_store_no_balance_and_customers_hold_no_system_kind() -> None:
    for wrong in ({"owner": SYSTEM, "kind": "paid", "balance": 0}, {"owner": "x", "kind": "revenue"}):
        with pytest.raises(IntegrityError), transaction.atomic():
            Account.objects.create(**wrong)


def test_check_finds_a_balance_that_was_tampered_with_and_a_trigger_that_is_off(owner: str) -> None:
    credit(owner, "10")
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("ALTER TABLE ledger_account DISABLE TRIGGER ledger_account_guard")
        cursor.execute("UPDATE ledger_account SET balance = 11 WHERE owner = %s", [owner])
    wrong = "\n".join(checks.check())
    assert "stores 11.000000, its transfers say 10.000000" in wrong
    assert "trigger ledger_account_guard is missing or disabled" in wrong
    assert "together come to 1.000000" in wrong


def test_check_finds_empty_entries_and_foreign_money_where_triggers_were_off(owner: str) -> None:
    entry, other = credit(owner, "10"), str(a_workspace(paid="5").pk)
    mine, theirs = (Account.objects.get(owner=name, kind="paid") for name in (owner, other))
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        for table in ("ledger_entry", "ledger_transfer"):
            cursor.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
    Entry.objects.create(id="empty", payload_sha256="", owner=owner, code="credit", event_at="2026-12-01T00:00:00Z")
    Transfer.objects.create(entry=entry, debit=theirs, credit=mine, amount=usd("1"))
    wrong = checks.check()
    assert "entry empty has no transfers" in wrong
    assert f"entry {entry.pk} moves money that is not its owner's" in wrong
    assert f"account {mine.pk} ({owner} paid) stores 10.000000, its transfers say 11.000000" in wrong
