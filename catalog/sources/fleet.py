"""The operator's own hosts as offers. A host can be rented when it is ready and enabled; one host is one machine."""

from __future__ import annotations

from django.db import transaction
from django.utils.translation import gettext_noop

from arrakis.clock import now
from catalog import ingest
from catalog.models import FleetHost, Provider, SourceRun
from catalog.sources.base import Batch, RawOffer

KEY = "fleet"
NAME = gettext_noop("Own hosts")


def read() -> Batch:
    """Every host, also those that cannot be rented now, so that pages need not forget them."""
    return Batch(now(), tuple(_offer(host) for host in FleetHost.objects.select_related("gpu").order_by("pk")))


def provider() -> Provider:
    return Provider.objects.get_or_create(key=KEY, defaults={"name": NAME, "adaptor": KEY})[0]


def refresh() -> SourceRun:
    """Brings the offers in line with the hosts. To be called after a host is saved, leased or released.

    In the same transaction: the provider's row is locked first, so of two refreshes the later reads what the earlier
    wrote.
    """
    with transaction.atomic():
        fleet = ingest.lock(provider())
        return ingest.apply(fleet, read())


def _offer(host: FleetHost) -> RawOffer:
    return RawOffer(
        external_id=f"host-{host.pk}",
        raw_gpu=host.gpu.name,
        gpu_id=host.gpu_id,
        gpu_count=host.gpu_count,
        cost_per_gpu_hour=host.cost,
        machine_ref=host.name,
        fleet_host_id=host.pk,
        region=host.region,
        ram=host.ram,
        rentable=host.enabled and host.state == FleetHost.State.READY,
    )
