"""What the deploy form offers: engines, and machines that can be rented now, each with why it will not do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from arrakis.accounts.models import Workspace
from arrakis.errors import BadRequest
from catalog.models import Gpu
from catalog.queries import COUNTS, PricedOffer, quotable_offers
from deploy import metering, plans, quotes, reasons
from deploy.engines import ENGINES
from deploy.engines.base import Engine
from deploy.plans import Plan
from sizing.models import HubModel


@dataclass(frozen=True)
class EngineChoice:
    key: str
    name: str
    refusal: Any
    chosen: bool


@dataclass(frozen=True)
class MachineChoice:
    """One machine of a kind, the cheapest there is; memory in GB, money in USD."""

    value: str
    gpu_name: str
    count: int
    is_cpu: bool
    is_demo: bool
    provider: str
    region: str
    price_per_hour: Decimal
    hold: Decimal
    hours_left: Decimal
    missing: Decimal
    ready_seconds: int
    needed_gb: Decimal
    there_gb: Decimal | None
    refusal: Any
    chosen: bool

    @property
    def fill_percent(self) -> int:
        """How full the memory gets, for a meter: 0 to 100."""
        return min(100, int(100 * self.needed_gb / self.there_gb)) if self.there_gb else 0


@dataclass(frozen=True)
class Choices:
    engines: list[EngineChoice]
    machines: list[MachineChoice]
    engine: str
    plan: Plan | None


def choices(
    *, model: HubModel, workspace: Workspace, available: Decimal, engine: str, machine: str, context: int | None
) -> Choices:
    """`engine` and `machine` are what the page was asked for; what cannot be is replaced by the first that can."""
    offers = _kinds(quotable_offers())
    refusals = {key: _engine_refusal(one, model, offers) for key, one in ENGINES.items()}
    possible = [key for key, refusal in refusals.items() if refusal is None]
    chosen = engine if engine in possible else next(iter(possible), "")
    engines = [EngineChoice(key, ENGINES[key].name, why, key == chosen) for key, why in refusals.items()]
    shown = ENGINES.get(chosen) or ENGINES.get(engine) or next(iter(ENGINES.values()))
    plan = _plan(model, shown, context)
    purse = _Purse(available, metering.running_rate(workspace))
    machines = [_machine(model, shown, plan, priced, purse) for priced in offers]
    return Choices(engines, _with_chosen(machines, machine), chosen, plan)


@dataclass(frozen=True)
class _Purse:
    """What there is, and what runs already takes of it per hour; USD."""

    available: Decimal
    rate: Decimal


def _kinds(offers: Iterable[PricedOffer]) -> list[PricedOffer]:
    """One offer a kind of machine, the cheapest: what a quote for that GPU and count would take."""
    seen: dict[tuple[int | None, int], PricedOffer] = {}
    for priced in offers:
        seen.setdefault((priced.offer.gpu_id, _count(priced)), priced)
    # A smaller kind that costs more than a larger one of the same GPU would be quoted the larger one: leave it out.
    return [
        priced
        for priced in seen.values()
        if not any(
            other.offer.gpu_id == priced.offer.gpu_id
            and _count(other) > _count(priced)
            and other.price_per_hour <= priced.price_per_hour
            for other in seen.values()
        )
    ]


def _count(priced: PricedOffer) -> int:
    return max(count for count in COUNTS if count <= priced.offer.gpu_count)


def _engine_refusal(engine: Engine, model: HubModel, offers: list[PricedOffer]) -> Any:
    """None where some machine would do; else why the first one will not."""
    # A machine with GPUs says more than one without: what a larger engine misses there is about the model.
    ordered = sorted(offers, key=lambda priced: priced.offer.gpu is None or priced.offer.gpu.kind == Gpu.Kind.CPU)
    whys = [_refusal(engine, model, priced) for priced in ordered]
    if not whys:
        return reasons.sentence("nothing_to_rent", {})
    return None if None in whys else whys[0]


def _refusal(engine: Engine, model: HubModel, priced: PricedOffer) -> Any:
    gpu = priced.offer.gpu
    if gpu is None:
        return reasons.sentence("gpu_unknown", {"gpu": priced.offer.raw_gpu})
    try:
        quotes.refuse_engine(engine, model, gpu, priced.offer.gpu_count)
    except BadRequest as error:
        return reasons.sentence(error.code, error.params)
    return None


def _plan(model: HubModel, engine: Engine, context: int | None) -> Plan:
    return plans.make(
        engine=engine.key,
        files=model.files,
        params_total=model.params_total,
        stored_as=model.stored_as,
        longest_context=model.context,
        context=context,
    )


def _machine(model: HubModel, engine: Engine, plan: Plan, priced: PricedOffer, purse: _Purse) -> MachineChoice:
    offer, there = priced.offer, quotes.memory_of(priced.offer)
    refusal = _refusal(engine, model, priced)
    if refusal is None and there is not None and not plan.fits(there):
        needs = {"needed_gb": plan.memory_gb, "there_gb": f"{there:f}"}
        refusal = reasons.sentence("model_does_not_fit", needs)
    price, hold = priced.price_per_hour, metering.hold_amount(priced.price_per_hour)
    return MachineChoice(
        value=f"{offer.gpu.key if offer.gpu else ''}:{_count(priced)}",
        gpu_name=offer.gpu.name if offer.gpu else offer.raw_gpu,
        count=offer.gpu_count,
        is_cpu=bool(offer.gpu and offer.gpu.kind == Gpu.Kind.CPU),
        is_demo=bool(offer.fleet_host and offer.fleet_host.is_demo),
        provider=offer.provider.name,
        region=offer.region,
        price_per_hour=price,
        hold=hold,
        hours_left=purse.available / (price + purse.rate),
        missing=max(hold - purse.available, Decimal(0)),
        ready_seconds=plans.ready_seconds(plan, engine=engine.key, adaptor=offer.provider.adaptor, mbit=offer.net_down),
        needed_gb=Decimal(plan.memory_gb),
        there_gb=there,
        refusal=refusal,
        chosen=False,
    )


def _with_chosen(machines: list[MachineChoice], wanted: str) -> list[MachineChoice]:
    """Those that will do first, the cheapest first; the wanted one chosen where it will do, else the first."""
    ordered = sorted(machines, key=lambda each: (each.refusal is not None, each.price_per_hour))
    possible = [each.value for each in ordered if each.refusal is None]
    chosen = wanted if wanted in possible else next(iter(possible), "")
    return [MachineChoice(**{**each.__dict__, "chosen": each.value == chosen}) for each in ordered]
