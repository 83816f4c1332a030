"""What must hold between windows, machines, deployments and the ledger (for `manage.py ledger_check`)."""

from __future__ import annotations

from django.db import connection

_OVERLAPS = """
SELECT machine_id, n, starts_at, before FROM (
    SELECT machine_id, n, starts_at, LAG(ends_at) OVER (PARTITION BY machine_id ORDER BY n) AS before FROM deploy_window
) w WHERE before IS NOT NULL AND before <> starts_at ORDER BY machine_id, n
"""

# Without the machine's own columns: what its windows say was used, priced anew, against what the ledger took.
_CHARGES = """
SELECT w.machine_id, w.due, COALESCE(m.net, 0) FROM (
    SELECT machine_id, ROUND(MAX(price_per_hour)
        * FLOOR(EXTRACT(EPOCH FROM SUM(COALESCE(used_until, ends_at) - starts_at))) / 3600, 6) AS due
    FROM deploy_window GROUP BY machine_id
) w
LEFT JOIN (
    SELECT e.machine_id, SUM(CASE WHEN credit.owner = 'system' THEN t.amount ELSE -t.amount END) AS net
    FROM (
        SELECT machine_id, bought_entry_id AS entry_id FROM deploy_window
        UNION
        SELECT machine_id, settled_entry_id FROM deploy_window WHERE settled_entry_id IS NOT NULL
    ) e
    JOIN ledger_transfer t ON t.entry_id = e.entry_id
    JOIN ledger_account credit ON credit.id = t.credit_id
    GROUP BY e.machine_id
) m ON m.machine_id = w.machine_id
WHERE w.due <> COALESCE(m.net, 0) ORDER BY 1
"""

_REFUNDS = """
SELECT m.id FROM deploy_machine m WHERE m.refunded_at IS NOT NULL AND (
    SELECT COALESCE(SUM(CASE WHEN credit.owner = 'system' THEN t.amount ELSE -t.amount END), 0)
    FROM ledger_transfer t JOIN ledger_account credit ON credit.id = t.credit_id
    WHERE t.entry_id = 'refund:' || m.id OR t.entry_id IN (
        SELECT bought_entry_id FROM deploy_window WHERE machine_id = m.id
        UNION SELECT settled_entry_id FROM deploy_window WHERE machine_id = m.id)
) <> 0 ORDER BY m.id
"""

_BOUGHT_TIME = """
SELECT m.id FROM deploy_machine m
LEFT JOIN (
    SELECT machine_id, MIN(starts_at) AS since, MAX(n) AS n,
           MIN(starts_at) + SUM(COALESCE(used_until, ends_at) - starts_at) AS until
    FROM deploy_window GROUP BY machine_id
) w ON w.machine_id = m.id
WHERE m.charged_from IS DISTINCT FROM w.since OR m.charged_until IS DISTINCT FROM w.until
    OR m.windows_bought <> COALESCE(w.n, 0)
ORDER BY m.id
"""

_UNSETTLED = """
SELECT id FROM deploy_machine
WHERE state IN ('gone', 'lost') AND charged_from IS NOT NULL AND settled_at IS NULL
UNION
SELECT machine_id FROM deploy_window w JOIN deploy_machine m ON m.id = w.machine_id
WHERE m.settled_at IS NOT NULL AND w.used_until IS NULL
"""

_HOLDS = """
SELECT d.id, SUM(a.balance) FROM deploy_deployment d
JOIN ledger_account a ON a.kind = 'held' AND a.grant_ref = 'hold:' || d.id AND a.balance > 0
WHERE d.state IN ('stopped', 'failed') GROUP BY d.id ORDER BY d.id
"""

_ORPHANS = """
SELECT id FROM ledger_entry entry WHERE code = 'window'
AND NOT EXISTS (SELECT FROM deploy_window WHERE bought_entry_id = entry.id) ORDER BY id
"""

_CHECKS = (
    (_OVERLAPS, "machine {0}: window {1} begins at {2}, the one before it ended at {3}"),
    (_CHARGES, "machine {0}: its windows are worth {1}, the ledger took {2}"),
    (_REFUNDS, "machine {0}: refunded, but not all of it"),
    (_BOUGHT_TIME, "machine {0}: its bought time is not that of its windows"),
    (_UNSETTLED, "machine {0}: gone or settled, with windows that are not"),
    (_HOLDS, "deployment {0}: ended, still holds {1}"),
    (_ORPHANS, "entry {0}: charged for a window that is not there"),
)


def check() -> list[str]:
    """What is wrong, a line each; empty where all is well."""
    wrong = []
    with connection.cursor() as cursor:
        for query, sentence in _CHECKS:
            cursor.execute(query)
            wrong += [sentence.format(*row) for row in cursor.fetchall()]
    return wrong
