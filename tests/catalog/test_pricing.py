from __future__ import annotations

import random
from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.pricing import CENT, Rule, Scope, cents, price

H100 = Scope(gpu=1, gpu_count=8, provider=1, region="FR")


def usd(text: str) -> Decimal:
    return Decimal(text)


@pytest.mark.parametrize(
    ("amount", "rounded"), [("1.655", "1.66"), ("1.6549", "1.65"), ("0.005", "0.01"), ("2", "2.00")]
)
def test_cents_are_rounded_half_up(amount: str, rounded: str) -> None:
    assert str(cents(usd(amount))) == rounded


def test_without_a_rule_the_price_is_the_cost() -> None:
    assert price(usd("2.071"), H100, []) == usd("2.07")


def test_nothing_is_given_away() -> None:
    assert price(usd("0.000001"), H100, []) == CENT


def test_a_margin_is_added_and_rounded_once() -> None:
    rule = Rule(1, percent=usd("10"), add=usd("0.004"))
    assert price(usd("1.00"), H100, [rule]) == usd("1.10")
    assert price(usd("1.01"), H100, [rule]) == usd("1.12")  # 1.115


def test_a_fixed_price_wins_over_the_narrowest_margin() -> None:
    narrow = Rule(1, gpu=1, gpu_count=8, provider=1, region="FR", percent=usd("50"))
    assert price(usd("1"), H100, [narrow, Rule(2, gpu=1, fixed=usd("3"))]) == usd("3")


def test_the_narrowest_wins_and_then_the_one_for_the_gpu() -> None:
    everything, gpu, provider = (
        Rule(1, percent=usd("1")),
        Rule(2, gpu=1, percent=usd("2")),
        Rule(3, provider=1, add=usd("3")),
    )
    both = Rule(4, gpu=1, region="FR", percent=usd("4"))
    assert price(usd("1"), H100, [everything, gpu, provider]) == usd("1.02")
    assert price(usd("1"), H100, [everything, gpu, provider, both]) == usd("1.04")


@pytest.mark.parametrize("other", [{"gpu": 2}, {"gpu_count": 4}, {"provider": 2}, {"region": "US"}, {"region": ""}])
def test_a_rule_covers_only_its_scope(other: dict[str, int | str]) -> None:
    assert price(usd("1"), H100, [Rule(1, fixed=usd("9"), **other)]) == usd("1")  # type: ignore[arg-type]


def test_never_below_the_floor_nor_below_cost_unless_meant() -> None:
    assert price(usd("1"), H100, [Rule(1, percent=usd("5"), floor=usd("1.50"))]) == usd("1.50")
    assert price(usd("2"), H100, [Rule(1, fixed=usd("1"))]) == usd("2")
    assert price(usd("2"), H100, [Rule(1, fixed=usd("1"), below_cost_ok=True)]) == usd("1")
    assert price(usd("2"), H100, [Rule(1, percent=usd("-50"))]) == usd("2")


amounts = st.decimals(min_value="0.01", max_value=20, places=3)


@st.composite
def rule_books(draw: st.DrawFn) -> list[Rule]:
    """No two rules share a scope, as the database keeps it."""
    scopes = draw(
        st.sets(
            st.tuples(
                st.sampled_from([None, 1, 2]),
                st.sampled_from([None, 1, 8]),
                st.sampled_from([None, 1, 2]),
                st.sampled_from([None, "FR", "US"]),
            ),
            max_size=8,
        )
    )
    rules = []
    for number, (gpu, count, provider, region) in enumerate(sorted(scopes, key=str)):
        rule = Rule(number, gpu, count, provider, region, below_cost_ok=draw(st.booleans()))
        if draw(st.booleans()):
            rules.append(replace(rule, fixed=draw(amounts)))
        else:
            rules.append(replace(rule, percent=draw(st.decimals(min_value=-90, max_value=90, places=2))))
    return rules


@given(amounts, rule_books(), st.randoms(use_true_random=False))
def test_the_order_of_the_rules_is_of_no_matter(cost: Decimal, rules: list[Rule], dice: random.Random) -> None:
    shuffled = list(rules)
    dice.shuffle(shuffled)
    assert price(cost, H100, shuffled) == price(cost, H100, rules)


@given(amounts, amounts, rule_books())
def test_what_costs_more_is_never_priced_lower(one: Decimal, other: Decimal, rules: list[Rule]) -> None:
    low, high = sorted((one, other))
    assert price(low, H100, rules) <= price(high, H100, rules)


@given(amounts, rule_books())
def test_a_price_is_whole_cents(cost: Decimal, rules: list[Rule]) -> None:
    amount = price(cost, H100, rules)
    assert amount == cents(amount) >= CENT
