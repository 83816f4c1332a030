"""Quotes: one model, one engine, the cheapest whole machine that can be rented for it now, and what that costs.

Asked again before renting, so that nothing is charged that was not shown (DESIGN 5.3): `repriced`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Q

from arrakis.accounts.models import User, Workspace
from arrakis.clock import ClockTimestamp
from arrakis.errors import BadRequest, Conflict, NotFound
from catalog.models import Gpu, Offer
from catalog.queries import COUNTS, PricedOffer, cheapest_quotable, find_quotable, quotable_offers
from deploy import metering, plans
from deploy.engines import ENGINES
from deploy.engines.base import Engine, GpuFacts, HostKind
from deploy.models import Quote
from deploy.plans import Plan
from sizing import references
from sizing.models import HubModel

LONGEST_CONTEXT = 10_000_000


@dataclass(frozen=True, slots=True)
class _Wanted:
    model: HubModel
    engine: Engine
    gpu: Gpu
    count: int
    plan: Plan


def quote(
    *,
    workspace: Workspace,
    user: User,
    model: str,
    engine: str,
    gpu: str,
    count: int = 1,
    context: int | None = None,
) -> Quote:
    """What running `model` costs now, valid for QUOTE_MINUTES by the database's clock.

    Args:
        model: a repository id, a slug of this site, or any address of a model at Hugging Face.
        engine: `vllm`, `sglang` or `llamacpp`.
        gpu: the key of a Gpu of the catalogue (`h100`; a cpu host's Gpu too).
        count: 1, 2, 4 or 8 of it on one machine.
        context: tokens; without it what plans.make says.

    Raises:
        BadRequest: model_reference_*, context_too_long, gpu_count, engine_* (the engine cannot run it there),
            model_does_not_fit (params: needed_gb, there_gb).
        NotFound: model_unknown (params: can, the ids that can be deployed now), engine_unknown, gpu_unknown.
        Conflict: sold_out or only_sample_offers (params: next_gpu, next_count, next_price of what does fit, or empty).
    """
    wanted = _wanted(model=model, engine=engine, gpu=gpu, count=count, context=context)
    priced = cheapest_quotable(gpu_key=gpu, count=count)
    if priced is None:
        raise _nothing_to_rent(wanted)
    plan = _on_machine(wanted, priced.offer)
    return _write(workspace, user, wanted, priced, plan)


def repriced(held: Quote) -> PricedOffer:
    """The quote's offer with its price as of now.

    Raises:
        Conflict: sold_out; price_changed (params: was, now, both USD per hour).
    """
    priced = find_quotable(held.offer_id) if held.offer_id else None
    if priced is None:
        raise Conflict("sold_out", next_gpu="", next_count=0, next_price="")
    if priced.price_per_hour != held.price_per_hour:
        raise Conflict("price_changed", was=str(held.price_per_hour.normalize()), now=str(priced.price_per_hour))
    return priced


def next_offers(held: Quote, *, tried: set[str]) -> list[PricedOffer]:
    """Other offers of the same Gpu that hold as many and cost us no more than the quote's ceiling, cheapest first.

    The customer pays what was quoted, whichever of them it becomes. `tried` are external ids.
    """
    facts = held.offer_facts
    offers = quotable_offers(gpu_key=facts["gpu"], count=int(facts["count"]))
    plan = Plan.of(held.plan)
    return [
        priced
        for priced in offers
        if priced.offer.external_id not in tried
        and whole_cost(priced.offer) <= held.max_cost_per_hour
        and ((memory := memory_of(priced.offer)) is None or plan.fits(memory))
    ]


def offer_facts(priced: PricedOffer, count: int) -> dict[str, object]:
    """What was offered, kept: offers come and go."""
    offer = priced.offer
    if offer.gpu is None:
        raise ValueError("an offer without a known Gpu cannot be quoted")
    return {
        "provider": offer.provider.key,
        "provider_name": offer.provider.name,
        "external_id": offer.external_id,
        "gpu": offer.gpu.key,
        "gpu_name": offer.gpu.name,
        "gpu_kind": offer.gpu.kind,
        "gpu_memory_gb": str(offer.gpu.memory_gb),
        "count": count,
        "gpu_count": offer.gpu_count,
        "region": offer.region,
        "price_per_gpu_hour": str(priced.price_per_gpu_hour),
        "adaptor": offer.provider.adaptor,
        "net_down": offer.net_down,
        "is_demo": bool(offer.fleet_host and offer.fleet_host.is_demo),
        "mode": offer.fleet_host.mode if offer.fleet_host else "",
    }


def whole_cost(offer: Offer) -> Decimal:
    """What the provider charges us for all of it, USD per hour."""
    cost: Decimal = offer.gpu_count * offer.cost_per_gpu_hour
    return cost


def memory_of(offer: Offer) -> Decimal | None:
    """GB that hold the model: the GPUs' together, or a cpu host's RAM; None where that is not known before a look."""
    if offer.gpu is None:
        return None
    if offer.gpu.kind == Gpu.Kind.CPU:
        return Decimal(offer.ram) if offer.ram is not None else None
    memory: Decimal = offer.gpu_count * offer.gpu.memory_gb
    return memory


def known_model(text: str) -> HubModel:
    """The model a person named.

    Raises:
        BadRequest: model_reference_*.
        NotFound: model_unknown.
    """
    reference = _reference(text)
    rows = HubModel.objects.order_by("-interest", "pk")
    if isinstance(reference, references.Repository):
        found = rows.filter(repo_id__iexact=reference.repo_id).first()
    else:
        found = rows.filter(Q(slug=reference.slug) | Q(old_slugs__slug=reference.slug)).first()
    if found is None:
        can = list(rows.exclude(files=[]).values_list("repo_id", flat=True)[:5])
        raise NotFound("model_unknown", model=text.strip()[:120], can=", ".join(can))
    return found


def _reference(text: str) -> references.Repository | references.Slug:
    """Says why a text is refused: a path and an address elsewhere are the mistakes that people make."""
    text = text.strip()
    if not text:
        raise BadRequest("model_reference_empty")
    try:
        reference = references.parse(text)
    except references.NotAReference as error:
        if text.startswith(("/", ".", "~", "file:")) or "\\" in text:
            raise BadRequest("model_reference_path") from error
        raise BadRequest("model_reference_address" if "://" in text else "model_reference_invalid") from error
    if isinstance(reference, references.Size):
        raise BadRequest("model_reference_size")
    return reference


def engine_of(key: str) -> Engine:
    """Raises NotFound: engine_unknown (params: engine, can)."""
    if key not in ENGINES:
        raise NotFound("engine_unknown", engine=key[:40], can=", ".join(ENGINES))
    return ENGINES[key]


def _wanted(*, model: str, engine: str, gpu: str, count: int, context: int | None) -> _Wanted:
    found, chosen = known_model(model), engine_of(engine)
    row = Gpu.objects.filter(key=gpu).first()
    if row is None:
        raise NotFound("gpu_unknown", gpu=gpu[:60])
    if count not in COUNTS:
        raise BadRequest("gpu_count", can=", ".join(map(str, COUNTS)))
    longest = found.context or LONGEST_CONTEXT
    if context is not None and not 1 <= context <= longest:
        raise BadRequest("context_too_long", longest=longest)
    refuse_engine(chosen, found, row, count)
    plan = plans.make(
        engine=engine,
        files=found.files,
        params_total=found.params_total,
        stored_as=found.stored_as,
        longest_context=found.context,
        context=context,
    )
    return _Wanted(found, chosen, row, count, plan)


def refuse_engine(engine: Engine, model: HubModel, gpu: Gpu, count: int) -> None:
    """Raises BadRequest: engine_* (params: engine, and what the refusal says), where it cannot run the model there."""
    kind: HostKind = "cpu" if gpu.kind == Gpu.Kind.CPU else "gpu"
    capability = int(Decimal(gpu.compute_cap) * 10) if gpu.compute_cap else None
    facts = None
    if kind == "gpu":
        reported = gpu.reported_mib or int(gpu.memory_gb * 10**9 / 2**20)
        facts = GpuFacts(gpu.name, count, reported, compute_capability=capability)
    refusal = engine.refusal(kind, facts, plans.model_facts(model.files))
    if refusal is not None:
        raise BadRequest(refusal.code, engine=engine.name, **dict[str, Any](refusal.params))


def _on_machine(wanted: _Wanted, offer: Offer) -> Plan:
    memory = memory_of(offer)
    plan = wanted.plan
    if memory is None:
        return plan
    if not plan.fits(memory):
        raise BadRequest("model_does_not_fit", needed_gb=plan.memory_gb, there_gb=f"{memory:f}")
    return Plan.of(plan.as_json() | {"memory_there_gb": f"{memory:f}"})


def _nothing_to_rent(wanted: _Wanted) -> Conflict:
    """Sold out: says what could be rented instead, the cheapest machine that holds the model on that engine."""
    is_sample = Offer.objects.filter(
        gpu=wanted.gpu, gpu_count__gte=wanted.count, rentable=True, provider__is_sample=True
    ).exists()
    nearest = next((priced for priced in quotable_offers() if _would_do(wanted, priced.offer)), None)
    return Conflict(
        "only_sample_offers" if is_sample else "sold_out",
        gpu=wanted.gpu.name,
        count=wanted.count,
        next_gpu=nearest.offer.gpu.name if nearest and nearest.offer.gpu else "",
        next_count=nearest.offer.gpu_count if nearest else 0,
        next_price=str(nearest.price_per_hour) if nearest else "",
    )


def _would_do(wanted: _Wanted, offer: Offer) -> bool:
    if offer.gpu is None:
        return False
    try:
        refuse_engine(wanted.engine, wanted.model, offer.gpu, offer.gpu_count)
    except BadRequest:
        return False
    memory = memory_of(offer)
    return memory is None or wanted.plan.fits(memory)


@transaction.atomic
def _write(workspace: Workspace, user: User, wanted: _Wanted, priced: PricedOffer, plan: Plan) -> Quote:
    offer = priced.offer
    row = Quote.objects.create(
        workspace=workspace,
        user=user,
        offer=offer,
        offer_facts=offer_facts(priced, wanted.count),
        model=wanted.model,
        repo_id=wanted.model.repo_id,
        revision=wanted.model.revision,
        engine=wanted.engine.key,
        plan=plan.as_json(),
        price_per_hour=priced.price_per_hour,
        # Where staff sell below cost, that cost is the ceiling; never more than either.
        max_cost_per_hour=max(priced.price_per_hour, whole_cost(offer)),
        hold=metering.hold_amount(priced.price_per_hour),
        estimated_ready_seconds=plans.ready_seconds(
            plan, engine=wanted.engine.key, adaptor=offer.provider.adaptor, mbit=offer.net_down
        ),
        expires_at=ClockTimestamp() + timedelta(minutes=settings.QUOTE_MINUTES),
    )
    return Quote.objects.select_related("offer", "model").get(pk=row.pk)
