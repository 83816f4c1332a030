"""`/L/gpus/`: every listed GPU, with its lowest live price."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from django.http import HttpRequest, HttpResponseBase
from django.views.decorators.http import require_safe

from arrakis.pages import page
from catalog.listing import regions
from catalog.queries import COUNTS, GpuPrice, market

_LAST: Final = 10**9
SORTS: Final[dict[str, Callable[[GpuPrice], Any]]] = {
    "": lambda gpu: gpu.position,
    "price": lambda gpu: (gpu.price is None, gpu.price or 0),
    "memory": lambda gpu: (gpu.memory_gb, gpu.position),
    "value": lambda gpu: gpu.price / gpu.memory_gb if gpu.price is not None else _LAST,
}


@require_safe
def gpus(request: HttpRequest) -> HttpResponseBase:
    now = market()
    sort = request.GET.get("sort", "")
    sort = sort if sort in SORTS else ""

    def context() -> dict[str, Any]:
        shown = [gpu for gpu in now.gpus if gpu.is_suggested or gpu.price is not None]
        return {
            "market": now,
            "gpus": sorted(shown, key=SORTS[sort]),
            "others": [gpu for gpu in now.gpus if gpu not in shown],
            "regions": regions(),
            "sort": sort,
            "counts": COUNTS,
        }

    return page(request, "catalog/gpus.html", context, version=(now, sort))
