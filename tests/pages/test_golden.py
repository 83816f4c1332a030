"""The 36 agreed rows as pages show them: over both snapshots, in both languages, every figure of every cell."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from babel.numbers import format_decimal
from django.test import Client

from tests.pages.conftest import DATA
from tests.pages.parsing import Element, parse

GOLDEN = json.loads((DATA / "sizing-rows.json").read_text(), parse_float=Decimal)
GUIDE = "guide:gpu-memory"


def money(usd: str, lang: str) -> str:
    """Written here apart from the product's own formatter: `36,80 $`, `US$ 0,19`."""
    digits = format_decimal(Decimal(usd), "#,##0.00", locale={"fr": "fr", "pt-br": "pt_BR"}[lang])
    return f"{digits} $" if lang == "fr" else f"US$ {digits}"


def spaced(text: str) -> str:
    return "".join(" " if char.isspace() else char for char in text)


@pytest.fixture
def cells(market: Callable[[str], None], visitor: Client) -> Callable[[str], Callable[[dict[str, Any]], Element]]:
    def load(lang: str) -> Callable[[dict[str, Any]], Element]:
        market(lang)
        guide = parse(visitor.get(f"/{lang}/guides/gpu-memory/").content.decode())
        model = parse(visitor.get(f"/{lang}/models/glm-5-3/").content.decode())

        def cell(row: dict[str, Any]) -> Element:
            # One table serves, the other tunes: a model has a row in both.
            where = guide.find("tr", data_params=str(row["params_billion"])) if row["page"] == GUIDE else [model]
            (found,) = [cell for part in where for cell in part.find("td", data_mode=row["mode"])]
            return found

        return cell

    return load


@pytest.mark.parametrize("lang", ["fr", "pt-br"])
def test_every_row(lang: str, cells: Callable[[str], Callable[[dict[str, Any]], Element]]) -> None:
    cell_of = cells(lang)
    assert len(GOLDEN["rows"]) == 36
    for row in GOLDEN["rows"]:
        cell = cell_of(row)
        text = spaced(cell.text)
        assert Decimal(cell.attributes["data-gb"]) == Decimal(row["params_billion"]) * Decimal(
            row["gb_per_billion_params"]
        )
        assert "E" not in cell.attributes["data-gb"]
        assert spaced(row["memory_shown"][lang]) in text
        assert cell.attributes["data-count"] == ("" if row["gpu_count"] is None else str(row["gpu_count"]))
        assert cell.attributes["data-gpus"] == "|".join(row["gpus"])
        price = row.get("price", {}).get(lang)
        if price is None:
            assert (cell.attributes["data-price"], cell.attributes["data-rent-price"]) == ("", "")
            continue
        assert cell.attributes["data-price"] == price["per_hour_usd"]
        assert money(price["per_hour_usd"], lang) in text
        assert price["cheapest_gpu"] in text
        rent = cell.attributes["data-rent-price"]
        if rent and rent != price["per_hour_usd"]:
            assert money(rent, lang) in text


def test_a_configuration_on_its_own_machine_is_priced_as_the_market_has_it(
    market: Callable[[str], None], visitor: Client
) -> None:
    """GLM-5.3 in 8 bits: 4 x B300 at the lowest price, 28 cents less than the one machine that holds four."""
    market("fr")
    page = parse(visitor.get("/fr/models/glm-5-3/").content.decode())
    (cell,) = page.find("td", data_mode="serve-8")
    assert (cell.attributes["data-price"], cell.attributes["data-rent-price"]) == ("18.40", "18.68")
    assert "18,68 $" in spaced(cell.text)
