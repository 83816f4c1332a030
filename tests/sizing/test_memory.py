from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sizing import memory


def test_glm_5_3_is_exact() -> None:
    assert {mode: str(gb) for mode, gb in memory.requirements(Decimal("753.3")).items()} == {
        "serve-16": "1807.92",
        "serve-8": "903.96",
        "serve-4": "451.98",
        "qlora": "527.31",
        "lora": "1807.92",
        "full": "12052.8",
    }


def test_modes_stand_in_the_order_of_the_pages() -> None:
    assert memory.MODES == memory.SERVING + memory.TUNING == tuple(memory.requirements(1))


@pytest.mark.parametrize("wrong", [0, -1, Decimal(0), Decimal("NaN"), Decimal("Infinity")])
def test_a_model_has_a_size(wrong: Decimal) -> None:
    with pytest.raises(ValueError, match="more than no parameters"):
        memory.requirements(wrong)


@pytest.mark.parametrize("wrong", [7.6, "7.6", True])
def test_sizes_are_exact(wrong: object) -> None:
    with pytest.raises(TypeError):
        memory.requirements(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "billions"),
    [("70B", "70"), ("7.6b", "7.6"), (" 135M ", "0.135"), ("1.06T", "1060"), ("500 K", "0.0005")],
)
def test_sizes_as_people_say_them(text: str, billions: str) -> None:
    assert memory.parse_size(text) == Decimal(billions)


@pytest.mark.parametrize("text", ["", "B", "0B", "70", "-1B", "70BB", "zai-org/GLM-5.3", "7e9B", "٧B", "9" * 40 + "B"])
def test_what_is_no_size(text: str) -> None:
    assert memory.parse_size(text) is None


@given(st.integers(min_value=1, max_value=10**15))
def test_billions_lose_nothing(params: int) -> None:
    assert memory.billions(params).scaleb(9) == params


@given(st.decimals(min_value="0.001", max_value=10_000, places=3))
def test_less_precision_and_less_training_need_less(billions: Decimal) -> None:
    need = memory.requirements(billions)
    assert need["serve-4"] * 2 == need["serve-8"]
    assert need["serve-8"] * 2 == need["serve-16"] == need["lora"]
    assert need["qlora"] < need["lora"] < need["full"]
    assert all("E" not in f"{gb:f}" for gb in need.values())
