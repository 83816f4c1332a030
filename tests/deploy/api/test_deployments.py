"""The control API's main story, and everything that answers otherwise."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.db.models import F
from django.test.utils import CaptureQueriesContext

from arrakis.accounts.models import Role
from arrakis.accounts.services import add_ssh_key
from catalog.services import set_fixed_price
from deploy.gateway.models import EndpointKey
from deploy.ledger import services as ledger
from deploy.models import Deployment, MachineSshKey, Quote
from tests.deploy.api.conftest import Caller, caller, member_as
from tests.deploy.console.conftest import Shop
from tests.deploy.rentals import PUBLIC_KEY, a_host

pytestmark = pytest.mark.django_db

ASKED = {"model": "acme/Tiny-GGUF", "engine": "llamacpp", "gpu": "test-cpu", "count": 1}
ERROR = {"code", "message", "suggestion", "request_id"}


def refused(answer: Any, status: int, code: str) -> dict[str, Any]:
    """The body of an error in the one shape there is."""
    body: dict[str, Any] = answer.json()
    assert (answer.status_code, body["code"]) == (status, code), body
    assert set(body) >= ERROR
    assert body["message"]
    assert answer.headers["X-Request-Id"] == body["request_id"]
    return body


def quote(owner: Caller, **more: Any) -> dict[str, Any]:
    answer = owner.post("quotes", {**ASKED, **more})
    assert answer.status_code == 201, answer.content
    made: dict[str, Any] = answer.json()
    return made


def deploy(owner: Caller, **more: Any) -> dict[str, Any]:
    answer = owner.post("deployments", {"quote": quote(owner)["id"], **more})
    assert answer.status_code == 201, answer.content
    made: dict[str, Any] = answer.json()
    return made


class TestQuote:
    def test_it_says_what_is_accepted(self, owner: Caller, shop: Shop) -> None:
        made = quote(owner)
        assert made["price_per_hour"] == "0.36"
        assert made["hold"] == "0.36"
        assert made["estimated_ready_seconds"] > 0
        assert datetime.fromisoformat(made["expires_at"]).tzinfo is not None
        assert made["expires_at"].endswith("Z")
        assert Quote.objects.get(pk=made["id"]).workspace == shop.cast.workspace

    @pytest.mark.parametrize("gpu", ["test-cpu", "TEST-CPU", " Test-CPU "])
    def test_a_gpu_by_key_or_name(self, owner: Caller, gpu: str) -> None:
        assert quote(owner, gpu=gpu)["gpu"] == "test-cpu"

    def test_without_a_count_it_is_one(self, owner: Caller) -> None:
        answer = owner.post("quotes", {name: value for name, value in ASKED.items() if name != "count"})
        assert answer.json()["count"] == 1

    @pytest.mark.parametrize(
        ("more", "status", "code"),
        [
            ({"model": "nobody/Nothing"}, 404, "model_unknown"),
            ({"engine": "tgi"}, 404, "engine_unknown"),
            ({"engine": "vllm"}, 400, "engine_needs_gpu"),
            ({"gpu": "h9000"}, 404, "gpu_unknown"),
            ({"gpu": "h100", "engine": "llamacpp"}, 409, "sold_out"),
            ({"count": 3}, 400, "gpu_count"),
            ({"count": 0}, 400, "invalid"),
            ({"count": "many"}, 400, "invalid"),
            ({"context": 10**9}, 400, "invalid"),
            ({"context": 9000}, 400, "context_too_long"),
            ({"model": ""}, 400, "invalid"),
        ],
    )
    def test_what_cannot_be(self, owner: Caller, more: dict[str, Any], status: int, code: str) -> None:
        refused(owner.post("quotes", {**ASKED, **more}), status, code)
        assert not Quote.objects.exists()


class TestDeploy:
    def test_it_begins_and_says_how_it_will_be_reached(self, owner: Caller, shop: Shop) -> None:
        made = deploy(owner, name="first")
        assert made["state"] == "requested"
        assert made["endpoint"].endswith("/v1")
        assert made["model"] == "acme/Tiny-GGUF"
        assert made["ssh"] is None
        assert made["cost"] == "0.00"
        assert [stage["key"] for stage in made["timeline"]][-1] == "running"
        assert owner.get(f"deployments/{made['id']}").json()["name"] == "first"
        assert [row["id"] for row in owner.get("deployments").json()["results"]] == [made["id"]]
        assert owner.get("balance").json() == {
            "balance": "10.00",
            "available": "9.64",
            "held": "0.36",
            "bought": "0.00",
            "granted": "9.64",
            "paid": "0.00",
            "currency": "USD",
        }

    def test_the_same_quote_is_the_same_deployment(self, owner: Caller, shop: Shop) -> None:
        accepted = quote(owner)["id"]
        first, second = (owner.post("deployments", {"quote": accepted}) for _ in range(2))
        assert first.json()["id"] == second.json()["id"]
        assert ledger.balance(shop.cast.workspace.pk).held == Decimal("0.36")

    def test_keys_by_name_id_and_text(self, owner: Caller, shop: Shop) -> None:
        kept = add_ssh_key(user=shop.cast.owner, name="my laptop", public_key=PUBLIC_KEY)
        deploy(owner, ssh_keys=["my laptop", str(kept.pk), PUBLIC_KEY])
        assert MachineSshKey.objects.get().fingerprint == kept.fingerprint

    def test_without_a_word_all_kept_keys_are_let_in_and_with_none_none(self, owner: Caller, shop: Shop) -> None:
        add_ssh_key(user=shop.cast.owner, name="laptop", public_key=PUBLIC_KEY)
        deploy(owner)
        assert MachineSshKey.objects.count() == 1

    def test_an_empty_list_lets_nobody_in(self, owner: Caller, shop: Shop) -> None:
        add_ssh_key(user=shop.cast.owner, name="laptop", public_key=PUBLIC_KEY)
        deploy(owner, ssh_keys=[])
        assert MachineSshKey.objects.count() == 0

    @pytest.mark.parametrize(
        ("more", "status", "code"),
        [
            ({"ssh_keys": ["no-such-key"]}, 404, "ssh_key_not_found"),
            ({"ssh_keys": ["ssh-dss AAAA me"]}, 400, "ssh_key_type"),
            ({"args": ["--host", "0.0.0.0"]}, 400, "engine_argument_refused"),
            ({"name": "x" * 81}, 400, "invalid"),
            ({"quote": str(uuid4())}, 404, "quote_unknown"),
            ({"quote": "nonsense"}, 400, "invalid"),
        ],
    )
    def test_what_cannot_be(self, owner: Caller, more: dict[str, Any], status: int, code: str) -> None:
        refused(owner.post("deployments", {"quote": quote(owner)["id"], **more}), status, code)
        assert not Deployment.objects.exists()

    def test_a_changed_price_shows_both(self, owner: Caller, shop: Shop) -> None:
        accepted = quote(owner)["id"]
        set_fixed_price(gpu=shop.gpu, price=Decimal("0.50"), actor=shop.cast.owner)
        body = refused(owner.post("deployments", {"quote": accepted}), 409, "price_changed")
        assert {Decimal(body["details"]["was"]), Decimal(body["details"]["now"])} == {Decimal("0.36"), Decimal("0.5")}
        assert "$0.36" in body["message"]
        assert "$0.50" in body["message"]

    def test_an_expired_quote(self, owner: Caller) -> None:
        accepted = quote(owner)["id"]
        Quote.objects.update(expires_at=F("expires_at") - timedelta(minutes=6))
        refused(owner.post("deployments", {"quote": accepted}), 409, "quote_expired")

    def test_a_balance_that_is_short(self, stranger: Caller, shop: Shop) -> None:
        body = refused(stranger.post("deployments", {"quote": quote(stranger)["id"]}), 402, "insufficient_balance")
        assert Decimal(body["details"]["needed"]) == Decimal("0.36")
        assert not Deployment.objects.exists()

    def test_the_readers_language(self, owner: Caller) -> None:
        english = owner.post("quotes", {**ASKED, "gpu": "x"})
        assert english.headers["Content-Language"] == "en"
        french = owner.post("quotes", {**ASKED, "gpu": "x"}, headers={"accept-language": "fr"})
        assert french.headers["Content-Language"] == "fr"


class TestOneDeployment:
    def test_stopping_twice_is_once(self, owner: Caller) -> None:
        made = deploy(owner)
        for _ in range(2):
            answer = owner.post(f"deployments/{made['id']}/stop")
            assert (answer.status_code, answer.json()["state"]) == (200, "stopping")
        codes = [event["code"] for event in owner.get(f"deployments/{made['id']}/events").json()["results"]]
        assert codes.count("stopped_by_customer") == 1

    def test_events_are_sentences(self, owner: Caller) -> None:
        made = deploy(owner)
        event = owner.get(f"deployments/{made['id']}/events").json()["results"][0]
        assert event["code"] == "requested"
        assert event["message"] != "requested"

    def test_restarting_what_does_not_run(self, owner: Caller) -> None:
        made = deploy(owner)
        refused(owner.post(f"deployments/{made['id']}/restart"), 409, "not_running")
        refused(owner.get(f"deployments/{made['id']}/logs"), 409, "no_machine")

    def test_a_key_is_shown_once(self, owner: Caller) -> None:
        made = deploy(owner)
        answer = owner.post(f"deployments/{made['id']}/keys", {"name": "laptop"})
        key = answer.json()
        assert (answer.status_code, key["key"][:7]) == (201, "sk-ark-")
        listed = owner.get(f"deployments/{made['id']}/keys")
        assert [row["id"] for row in listed.json()["results"]] == [key["id"]]
        assert key["key"] not in listed.content.decode()
        assert owner.delete(f"deployments/{made['id']}/keys/{key['id']}").status_code == 204
        assert EndpointKey.objects.get().revoked_at is not None

    def test_a_key_of_the_workspace_is_not_revoked_at_one_deployment(self, owner: Caller) -> None:
        made, key = deploy(owner), owner.post("keys", {"name": "all"}).json()
        refused(owner.delete(f"deployments/{made['id']}/keys/{key['id']}"), 409, "key_of_workspace")
        assert owner.delete(f"keys/{key['id']}").status_code == 204

    def test_nothing_of_another_workspace_is_there(self, owner: Caller, stranger: Caller) -> None:
        accepted = quote(owner)["id"]
        made = deploy(owner)
        key = owner.post(f"deployments/{made['id']}/keys", {"name": "ours"}).json()
        for path in ("", "/events", "/logs", "/keys"):
            refused(stranger.get(f"deployments/{made['id']}{path}"), 404, "deployment_unknown")
        for path in ("/stop", "/restart", "/let-in"):
            refused(stranger.post(f"deployments/{made['id']}{path}"), 404, "deployment_unknown")
        refused(stranger.post(f"deployments/{made['id']}/keys", {"name": "x"}), 404, "deployment_unknown")
        refused(stranger.delete(f"keys/{key['id']}"), 404, "key_not_found")
        assert stranger.get("deployments").json()["count"] == 0
        refused(stranger.post("deployments", {"quote": accepted}), 404, "quote_unknown")
        assert EndpointKey.objects.get().revoked_at is None
        assert Deployment.objects.get().state == "requested"

    @pytest.mark.parametrize("role", [Role.VIEWER, Role.BILLING])
    def test_who_may_only_look(self, owner: Caller, shop: Shop, role: Role) -> None:
        made, looking = deploy(owner), member_as(shop, role)
        assert looking.get(f"deployments/{made['id']}").status_code == 200
        for path in ("stop", "restart", "let-in", "keys"):
            refused(looking.post(f"deployments/{made['id']}/{path}", {"name": "x"}), 403, "role_forbids")
        refused(looking.post("quotes", ASKED), 403, "role_forbids")
        assert looking.get("balance").status_code == (200 if role == Role.BILLING else 403)

    def test_a_token_that_may_only_look(self, shop: Shop, owner: Caller) -> None:
        made = deploy(owner)
        reading = caller(shop.cast.workspace, shop.cast.owner, read_only=True)
        assert reading.get(f"deployments/{made['id']}").status_code == 200
        refused(reading.post(f"deployments/{made['id']}/stop"), 403, "role_forbids")
        refused(reading.post("ssh-keys", {"public_key": PUBLIC_KEY}), 403, "token_read_only")


def test_a_list_is_paged_and_costs_as_many_queries_as_one(owner: Caller, shop: Shop) -> None:
    deploy(owner)
    owner.get("deployments")
    with CaptureQueriesContext(connection) as one:
        page = owner.get("deployments?limit=1").json()
    assert (page["count"], len(page["results"]), page["next"]) == (1, 1, None)
    a_host(shop.gpu, name="another", mode="bare", is_demo=True)
    deploy(owner, let_in_early=True)
    with CaptureQueriesContext(connection) as two:
        assert len(owner.get("deployments").json()["results"]) == 2
    assert len(two) == len(one)
    page = owner.get("deployments?limit=1").json()
    assert "offset=1" in page["next"]
