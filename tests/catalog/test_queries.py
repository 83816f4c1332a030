from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from arrakis.clock import now
from catalog import ingest, queries
from catalog.models import Gpu, Provider, Version
from tests.catalog.market import AT, batch, offer, provider, rule, snapshot

pytestmark = pytest.mark.django_db


def usd(text: str) -> Decimal:
    return Decimal(text)


def test_the_market_is_one_query(django_assert_num_queries: Any) -> None:
    snapshot("fr", is_sample=True, adaptor="")
    with django_assert_num_queries(1):
        market = queries.market()
    assert market.seen_at == AT
    assert market.is_sample
    assert (market.gpu_total, market.machine_total) == (687, 200)
    assert (market.price("h100"), market.price("rtx-4090")) == (usd("1.65"), usd("0.41"))
    assert market.version == Version.objects.get().n


def test_suggested_gpus_in_their_order_with_their_memory() -> None:
    assert [(gpu.name, f"{gpu.memory_gb.normalize():f}") for gpu in queries.market().suggested] == [
        ("RTX 4090", "24"),
        ("RTX 3090", "24"),
        ("L40S", "48"),
        ("RTX 6000 Ada", "48"),
        ("RTX A6000", "48"),
        ("H100", "80"),
        ("A100", "80"),
        ("RTX PRO 6000", "96"),
        ("H200", "141"),
        ("B200", "180"),
        ("B300", "262.5"),
    ]


def test_an_empty_market_says_so() -> None:
    market = queries.market()
    assert (market.seen_at, market.is_sample, market.gpu_total, market.machine_total) == (None, False, 0, 0)
    assert market.price("h100") is None
    assert market.price("no-such-gpu") is None
    assert all(not gpu.rent_prices for gpu in market.gpus)


def test_a_price_to_rent_is_one_offer_whole() -> None:
    ingest.apply(provider(), batch(offer("a", count=8, cost="1.65"), offer("b", count=2, cost="1.70")))
    gpu = queries.market().gpu("h100")
    assert gpu is not None
    assert gpu.price == usd("1.65")
    assert gpu.rent_prices == {1: usd("3.40"), 2: usd("3.40"), 4: usd("13.20"), 8: usd("13.20")}


def test_cents_are_rounded_before_they_are_multiplied() -> None:
    ingest.apply(provider(), batch(offer("a", count=8, cost="1.005")))
    gpu = queries.market().gpu("h100")
    assert gpu is not None
    assert gpu.rent_prices[8] == usd("8.08")


def test_machines_are_counted_once_for_each_provider() -> None:
    ingest.apply(
        provider(),
        batch(
            offer("a", count=8, machine_ref="m1"),
            offer("b", count=1, machine_ref="m1"),
            offer("c", count=4, machine_ref=""),
        ),
    )
    ingest.apply(provider("other"), batch(offer("a", count=2, machine_ref="m1")))
    market = queries.market()
    assert (market.gpu_total, market.machine_total) == (10, 2)


def test_a_cpu_is_in_no_public_figure_but_can_be_rented() -> None:
    cpu = Gpu.objects.get(key="cpu")
    ingest.apply(provider(), batch(offer("a", gpu="CPU", gpu_id=cpu.pk, cost="0.10")))
    market = queries.market()
    assert (market.gpu_total, market.machine_total, market.seen_at, market.gpu("cpu")) == (0, 0, None, None)
    found = queries.cheapest_quotable(gpu_key="cpu", count=1)
    assert found is not None
    assert found.price_per_hour == usd("0.10")


@pytest.mark.parametrize(
    ("fields", "shown", "rented"),
    [
        ({}, True, True),
        ({"enabled": False}, False, False),
        ({"is_sample": True}, True, False),
        ({"adaptor": ""}, True, False),
        ({"stale_after": timedelta(minutes=10)}, False, False),
        ({"stale_after": timedelta(days=10_000)}, True, True),
        ({"stale_after": timedelta(minutes=10), "is_sample": True}, True, False),
    ],
)
def test_what_is_shown_and_what_can_be_rented(fields: dict[str, Any], shown: bool, rented: bool) -> None:
    run = ingest.apply(provider(**fields), batch(offer("a")))
    market = queries.market()
    assert (market.price("h100") is not None, market.gpu_total, market.seen_at is not None) == (
        shown,
        int(shown),
        shown,
    )
    assert bool(queries.quotable_offers(gpu_key="h100")) is rented
    assert (queries.cheapest_quotable(gpu_key="h100", count=1) is not None) is rented
    assert (queries.find_quotable(run.provider.offers.get().pk) is not None) is rented


def test_fresh_is_by_the_databases_clock() -> None:
    ingest.apply(provider(stale_after=timedelta(minutes=10)), batch(offer("a"), at=now()))
    assert queries.market().price("h100") == usd("2.00")
    assert queries.cheapest_quotable(gpu_key="h100", count=1) is not None


def test_the_cheapest_that_holds_is_one_query(django_assert_num_queries: Any) -> None:
    ingest.apply(
        provider(),
        batch(
            offer("big", count=8, cost="1.00"),
            offer("dear", count=2, cost="2.40"),
            offer("cheap", count=2, cost="2.30"),
            offer("small", count=1, cost="0.10"),
            offer("other", gpu="H200", count=2, cost="0.20"),
        ),
    )
    with django_assert_num_queries(1):
        found = queries.cheapest_quotable(gpu_key="h100", count=2)
        assert found is not None
        assert found.offer.provider.key == "acme"
    assert (found.offer.external_id, found.price_per_gpu_hour, found.price_per_hour) == (
        "cheap",
        usd("2.30"),
        usd("4.60"),
    )
    assert queries.cheapest_quotable(gpu_key="b300", count=1) is None


def test_offers_that_hold_are_one_query_the_cheapest_first(django_assert_num_queries: Any) -> None:
    ingest.apply(provider(), batch(offer("a", count=8, cost="1"), offer("b", count=4, cost="1.5"), offer("c", count=1)))
    with django_assert_num_queries(1):
        found = queries.quotable_offers(gpu_key="h100", count=2)
    assert [(each.offer.external_id, each.price_per_hour) for each in found] == [("b", usd("6")), ("a", usd("8"))]


def test_rules_price_pages_and_quotes_alike(django_assert_num_queries: Any) -> None:
    acme = provider()
    ingest.apply(
        acme,
        batch(
            offer("a", cost="2.00", region="FR"), offer("b", cost="1.90", region="US"), offer("c", count=2, cost="3")
        ),
    )
    rule(percent=usd("10"))
    rule(region="US", add=usd("1.005"))
    with django_assert_num_queries(1):
        market = queries.market()
    assert market.price("h100") == usd("2.20")
    found = queries.cheapest_quotable(gpu_key="h100", count=1)
    assert found is not None
    assert (found.offer.external_id, found.price_per_hour) == ("a", usd("2.20"))
    prices = {each.offer.external_id: each.price_per_gpu_hour for each in queries.quotable_offers()}
    assert prices == {"a": usd("2.20"), "b": usd("2.91"), "c": usd("3.30")}


def test_at_one_fixed_price_the_offer_that_costs_us_least_is_rented() -> None:
    ingest.apply(provider(), batch(offer("a", cost="2.00", region="FR"), offer("b", cost="1.90", region="US")))
    rule(gpu="h100", fixed=usd("5"))
    found = queries.cheapest_quotable(gpu_key="h100", count=1)
    assert found is not None
    assert (found.offer.external_id, found.price_per_hour) == ("b", usd("5"))


def test_the_cheapest_is_what_the_page_says(django_assert_num_queries: Any) -> None:
    snapshot("fr")
    market = queries.market()
    for gpu in market.suggested:
        for count, whole in gpu.rent_prices.items():
            with django_assert_num_queries(1):
                found = queries.cheapest_quotable(gpu_key=gpu.key, count=count)
            assert found is not None
            assert found.price_per_hour == whole


def test_an_offer_of_an_unknown_gpu_is_never_quoted() -> None:
    ingest.apply(provider(), batch(offer("a", gpu="Voodoo 2")))
    assert queries.quotable_offers() == []
    offered = Provider.objects.get(key="acme").offers.get()
    with pytest.raises(ValueError, match="no price"):
        queries.offer_price(offered, [])


def test_a_lost_version_row_comes_back() -> None:
    Version.objects.all().delete()
    assert queries.market().version == 1


class TestSampleMarket:
    """Prices of a sample must not stand among those of this minute."""

    def test_a_real_market_ends_it(self) -> None:
        sample = Provider.objects.create(key="sample-x", name="Sample", is_sample=True)
        ingest.apply(sample, batch(offer("a", cost="1.00")))
        assert queries.market().price("h100") == usd("1.00")
        ingest.apply(provider(adaptor="vast"), batch(offer("b", cost="2.00")))
        market = queries.market()
        assert (market.price("h100"), market.is_sample, market.gpu_total) == (usd("2.00"), False, 1)

    def test_own_hosts_stand_beside_it(self) -> None:
        sample = Provider.objects.create(key="sample-x", name="Sample", is_sample=True)
        own = Provider.objects.create(key="own-x", name="Own", adaptor="fleet")
        ingest.apply(sample, batch(offer("a", cost="1.00")))
        ingest.apply(own, batch(offer("b", cost="0.90")))
        assert (queries.market().price("h100"), queries.market().gpu_total) == (usd("0.90"), 2)
