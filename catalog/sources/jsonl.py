"""Offers from a file, one JSON object a line, for `manage.py import_offers`.

    {"machine": "m001", "gpu": "H100", "gpu_count": 2, "price_per_gpu_hour": "2.30", "currency": "USD",
     "region": "SG", "cpu_cores": 16, "ram_gb": 128, "disk_gb": 500, "reliability": 0.9938}

`gpu`, `gpu_count` and `price_per_gpu_hour` (what the provider charges us) must be there. Reading is strict and all or
nothing: every line that cannot be read is told with its number, and then none is taken.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from django.utils.translation import gettext as _

from catalog.sources.base import Batch, RawOffer

HIGHEST_COST = Decimal(100_000)
MOST_GPUS = 1024


class MalformedOffers(Exception):
    """`problems` holds one sentence for each line that cannot be read."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class _Malformed(Exception):
    pass


def read(lines: Iterable[str], *, seen_at: datetime) -> Batch:
    """Raises MalformedOffers where any line is not an offer, or where there is none at all."""
    offers: list[RawOffer] = []
    problems: list[str] = []
    first_line: dict[str, int] = {}
    unnamed: Counter[str] = Counter()
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            offer = _offer(_row(line), unnamed)
            if offer.external_id in first_line:
                first = first_line[offer.external_id]
                raise _Malformed(_("the same machine and GPU count as line %(line)d.") % {"line": first})
            first_line[offer.external_id] = number
            offers.append(offer)
        except _Malformed as error:
            problems.append(_("Line %(line)d: %(problem)s") % {"line": number, "problem": error})
    if not offers and not problems:
        problems.append(_("There is no offer in the file."))
    if problems:
        raise MalformedOffers(problems)
    return Batch(seen_at, tuple(offers))


def _row(line: str) -> dict[str, Any]:
    try:
        row = json.loads(line, parse_float=Decimal, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise _Malformed(_("it is not JSON (%(why)s).") % {"why": error}) from error
    if not isinstance(row, dict):
        raise _Malformed(_("it is not a JSON object."))
    return row


def _no_constant(name: str) -> None:
    raise ValueError(name)


def _offer(row: dict[str, Any], unnamed: Counter[str]) -> RawOffer:
    gpu, count, region = _text(row, "gpu", 120), _count(row), _text(row, "region", 40, needed=False)
    if _text(row, "currency", 3, needed=False) not in ("", "USD"):
        raise _Malformed(_("“currency” must be USD."))
    machine = _text(row, "machine", 80, needed=False)
    key = f"{machine}/{count}" if machine else f"{gpu}/{count}/{region}"
    if not machine:
        unnamed[key] += 1
        key = f"{key}#{unnamed[key]}"
    return RawOffer(
        external_id=key[:120],
        raw_gpu=gpu,
        gpu_count=count,
        cost_per_gpu_hour=_cost(row),
        memory_gb=_decimal(row, "gpu_memory_gb", Decimal(100_000)),
        machine_ref=machine,
        region=region,
        reliability=_decimal(row, "reliability", Decimal(1)),
        cpu=_whole(row, "cpu_cores"),
        ram=_whole(row, "ram_gb"),
        disk=_whole(row, "disk_gb"),
        raw={name: str(value) if isinstance(value, Decimal) else value for name, value in row.items()},
    )


def _text(row: dict[str, Any], name: str, longest: int, *, needed: bool = True) -> str:
    value = row.get(name)
    if value is None and not needed:
        return ""
    if not isinstance(value, str) or len(value) > longest or "\x00" in value or (needed and not value.strip()):
        raise _Malformed(
            _("“%(name)s” must be text of at most %(longest)d characters.") % {"name": name, "longest": longest}
        )
    return value.strip()


def _count(row: dict[str, Any]) -> int:
    value = row.get("gpu_count")
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST_GPUS:
        raise _Malformed(_("“gpu_count” must be a whole number from 1 to %(most)d.") % {"most": MOST_GPUS})
    return value


def _whole(row: dict[str, Any], name: str) -> int | None:
    value = row.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | Decimal) or not 0 <= value <= 2_000_000_000:
        raise _Malformed(_("“%(name)s” must be a number that is not negative.") % {"name": name})
    return int(value)


def _cost(row: dict[str, Any]) -> Decimal:
    value = row.get("price_per_gpu_hour")
    try:
        if isinstance(value, bool) or not isinstance(value, str | int | Decimal):
            raise InvalidOperation
        cost = Decimal(value)
        if not cost.is_finite() or not 0 < cost <= HIGHEST_COST or cost != cost.quantize(Decimal("0.000001")):
            raise InvalidOperation
    except InvalidOperation as error:
        raise _Malformed(
            _('“price_per_gpu_hour” must be a positive amount in USD with at most six decimals, such as "2.30".')
        ) from error
    return cost


def _decimal(row: dict[str, Any], name: str, highest: Decimal) -> Decimal | None:
    value = row.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | Decimal) or not 0 <= value <= highest:
        raise _Malformed(_("“%(name)s” must be a number from 0 to %(highest)s.") % {"name": name, "highest": highest})
    return Decimal(value)
