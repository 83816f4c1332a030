"""What the catalog's tests stand on: a provider, offers, a rule."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from django.db.backends.postgresql.psycopg_any import DateTimeTZRange

from catalog import ingest
from catalog.models import Gpu, PriceRule, Provider, SourceRun
from catalog.sources import jsonl
from catalog.sources.base import Batch, RawOffer

AT = datetime(2026, 10, 31, 17, 40, tzinfo=UTC)
DATA = Path(__file__).parent.parent / "data"
SNAPSHOTS = {"fr": "offers-2026-10-31T1740Z.jsonl", "pt-br": "offers-2026-10-31T1652Z.jsonl"}


def provider(key: str = "acme", **fields: Any) -> Provider:
    return Provider.objects.create(key=key, name=key.title(), **{"adaptor": "fleet", **fields})


def offer(external_id: str, gpu: str = "H100", count: int = 1, cost: str = "2.00", **facts: Any) -> RawOffer:
    return RawOffer(external_id, gpu, count, Decimal(cost), machine_ref=facts.pop("machine_ref", external_id), **facts)


def batch(*offers: RawOffer, at: datetime = AT, complete: bool = True) -> Batch:
    return Batch(at, offers, complete)


def snapshot(lang: str, **fields: Any) -> SourceRun:
    lines = (DATA / SNAPSHOTS[lang]).read_text().splitlines()
    return ingest.apply(provider("snapshot", **fields), jsonl.read(lines, seen_at=AT))


def rule(**fields: Any) -> PriceRule:
    gpu = fields.pop("gpu", None)
    scope = {"gpu": Gpu.objects.get(key=gpu)} if gpu else {}
    always = DateTimeTZRange(datetime(2026, 1, 1, tzinfo=UTC), None)
    return PriceRule.objects.create(**{"valid": always, **scope, **fields})
