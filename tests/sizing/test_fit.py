from __future__ import annotations

import random
from decimal import Decimal
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sizing.fit import COUNTS, Candidate, Fit, cheapest, saving, smallest


def gpu(name: str, memory: str, price: str | None = None, *, position: int = 0, **rent: str) -> Candidate:
    prices = {int(n.removeprefix("x")): Decimal(whole) for n, whole in rent.items()}
    return Candidate(name.lower(), name, position, Decimal(memory), Decimal(price) if price else None, prices)


def names(fit: Fit) -> list[str]:
    return [each.name for each in fit.gpus]


def test_least_total_memory_wins() -> None:
    found = smallest(Decimal(100), [gpu("A", "80"), gpu("B", "48"), gpu("C", "141")])
    assert (found.count, names(found)) == (1, ["C"])


def test_ties_go_to_fewer_gpus() -> None:
    found = smallest(Decimal(90), [gpu("A", "24"), gpu("B", "48"), gpu("C", "96")])
    assert (found.count, names(found)) == (1, ["C"])


def test_every_gpu_of_that_memory_is_named_in_catalogue_order_and_the_cheapest_priced() -> None:
    found = smallest(
        Decimal(40),
        [
            gpu("C", "48", "0.49", position=3, x1="0.50"),
            gpu("A", "48", "0.44", position=1, x1="0.60"),
            gpu("B", "48", "0.79", position=2),
        ],
    )
    assert found.data_gpus == "A|B|C"
    assert found.cheapest is not None
    assert found.cheapest.name == "A"
    assert (found.data_price, found.data_rent_price) == ("0.44", "0.50")
    assert found.rent_gpu is not None
    assert found.rent_gpu.name == "C"
    assert found.rent_differs


def test_equal_prices_go_to_the_earlier_gpu() -> None:
    found = smallest(Decimal(40), [gpu("B", "48", "1", position=2, x1="1"), gpu("A", "48", "1", position=1, x1="1")])
    assert found.cheapest is not None
    assert found.rent_gpu is not None
    assert (found.cheapest.name, found.rent_gpu.name) == ("A", "A")
    assert not found.rent_differs


def test_several_gpus_are_priced_together() -> None:
    found = smallest(Decimal(512), [gpu("B300", "262.5", "4.60", x2="10.44", x4="18.68", x8="36.80")])
    assert (found.count, found.data_price, found.data_rent_price) == (2, "9.20", "10.44")


def test_nothing_fits() -> None:
    found = smallest(Decimal("2100.01"), [gpu("B300", "262.5", "4.60", x8="36.80")])
    assert (found.holds, found.count, found.gpus, found.cheapest) == (False, None, (), None)
    assert (found.data_gb, found.data_gpus, found.data_price, found.data_rent_price) == ("2100.01", "", "", "")


def test_eight_is_the_most_and_exactly_enough_is_enough() -> None:
    assert smallest(Decimal(2100), [gpu("B300", "262.5")]).count == 8


def test_fits_but_no_live_price() -> None:
    found = smallest(Decimal(20), [gpu("A", "24", position=1), gpu("B", "24", position=2)])
    assert (found.data_gpus, found.data_price, found.data_rent_price) == ("A|B", "", "")
    assert found.price is None
    assert not found.rent_differs


def test_a_price_shown_without_a_machine_that_holds_them_all() -> None:
    found = smallest(Decimal(160), [gpu("H100", "80", "1.65", x1="1.65")])
    assert (found.count, found.data_price, found.data_rent_price) == (2, "3.30", "")


def test_without_gpus_nothing_fits() -> None:
    assert not smallest(Decimal(1), []).holds


def test_the_cheapest_that_holds_and_what_it_saves() -> None:
    gpus = [gpu("RTX 3090", "24", "0.19", x2="0.40"), gpu("L40S", "48", "0.44", position=1, x1="0.45")]
    found = saving(Decimal("33.6"), gpus)
    assert found is not None
    assert (found.fit.count, names(found.fit), found.saving) == (2, ["RTX 3090"], Decimal("0.06"))
    assert saving(Decimal(20), gpus) is None
    assert saving(Decimal(9999), gpus) is None


memories = st.sampled_from([Decimal(m) for m in ("24", "48", "80", "96", "141", "180", "262.5")])
prices = st.none() | st.decimals(min_value="0.01", max_value=20, places=2)
needs = st.decimals(min_value="0.01", max_value=2500, places=2)


@st.composite
def markets(draw: st.DrawFn) -> list[Candidate]:
    serial = count()
    return [
        Candidate(f"g{n}", f"G{n}", draw(st.integers(0, 3)), memory, price)
        for memory, price in draw(st.lists(st.tuples(memories, prices), max_size=8))
        if (n := next(serial)) is not None
    ]


@given(needs, markets())
def test_it_holds_and_nothing_smaller_does(gb: Decimal, gpus: list[Candidate]) -> None:
    totals = [n * each.memory_gb for each in gpus for n in COUNTS if n * each.memory_gb >= gb]
    found = smallest(gb, gpus)
    assert found.holds == bool(totals)
    if found.count is not None:
        assert {found.count * each.memory_gb for each in found.gpus} == {min(totals)}


@given(needs, needs, markets())
def test_more_memory_never_fits_on_less(one: Decimal, other: Decimal, gpus: list[Candidate]) -> None:
    low, high = (smallest(gb, gpus) for gb in sorted((one, other)))
    if high.count is not None:
        assert low.count is not None
        assert low.count * low.gpus[0].memory_gb <= high.count * high.gpus[0].memory_gb


@given(needs, markets(), st.randoms(use_true_random=False))
def test_the_order_of_the_gpus_is_of_no_matter(gb: Decimal, gpus: list[Candidate], dice: random.Random) -> None:
    shuffled = list(gpus)
    dice.shuffle(shuffled)
    assert smallest(gb, shuffled) == smallest(gb, gpus)
    assert cheapest(gb, shuffled) == cheapest(gb, gpus)
    assert saving(gb, shuffled) == saving(gb, gpus)


@given(needs, markets())
def test_the_cheapest_holds_and_costs_no_more(gb: Decimal, gpus: list[Candidate]) -> None:
    small, cheap = smallest(gb, gpus), cheapest(gb, gpus)
    assert small.holds == cheap.holds
    if cheap.count is not None:
        assert all(cheap.count * each.memory_gb >= gb for each in cheap.gpus)
    if small.price is not None:
        assert cheap.price is not None
        assert cheap.price <= small.price


@pytest.mark.parametrize("n", COUNTS)
def test_counts_are_those_that_machines_have(n: int) -> None:
    assert smallest(Decimal(24 * n), [gpu("A", "24")]).count == n
