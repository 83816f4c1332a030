"""`{% load sizing %}`: a fit, in words and as a drawing."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from django import template

from sizing import wording
from sizing.fit import Fit

register = template.Library()

register.filter("configuration", wording.configuration)
register.filter("price_shown", wording.price)
register.filter("rent_price_shown", wording.rent)
register.filter("in_words", wording.sentence)


@register.filter
def filled(fit: Fit) -> Decimal | None:
    """The share of the configuration's memory that is used, 0 to 1; None where nothing holds it."""
    if fit.count is None or fit.cheapest is None:
        return None
    return (fit.gb / (fit.count * fit.cheapest.memory_gb)).quantize(Decimal("0.01"))


@register.filter
def of(mapping: Mapping[Any, Any], key: object) -> object:
    """`{{ fits|of:"serve-4" }}`: what is under a key that a template's dot cannot name; None where nothing is."""
    return mapping.get(key)
