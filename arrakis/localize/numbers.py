"""Numbers, percentages, parameter counts, memory and amounts of data, as the reader writes them.

Decimals and integers only: a float has already lost what these functions promise to show.
Memory is in decimal gigabytes (10^9 bytes), as the sizing rules are.
"""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal

from babel.numbers import format_decimal, format_percent

from arrakis.localize.languages import NBSP, Language, language


def exact(value: Decimal | int) -> Decimal:
    """`value` as a Decimal. Raises TypeError for anything that is not exact (float, str, bool)."""
    if isinstance(value, bool) or not isinstance(value, Decimal | int):
        raise TypeError(f"a Decimal or an int is needed here, not {type(value).__name__}")
    return Decimal(value)


def round_half_up(value: Decimal, places: int) -> Decimal:
    """Rounded as people do at a till, not to even: 0.05 -> 0.1, 0.15 -> 0.2."""
    return value.quantize(Decimal(1).scaleb(-places), rounding=ROUND_HALF_UP)


def number(value: Decimal | int, lang: str | None = None) -> str:
    """`1,808`, `1 808` (fr), `1.808` (pt-br): grouped, with the decimals that `value` has and no others."""
    return _plain(exact(value), language(lang))


def percent(value: Decimal | int, lang: str | None = None) -> str:
    """A share (0.2 -> `20%`, `20 %` in French), with at most one decimal."""
    spoken = language(lang)
    share = round_half_up(exact(value), 3).normalize()
    return format_percent(share, locale=spoken.locale, decimal_quantization=False)


def parameters(count: int) -> str:
    """A count of parameters, with the same letters and the same point in every language.

    `753B`, `14.8B`, `8B`, `7.6B`, `135M`, `1.06T`: trillions keep two decimals, others one decimal under 100 and none
    above; zeros behind the point are dropped. Under a thousand, the plain number.
    """
    scaled = exact(count)
    for letter in ("", "K", "M", "B", "T"):
        places = 0 if letter == "" else 2 if letter == "T" else _places(scaled, 100)
        shown = round_half_up(scaled, places)
        if shown < 1000 or letter == "T":
            return f"{shown:f}".rstrip("0").rstrip(".") + letter if places else f"{shown:f}{letter}"
        scaled /= 1000
    raise AssertionError("unreachable: the last letter always answers")


def memory(gb: Decimal | int, lang: str | None = None) -> str:
    """What a model needs, `gb` decimal gigabytes: `1,808 GB`, `1 808 Go` (fr), `9,6 GB` (pt-br).

    Rounded half up first, then one decimal under 10 and none above (DESIGN section 4). What rounds to nothing but is
    something reads `< 0.1 GB`.
    """
    value, spoken = exact(gb), language(lang)
    shown = round_half_up(value, _places(value))
    if shown == 0 and value > 0:
        return f"<{NBSP}{_sized(Decimal('0.1'), spoken, 3)}"
    return _sized(shown, spoken, 3)


def gpu_memory(gb: Decimal | int, lang: str | None = None) -> str:
    """What a GPU has, exactly as its maker states it: `24 GB`, `262.5 GB`."""
    return _sized(_trimmed(exact(gb)), language(lang), 3)


def data(count: int, lang: str | None = None) -> str:
    """An amount of data in decimal units: `0 B`, `999 kB`, `105 MB`, `1.4 GB`."""
    scaled, spoken = exact(count), language(lang)
    for step in range(5):
        shown = round_half_up(scaled, _places(scaled) if step else 0)
        if shown < 1000 or step == 4:
            return _sized(shown, spoken, step)
        scaled /= 1000
    raise AssertionError("unreachable: the last unit always answers")


def progress(done: int, total: int, lang: str | None = None) -> str:
    """`72 MB / 145 MB (49%)`; without a total, what is done. Never more than the total, never 100% before it is."""
    if total <= 0:
        return data(max(done, 0), lang)
    done = min(max(done, 0), total)
    share = Decimal(done * 100 // total) / 100
    return f"{data(done, lang)} / {data(total, lang)} ({percent(share, lang)})"


def _places(value: Decimal, below: int = 10) -> int:
    return 1 if round_half_up(value, 1) < below else 0


def _sized(value: Decimal, spoken: Language, unit: int) -> str:
    return f"{_plain(value, spoken)}{NBSP}{spoken.byte_units[unit]}"


def _plain(value: Decimal, spoken: Language) -> str:
    decimals = max(0, -int(value.as_tuple().exponent))
    pattern = "#,##0" + ("." + "0" * decimals if decimals else "")
    grouped = len(str(abs(int(value)))) >= spoken.grouped_from
    return format_decimal(value, format=pattern, locale=spoken.locale, group_separator=grouped)


def _trimmed(value: Decimal) -> Decimal:
    return value.quantize(Decimal(1)) if value == value.to_integral_value() else value.normalize()
