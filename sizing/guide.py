"""The guides: how much GPU memory a model needs, and how deployment works here."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase
from django.views.decorators.http import require_safe

from arrakis.pages import page
from catalog.queries import market
from sizing import faq, memory
from sizing.tables import sizing

EXAMPLES: Final = (
    ("Llama 3.1", 8, "llama-3-1-8b-instruct"),
    ("Qwen2.5", 14, "qwen2-5-14b-instruct"),
    ("Qwen2.5", 32, "qwen2-5-32b-instruct"),
    ("Llama 3.3", 70, "llama-3-3-70b-instruct"),
    ("Llama 3.1", 405, "llama-3-1-405b-instruct"),
)
"""Family, parameters in billions, slug of its page."""


@require_safe
def guides(request: HttpRequest) -> HttpResponseBase:
    return page(request, "guides/guides.html", dict, version="guides")


@require_safe
def gpu_memory(request: HttpRequest) -> HttpResponseBase:
    now = market()

    def context() -> dict[str, Any]:
        sized = {billions: sizing(Decimal(billions), now.suggested) for _name, billions, _slug in EXAMPLES}
        questions = faq.of_guide(now, sized[70], sized[8])
        return {
            "market": now,
            "examples": [(name, billions * 10**9, slug, sized[billions]) for name, billions, slug in EXAMPLES],
            "seventy": sized[70],
            "margin": memory.SERVING_MARGIN - 1,
            "gpus": now.suggested,
            "questions": questions,
            "structured": faq.structured(questions),
        }

    return page(request, "guides/gpu_memory.html", context, version=now)


@require_safe
def deploy(request: HttpRequest) -> HttpResponseBase:
    rules = {
        "hold_minutes": settings.HOLD_MINUTES,
        "free_minutes": settings.FREE_START_MINUTES,
        "free_at_once": settings.FREE_START_AT_ONCE,
        "free_minutes_a_day": settings.FREE_START_MINUTES_A_DAY,
        "quote_minutes": settings.QUOTE_MINUTES,
        "term_days": settings.PRICE_TERM_DAYS,
    }
    return page(request, "guides/deploy.html", lambda: rules, version=("deploy", rules))
