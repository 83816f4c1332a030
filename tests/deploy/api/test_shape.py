"""What is the same at every address: tokens, errors, slashes, limits, and the document that describes them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.core.cache import cache
from django.core.management import call_command
from django.test import Client
from django.utils import timezone

from arrakis.accounts.models import ApiToken, Membership
from arrakis.api import ReadThrottle
from tests.deploy.api.conftest import Caller
from tests.deploy.api.test_deployments import ASKED, refused
from tests.deploy.console.conftest import Shop
from tests.deploy.rentals import PUBLIC_KEY

pytestmark = pytest.mark.django_db

PRIVATE = ["deployments", "balance", "entries", "ssh-keys", "keys"]


@pytest.mark.parametrize("path", PRIVATE)
def test_without_a_token(shop: Shop, path: str) -> None:
    answer = Caller("").get(path)
    refused(answer, 401, "not_authenticated")
    assert answer.headers["WWW-Authenticate"] == "Bearer"


@pytest.mark.parametrize("path", PRIVATE)
def test_a_wrong_token(shop: Shop, path: str) -> None:
    refused(Caller("ark_wrong").get(path), 401, "invalid_token")


@pytest.mark.parametrize("end", ["revoked_at", "expires_at"])
def test_a_token_that_ended(shop: Shop, owner: Caller, end: str) -> None:
    ApiToken.objects.update(**{end: timezone.now() - timedelta(seconds=1)})
    refused(owner.get("balance"), 401, "invalid_token")


def test_a_token_ends_with_its_users_membership(shop: Shop, owner: Caller) -> None:
    Membership.objects.filter(user=shop.cast.owner).delete()
    refused(owner.get("balance"), 404, "workspace_not_found")


def test_a_suspended_users_token(shop: Shop, owner: Caller) -> None:
    shop.cast.owner.suspended_at = timezone.now()
    shop.cast.owner.save(update_fields=["suspended_at"])
    refused(owner.get("balance"), 401, "invalid_token")


@pytest.mark.parametrize("path", [*PRIVATE, "gpus", "offers", "models", "models/acme/Tiny-GGUF/sizing"])
def test_with_and_without_a_slash(owner: Caller, path: str) -> None:
    assert owner.get(path).status_code == 200
    assert owner.get(f"{path}/").status_code == 200


def test_a_post_with_a_slash_keeps_its_body(owner: Caller) -> None:
    assert owner.post("quotes/", ASKED).status_code == 201


@pytest.mark.parametrize("path", ["gpus", "offers", "models", "models/acme/Tiny-GGUF/sizing"])
def test_what_is_open_needs_no_token(shop: Shop, path: str) -> None:
    assert Caller("").get(path).status_code == 200


def test_the_open_figures(shop: Shop) -> None:
    sizing = Caller("").get("models/acme/tiny-gguf/sizing").json()
    assert sizing["params"] == 135_000_000
    assert sizing["modes"]["serve-16"]["gb"] == "0.324"
    offer = Caller("").get("offers").json()["results"][0]
    assert (offer["gpu"], offer["price_per_hour"]) == ("test-cpu", "0.36")
    assert "test-cpu" not in [gpu["key"] for gpu in Caller("").get("gpus").json()["results"]]


def test_errors_of_the_framework_have_the_shape(owner: Caller) -> None:
    refused(owner.get("nothing/here"), 404, "not_found")
    refused(owner.get("deployments/not-an-id"), 404, "not_found")
    refused(owner.delete("balance"), 405, "method_not_allowed")
    refused(owner.get("quotes"), 405, "method_not_allowed")
    refused(owner.client.post("/api/v1/quotes", {"model": "x"}), 415, "unsupported_media_type")
    refused(owner.client.post("/api/v1/quotes", "{", "application/json"), 400, "parse_error")
    deep = "[" * 100_000
    refused(owner.client.post("/api/v1/quotes", deep, "application/json"), 400, "parse_error")
    refused(owner.post("quotes", [1, 2]), 400, "invalid")
    refused(owner.post("quotes", ASKED | {"model": "a\x00b"}), 400, "invalid")


def test_what_nobody_expected_says_nothing_of_itself(
    owner: Caller, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_args: Any) -> None:
        raise ZeroDivisionError("secret")

    monkeypatch.setattr("deploy.api.account.metering.funds", broken)
    answer = owner.get("balance", headers={"x-request-id": "mine-12345"})
    body = refused(answer, 500, "internal_error")
    assert body["request_id"] == "mine-12345"
    assert "secret" not in answer.content.decode()
    assert "mine-12345" in caplog.text


def test_too_many_requests(owner: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.clear()
    monkeypatch.setattr(ReadThrottle, "THROTTLE_RATES", {"read": "2/min"})
    for _ in range(2):
        assert owner.get("balance").status_code == 200
    answer = owner.get("balance")
    refused(answer, 429, "throttled")
    assert int(answer.headers["Retry-After"]) > 0
    cache.clear()


def test_a_session_needs_the_csrf_token(shop: Shop) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(shop.cast.owner)
    assert client.get("/api/v1/balance").status_code == 200
    refused(client.post("/api/v1/quotes", ASKED, "application/json"), 403, "permission_denied")


def test_ssh_keys(owner: Caller, stranger: Caller) -> None:
    answer = owner.post("ssh-keys", {"public_key": PUBLIC_KEY})
    key = answer.json()
    assert (answer.status_code, key["name"], key["fingerprint"][:7]) == (201, "me@home", "SHA256:")
    refused(stranger.get(f"ssh-keys/{key['id']}"), 404, "ssh_key_not_found")
    refused(stranger.delete(f"ssh-keys/{key['id']}"), 404, "ssh_key_not_found")
    assert [row["id"] for row in owner.get("ssh-keys").json()["results"]] == [key["id"]]
    assert owner.delete(f"ssh-keys/{key['id']}").status_code == 204
    assert owner.get("ssh-keys").json()["count"] == 0
    refused(owner.post("ssh-keys", {"public_key": "ssh-rsa AAAA"}), 400, "ssh_key_invalid")


def test_entries_say_what_moved(owner: Caller) -> None:
    rows = owner.get("entries").json()["results"]
    assert [(row["code"], row["amount"]) for row in rows] == [("credit", "10.00")]


def test_the_openapi_document_is_valid_and_complete(tmp_path: Any) -> None:
    document = tmp_path / "schema.yml"
    call_command("spectacular", "--validate", "--fail-on-warn", file=str(document))
    text = document.read_text()
    for path in (
        "quotes",
        "deployments",
        "deployments/{deployment_id}/stop",
        "models/{owner}/{name}/sizing",
        "ssh-keys",
    ):
        assert f"/api/v1/{path}" in text


def test_the_documentation_page_needs_nothing_from_elsewhere(client: Client) -> None:
    page = client.get("/api/docs/").content.decode()
    assert "https://" not in page.replace("https://www.w3.org", "")
