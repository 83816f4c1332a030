from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest

from catalog import ingest
from catalog.models import GpuAlias, LowestCost, Offer, Version
from tests.catalog.market import AT, batch, offer, provider

pytestmark = pytest.mark.django_db


def version() -> int:
    return Version.objects.get().n


def test_a_batch_replaces_the_last_one() -> None:
    acme, other = provider(), provider("other")
    ingest.apply(other, batch(offer("a", cost="9")))
    ingest.apply(acme, batch(offer("a", cost="2"), offer("b", cost="3")))
    later = AT + timedelta(minutes=5)
    run = ingest.apply(acme, batch(offer("b", cost="4"), offer("c"), at=later))
    assert run.counts == {"offers": 2, "unknown_gpu": 0, "gone": 1}
    rows = {row.external_id: row for row in Offer.objects.filter(provider=acme)}
    assert {name: row.rentable for name, row in rows.items()} == {"a": False, "b": True, "c": True}
    assert (rows["b"].first_seen, rows["b"].last_seen) == (AT, later)
    assert (rows["b"].cost_per_gpu_hour, rows["a"].last_seen) == (Decimal("4"), AT)
    assert Offer.objects.get(provider=other).rentable


def test_a_batch_in_part_takes_nothing_away() -> None:
    acme = provider()
    ingest.apply(acme, batch(offer("a"), offer("b")))
    ingest.apply(acme, batch(offer("a"), complete=False))
    assert Offer.objects.filter(rentable=True).count() == 2


def test_what_came_back_is_rentable_again() -> None:
    acme = provider()
    for offers in ([offer("a")], [], [offer("a")]):
        ingest.apply(acme, batch(*offers))
    assert Offer.objects.get().rentable


def test_lowest_costs_are_of_rentable_offers_with_a_known_gpu() -> None:
    acme = provider()
    ingest.apply(
        acme,
        batch(
            offer("a", count=2, cost="2.50", region="FR"),
            offer("b", count=2, cost="2.40", region="FR"),
            offer("c", count=2, cost="1", region="FR", rentable=False),
            offer("d", gpu="no such GPU", cost="1"),
            offer("e", count=8, cost="2.60"),
        ),
    )
    rows = LowestCost.objects.order_by("gpu_count").values_list("gpu_count", "region", "cost", "offers", "gpus")
    assert list(rows) == [(2, "FR", Decimal("2.40"), 2, 4), (8, "", Decimal("2.60"), 1, 8)]
    ingest.apply(acme, batch())
    assert not LowestCost.objects.exists()


def test_the_version_counts_every_batch() -> None:
    before = version()
    ingest.apply(provider(), batch(offer("a")))
    assert version() == before + 1


def test_a_batch_that_lists_an_offer_twice_changes_nothing() -> None:
    acme, before = provider(), version()
    with pytest.raises(ValueError, match="twice"):
        ingest.apply(acme, batch(offer("a"), offer("a")))
    assert (Offer.objects.count(), version()) == (0, before)


@pytest.mark.parametrize(
    ("name", "memory", "key"),
    [
        ("H100", None, "h100"),
        ("H100 SXM", None, "h100"),
        ("NVIDIA H100 80GB HBM3", None, "h100"),
        ("H100", "94", None),
        ("H100 NVL", None, "h100-nvl"),
        ("A100", None, "a100"),
        ("A100", "40", "a100-40"),
        ("A100 SXM4", None, None),
        ("A100 SXM4", "40", "a100-40"),
        ("A100 SXM4", "80.00", "a100"),
        ("Tesla V100", "32", "v100-32"),
        ("RTX 4090", "23.99", "rtx-4090"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", None, "rtx-pro-6000"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition MIG 1g.24gb", None, None),
        ("h100", None, None),
        ("CPU", None, None),
    ],
)
def test_names_are_matched_whole_and_by_memory(name: str, memory: str | None, key: str | None) -> None:
    ingest.apply(provider(), batch(offer("a", gpu=name, memory_gb=Decimal(memory) if memory else None)))
    found = Offer.objects.get().gpu
    assert (found.key if found else None) == key


def test_a_providers_own_name_goes_before_the_common_one() -> None:
    acme = provider()
    GpuAlias.objects.create(provider=acme, raw_name="H100", gpu=GpuAlias.objects.get(raw_name="H200").gpu)
    ingest.apply(acme, batch(offer("a")))
    ingest.apply(provider("other"), batch(offer("a")))
    assert [row.gpu.key for row in Offer.objects.order_by("provider_id") if row.gpu] == ["h200", "h100"]


def test_the_same_batch_twice_is_one() -> None:
    acme = provider()
    ingest.apply(acme, batch(offer("a")))
    first = Offer.objects.values_list("pk").get()
    ingest.apply(acme, batch(offer("a")))
    assert Offer.objects.values_list("pk").get() == first
