from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from catalog import queries
from catalog.models import FleetHost, Gpu, Offer, Provider, Version
from catalog.sources import fleet

pytestmark = pytest.mark.django_db


def host(**fields: Any) -> FleetHost:
    gpu = Gpu.objects.get(key=fields.pop("gpu", "h100"))
    given = {
        "name": "box",
        "address": "10.0.0.1",
        "gpu": gpu,
        "gpu_count": 4,
        "cost": Decimal("1.50"),
        "mode": "bare",
        **fields,
    }
    return FleetHost.objects.create(**given)


def test_a_ready_host_is_an_offer_that_can_be_rented() -> None:
    box = host(region="FR")
    fleet.refresh()
    found = queries.cheapest_quotable(gpu_key="h100", count=2)
    assert found is not None
    assert (found.offer.fleet_host, found.offer.machine_ref, found.offer.region) == (box, "box", "FR")
    assert found.price_per_hour == Decimal("6.00")
    assert Provider.objects.get().adaptor == "fleet"


@pytest.mark.parametrize(
    "change", [{"enabled": False}, *({"state": state} for state in ("leased", "dirty", "quarantined"))]
)
def test_a_host_that_cannot_be_rented_is_not(change: dict[str, Any]) -> None:
    box = host()
    fleet.refresh()
    FleetHost.objects.update(**change)
    fleet.refresh()
    assert queries.quotable_offers() == []
    assert queries.market().price("h100") is None
    FleetHost.objects.update(enabled=True, state="ready")
    fleet.refresh()
    assert [each.offer.fleet_host for each in queries.quotable_offers()] == [box]


def test_a_host_keeps_its_offer() -> None:
    box = host()
    fleet.refresh()
    first = Offer.objects.get().pk
    FleetHost.objects.update(name="renamed", cost="2")
    fleet.refresh()
    kept = Offer.objects.get()
    assert (kept.pk, kept.fleet_host, kept.machine_ref) == (first, box, "renamed")
    assert kept.cost_per_gpu_hour == Decimal(2)


def test_a_host_is_its_gpu_whatever_aliases_say() -> None:
    host(gpu="cpu", gpu_count=1)
    fleet.refresh()
    offered = Offer.objects.get()
    assert offered.gpu is not None
    assert offered.gpu.kind == Gpu.Kind.CPU
    assert queries.market().machine_total == 0


def test_pages_hear_of_it() -> None:
    before = Version.objects.get().n
    fleet.refresh()
    assert Version.objects.get().n == before + 1


@pytest.mark.parametrize("mode", ["container", "vm"])
def test_a_mode_that_cannot_be_made_yet_is_priced_and_not_rented(mode: str) -> None:
    host(mode=mode)
    fleet.refresh()
    assert queries.quotable_offers() == []
    assert queries.market().price("h100") == Decimal("1.50")
