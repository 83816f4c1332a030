"""Dates by CLDR, times in UTC, lengths of time and ages."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta

from babel.dates import format_date, format_time, format_timedelta

from arrakis.localize.languages import NBSP, language


def day(value: date, lang: str | None = None) -> str:
    """`August 25, 2026`, `25 août 2026`, `25 de agosto de 2026`. A time is taken to its day in UTC."""
    if isinstance(value, datetime):
        value = _in_utc(value).date()
    return format_date(value, format="long", locale=language(lang).locale)


def moment(value: datetime, lang: str | None = None) -> str:
    """`Oct 31, 2026, 5:40 PM UTC`, `31 oct. 2026, 17:40 UTC`. Raises ValueError for a time without its zone."""
    utc, locale = _in_utc(value), language(lang).locale
    glue = str(locale.datetime_formats["medium"])
    shown = glue.replace("{1}", format_date(utc, format="medium", locale=locale))
    return shown.replace("{0}", format_time(utc, format="short", locale=locale)) + f"{NBSP}UTC"


def duration(seconds: int, lang: str | None = None) -> str:
    """`40 s`, `5 min`, `5 min 20 s`, `2 h 05 min`, `3 d 4 h`: the two largest units; negative reads as none."""
    spoken, seconds = language(lang), max(int(seconds), 0)
    minutes, second = divmod(seconds, 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    if days:
        return _two((days, spoken.day), (hour, spoken.hour))
    if hours:
        return _two((hours, spoken.hour), (minute, spoken.minute), pad=True)
    if minutes:
        return _two((minutes, spoken.minute), (second, spoken.second), pad=True)
    return f"{second}{NBSP}{spoken.second}"


def age(seen: datetime, now: datetime, lang: str | None = None) -> str:
    """`40 seconds ago`, `il y a 40 secondes`: by CLDR, never in the future."""
    past = max(_in_utc(now) - _in_utc(seen), timedelta(0))
    shown = format_timedelta(-past, add_direction=True, threshold=1, locale=language(lang).locale)
    return re.sub(r"(?<=\d) ", NBSP, shown)


def _two(first: tuple[int, str], second: tuple[int, str], *, pad: bool = False) -> str:
    shown = f"{first[0]}{NBSP}{first[1]}"
    if not second[0]:
        return shown
    return f"{shown}{NBSP}{second[0]:0{2 if pad else 1}d}{NBSP}{second[1]}"


def _in_utc(value: datetime) -> datetime:
    if value.tzinfo is None:
        raise ValueError("a time without its zone cannot be shown")
    return value.astimezone(UTC)
