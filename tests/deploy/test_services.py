"""What a customer may ask for, and what they are told when it cannot be."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any
from uuid import uuid4

import pytest
from django.db.models import F
from pytest_django import Settings

from arrakis.errors import ArrakisError, BadRequest, Conflict, InsufficientBalance, NotFound
from catalog.models import FleetHost, Offer, PriceRule
from catalog.services import set_fixed_price
from deploy import allowance, services
from deploy.ledger import services as ledger
from deploy.models import Deployment, Machine, MachineSshKey, Quote, Replica
from deploy.providers import PROVIDERS
from deploy.states import MachineState, State
from tests.deploy.rentals import (
    PUBLIC_KEY,
    Customer,
    a_cloud_offer,
    a_customer,
    a_gpu,
    a_host,
    a_model,
    a_quote,
    a_request,
    codes,
    machine_of,
)
from tests.fakes.cloud import FakeCloud

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def cloud(monkeypatch: pytest.MonkeyPatch) -> FakeCloud:
    fake = FakeCloud()
    monkeypatch.setitem(PROVIDERS, "cloud", fake)
    return fake


@pytest.fixture
def customer(db: None) -> Customer:
    a_model()
    return a_customer()


def refused(error: type[ArrakisError], call: object, **params: object) -> str:
    with pytest.raises(error) as caught:
        call()  # type: ignore[operator]
    for name, value in params.items():
        assert caught.value.params[name] == value
    return caught.value.code


class TestQuote:
    def test_the_cheapest_whole_machine_is_quoted(self, customer: Customer) -> None:
        gpu = a_gpu()
        a_cloud_offer(gpu, count=4, cost="0.30")
        a_cloud_offer(gpu, count=2, cost="0.405")
        a_cloud_offer(gpu, count=1, cost="0.10")
        quote = a_quote(customer, gpu, count=2)
        assert quote.price_per_hour == Decimal("0.82")  # 2 x 0.41, rounded before it is multiplied
        assert quote.max_cost_per_hour == Decimal("0.82")
        assert quote.hold == Decimal("0.82")
        assert quote.offer_facts["gpu_count"] == 2
        assert quote.plan["gguf"] == "tiny.Q4_1.gguf"
        assert quote.estimated_ready_seconds > 0
        assert quote.expires_at - quote.created_at <= timedelta(minutes=5, seconds=1)

    @pytest.mark.parametrize(
        "text",
        [
            "acme/Tiny-GGUF",
            "ACME/tiny-gguf",
            "tiny-gguf",
            " https://huggingface.co/acme/Tiny-GGUF/tree/main?x=1#y ",
            "hf.co/acme/Tiny-GGUF",
        ],
    )
    def test_a_model_is_found_however_it_is_named(self, customer: Customer, text: str) -> None:
        gpu = a_gpu()
        a_cloud_offer(gpu)
        assert a_quote(customer, gpu, model=text).repo_id == "acme/Tiny-GGUF"

    @pytest.mark.parametrize(
        ("text", "code"),
        [
            ("", "model_reference_empty"),
            ("/etc/passwd", "model_reference_path"),
            ("../x", "model_reference_path"),
            ("file:///etc/passwd", "model_reference_path"),
            ("http://169.254.169.254/acme/Tiny-GGUF", "model_reference_address"),
            ("https://huggingface.co.evil.example/acme/Tiny-GGUF", "model_reference_address"),
            ("https://huggingface.co@evil.example/acme/Tiny-GGUF", "model_reference_address"),
            ("https://huggingface.co/datasets/acme/x", "model_reference_address"),
            ("70B", "model_reference_size"),
            ("acme/Tiny\x00GGUF", "model_reference_invalid"),
            ("a/b/c", "model_reference_invalid"),
        ],
    )
    def test_what_is_not_a_model_is_refused(self, customer: Customer, text: str, code: str) -> None:
        assert refused(BadRequest, lambda: a_quote(customer, a_gpu(), model=text)) == code

    def test_an_unknown_model_is_told_what_can_be_deployed(self, customer: Customer) -> None:
        ask = lambda: a_quote(customer, a_gpu(), model="acme/Unknown")  # noqa: E731
        assert refused(NotFound, ask, can="acme/Tiny-GGUF") == "model_unknown"

    def test_an_engine_that_cannot_run_there_is_refused(self, customer: Customer) -> None:
        gpu = a_gpu("test-cpu", kind="cpu", memory_gb="8")
        call = lambda: services.quote(  # noqa: E731
            workspace=customer.workspace,
            user=customer.user,
            model="acme/Tiny-GGUF",
            engine="vllm",
            gpu=gpu.key,
            count=1,
        )
        assert refused(BadRequest, call) in {"engine_needs_gpu", "engine_needs_safetensors"}

    def test_what_does_not_fit_is_refused(self, customer: Customer) -> None:
        gpu = a_gpu("small", memory_gb="0.10")
        a_cloud_offer(gpu)
        ask = lambda: a_quote(customer, gpu)  # noqa: E731
        assert refused(BadRequest, ask, needed_gb="0.119", there_gb="0.10") == "model_does_not_fit"

    def test_sold_out_names_the_next_best(self, customer: Customer) -> None:
        other = a_gpu("other", memory_gb="48")
        a_cloud_offer(other, cost="0.70")
        ask = lambda: a_quote(customer, a_gpu())  # noqa: E731
        assert refused(Conflict, ask, next_gpu="OTHER", next_count=1, next_price="0.70") == "sold_out"

    def test_sample_data_is_never_quoted(self, customer: Customer) -> None:
        gpu = a_gpu()
        offer = a_cloud_offer(gpu)
        offer.provider.is_sample = True
        offer.provider.save(update_fields=["is_sample"])
        assert refused(Conflict, lambda: a_quote(customer, gpu)) == "only_sample_offers"


class TestRequest:
    def test_everything_is_written_at_once(self, customer: Customer) -> None:
        gpu = a_gpu()
        a_cloud_offer(gpu)
        quote = a_quote(customer, gpu)
        deployment = a_request(customer, quote, ssh_keys=[PUBLIC_KEY], hf_token="hf_secret")
        assert deployment.state == State.REQUESTED
        assert codes(deployment) == ["requested"]
        assert "hf_secret" not in deployment.hf_token
        machine = machine_of(deployment)
        assert machine.state == MachineState.INTENT
        assert machine.label.startswith("arrakis-")
        assert "PRIVATE" not in machine.admin_key
        assert MachineSshKey.objects.get(deployment=deployment).installed_at is None
        assert ledger.balance(customer.workspace.pk).held == quote.hold
        assert Replica.objects.get(deployment=deployment).state == State.REQUESTED

    def test_the_same_quote_is_the_same_deployment(self, customer: Customer) -> None:
        gpu = a_gpu()
        a_cloud_offer(gpu)
        quote = a_quote(customer, gpu)
        assert a_request(customer, quote).pk == a_request(customer, quote).pk
        assert Deployment.objects.count() == 1
        assert ledger.balance(customer.workspace.pk).held == quote.hold

    def test_an_expired_quote_starts_nothing(self, customer: Customer) -> None:
        gpu = a_gpu()
        a_cloud_offer(gpu)
        quote = a_quote(customer, gpu)
        Quote.objects.update(expires_at=F("created_at"))
        assert refused(Conflict, lambda: a_request(customer, quote)) == "quote_expired"
        assert not Machine.objects.exists()

    def test_a_changed_price_shows_both_and_does_nothing(self, customer: Customer) -> None:
        gpu = a_gpu()
        a_cloud_offer(gpu)
        quote = a_quote(customer, gpu)
        Offer.objects.update(cost_per_gpu_hour=Decimal("0.55"))
        assert refused(Conflict, lambda: a_request(customer, quote), was="0.4", now="0.55") == "price_changed"
        assert not Deployment.objects.exists()
        assert ledger.balance(customer.workspace.pk).held == 0

    def test_another_workspaces_quote_is_not_there(self, customer: Customer) -> None:
        gpu = a_gpu()
        a_cloud_offer(gpu)
        quote = a_quote(customer, gpu)
        assert refused(NotFound, lambda: a_request(a_customer(), quote)) == "quote_unknown"

    def test_nothing_starts_without_the_hold(self) -> None:
        a_model()
        gpu, poor = a_gpu(), a_customer(paid="0.01")
        a_cloud_offer(gpu)
        quote = a_quote(poor, gpu)
        assert refused(InsufficientBalance, lambda: a_request(poor, quote)) == "insufficient_balance"

    def test_a_host_is_taken_by_the_first(self, customer: Customer) -> None:
        gpu = a_gpu()
        host = a_host(gpu)
        first, second = a_quote(customer, gpu), a_quote(a_customer(), gpu)
        a_request(customer, first)
        host.refresh_from_db()
        assert host.state == FleetHost.State.LEASED
        other = Customer(second.workspace, second.user)
        assert refused(Conflict, lambda: a_request(other, second)) == "sold_out"
        assert ledger.balance(other.workspace.pk).held == 0

    @pytest.mark.parametrize("mode", ["container", "vm"])
    def test_a_host_is_rented_only_in_a_mode_that_can_be_made(self, customer: Customer, mode: str) -> None:
        gpu = a_gpu()
        host = a_host(gpu)
        quote = a_quote(customer, gpu)
        FleetHost.objects.filter(pk=host.pk).update(mode=mode)
        assert refused(Conflict, lambda: a_request(customer, quote)) in {"sold_out", "host_mode_unsupported"}
        assert refused(Conflict, lambda: a_quote(customer, gpu)) == "sold_out"

    def test_bare_metal_without_a_reset_is_never_rented(self, customer: Customer) -> None:
        gpu = a_gpu()
        a_host(gpu, is_demo=False)
        quote = a_quote(customer, gpu)
        assert refused(Conflict, lambda: a_request(customer, quote)) == "host_not_resettable"

    @pytest.mark.parametrize(
        ("limits", "code"),
        [
            ({"max_machines": 0}, "limit_machines"),
            ({"max_usd_per_hour": Decimal("0.39")}, "limit_usd_per_hour"),
            ({"frozen_reason": "chargeback"}, "workspace_frozen"),
        ],
    )
    def test_limits_of_a_workspace(self, limits: dict[str, Any], code: str) -> None:
        a_model()
        gpu, customer = a_gpu(), a_customer(**limits)
        a_cloud_offer(gpu)
        quote = a_quote(customer, gpu)
        assert refused(Conflict, lambda: a_request(customer, quote)) == code

    def test_free_starts_are_limited_and_paid_ones_are_not(self, customer: Customer, settings: Settings) -> None:
        settings.FREE_START_AT_ONCE = 1
        gpu = a_gpu()
        for _ in range(3):
            a_cloud_offer(gpu)
        a_request(customer, a_quote(customer, gpu))
        quote = a_quote(customer, gpu)
        assert refused(Conflict, lambda: a_request(customer, quote)) == "free_starts_at_once"
        assert a_request(customer, quote, let_in_early=True).let_in_at is not None

    def test_cancelling_in_a_loop_uses_the_allowance_up(self, customer: Customer, settings: Settings) -> None:
        settings.FREE_START_MINUTES_A_DAY = 3 * allowance.LEAST_MINUTES
        gpu = a_gpu()
        for _ in range(4):
            a_cloud_offer(gpu)
        for _ in range(3):
            deployment = a_request(customer, a_quote(customer, gpu))
            services.stop(deployment=deployment, actor=customer.user)
        quote = a_quote(customer, gpu)
        assert refused(Conflict, lambda: a_request(customer, quote)) == "free_start_used_up"
        assert ledger.balance(customer.workspace.pk).available == 10

    @pytest.mark.parametrize("keys", [["ssh-ed25519 nonsense"], ['command="x" ' + PUBLIC_KEY], [PUBLIC_KEY] * 21])
    def test_keys_are_read_strictly(self, customer: Customer, keys: list[str]) -> None:
        gpu = a_gpu()
        a_cloud_offer(gpu)
        quote = a_quote(customer, gpu)
        with pytest.raises(BadRequest):
            a_request(customer, quote, ssh_keys=keys)
        assert not Deployment.objects.exists()

    def test_a_fixed_price_holds_for_what_is_quoted(self, customer: Customer) -> None:
        gpu = a_gpu()
        a_cloud_offer(gpu)
        set_fixed_price(gpu=gpu, price=Decimal("1.25"), actor=customer.user)
        assert PriceRule.objects.exists()
        assert a_quote(customer, gpu).price_per_hour == Decimal("1.25")


class TestStop:
    def test_stopping_twice_is_stopping_once(self, customer: Customer) -> None:
        gpu = a_gpu()
        a_cloud_offer(gpu)
        deployment = a_request(customer, a_quote(customer, gpu))
        for _ in range(2):
            deployment = services.stop(deployment=deployment, actor=customer.user)
        assert deployment.state == State.STOPPING
        assert codes(deployment) == ["requested", "stopped_by_customer"]
        assert ledger.balance(customer.workspace.pk).available == 10

    def test_another_workspaces_deployment_is_not_there(self, customer: Customer) -> None:
        gpu = a_gpu()
        a_cloud_offer(gpu)
        deployment = a_request(customer, a_quote(customer, gpu))
        assert services.get_deployment(customer.workspace, deployment.pk) == deployment
        for pk in (deployment.pk, uuid4(), "x"):
            assert refused(NotFound, lambda pk=pk: services.get_deployment(a_customer().workspace, pk)) == (
                "deployment_unknown"
            )

    def test_what_does_not_run_is_not_restarted(self, customer: Customer) -> None:
        gpu = a_gpu()
        a_cloud_offer(gpu)
        deployment = a_request(customer, a_quote(customer, gpu))
        call = lambda: services.restart(deployment=deployment, actor=customer.user)  # noqa: E731
        assert refused(Conflict, call, state="requested") == "not_running"
