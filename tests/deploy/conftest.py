"""What tests of deployments and money share: a database clock that obeys, and rows that are really committed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection

from catalog.models import FleetHost, Gpu, Offer, Provider
from deploy.models import Orphan
from sizing.models import HubModel

_WRITTEN_BY_TESTS = ("accounts_user", "accounts_workspace", "audit_record", "ledger_entry", "ledger_account")


class DatabaseClock:
    """The database's own clock, standing still: `clock_timestamp()` and `statement_timestamp()` answer what is set.

    pg_catalog is searched first only while search_path does not name it, so functions in a schema before it win.
    """

    def __init__(self, moment: datetime) -> None:
        self.moment = moment
        with connection.cursor() as cursor:
            cursor.execute("CREATE SCHEMA test_clock")
            for name in ("clock_timestamp", "statement_timestamp"):
                cursor.execute(
                    f"CREATE FUNCTION test_clock.{name}() RETURNS timestamptz LANGUAGE sql AS"
                    " $$ SELECT current_setting('test_clock.moment')::timestamptz $$"
                )
            cursor.execute("SET LOCAL search_path = test_clock, pg_catalog, public")
        self.set(moment)

    def set(self, moment: datetime) -> None:
        self.moment = moment
        with connection.cursor() as cursor:
            cursor.execute("SELECT set_config('test_clock.moment', %s, true)", [moment.isoformat()])

    def forward(self, seconds: float) -> None:
        self.set(self.moment + timedelta(seconds=seconds))


@pytest.fixture
def db_clock(db: None) -> DatabaseClock:
    return DatabaseClock(datetime(2026, 12, 1, 12, 0, tzinfo=UTC))


@pytest.fixture
def committed(django_db_setup: None, django_db_blocker: pytest.FixtureRequest) -> Iterator[None]:
    """For tests with several connections: what they write is committed, and wiped afterwards.

    Not pytest-django's transactional_db: its flush is refused by the append-only triggers, and would take the rows
    that migrations made with it.
    """
    with django_db_blocker.unblock():  # type: ignore[attr-defined]
        yield
        with connection.cursor() as cursor:
            for table in ("audit_record", "deploy_event", "ledger_entry", "ledger_transfer"):
                cursor.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
            cursor.execute(f"TRUNCATE {', '.join(_WRITTEN_BY_TESTS)} CASCADE")
            for table in ("audit_record", "deploy_event", "ledger_entry", "ledger_transfer"):
                cursor.execute(f"ALTER TABLE {table} ENABLE TRIGGER USER")


@pytest.fixture
def clean_market(django_db_setup: None, django_db_blocker: pytest.FixtureRequest) -> Iterator[None]:
    """Before `committed`, so that after it: what was committed of the catalogue and of models is taken away too."""
    with django_db_blocker.unblock():  # type: ignore[attr-defined]
        before = set(Gpu.objects.values_list("pk", flat=True)), set(HubModel.objects.values_list("pk", flat=True))
    yield
    with django_db_blocker.unblock():  # type: ignore[attr-defined]
        Orphan.objects.all().delete()
        Offer.objects.all().delete()
        FleetHost.objects.all().delete()
        Provider.objects.filter(adaptor__in=["cloud", "fleet"]).delete()
        Gpu.objects.exclude(pk__in=before[0]).delete()
        HubModel.objects.exclude(pk__in=before[1]).delete()
