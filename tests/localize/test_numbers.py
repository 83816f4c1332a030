from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.template import Context, Template
from django.utils import translation
from hypothesis import given
from hypothesis import strategies as st

from arrakis import localize
from arrakis.localize.languages import LANGUAGES

GOLDEN = json.loads((Path(__file__).parent.parent / "data" / "sizing-rows.json").read_text(), parse_float=Decimal)
NBSP, NARROW = "\N{NO-BREAK SPACE}", "\N{NARROW NO-BREAK SPACE}"


def same_spaces(text: str) -> str:
    return "".join(" " if char.isspace() else char for char in text)


def test_the_table_has_every_language_of_the_code() -> None:
    assert list(LANGUAGES) == [code for code, _name in settings.ALL_LANGUAGES]


@pytest.mark.parametrize("row", GOLDEN["rows"], ids=lambda row: f"{row['model']}/{row['mode']}")
@pytest.mark.parametrize("lang", ["fr", "pt-br"])
def test_golden_memory(row: dict[str, Any], lang: str) -> None:
    gb = Decimal(row["params_billion"]) * Decimal(row["gb_per_billion_params"])
    assert same_spaces(localize.memory(gb, lang)) == same_spaces(row["memory_shown"][lang])


def test_memory_spaces_are_the_ones_that_do_not_break() -> None:
    assert localize.memory(Decimal("1807.92"), "fr") == f"1{NARROW}808{NBSP}Go"
    assert localize.memory(Decimal("1120"), "pt-br") == f"1.120{NBSP}GB"
    assert localize.memory(Decimal("1807.92"), "en") == f"1,808{NBSP}GB"


@pytest.mark.parametrize(
    ("gb", "shown"),
    [
        ("9.94", "9.9"),
        ("9.95", "10"),
        ("9.96", "10"),
        ("0.05", "0.1"),
        ("8", "8.0"),
        ("10.5", "11"),
        ("999.5", "1,000"),
        ("0", "0.0"),
    ],
)
def test_memory_is_rounded_half_up_before_its_decimals_are_chosen(gb: str, shown: str) -> None:
    assert localize.memory(Decimal(gb), "en") == f"{shown}{NBSP}GB"


def test_something_is_never_shown_as_nothing() -> None:
    assert localize.memory(Decimal("0.04"), "fr") == f"<{NBSP}0,1{NBSP}Go"


def test_what_a_gpu_has_is_exact() -> None:
    assert localize.gpu_memory(Decimal("262.50"), "fr") == f"262,5{NBSP}Go"
    assert localize.gpu_memory(Decimal("24.00"), "en") == f"24{NBSP}GB"
    assert localize.gpu_memory(Decimal("120.00"), "en") == f"120{NBSP}GB"


@pytest.mark.parametrize(
    ("usd", "lang", "shown"),
    [
        ("36.8", "en", "$36.80"),
        ("36.8", "fr", f"36,80{NBSP}$"),
        ("0.190000", "pt-br", f"US${NBSP}0,19"),
        ("1234567.5", "fr", f"1{NARROW}234{NARROW}567,50{NBSP}$"),
        ("-3", "en", "-$3.00"),
        ("0", "en", "$0.00"),
        ("0.000123", "en", "$0.000123"),
        ("12.345678", "fr", f"12,345678{NBSP}$"),
        ("12.3450", "en", "$12.345"),
        ("36.80", "de", f"36,80{NBSP}$"),
        ("36.80", "tr", "$36,80"),
        ("1808", "es", f"1808,00{NBSP}US$"),
        ("18080", "es", f"18.080,00{NBSP}US$"),
    ],
)
def test_money(usd: str, lang: str, shown: str) -> None:
    assert localize.money(Decimal(usd), lang) == shown


@given(st.decimals(min_value=-(10**12), max_value=10**12, places=6), st.sampled_from(list(LANGUAGES)))
def test_money_never_shows_another_sum(usd: Decimal, lang: str) -> None:
    shown = localize.money(usd, lang)
    digits = "".join(char for char in shown if char.isdigit())
    decimals = max(2, -int(usd.normalize().as_tuple().exponent))
    assert Decimal(int(digits)).scaleb(-decimals) == abs(usd)
    assert ("-" in shown) == (usd < 0)


@pytest.mark.parametrize("lang", list(LANGUAGES))
def test_a_number_and_its_unit_stay_on_one_line(lang: str) -> None:
    now = datetime(2026, 10, 31, 17, 40, tzinfo=UTC)
    for shown in (
        localize.memory(Decimal("1807.92"), lang),
        localize.gpu_memory(Decimal("262.5"), lang),
        localize.data(1_400_000_000, lang),
        localize.money(Decimal("1036.80"), lang),
        localize.duration(7500, lang),
        localize.number(1_234_567, lang),
    ):
        assert " " not in shown
    assert localize.moment(now, lang).endswith(f"{NBSP}UTC")


@pytest.mark.parametrize("wrong", [1.5, "1.5", True, None])
@pytest.mark.parametrize("function", [localize.memory, localize.money, localize.number, localize.plain])
def test_what_is_not_exact_is_refused(function: Any, wrong: object) -> None:
    with pytest.raises(TypeError):
        function(wrong)


def test_plain_is_for_machines() -> None:
    assert [localize.plain(Decimal(usd)) for usd in ("36.8", "1E+3", "0.000123")] == ["36.80", "1000.00", "0.000123"]


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (753_300_000_000, "753B"),
        (8_030_261_248, "8B"),
        (7_615_616_512, "7.6B"),
        (14_770_033_664, "14.8B"),
        (134_515_008, "135M"),
        (1_058_000_000_000, "1.06T"),
        (1_000_000_000_000, "1T"),
        (999_600_000_000, "1T"),
        (999_400_000_000, "999B"),
        (99_960_000_000, "100B"),
        (950, "950"),
        (0, "0"),
    ],
)
def test_parameters(count: int, shown: str) -> None:
    assert localize.parameters(count) == shown


def test_parameters_are_the_same_in_every_language() -> None:
    for lang in LANGUAGES:
        with translation.override(lang):
            assert localize.parameters(7_615_616_512) == "7.6B"


def test_progress_is_never_done_before_it_is() -> None:
    assert localize.progress(999_999, 1_000_000, "en").endswith("(99%)")
    assert localize.progress(2_000_000, 1_000_000, "en") == f"1.0{NBSP}MB / 1.0{NBSP}MB (100%)"
    assert localize.progress(-5, 0, "en") == f"0{NBSP}B"
    assert localize.progress(72_000_000, 145_000_000, "fr") == f"72{NBSP}Mo / 145{NBSP}Mo (49{NBSP}%)"


def test_percent() -> None:
    assert localize.percent(Decimal("0.2"), "en") == "20%"
    assert localize.percent(Decimal("0.2"), "fr") == f"20{NBSP}%"
    assert localize.percent(Decimal("0.0004"), "en") == "0%"


def test_dates() -> None:
    released = date(2026, 8, 25)
    assert localize.day(released, "en") == "August 25, 2026"
    assert localize.day(released, "fr") == "25 août 2026"
    assert localize.day(released, "pt-br") == "25 de agosto de 2026"
    ahead = datetime(2026, 10, 31, 23, 40, tzinfo=timezone(timedelta(hours=-3)))
    assert localize.day(ahead, "en") == "November 1, 2026"
    assert localize.moment(ahead, "fr") == f"1 nov. 2026, 02:40{NBSP}UTC"


def test_a_time_without_its_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="zone"):
        localize.moment(datetime(2026, 10, 31, 17, 40), "en")  # noqa: DTZ001


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-5, "0 s"),
        (40, "40 s"),
        (300, "5 min"),
        (320, "5 min 20 s"),
        (7500, "2 h 05 min"),
        (7200, "2 h"),
        (273_600, "3 d 4 h"),
    ],
)
def test_duration(seconds: int, shown: str) -> None:
    assert same_spaces(localize.duration(seconds, "en")) == shown


def test_age_is_never_in_the_future() -> None:
    now = datetime(2026, 10, 31, 17, 40, tzinfo=UTC)
    assert localize.age(now - timedelta(seconds=40), now, "fr") == f"il y a 40{NBSP}secondes"
    assert localize.age(now + timedelta(hours=1), now, "en") == localize.age(now, now, "en")


def test_filters_speak_the_readers_language_and_say_nothing_of_nothing() -> None:
    template = Template(
        "{% load localize %}{{ gb|memory }} {{ usd|money }} {{ missing|money }}{{ n|parameters }} {{ a|progress:b }}"
    )
    context = Context({"gb": Decimal("1807.92"), "usd": Decimal("36.8"), "n": 8_030_261_248, "a": 1, "b": 2})
    with translation.override("fr"):
        assert same_spaces(template.render(context)) == "1 808 Go 36,80 $ 8B 1 o / 2 o (50 %)"
    with translation.override("pt-br"):
        assert same_spaces(template.render(context)) == "1.808 GB US$ 36,80 8B 1 B / 2 B (50%)"
