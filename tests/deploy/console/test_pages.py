"""Every page of the console: who sees it, who does not, and that nothing of another workspace shows."""

from __future__ import annotations

import re
from uuid import UUID, uuid4

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import translation

from arrakis.accounts.models import Role
from arrakis.accounts.services import add_ssh_key, issue_api_token
from arrakis.pages import language_tag
from deploy.gateway import keys
from tests.deploy.console.conftest import Shop
from tests.deploy.rentals import PUBLIC_KEY, a_host

pytestmark = pytest.mark.django_db

PLAIN = [
    "models",
    "deployments",
    "keys",
    "usage",
    "billing",
    "ssh-keys",
    "api-tokens",
    "members",
    "settings",
    "password",
]
OF_ONE = ["deployment", "live", "logs", "stop"]


def address(name: str, *args: object, language: str = "en") -> str:
    with translation.override(language):
        return reverse(f"console:{name}", args=args)


@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.parametrize("language", ["en", "fr", "pt-br"])
def test_a_member_sees_every_page_in_every_language(shop: Shop, name: str, language: str) -> None:
    shop.deployment()
    answer = shop.owner.get(address(name, language=language))
    assert answer.status_code == 200
    assert f'<html lang="{language_tag(language)}"' in answer.content.decode()
    assert "no-store" in answer.headers["Cache-Control"]


@pytest.mark.parametrize("name", PLAIN)
def test_who_is_not_signed_in_is_asked_to(shop: Shop, name: str) -> None:
    answer = Client().get(address(name))
    assert answer.status_code == 302
    assert answer.headers["Location"].startswith(address("sign-in"))


@pytest.mark.parametrize("name", OF_ONE)
def test_a_deployment_is_its_workspaces_own(shop: Shop, name: str) -> None:
    deployment = shop.deployment()
    where = address(name, deployment.pk)
    assert shop.client(shop.cast.owner).get(where).status_code == 200
    assert shop.client(shop.cast.member).get(where).status_code == 200
    stranger = shop.client(shop.cast.stranger).get(where)
    assert stranger.status_code == 404
    assert deployment.name not in stranger.content.decode()
    assert Client().get(where).status_code == 302


@pytest.mark.parametrize("name", ["stop", "restart", "let-in", "deployment"])
def test_a_stranger_changes_nothing(shop: Shop, name: str) -> None:
    deployment = shop.deployment()
    answer = shop.client(shop.cast.stranger).post(address(name, deployment.pk), {"name": "mine"})
    assert answer.status_code == 404
    deployment.refresh_from_db()
    assert (deployment.state, deployment.let_in_at, deployment.key_grants.count()) == ("requested", None, 0)


@pytest.mark.parametrize("role", [Role.VIEWER, Role.BILLING])
@pytest.mark.parametrize("name", ["stop", "restart", "let-in", "deployment"])
def test_who_may_only_look_changes_nothing(shop: Shop, name: str, role: Role) -> None:
    deployment = shop.deployment()
    answer = shop.member_as(role).post(address(name, deployment.pk), {"name": "mine"})
    assert answer.status_code == 403
    deployment.refresh_from_db()
    assert (deployment.state, deployment.let_in_at, deployment.key_grants.count()) == ("requested", None, 0)


def test_a_viewer_sees_no_money(shop: Shop) -> None:
    deployment, viewer = shop.deployment(), shop.member_as(Role.VIEWER)
    assert viewer.get(address("billing")).status_code == 403
    assert "Cost so far" not in viewer.get(address("deployment", deployment.pk)).content.decode()
    assert "Cost so far" not in viewer.get(address("deployments")).content.decode()
    assert "balance" not in viewer.get(address("deploy") + "?model=acme/Tiny-GGUF").content.decode().lower()
    assert shop.member_as(Role.BILLING).get(address("billing")).status_code == 200


def test_another_workspaces_key_token_and_ssh_key_are_not_found(shop: Shop) -> None:
    key, _text = keys.issue(workspace=shop.cast.workspace, name="ours")
    token, _text = issue_api_token(workspace=shop.cast.workspace, user=shop.cast.owner, name="ours")
    ssh = add_ssh_key(user=shop.cast.owner, name="", public_key=PUBLIC_KEY)
    stranger = shop.client(shop.cast.stranger)
    for name, pk in (("revoke-key", key.pk), ("revoke-token", token.pk), ("delete-ssh-key", ssh.pk)):
        assert stranger.post(address(name, pk)).status_code == 404
    key.refresh_from_db()
    token.refresh_from_db()
    assert (key.revoked_at, token.revoked_at, shop.cast.owner.ssh_keys.count()) == (None, None, 1)


def test_unknown_ids_are_not_found(shop: Shop) -> None:
    nobody: UUID = uuid4()
    for name in OF_ONE:
        assert shop.owner.get(address(name, nobody)).status_code == 404
    assert shop.owner.get(address("quote", nobody)).status_code == 404


@pytest.mark.parametrize(
    "name",
    ["stop", "deployment", "let-in", "restart"],
)
def test_a_form_without_its_token_is_refused(shop: Shop, name: str) -> None:
    deployment = shop.deployment()
    client = Client(enforce_csrf_checks=True)
    client.force_login(shop.cast.owner)
    answer = client.post(address(name, deployment.pk))
    assert answer.status_code == 403
    assert "load the page again" in answer.content.decode()
    deployment.refresh_from_db()
    assert deployment.state == "requested"


def test_pages_carry_no_inline_script_or_style(shop: Shop) -> None:
    deployment = shop.deployment()
    where = [address(name) for name in PLAIN] + [address(name, deployment.pk) for name in OF_ONE]
    for place in [*where, address("deploy") + "?model=acme/Tiny-GGUF"]:
        page = shop.owner.get(place).content.decode()
        assert " style=" not in page
        assert "<style" not in page
        assert "javascript:" not in page
        assert not re.search(r"<script(?![^>]*\ssrc=)", page)


def test_a_list_of_many_costs_as_many_queries_as_of_one(shop: Shop) -> None:
    shop.deployment()
    client = shop.owner
    client.get(address("deployments"))
    with CaptureQueriesContext(connection) as one:
        client.get(address("deployments"))
    for n in range(3):
        a_host(shop.gpu, name=f"more-{n}", mode="bare", is_demo=True)
        shop.deployment(let_in_early=True)
    with CaptureQueriesContext(connection) as many:
        page = client.get(address("deployments")).content.decode()
    assert page.count('data-label="State"') == 4
    assert len(many) == len(one)
