"""Amounts of money: Decimal, US dollars, six places, positive; anything else is refused, never rounded away."""

from __future__ import annotations

from decimal import Decimal

from arrakis.errors import BadRequest

PLACES = Decimal("0.000001")
ZERO = Decimal("0.000000")
LIMIT = Decimal(10) ** 14
"""NUMERIC(20,6) holds less than this."""


class InvalidAmount(BadRequest):
    """Not a positive, finite Decimal of at most six places."""


def money(amount: Decimal) -> Decimal:
    """`amount` with exactly six places.

    Raises:
        InvalidAmount: a float, NaN, infinity, zero, less than zero, more than six places or more than the column holds.
    """
    if not isinstance(amount, Decimal) or not amount.is_finite() or not 0 < amount < LIMIT:
        raise InvalidAmount("invalid_amount", amount=str(amount))
    exact = amount.quantize(PLACES)
    if exact != amount:
        raise InvalidAmount("invalid_amount", amount=str(amount))
    return exact
