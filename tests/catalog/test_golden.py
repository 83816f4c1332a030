"""The 36 agreed rows over both snapshots, and where the price to rent differs from the price shown."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from arrakis import localize
from catalog import queries
from sizing import fit, memory
from tests.catalog.market import DATA, snapshot

pytestmark = pytest.mark.django_db

GOLDEN = json.loads((DATA / "sizing-rows.json").read_text(), parse_float=Decimal)

# What one machine that holds the whole configuration costs more than its GPUs at the lowest price per GPU-hour: by
# language (snapshot), model and modes. Every row that is not here rents at the price shown, or does not fit.
RENTS_FOR_MORE = {
    "fr": {
        "Llama 3.1 8B": {"serve-16 serve-8 serve-4 qlora lora": "0.01", "full": "0.18"},
        "Qwen2.5 14B": {"serve-16 serve-8 serve-4 qlora lora": "0.01", "full": "0.88"},
        "Qwen2.5 32B": {"serve-16 lora": "0.09", "serve-8 serve-4 qlora": "0.01", "full": "1.24"},
        "Llama 3.3 70B": {"serve-16 lora": "0.50", "serve-8": "0.02", "serve-4": "0.01", "qlora": "0.09"},
        "Llama 3.1 405B": {"serve-16 lora": "0.28", "serve-8": "1.24", "serve-4": "0.88", "qlora": "0.48"},
        "GLM-5.3": {"serve-8": "0.28", "serve-4": "1.24", "qlora": "4.80"},
    },
    "pt-br": {
        "Llama 3.1 8B": {"serve-16 serve-8 serve-4 qlora lora": "0.01", "full": "0.01"},
        "Qwen2.5 14B": {"serve-16 serve-8 serve-4 qlora lora": "0.01", "full": "0.35"},
        "Qwen2.5 32B": {"serve-16 lora": "0.11", "serve-8 serve-4 qlora": "0.01", "full": "1.02"},
        "Llama 3.3 70B": {"serve-16 lora": "0.33", "serve-8": "0.07", "serve-4": "0.01", "qlora": "0.11"},
        "Llama 3.1 405B": {"serve-16 lora": "1.36", "serve-8": "1.02", "serve-4": "0.35", "qlora": "0.48"},
        "GLM-5.3": {"serve-8": "1.36", "serve-4": "1.02", "qlora": "0.16"},
    },
}


def rows(lang: str) -> Iterator[tuple[dict[str, Any], fit.Fit]]:
    gpus = queries.market().suggested
    for row in GOLDEN["rows"]:
        gb = memory.requirements(Decimal(row["params_billion"]))[row["mode"]]
        assert gb == Decimal(row["params_billion"]) * Decimal(row["gb_per_billion_params"])
        yield row, fit.smallest(gb, gpus)


def same_spaces(text: str) -> str:
    return "".join(" " if char.isspace() else char for char in text)


@pytest.mark.parametrize("lang", ["fr", "pt-br"])
def test_all_rows(lang: str) -> None:
    snapshot(lang, is_sample=True, adaptor="")
    seen = 0
    for row, found in rows(lang):
        seen += 1
        assert same_spaces(localize.memory(found.gb, lang)) == same_spaces(row["memory_shown"][lang])
        assert found.count == row["gpu_count"]
        assert [gpu.name for gpu in found.gpus] == row["gpus"]
        price = row.get("price", {}).get(lang)
        if price is None:
            assert (found.data_price, found.data_rent_price) == ("", "")
            continue
        assert found.cheapest is not None
        assert found.cheapest.name == price["cheapest_gpu"]
        assert f"{found.price_per_gpu:.2f}" == price["per_gpu_hour_usd"]
        assert found.data_price == price["per_hour_usd"]
    assert seen == 36


@pytest.mark.parametrize("lang", ["fr", "pt-br"])
def test_the_price_to_rent_differs_where_and_as_meant(lang: str) -> None:
    snapshot(lang, is_sample=True, adaptor="")
    differ: dict[tuple[str, str], Decimal] = {}
    for row, found in rows(lang):
        if found.rent_differs:
            assert found.price is not None
            assert found.rent_price is not None
            differ[row["model"], row["mode"]] = found.rent_price - found.price
    expected = {
        (model, mode): Decimal(more)
        for model, groups in RENTS_FOR_MORE[lang].items()
        for modes, more in groups.items()
        for mode in modes.split()
    }
    assert differ == expected
