"""US dollars, as the reader writes them: the sum shown is the sum meant, more digits where cents do not hold it."""

from __future__ import annotations

from decimal import Decimal

from babel.numbers import format_decimal, get_currency_symbol
from django.utils import translation
from django.utils.translation import gettext as _

from arrakis.localize.languages import Language, language
from arrakis.localize.numbers import exact


def money(usd: Decimal | int, lang: str | None = None) -> str:
    """`$36.80`, `36,80 $` (fr), `US$ 0,19` (pt-br), `$0.000123`. At least cents, and every digit that is not zero."""
    return _dollars(exact(usd), language(lang))


def per_hour(usd: Decimal | int, lang: str | None = None) -> str:
    """`$36.80 per hour`, in the words of `lang`."""
    with translation.override(lang or translation.get_language()):
        return _("%(price)s per hour") % {"price": money(usd, lang)}


def per_gpu_hour(usd: Decimal | int, lang: str | None = None) -> str:
    """`$4.60 per GPU-hour`, in the words of `lang`."""
    with translation.override(lang or translation.get_language()):
        return _("%(price)s per GPU-hour") % {"price": money(usd, lang)}


def plain(usd: Decimal | int) -> str:
    """For attributes and JSON: `36.80`, `0.000123`; never grouped, never an exponent."""
    value = exact(usd)
    return f"{value:.{_decimals(value)}f}"


def _dollars(value: Decimal, spoken: Language) -> str:
    sign = spoken.dollar or get_currency_symbol("USD", locale=spoken.locale)
    pattern = spoken.locale.currency_formats["standard"].pattern
    pattern = pattern.replace("¤", f"'{sign}'").replace("0.00", "0." + "0" * _decimals(value))
    grouped = len(str(abs(int(value)))) >= spoken.grouped_from
    return format_decimal(value, format=pattern, locale=spoken.locale, group_separator=grouped)


def _decimals(value: Decimal) -> int:
    return max(2, -int(value.normalize().as_tuple().exponent))
