"""What is for rent and for how much.

Pages ask `market()`: one query, one statement's snapshot, so that prices, counts and version always belong together.
Renting asks `cheapest_quotable`, `quotable_offers` or `find_quotable`: one query each, over real offers only.

Live: the provider is enabled and its offers are fresh (`stale_after`), or it is sample data, which is never stale and
ends when a real market has been read.
Quotable: live, and the provider has an adaptor that can rent and is not sample data. Public figures are of live
offers of kind gpu; a cpu is priced for who rents it and never shown, suggested or counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import Exists, F, Max, OuterRef, Q, QuerySet, Subquery, TextField
from django.db.models.expressions import Combinable
from django.db.models.functions import Cast, JSONObject, Now

from catalog.models import FleetHost, Gpu, LowestCost, Offer, PriceRule, Provider, SourceRun, Version
from catalog.pricing import Rule, Scope, price

COUNTS = (1, 2, 4, 8)
FLEET = "fleet"
"""The adaptor of the operator's own hosts."""


@dataclass(frozen=True)
class GpuPrice:
    """A listed Gpu and what it costs now, USD.

    `price`: the lowest live price per GPU-hour, whatever the count of the offer that has it; None without live offers.
    `rent_prices`: by n in 1, 2, 4, 8, the price per hour of the cheapest single offer that holds n, whole.
    `gpus`: how many are on live machines. Fits `sizing.fit.smallest` as it is.
    """

    id: int
    key: str
    name: str
    position: int
    memory_gb: Decimal
    is_suggested: bool
    price: Decimal | None
    rent_prices: Mapping[int, Decimal]
    gpus: int


@dataclass(frozen=True)
class Market:
    """Everything a public page says of the market, by one query.

    `gpus` are all listed Gpus of kind gpu in catalogue order, `suggested` those that sizing may name. `gpu_total` GPUs
    stand on `machine_total` distinct machines of live providers. `seen_at` is when the newest of the live offers was
    seen, None while there are none; `is_sample` whether any of them is sample data, which pages must say. `version`
    changes with anything that a public page shows: the ETag's first part.
    """

    version: int
    seen_at: datetime | None
    is_sample: bool
    gpus: tuple[GpuPrice, ...]
    gpu_total: int
    machine_total: int

    @property
    def suggested(self) -> tuple[GpuPrice, ...]:
        return tuple(gpu for gpu in self.gpus if gpu.is_suggested)

    def gpu(self, key: str) -> GpuPrice | None:
        return next((gpu for gpu in self.gpus if gpu.key == key), None)

    def price(self, key: str) -> Decimal | None:
        """The lowest live price per GPU-hour of `h100`, `rtx-4090`, ...; None where there is none."""
        gpu = self.gpu(key)
        return gpu.price if gpu else None


@dataclass(frozen=True)
class PricedOffer:
    """An offer and its price, USD: `price_per_gpu_hour` in whole cents, `price_per_hour` for the whole offer."""

    offer: Offer
    price_per_gpu_hour: Decimal

    @property
    def price_per_hour(self) -> Decimal:
        return self.offer.gpu_count * self.price_per_gpu_hour


def market() -> Market:
    """The public market, by one query."""
    state = _state()
    rules = rules_of(state["rule_rows"])
    costs: dict[int, list[_Cost]] = {}
    for row in state["cost_rows"]:
        costs.setdefault(row["gpu"], []).append(_Cost(**{**row, "cost": Decimal(row["cost"])}))
    machines: dict[int, int] = {}
    for row in state["machine_rows"]:
        machines[row["gpu"]] = machines.get(row["gpu"], 0) + row["gpus"]
    return Market(
        version=state["n"],
        seen_at=state["seen_at"],
        is_sample=any(cost.sample for group in costs.values() for cost in group),
        gpus=tuple(
            _gpu_price(row, costs.get(row["id"], []), rules, machines.get(row["id"], 0)) for row in state["gpu_rows"]
        ),
        gpu_total=sum(machines.values()),
        machine_total=len({(row["provider"], row["machine"]) for row in state["machine_rows"]}),
    )


def quotable() -> QuerySet[Offer]:
    """Offers that can really be rented now, with their provider, Gpu and host."""
    return (
        Offer.objects.filter(is_live("provider__", F("last_seen")), rentable=True, gpu__isnull=False)
        .filter(provider__is_sample=False)
        .exclude(provider__adaptor="")
        # A rental is a fresh container or VM, or bare metal that is reset: only the last can be made so far.
        .filter(Q(fleet_host=None) | Q(fleet_host__mode=FleetHost.Mode.BARE))
        .select_related("provider", "gpu", "fleet_host")
    )


def quotable_offers(*, gpu_key: str | None = None, count: int = 1) -> list[PricedOffer]:
    """Quotable offers of the Gpu (of any, without one) that hold `count`, the cheapest whole price first. One query."""
    offers = quotable().filter(gpu_count__gte=count).annotate(rule_rows=active_rules())
    if gpu_key is not None:
        offers = offers.filter(gpu__key=gpu_key)
    return sorted(_priced(offers), key=_cheapest_first)


def cheapest_quotable(*, gpu_key: str, count: int) -> PricedOffer | None:
    """The quotable offer that holds `count` of the Gpu for the least, priced whole. One query.

    One offer a scope is fetched, the one that costs least there: within a scope the price cannot fall as cost rises.
    """
    scope = ("gpu_count", "provider_id", "region")
    offers = (
        quotable()
        .filter(gpu__key=gpu_key, gpu_count__gte=count)
        .annotate(rule_rows=active_rules())
        .order_by(*scope, "cost_per_gpu_hour", "pk")
        .distinct(*scope)
    )
    return min(_priced(offers), key=_cheapest_first, default=None)


def find_quotable(offer_id: int) -> PricedOffer | None:
    """The offer with its price as of now, None where it can no longer be rented. One query."""
    return next(iter(_priced(quotable().filter(pk=offer_id).annotate(rule_rows=active_rules()))), None)


def offer_price(offer: Offer, rules: Iterable[Rule]) -> Decimal:
    """Per GPU-hour, whole cents. Raises ValueError for an offer whose Gpu is not known."""
    if offer.gpu_id is None:
        raise ValueError("an offer without a known Gpu has no price")
    return price(offer.cost_per_gpu_hour, Scope(offer.gpu_id, offer.gpu_count, offer.provider_id, offer.region), rules)


@dataclass(frozen=True)
class _Cost:
    """A LowestCost row."""

    gpu: int
    count: int
    provider: int
    region: str
    cost: Decimal
    sample: bool

    @property
    def scope(self) -> Scope:
        return Scope(self.gpu, self.count, self.provider, self.region)


def _state() -> dict[str, Any]:
    query = Version.objects.filter(pk=1).annotate(
        gpu_rows=ArraySubquery(_listed_gpus()),
        cost_rows=ArraySubquery(_live_costs()),
        machine_rows=ArraySubquery(_machines()),
        rule_rows=active_rules(),
        seen_at=Subquery(_public_offers().order_by("-last_seen").values("last_seen")[:1]),
    )
    fields = ("n", "gpu_rows", "cost_rows", "machine_rows", "rule_rows", "seen_at")
    row = query.values(*fields).first()
    if row is None:  # only a database whose rows were all deleted, as between tests, lacks it
        Version.objects.get_or_create(pk=1)
        row = query.values(*fields).get()
    return dict(row)


def _listed_gpus() -> QuerySet[Any]:
    # A plain query set: the translating one rewrites values().
    gpus: QuerySet[Gpu] = QuerySet(Gpu).filter(is_listed=True, kind=Gpu.Kind.GPU).order_by("position", "key")
    return gpus.values(
        row=JSONObject(
            id="pk",
            key="key",
            name="name",
            position="position",
            memory_gb=Cast("memory_gb", TextField()),
            is_suggested="is_suggested",
        )
    )


def _live_costs() -> QuerySet[Any]:
    """Freshness by the provider's newest batch here: all offers of a complete batch were seen with it."""
    newest = SourceRun.objects.filter(provider=OuterRef("pk")).order_by("-fetched_at").values("fetched_at")[:1]
    live = QuerySet(Provider).annotate(newest=Subquery(newest)).filter(is_live("", F("newest")))
    costs = LowestCost.objects.filter(provider__in=live.values("pk"), gpu__kind=Gpu.Kind.GPU)
    return costs.values(
        row=JSONObject(
            gpu="gpu_id",
            count="gpu_count",
            provider="provider_id",
            region="region",
            cost=Cast("cost", TextField()),
            sample="provider__is_sample",
        )
    )


def _public_offers() -> QuerySet[Offer]:
    return Offer.objects.filter(is_live("provider__", F("last_seen")), rentable=True, gpu__kind=Gpu.Kind.GPU)


def _machines() -> QuerySet[Any]:
    """A machine with several offers holds as many GPUs as its largest offer."""
    per_machine = (
        _public_offers()
        .exclude(machine_ref="")
        .order_by()
        .values("provider_id", "machine_ref", "gpu_id")
        .annotate(largest=Max("gpu_count"))
    )
    return per_machine.values(
        row=JSONObject(provider="provider_id", machine="machine_ref", gpu="gpu_id", gpus="largest")
    )


def active_rules() -> ArraySubquery:
    rules = PriceRule.objects.filter(active=True, valid__contains=Now())
    amounts = {name: Cast(name, TextField()) for name in ("fixed", "percent", "add", "floor")}
    return ArraySubquery(
        rules.values(
            row=JSONObject(
                id="pk",
                gpu="gpu_id",
                gpu_count="gpu_count",
                provider="provider_id",
                region="region",
                below_cost_ok="below_cost_ok",
                **amounts,
            )
        )
    )


def is_live(prefix: str, seen_at: Combinable) -> Q:
    """Whether a provider's offers count now: enabled, not stale; sample data only until a real market has been read.

    The operator's own hosts are no market: they stand beside the sample's prices, and do not end them.
    """
    real = LowestCost.objects.filter(provider__enabled=True, provider__is_sample=False, gpu__kind=Gpu.Kind.GPU)
    sample = Q(**{f"{prefix}is_sample": True}) & ~Exists(real.exclude(provider__adaptor=FLEET))
    fresh = Q(**{f"{prefix}stale_after": None}) | Q(**{f"{prefix}stale_after__gte": Now() - seen_at})
    return Q(**{f"{prefix}enabled": True}) & (sample | (Q(**{f"{prefix}is_sample": False}) & fresh))


def rules_of(rows: Iterable[dict[str, Any]]) -> list[Rule]:
    amounts = ("fixed", "percent", "add", "floor")
    return [
        Rule(**{**row, **{name: None if row[name] is None else Decimal(row[name]) for name in amounts}}) for row in rows
    ]


def _priced(offers: QuerySet[Any]) -> list[PricedOffer]:
    rows = list(offers)
    rules = rules_of(rows[0].rule_rows) if rows else []
    return [PricedOffer(offer, offer_price(offer, rules)) for offer in rows]


def _cheapest_first(priced: PricedOffer) -> tuple[Decimal, Decimal, int]:
    cost = priced.offer.gpu_count * priced.offer.cost_per_gpu_hour
    return priced.price_per_hour, cost, priced.offer.pk


def _gpu_price(row: dict[str, Any], costs: list[_Cost], rules: list[Rule], gpus: int) -> GpuPrice:
    priced = [
        (cost.count, price(cost.cost, Scope(cost.gpu, cost.count, cost.provider, cost.region), rules)) for cost in costs
    ]
    whole = {n: [count * each for count, each in priced if count >= n] for n in COUNTS}
    return GpuPrice(
        **{**row, "memory_gb": Decimal(row["memory_gb"])},
        price=min((each for _count, each in priced), default=None),
        rent_prices={n: min(prices) for n, prices in whole.items() if prices},
        gpus=gpus,
    )
