"""What is for rent of one Gpu: its live offers, grouped as people choose them, by one query."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import Count, F, Min, OuterRef, QuerySet, TextField
from django.db.models.functions import Cast, JSONObject

from catalog.models import Gpu, Offer
from catalog.pricing import Scope, price
from catalog.queries import active_rules, is_live, rules_of


@dataclass(frozen=True)
class Group:
    """Live offers of as many GPUs at one provider in one region; `price_per_gpu_hour` is the lowest among them, USD."""

    count: int
    provider: str
    region: str
    is_sample: bool
    offers: int
    price_per_gpu_hour: Decimal

    @property
    def price_per_hour(self) -> Decimal:
        return self.count * self.price_per_gpu_hour


def gpu_with_groups(key: str) -> tuple[Gpu, list[Group]] | None:
    """The listed Gpu and its groups, the cheapest of each count first; None where there is no such Gpu. One query."""
    gpus = Gpu.objects.filter(key=key, is_listed=True, kind=Gpu.Kind.GPU)
    gpu = gpus.annotate(group_rows=ArraySubquery(_groups()), rule_rows=active_rules()).first()
    if gpu is None:
        return None
    rules = rules_of(gpu.rule_rows)
    groups = [
        Group(
            count=row["count"],
            provider=row["provider"],
            region=row["region"],
            is_sample=row["sample"],
            offers=row["offers"],
            price_per_gpu_hour=price(
                Decimal(row["cost"]), Scope(gpu.pk, row["count"], row["provider_id"], row["region"]), rules
            ),
        )
        for row in gpu.group_rows
    ]
    return gpu, sorted(groups, key=lambda group: (group.count, group.price_per_gpu_hour, group.region, group.provider))


def regions() -> dict[int, list[str]]:
    """By Gpu, the regions that its live offers are in. One query."""
    live = Offer.objects.filter(is_live("provider__", F("last_seen")), rentable=True, gpu__kind=Gpu.Kind.GPU)
    found: dict[int, list[str]] = {}
    for gpu, region in live.exclude(region="").order_by("region").values_list("gpu_id", "region").distinct():
        found.setdefault(gpu, []).append(region)
    return found


def _groups() -> QuerySet[Any, Any]:
    live = Offer.objects.filter(is_live("provider__", F("last_seen")), rentable=True, gpu=OuterRef("pk")).order_by()
    grouped = live.values("gpu_count", "provider_id", "region", "provider__name", "provider__is_sample")
    return grouped.annotate(lowest=Min("cost_per_gpu_hour"), offers_here=Count("pk")).values(
        row=JSONObject(
            count="gpu_count",
            provider_id="provider_id",
            provider="provider__name",
            region="region",
            sample="provider__is_sample",
            offers="offers_here",
            cost=Cast("lowest", TextField()),
        )
    )
