from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from deploy import windows

SINCE = datetime(2026, 12, 1, tzinfo=UTC)
prices = st.decimals(min_value="0.01", max_value="999", places=6)


def test_a_second_of_an_odd_price_is_rounded_half_up() -> None:
    assert windows.due(Decimal("0.36"), 1) == Decimal("0.000100")
    assert windows.due(Decimal("0.0018"), 1) == Decimal("0.000001")  # exactly half a micro-dollar
    assert windows.due(Decimal("0.001799"), 1) == Decimal("0.000000")


@given(prices, st.lists(st.integers(1, 3600), min_size=1, max_size=60))
def test_windows_add_up_to_the_exact_price_rounded_once(price: Decimal, lengths: list[int]) -> None:
    start, total = SINCE, Decimal(0)
    for length in lengths:
        end = start + timedelta(seconds=length)
        total += windows.between(price, since=SINCE, start=start, end=end)
        start = end
    exact = Fraction(price) * sum(lengths) / 3600
    assert abs(Fraction(total) - exact) <= Fraction(1, 2_000_000)


@given(prices, st.decimals(min_value="0.000001", max_value="100000", places=6), st.integers(0, 10**7))
def test_what_is_called_affordable_is_paid_whatever_went_before(price: Decimal, amount: Decimal, used: int) -> None:
    seconds = windows.affordable_seconds(price, amount)
    start = SINCE + timedelta(seconds=used)
    assert windows.between(price, since=SINCE, start=start, end=start + timedelta(seconds=seconds)) <= amount


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 3600))
def test_a_window_is_nothing_or_a_minute_to_an_hour(affordable: int, fair: int, age: int, bound: int) -> None:
    seconds = windows.next_seconds(affordable=affordable, fair=min(fair, affordable), age=age, bound=bound)
    assert seconds == 0 or 60 <= seconds <= 3600
    assert seconds <= max(affordable, 0) and seconds <= bound
    assert (seconds == 0) == (min(affordable, bound) < 60)


def test_windows_are_short_for_small_balances_and_grow_with_age() -> None:
    hour, day = 3600, 86_400
    assert windows.next_seconds(affordable=hour, fair=hour, age=0, bound=hour) == 300
    assert windows.next_seconds(affordable=1200, fair=1200, age=hour, bound=hour) == 100
    assert windows.next_seconds(affordable=100 * day, fair=100 * day, age=0, bound=hour) == 300
    assert windows.next_seconds(affordable=100 * day, fair=100 * day, age=900, bound=hour) == 900
    assert windows.next_seconds(affordable=100 * day, fair=100 * day, age=day, bound=hour) == hour


def test_the_last_window_takes_what_would_be_too_short_for_another() -> None:
    assert windows.next_seconds(affordable=119, fair=119, age=600, bound=3600) == 119
    assert windows.next_seconds(affordable=120, fair=120, age=600, bound=3600) == 60
    assert windows.next_seconds(affordable=59, fair=59, age=600, bound=3600) == 0
