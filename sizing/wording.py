"""How a configuration and its price read, the rules of DESIGN section 4: in the reader's language.

one GPU        RTX 4090 or RTX 3090, RTX 3090 from $0.19 per GPU-hour
several        4 × B300, from $18.40 per hour for all 4
nothing holds  more than one machine of eight GPUs
no live price  8 × H200, no live price right now
"""

from __future__ import annotations

from collections.abc import Iterable

from babel.lists import format_list
from django.utils.translation import gettext as _
from django.utils.translation import pgettext

from arrakis import localize
from arrakis.localize.languages import language
from arrakis.localize.money import money
from sizing.fit import Fit


def any_of(names: Iterable[str]) -> str:
    """`L40S, RTX 6000 Ada or RTX A6000`"""
    return format_list(list(names), style="or", locale=language().locale)


def all_of(names: Iterable[str]) -> str:
    return format_list(list(names), style="standard", locale=language().locale)


def configuration(fit: Fit) -> str:
    """`RTX 4090 or RTX 3090`, `4 × B300`; several GPUs name only the cheapest."""
    if fit.count is None or fit.cheapest is None:
        return _("more than one machine of eight GPUs")
    if fit.count == 1:
        return any_of(gpu.name for gpu in fit.gpus)
    return f"{fit.count} × {fit.cheapest.name}"


def price(fit: Fit) -> str:
    """The price shown, without the configuration; empty where nothing holds it."""
    if fit.count is None or fit.cheapest is None:
        return ""
    if fit.price is None or fit.price_per_gpu is None:
        return _("no live price right now")
    if fit.count > 1:
        return _("from %(price)s per hour for all %(count)d") % {"price": money(fit.price), "count": fit.count}
    if len(fit.gpus) > 1:
        named = {"gpu": fit.cheapest.name, "price": money(fit.price_per_gpu)}
        return _("%(gpu)s from %(price)s per GPU-hour") % named
    return _("from %(price)s per GPU-hour") % {"price": money(fit.price_per_gpu)}


def rent(fit: Fit) -> str:
    """The price to rent now, where it differs from the price shown; else empty."""
    if not fit.rent_differs or fit.rent_price is None or fit.rent_gpu is None:
        return ""
    asked = {"gpu": fit.rent_gpu.name, "price": localize.per_hour(fit.rent_price)}
    return _("to rent now, one machine with %(gpu)s: %(price)s") % asked


def sentence(fit: Fit) -> str:
    """Configuration and price in one clause."""
    said = price(fit)
    joined = {"configuration": configuration(fit), "price": said}
    return pgettext("configuration, price", "%(configuration)s, %(price)s") % joined if said else configuration(fit)
