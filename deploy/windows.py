"""How long a window is, and what time costs: whole seconds, exact integers, six places (pure).

Charges are rounded cumulatively: what a window costs is what is due at its end minus what was due at its start, both
counted from the moment charging began. So the sum over any number of windows is the exact price of the whole time,
rounded once, and never more than a micro-dollar away from it.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import ROUND_FLOOR, Decimal

SHORTEST_SECONDS = 60
LONGEST_SECONDS = 3600
FIRST_SECONDS = 300
"""A young machine is the likeliest to be stopped: its windows grow with its age, from here."""
WINDOWS_COVERED = 12
"""A window is at most this part of what the balance covers, so that little of a small balance is ever bound."""

_SECOND = timedelta(seconds=1)
_MICRO = Decimal(1_000_000)


def due(price_per_hour: Decimal, seconds: int) -> Decimal:
    """US dollars for `seconds` at `price_per_hour` (six places), rounded half up to six places."""
    micros = int(price_per_hour * _MICRO) * seconds
    return Decimal((2 * micros + 3600) // 7200).scaleb(-6)


def between(price_per_hour: Decimal, *, since: datetime, start: datetime, end: datetime) -> Decimal:
    """What [start, end) costs of a machine charged since `since`."""
    return due(price_per_hour, seconds_between(since, end)) - due(price_per_hour, seconds_between(since, start))


def seconds_between(start: datetime, end: datetime) -> int:
    """Whole seconds from start to end, a started one not counted; 0 where end is before start."""
    return max((end - start) // _SECOND, 0)


def affordable_seconds(price_per_hour: Decimal, amount: Decimal) -> int:
    """Whole seconds that `amount` pays for, wherever cumulative rounding stands (it may ask a micro-dollar more)."""
    exact = (amount - Decimal("0.000001")) * 3600 / price_per_hour
    return max(int(exact.to_integral_value(rounding=ROUND_FLOOR)), 0)


def next_seconds(*, affordable: int, fair: int, age: int, bound: int) -> int:
    """Length of the next window in seconds; 0 where not even the shortest can be had.

    Args:
        affordable: what the money covers, if this machine took all of it.
        fair: what it covers, shared with the owner's other machines.
        age: how long the machine has been charged.
        bound: what limits and evidence allow.
    """
    most = min(affordable, bound, LONGEST_SECONDS)
    if most < SHORTEST_SECONDS:
        return 0
    wanted = max(SHORTEST_SECONDS, min(fair // WINDOWS_COVERED, max(FIRST_SECONDS, age)))
    if affordable - wanted < SHORTEST_SECONDS:
        wanted = affordable  # what would be left could not be bought as a window of its own
    return min(wanted, most)
