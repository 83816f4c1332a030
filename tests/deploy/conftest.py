"""What tests of deployments and money share: a database clock that obeys, and rows that are really committed."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from django.db import connection

from arrakis.celery import app as celery
from arrakis.demo import hub
from catalog.models import FleetHost, Gpu, Offer, Provider
from deploy.models import Orphan
from sizing.models import HubModel
from tests.deploy.rentals import a_gpu
from tests.deploy.world import DemoHost, World

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


@pytest.fixture
def world(clean_market: None, committed: None) -> Iterator[World]:
    """Processes around the test database; short leases, so that what a killed one held is taken up soon."""
    with tempfile.TemporaryDirectory(prefix="ark-") as folder:
        made = World(Path(folder), {"LEASE_SECONDS": "1"})
        yield made
        made.stop_all()
        celery.control.purge()


@pytest.fixture
def rented_host(world: World) -> Iterator[DemoHost]:
    """A rented host that really is one; beside the world's folder, since its user must get there."""
    folder = world.folder.with_name(f"{world.folder.name}-host")
    yield DemoHost(world, folder)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def rentable(world: World, rented_host: DemoHost) -> str:
    """The id of a real model on a real hub, that fits a real host for rent: the Gpu `cpu`."""
    port = world.free_port()
    world.start("hub", "-m", "arrakis.demo.hub", "--port", str(port))
    rented_host.start()
    rented_host.offer(a_gpu("cpu", kind="cpu", memory_gb="8"))
    world.wait("the hub", lambda: world.listens(port))
    size = hub.weights().stat().st_size
    files = [{"path": hub.GGUF, "size": size, "sha256": hub.sha256(hub.weights()), "format": "gguf"}]
    # Beside the row that migrations made, and before it.
    HubModel.objects.create(
        repo_id=hub.MODEL,
        endpoint=f"http://127.0.0.1:{port}",
        files=files,
        name="SmolLM2",
        slug="smollm2-of-the-test",
        params_total=hub.PARAMETERS,
        context=hub.CONTEXT,
        interest=1_000_000,
    )
    return hub.MODEL
