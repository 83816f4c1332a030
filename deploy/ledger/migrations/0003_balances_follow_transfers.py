"""The ledger's rules, kept by the database whoever writes: see deploy/ledger/services.py for why this way."""

from django.db import migrations

from arrakis.append_only import append_only

# An entry moves money of its owner and the system only; each stored balance gets its net change, once a statement.
_MOVE = """
CREATE FUNCTION ledger_move_balances() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (
        SELECT FROM written
        JOIN ledger_entry entry ON entry.id = written.entry_id
        JOIN ledger_account account ON account.id IN (written.debit_id, written.credit_id)
        WHERE account.owner NOT IN (entry.owner, 'system')
    ) THEN
        RAISE EXCEPTION 'an entry moves money of its owner only' USING ERRCODE = 'check_violation';
    END IF;
    UPDATE ledger_account account SET balance = account.balance + net.change
    FROM (
        SELECT account_id, SUM(change) AS change
        FROM (
            SELECT credit_id AS account_id, amount AS change FROM written
            UNION ALL
            SELECT debit_id, -amount FROM written
        ) moved
        GROUP BY account_id
    ) net
    WHERE account.id = net.account_id AND account.balance IS NOT NULL AND net.change <> 0;
    RETURN NULL;
END $$;
CREATE TRIGGER ledger_transfer_moves_balances AFTER INSERT ON ledger_transfer
    REFERENCING NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION ledger_move_balances();
"""

# A balance is written by the trigger above and by nothing else; who an account belongs to never changes.
_GUARD = """
CREATE FUNCTION ledger_guard_account() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF NEW.balance <> 0 THEN
            RAISE EXCEPTION 'an account begins empty' USING ERRCODE = 'restrict_violation';
        END IF;
    ELSIF (NEW.owner, NEW.kind, NEW.grant_ref, NEW.source_id)
            IS DISTINCT FROM (OLD.owner, OLD.kind, OLD.grant_ref, OLD.source_id) THEN
        RAISE EXCEPTION 'what an account is never changes' USING ERRCODE = 'restrict_violation';
    ELSIF NEW.balance IS DISTINCT FROM OLD.balance AND pg_trigger_depth() < 2 THEN
        RAISE EXCEPTION 'a balance changes by transfers only' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER ledger_account_guard BEFORE INSERT OR UPDATE ON ledger_account
    FOR EACH ROW EXECUTE FUNCTION ledger_guard_account();
"""

# Looked at when the transaction commits: an entry and its transfers are two statements.
_NOT_EMPTY = """
CREATE FUNCTION ledger_entry_moves_money() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM ledger_transfer WHERE entry_id = NEW.id) THEN
        RAISE EXCEPTION 'entry % moves no money', NEW.id USING ERRCODE = 'check_violation';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER ledger_entry_moves_money AFTER INSERT ON ledger_entry
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION ledger_entry_moves_money();
"""


class Migration(migrations.Migration):
    dependencies = [("ledger", "0002_holds_know_their_source")]

    operations = [
        append_only("ledger_entry"),
        append_only("ledger_transfer"),
        migrations.RunSQL(
            _MOVE,
            "DROP TRIGGER ledger_transfer_moves_balances ON ledger_transfer; DROP FUNCTION ledger_move_balances();",
        ),
        migrations.RunSQL(
            _GUARD, "DROP TRIGGER ledger_account_guard ON ledger_account; DROP FUNCTION ledger_guard_account();"
        ),
        migrations.RunSQL(
            _NOT_EMPTY,
            "DROP TRIGGER ledger_entry_moves_money ON ledger_entry; DROP FUNCTION ledger_entry_moves_money();",
        ),
    ]
