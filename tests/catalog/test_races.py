"""Several connections at once, everything really committed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from functools import partial
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection, transaction

from arrakis.accounts.models import User
from catalog import ingest, queries, services, versions
from catalog.models import FleetHost, Gpu, LowestCost, Offer, PriceRule, Provider, Version
from catalog.sources import fleet
from tests.catalog.market import DATA, SNAPSHOTS, batch, offer, provider


@pytest.fixture(autouse=True)
def committed(django_db_setup: None, django_db_blocker: pytest.FixtureRequest) -> Iterator[None]:
    with django_db_blocker.unblock():  # type: ignore[attr-defined]
        yield
        for model in (Offer, LowestCost, PriceRule, FleetHost, Provider):
            model.objects.all().delete()
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE audit_record DISABLE TRIGGER USER")
            cursor.execute("DELETE FROM audit_record")
            cursor.execute("ALTER TABLE audit_record ENABLE TRIGGER USER")
        User.objects.all().delete()


def at_once(calls: Sequence[Callable[[], Any]]) -> None:
    """Each on a connection of its own, begun at the same moment; the first exception is raised here."""
    barrier = threading.Barrier(len(calls))

    def one(call: Callable[[], Any]) -> None:
        try:
            connection.ensure_connection()
            barrier.wait(timeout=60)
            call()
        finally:
            connection.close()

    with ThreadPoolExecutor(len(calls)) as pool:
        list(pool.map(one, calls))


def test_two_imports_of_one_new_provider_leave_one_whole_snapshot() -> None:
    before = Version.objects.get().n
    at_once(
        [
            partial(call_command, "import_offers", str(DATA / SNAPSHOTS[lang]), provider="Acme", verbosity=0)
            for lang in ("fr", "pt-br")
        ]
    )
    acme = Provider.objects.get()
    live = Offer.objects.filter(provider=acme, rentable=True)
    assert live.count() in (200, 188)
    assert live.values("run").distinct().count() == 1
    counted = LowestCost.objects.filter(provider=acme).values_list("offers", flat=True)
    assert sum(counted) == live.count()
    assert Version.objects.get().n == before + 2


def test_batches_hosts_and_prices_at_once_never_deadlock() -> None:
    acme, staff = provider(), User.objects.create_user("staff@example.org")
    gpus = list(Gpu.objects.filter(is_suggested=True))
    FleetHost.objects.create(name="box", address="10.0.0.1", gpu=gpus[0], cost=Decimal(1))
    fleet.refresh()
    before = Version.objects.get().n

    def batches() -> None:
        for number in range(5):
            ingest.apply(acme, batch(*(offer(gpu.key, gpu=gpu.name) for gpu in gpus[number % 2 :])))

    def hosts() -> None:
        for state in ("leased", "ready") * 2:
            with transaction.atomic():
                FleetHost.objects.update(state=state)
                fleet.refresh()

    def prices(order: int, *amounts: str) -> None:
        for amount in amounts:
            with transaction.atomic():
                services.lock_gpus()
                for gpu in gpus[::order]:
                    services.write_fixed_price(gpu=gpu, price=Decimal(amount), actor=staff)
                versions.bump()

    at_once([batches, batches, hosts, hosts, partial(prices, 1, "1", "2", "3"), partial(prices, -1, "4", "5", "3")])
    assert Version.objects.get().n == before + 24
    assert PriceRule.objects.filter(active=True).count() == len(gpus)
    market = queries.market()
    assert {gpu.price for gpu in market.suggested} == {Decimal("3.00")}
    assert Offer.objects.filter(fleet_host__isnull=False).count() == 1


def test_a_reader_sees_the_old_market_or_the_new() -> None:
    acme = provider()
    ingest.apply(acme, batch(offer("a", cost="2.00")))
    inside, looked = threading.Event(), threading.Event()

    def write() -> None:
        with transaction.atomic():
            ingest.apply(acme, batch(offer("b", cost="1.00"), offer("c", gpu="H200")))
            inside.set()
            assert looked.wait(timeout=60)

    def read() -> None:
        assert inside.wait(timeout=60)
        try:
            old = queries.market()
        finally:
            looked.set()
        assert (old.price("h100"), old.price("h200"), old.machine_total) == (Decimal("2.00"), None, 1)

    before = Version.objects.get().n
    at_once([write, read])
    new = queries.market()
    assert (new.price("h100"), new.price("h200"), new.machine_total) == (Decimal("1.00"), Decimal("2.00"), 2)
    assert new.version == before + 1
