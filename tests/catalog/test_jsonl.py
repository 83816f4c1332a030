from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from catalog.sources.jsonl import MalformedOffers, read

AT = datetime(2026, 10, 31, 17, 40, tzinfo=UTC)
DATA = Path(__file__).parent.parent / "data"
GOOD = {"machine": "m1", "gpu": "H100", "gpu_count": 2, "price_per_gpu_hour": "2.30", "currency": "USD", "region": "SG"}


def line(**changes: Any) -> str:
    return json.dumps({**GOOD, **changes})


def problems(*lines: str) -> list[str]:
    with pytest.raises(MalformedOffers) as caught:
        read(lines, seen_at=AT)
    return caught.value.problems


@pytest.mark.parametrize(("name", "rows"), [("1652", 188), ("1740", 200)])
def test_the_snapshots_are_read_whole(name: str, rows: int) -> None:
    batch = read((DATA / f"offers-2026-10-31T{name}Z.jsonl").read_text().splitlines(), seen_at=AT)
    assert len(batch.offers) == rows
    assert batch.complete
    assert {type(offer.cost_per_gpu_hour) for offer in batch.offers} == {Decimal}


def test_one_offer() -> None:
    (offer,) = read([line(reliability=0.9938, cpu_cores=16, ram_gb=128, disk_gb=500), ""], seen_at=AT).offers
    assert (offer.machine_ref, offer.raw_gpu, offer.gpu_count, offer.region) == ("m1", "H100", 2, "SG")
    assert (offer.cost_per_gpu_hour, offer.reliability) == (Decimal("2.30"), Decimal("0.9938"))
    assert (offer.cpu, offer.ram, offer.disk) == (16, 128, 500)
    assert offer.raw["reliability"] == "0.9938"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "not a JSON object"),
        ("{}", "“gpu”"),
        (line(gpu=""), "“gpu”"),
        (line(gpu="x" * 121), "“gpu”"),
        (line(gpu="H\x00100"), "“gpu”"),
        (line(gpu_count=0), "“gpu_count”"),
        (line(gpu_count=2.5), "“gpu_count”"),
        (line(gpu_count=True), "“gpu_count”"),
        (line(gpu_count="2"), "“gpu_count”"),
        (line(price_per_gpu_hour="-1"), "“price_per_gpu_hour”"),
        (line(price_per_gpu_hour="0"), "“price_per_gpu_hour”"),
        (line(price_per_gpu_hour="NaN"), "“price_per_gpu_hour”"),
        (line(price_per_gpu_hour="1e9"), "“price_per_gpu_hour”"),
        (line(price_per_gpu_hour="0.0000001"), "“price_per_gpu_hour”"),
        (line(price_per_gpu_hour=None), "“price_per_gpu_hour”"),
        (line().replace('"2.30"', "NaN"), "not JSON"),
        (line(currency="EUR"), "“currency”"),
        (line(reliability=1.5), "“reliability”"),
        (line(ram_gb=-1), "“ram_gb”"),
        (line(region="x" * 41), "“region”"),
    ],
)
def test_what_is_refused(text: str, says: str) -> None:
    (problem,) = problems(line(machine="ok"), text)
    assert problem.startswith("Line 2: ")
    assert says in problem


def test_every_bad_line_is_told() -> None:
    assert [problem.split(":")[0] for problem in problems("{", line(), "[]", line(gpu_count=0))] == [
        "Line 1",
        "Line 3",
        "Line 4",
    ]


def test_a_machine_is_offered_once_a_count() -> None:
    read([line(), line(gpu_count=4)], seen_at=AT)
    (problem,) = problems(line(), "", line())
    assert problem == "Line 3: the same machine and GPU count as line 1."


def test_offers_without_machines_are_told_apart() -> None:
    batch = read([line(machine=None), line(machine=None)], seen_at=AT)
    assert len({offer.external_id for offer in batch.offers}) == 2
    assert {offer.machine_ref for offer in batch.offers} == {""}


def test_an_empty_file_is_no_market() -> None:
    assert problems("", "  ") == ["There is no offer in the file."]
