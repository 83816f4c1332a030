"""`manage.py ledger_check`: exit 0 and the sums, or exit 1 and what is wrong."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import connection, transaction

from deploy import metering_checks
from deploy.ledger import checks
from deploy.ledger.amounts import ZERO


class Command(BaseCommand):
    help = "Check that balances are what transfers say, and that windows, holds and refunds agree with the ledger."

    def handle(self, *args: Any, **options: Any) -> None:
        outermost = not connection.in_atomic_block
        with transaction.atomic():
            if outermost:  # one snapshot for every question, while the shop goes on
                with connection.cursor() as cursor:
                    cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            wrong, sums = [*checks.check(), *metering_checks.check()], checks.sums()
        for line in wrong:
            self.stderr.write(line)
        if wrong:
            raise CommandError(f"{len(wrong)} things are wrong.", returncode=1)
        self._print(sums)

    def _print(self, sums: dict[str, Decimal]) -> None:
        for kind, amount in sums.items():
            self.stdout.write(f"{kind:<14}{amount:>22}")
        self.stdout.write(f"{'total':<14}{sum(sums.values(), ZERO):>22}")
