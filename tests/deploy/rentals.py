"""A small market for tests of renting: one model, a GPU kind, a cloud, hosts of our own, customers with money."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from django.db.models.functions import Now

from arrakis import clock
from arrakis.accounts.models import User, Workspace
from arrakis.clock import ClockTimestamp
from arrakis.ids import new_id
from catalog.models import FleetHost, Gpu, Offer, Provider
from catalog.sources import fleet
from deploy import reconcile, services
from deploy.models import Deployment, Machine, Quote, Replica
from sizing.models import HubModel
from tests.deploy.shop import a_user, a_workspace

GGUF = {"path": "tiny.Q4_1.gguf", "size": 98_400_000, "sha256": "a" * 64, "format": "gguf"}
PUBLIC_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAINBCuQ6bDXIUmjRz3mBbJbiLDY/Pat/6NJnN1VKVPJ2P me@home"


@dataclass
class Customer:
    workspace: Workspace
    user: User


def a_customer(*, paid: str = "10", **limits: Any) -> Customer:
    workspace = a_workspace(paid=paid)
    if limits:
        Workspace.objects.filter(pk=workspace.pk).update(**limits)
        workspace.refresh_from_db()
    return Customer(workspace, a_user())


def a_model(repo_id: str = "acme/Tiny-GGUF", *, files: list[dict[str, Any]] | None = None, **fields: Any) -> HubModel:
    values = {"params_total": 135_000_000, "context": 8192, "endpoint": "https://hub.example", **fields}
    slug = repo_id.rpartition("/")[2].lower().replace(".", "-")
    return HubModel.objects.create(
        repo_id=repo_id, name=repo_id, slug=slug, files=[GGUF] if files is None else files, **values
    )


def a_gpu(key: str = "test-gpu", *, kind: str = "gpu", memory_gb: str = "24") -> Gpu:
    found = Gpu.objects.filter(key=key).first()
    return found or Gpu.objects.create(
        key=key, name=key.upper(), vendor="Acme", kind=kind, memory_gb=Decimal(memory_gb), compute_cap="8.9"
    )


def a_cloud_offer(gpu: Gpu, *, count: int = 1, cost: str = "0.40", **fields: Any) -> Offer:
    cloud, _new = Provider.objects.get_or_create(key="cloud", defaults={"name": "Cloud", "adaptor": "cloud"})
    now = clock.now()
    values = {"provider": cloud, "external_id": f"offer-{new_id().hex}", "raw_gpu": gpu.name, **fields}
    return Offer.objects.create(
        gpu=gpu, gpu_count=count, cost_per_gpu_hour=Decimal(cost), first_seen=now, last_seen=now, **values
    )


def a_host(gpu: Gpu, *, cost: str = "0.36", **fields: Any) -> FleetHost:
    values = {"name": f"host-{new_id().hex[-12:]}", "address": "127.0.0.1", "port": 9, "mode": "bare", **fields}
    values = {"is_demo": "reset_command" not in values, **values}
    host = FleetHost.objects.create(gpu=gpu, cost=Decimal(cost), **values)
    fleet.refresh()
    return host


def a_quote(customer: Customer, gpu: Gpu, *, model: str = "acme/Tiny-GGUF", count: int = 1, **more: Any) -> Quote:
    return services.quote(
        workspace=customer.workspace,
        user=customer.user,
        model=model,
        engine="llamacpp",
        gpu=gpu.key,
        count=count,
        **more,
    )


def a_request(customer: Customer, quote: Quote, **more: Any) -> Deployment:
    return services.request(workspace=customer.workspace, user=customer.user, quote_id=quote.pk, **more)


def replica_of(deployment: Deployment) -> Replica:
    return Replica.objects.get(deployment=deployment)


def machine_of(deployment: Deployment) -> Machine:
    return Machine.objects.filter(quote_id=deployment.quote_id).order_by("-asked_at", "-pk")[0]


def step(deployment: Deployment, times: int = 1) -> Deployment:
    """Move it so many steps, each as if it were due; the deployment as it is then."""
    for _ in range(times):
        replica = replica_of(deployment)
        Replica.objects.filter(pk=replica.pk).update(due_at=ClockTimestamp(), hinted_until=None)
        reconcile.step(replica.pk)
    deployment.refresh_from_db()
    return deployment


def codes(deployment: Deployment) -> list[str]:
    return list(deployment.events.order_by("id").values_list("code", flat=True))


def past_deadline(deployment: Deployment) -> None:
    Replica.objects.filter(deployment=deployment).update(deadline_at=Now())
