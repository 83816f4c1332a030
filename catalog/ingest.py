"""What a source saw becomes the provider's offers, in one transaction: readers see the old batch or the new."""

from __future__ import annotations

from decimal import Decimal

from django.db import connection, transaction
from django.db.models import Q

from catalog import versions
from catalog.models import GpuAlias, LowestCost, Offer, Provider, SourceRun
from catalog.sources.base import Batch, RawOffer

_FACTS = (
    "machine_ref",
    "fleet_host_id",
    "raw_gpu",
    "form_factor",
    "gpu_count",
    "cost_per_gpu_hour",
    "disk_cost",
    "traffic_cost",
    "region",
    "tier",
    "reliability",
    "driver",
    "cuda",
    "cpu",
    "ram",
    "disk",
    "net_down",
    "stock",
    "rentable",
    "raw",
)

_LOWEST_COSTS = """
INSERT INTO catalog_lowestcost (gpu_id, gpu_count, provider_id, region, cost, offers, gpus)
SELECT gpu_id, gpu_count, provider_id, region, min(cost_per_gpu_hour), count(*), sum(gpu_count)
FROM catalog_offer WHERE provider_id = %s AND rentable AND gpu_id IS NOT NULL
GROUP BY gpu_id, gpu_count, provider_id, region
"""


def lock(provider: Provider) -> Provider:
    """The provider's row, locked until the transaction ends: one batch of a provider is applied at a time.

    Without the key, or two transactions that each wrote a row naming the provider would wait for each other.
    """
    return Provider.objects.select_for_update(no_key=True).get(pk=provider.pk)


def apply(provider: Provider, batch: Batch) -> SourceRun:
    """Replaces the provider's offers by `batch` and counts the market's version up.

    Offers are told apart by `external_id`: known ones keep their row and `first_seen`; of a complete batch, those it
    does not list stay, for the quotes that name them, but can no longer be rented. Raises ValueError for an
    `external_id` that is listed twice.
    """
    ids = [offer.external_id for offer in batch.offers]
    if len(set(ids)) != len(ids):
        raise ValueError("an external_id is listed twice in one batch")
    with transaction.atomic():
        provider = lock(provider)
        aliases = _Aliases(provider)
        run = SourceRun.objects.create(provider=provider, fetched_at=batch.seen_at, complete=batch.complete)
        rows = [_row(provider, run, batch, offer, aliases) for offer in batch.offers]
        Offer.objects.bulk_create(
            rows,
            batch_size=1000,
            update_conflicts=True,
            unique_fields=["provider", "external_id"],
            update_fields=[name.removesuffix("_id") for name in _FACTS] + ["gpu", "last_seen", "run"],
        )
        gone = _retire_unlisted(provider, run) if batch.complete else 0
        unknown = sum(row.gpu_id is None for row in rows)
        run.counts = {"offers": len(rows), "unknown_gpu": unknown, "gone": gone}
        run.save(update_fields=["counts"])
        rewrite_lowest_costs(provider)
        versions.bump()
    return run


class _Aliases:
    """Whole names only, never prefixes: a slice of a GPU is named like the GPU and more."""

    def __init__(self, provider: Provider) -> None:
        found = GpuAlias.objects.select_related("gpu").filter(Q(provider=None) | Q(provider=provider))
        # The provider's own alias after the one for all, so that it replaces it.
        ordered = sorted(found, key=lambda alias: alias.provider_id is not None)
        self._by_name = {(alias.raw_name, alias.memory_gb): alias for alias in ordered}

    def find(self, offer: RawOffer) -> GpuAlias | None:
        """By name and memory; by name alone only where the memory, if told, is the Gpu's own to within a tenth."""
        if exact := self._by_name.get((offer.raw_gpu, offer.memory_gb)):
            return exact
        alias = self._by_name.get((offer.raw_gpu, None))
        if alias is None or offer.memory_gb is None:
            return alias
        return alias if _near(offer.memory_gb, alias.gpu.memory_gb) else None


def _near(told: Decimal, nominal: Decimal) -> bool:
    return abs(told - nominal) * 10 <= nominal


def _row(provider: Provider, run: SourceRun, batch: Batch, offer: RawOffer, aliases: _Aliases) -> Offer:
    facts = {name: getattr(offer, name) for name in _FACTS}
    gpu_id = offer.gpu_id
    if gpu_id is None and (alias := aliases.find(offer)):
        gpu_id = alias.gpu_id
        facts["form_factor"] = offer.form_factor or alias.form_factor
    return Offer(
        provider=provider,
        external_id=offer.external_id,
        gpu_id=gpu_id,
        first_seen=batch.seen_at,
        last_seen=batch.seen_at,
        run=run,
        **facts,
    )


def _retire_unlisted(provider: Provider, run: SourceRun) -> int:
    return Offer.objects.filter(provider=provider, rentable=True).exclude(run=run).update(rentable=False)


def rewrite_lowest_costs(provider: Provider) -> None:
    """To be called, in the same transaction, by whatever changes an offer outside a batch."""
    LowestCost.objects.filter(provider=provider).delete()
    with connection.cursor() as cursor:
        cursor.execute(_LOWEST_COSTS, [provider.pk])
