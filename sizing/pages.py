"""The pages of models and of what fits where. Three queries at most: the market, the thing itself, all models."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from http import HTTPStatus
from typing import Any, Final

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from arrakis.pages import absolute, not_found_page, page
from catalog.listing import gpu_with_groups
from catalog.queries import GpuPrice, Market, market
from sizing import faq, memory, serve
from sizing.models import HubModel, SlugHistory
from sizing.references import NotAReference, Repository, Size, Slug, parse
from sizing.tables import NAMES, Sizing, sizing

FEATURED: Final = 4
COUNTS: Final = (1, 2, 4, 8)


@require_safe
def home(request: HttpRequest) -> HttpResponseBase:
    now, known = market(), _known()

    def context() -> dict[str, Any]:
        return {
            "market": now,
            "featured": [(model, size_of(model, now)) for model in known[:FEATURED]],
            "models": known,
            "gpus": [gpu for gpu in now.suggested if gpu.price is not None],
        }

    return page(request, "home/home.html", context, version=(now, _facts(known)))


@require_safe
def models(request: HttpRequest) -> HttpResponseBase:
    now, asked = market(), request.GET.get("q", "").strip()[:200]
    found = [model for model in _known() if _answers(model, asked)]

    def context() -> dict[str, Any]:
        return {"market": now, "q": asked, "models": [(model, size_of(model, now)) for model in found]}

    return page(request, "sizing/models.html", context, version=(now, asked, _facts(found)))


@require_safe
def model(request: HttpRequest, slug: str) -> HttpResponseBase:
    known = _known()
    found = next((model for model in known if model.slug == slug), None)
    if found is None:
        old = SlugHistory.objects.filter(slug=slug, model__is_listed=True).select_related("model").first()
        if old is None:
            return not_found_page(request)
        return redirect("sizing:model", slug=old.model.slug, permanent=True)
    now = market()
    version = (now, _facts(known))
    return page(request, "sizing/model.html", lambda: _model_context(found, known, now), version=version)


@require_safe
def check(request: HttpRequest) -> HttpResponseBase:
    """A person's words for a model: a known one has its page, a size is sized, anything else is told plainly."""
    asked = request.GET.get("model", "").strip()[:500]
    reference = _reference(asked)
    now, known, status = market(), _known(), 200
    context: dict[str, Any] = {"asked": asked, "market": now, "models": known}
    if isinstance(reference, Size):
        context["sizing"] = sizing(reference.billions, now.suggested)
    elif reference is not None:
        if found := next((model for model in known if _is(model, reference)), None):
            return redirect("sizing:model", slug=found.slug)
        context["problem"], status = "unknown", HTTPStatus.NOT_FOUND
    elif asked:
        context["problem"], status = "unreadable", HTTPStatus.BAD_REQUEST
    version = (now, asked, _facts(known))
    response = page(request, "sizing/check.html", lambda: context, version=version, status=status)
    response.headers["X-Robots-Tag"] = "noindex"
    return response


@require_safe
def gpu(request: HttpRequest, key: str) -> HttpResponseBase:
    now = market()
    priced = now.gpu(key)
    if priced is None:
        return not_found_page(request)
    known = _known()

    def context() -> dict[str, Any]:
        row, groups = gpu_with_groups(key) or (None, [])
        return {
            "market": now,
            "gpu": priced,
            "facts": row,
            "groups": groups,
            "regions": list(dict.fromkeys(group.region for group in groups if group.region)),
            "prices": [_prices(priced, n) for n in COUNTS],
            "holds": [(n, _held(n * priced.memory_gb, known)) for n in COUNTS],
        }

    return page(request, "catalog/gpu.html", context, version=(now, _facts(known)))


def size_of(found: HubModel, now: Market) -> Sizing:
    return sizing(memory.billions(found.params_total), now.suggested, serve.published_mode(found.stored_as))


def _model_context(found: HubModel, known: Sequence[HubModel], now: Market) -> dict[str, Any]:
    sized = size_of(found, now)
    parallel = serve.tensor_parallel(sized.fits, found.stored_as)
    questions = faq.of_model(found, sized)
    address = reverse("sizing:model", args=[found.slug])
    return {
        "market": now,
        "model": found,
        "sizing": sized,
        "parallel": parallel,
        "commands": serve.commands(found.repo_id, parallel, gguf=found.repo_id.lower().endswith("-gguf"))
        if parallel
        else (),
        "questions": questions,
        "models": [other for other in known if other is not found],
        "margin": memory.SERVING_MARGIN - 1,
        "weights_url": f"{found.endpoint}/{found.repo_id}",
        "structured": [
            faq.structured(questions),
            _crumbs((_("Models"), reverse("sizing:models")), (found.name, address)),
        ],
    }


def _crumbs(*steps: tuple[str, str]) -> dict[str, Any]:
    named = [(settings.SITE_NAME, reverse("sizing:home")), *steps]
    return {
        "@context": "https://schema.org",
        "@type": "BreadcrumbList",
        "itemListElement": [
            {"@type": "ListItem", "position": at, "name": str(name), "item": absolute(address)}
            for at, (name, address) in enumerate(named, start=1)
        ],
    }


def _known() -> list[HubModel]:
    return list(HubModel.objects.filter(is_listed=True).defer("config", "tensors", "files"))


def _facts(known: Sequence[HubModel]) -> list[dict[str, Any]]:
    """All that is known of them: what a page that shows them depends on."""
    return [{name: value for name, value in vars(model).items() if name != "_state"} for model in known]


def _reference(asked: str) -> Size | Repository | Slug | None:
    try:
        return parse(asked)
    except NotAReference:
        return None


def _is(model: HubModel, asked: Repository | Slug) -> bool:
    if isinstance(asked, Repository):
        return model.repo_id.lower() == asked.repo_id.lower()
    return model.slug == asked.slug


def _answers(found: HubModel, asked: str) -> bool:
    words = asked.lower().split()
    return all(word in f"{found.repo_id} {found.name}".lower() for word in words)


def _prices(gpu: GpuPrice, n: int) -> tuple[int, Decimal, Decimal | None, Decimal | None]:
    """Count, memory of all, price shown, price to rent."""
    return n, n * gpu.memory_gb, None if gpu.price is None else n * gpu.price, gpu.rent_prices.get(n)


def _held(total_gb: Decimal, known: Sequence[HubModel]) -> list[tuple[HubModel, Promise]]:
    """Models that fit into that much memory, each with the highest serving precision that does."""
    held = []
    for found in known:
        needs = memory.requirements(memory.billions(found.params_total))
        mode = next((mode for mode in memory.SERVING if needs[mode] <= total_gb), None)
        if mode:
            held.append((found, NAMES[mode]))
    return held
