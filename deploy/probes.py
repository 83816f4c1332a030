"""`/metrics`: what an operator watches, as Prometheus reads it. A few counts, one query each."""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Iterable
from typing import Any

from django.conf import settings
from django.db.models import Count, Min, QuerySet
from django.http import HttpRequest, HttpResponse

from arrakis import clock
from catalog.models import Version
from deploy.models import Deployment, Machine, Replica
from deploy.states import LIVE, MACHINE_LIVE


def metrics(request: HttpRequest) -> HttpResponse:
    """For who knows METRICS_TOKEN; without that setting, for this machine alone."""
    if not _may_read(request):
        return HttpResponse(status=404)
    lines = [
        *_by_state("arrakis_deployments", _counted(Deployment.objects.all())),
        *_by_state("arrakis_machines", _counted(Machine.objects.filter(state__in=MACHINE_LIVE))),
        "# TYPE arrakis_step_delay_seconds gauge",
        f"arrakis_step_delay_seconds {_step_delay():.3f}",
        "# TYPE arrakis_market_version counter",
        f"arrakis_market_version {Version.objects.values_list('n', flat=True).first() or 0}",
    ]
    return HttpResponse("\n".join(lines) + "\n", content_type="text/plain; version=0.0.4")


def _may_read(request: HttpRequest) -> bool:
    if settings.METRICS_TOKEN:
        given = request.headers.get("Authorization", "").removeprefix("Bearer ").encode()
        return hmac.compare_digest(given, settings.METRICS_TOKEN.encode())
    # Behind a proxy everybody comes from near: then only the token tells who may.
    return "X-Forwarded-For" not in request.headers and _is_loopback(request.META.get("REMOTE_ADDR", ""))


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def _counted(rows: QuerySet[Any]) -> list[tuple[str, int]]:
    return list(rows.order_by().values_list("state").annotate(Count("pk")))


def _by_state(name: str, rows: Iterable[tuple[str, int]]) -> list[str]:
    counted = sorted(rows)
    return [f"# TYPE {name} gauge", *(f'{name}{{state="{state}"}} {count}' for state, count in counted)]


def _step_delay() -> float:
    """How long the step that has waited longest is overdue, seconds: it grows when workers do not keep up."""
    oldest = Replica.objects.filter(state__in=LIVE, lease_token=None).aggregate(oldest=Min("due_at"))["oldest"]
    return max((clock.now() - oldest).total_seconds(), 0.0) if oldest else 0.0
