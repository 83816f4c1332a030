"""The table of every language the code can speak: its name in CLDR, and where the shop's habits differ from CLDR."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from babel import Locale
from django.utils import translation

NBSP = "\N{NO-BREAK SPACE}"
DEFAULT = "en"


@dataclass(frozen=True)
class Language:
    """`dollar` replaces CLDR's sign for USD; numbers shorter than `grouped_from` digits are not grouped (CLDR's
    minimumGroupingDigits, which Babel does not apply); units are written after the number and a no-break space."""

    cldr: str
    dollar: str | None = None
    grouped_from: int = 4
    byte_units: tuple[str, str, str, str, str] = ("B", "kB", "MB", "GB", "TB")
    day: str = "d"
    hour: str = "h"
    minute: str = "min"
    second: str = "s"

    @property
    def locale(self) -> Locale:
        return _locale(self.cldr)


LANGUAGES: dict[str, Language] = {
    "en": Language("en_US"),
    "fr": Language("fr_FR", dollar="$", byte_units=("o", "ko", "Mo", "Go", "To"), day="j"),
    "pt-br": Language("pt_BR"),
    "es": Language("es_ES", grouped_from=5),
    "de": Language("de_DE", day="T"),
    "it": Language("it_IT", day="g"),
    "nl": Language("nl_NL", hour="u"),
    "pl": Language("pl_PL", grouped_from=5),
    "tr": Language("tr_TR", day="g", hour="sa", minute="dk", second="sn"),
    "ja": Language("ja_JP", day="日", hour="時間", minute="分", second="秒"),
    "ko": Language("ko_KR", day="일", hour="시간", minute="분", second="초"),
    "zh-hans": Language("zh_Hans_CN", day="天", hour="小时", minute="分钟", second="秒"),
    "ar": Language(
        "ar",
        byte_units=("بايت", "ك.ب", "م.ب", "غ.ب", "ت.ب"),
        day="ي",
        hour="س",
        minute="د",
        second="ث",
    ),
}


@cache
def _locale(cldr: str) -> Locale:
    return Locale.parse(cldr)


def language(code: str | None = None) -> Language:
    """The row for `code`, or for the reader's active language; English where the code is not in the table."""
    return LANGUAGES.get((code or translation.get_language() or DEFAULT).lower(), LANGUAGES[DEFAULT])
