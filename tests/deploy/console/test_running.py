"""A deployment's page: live state, keys shown once, what the machine says shown as text, stopping."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from deploy import services
from deploy.gateway.models import EndpointKey
from deploy.models import Deployment
from tests.deploy.console.conftest import Shop

pytestmark = pytest.mark.django_db


def here(name: str, deployment: Deployment) -> str:
    return reverse(f"console:{name}", args=[deployment.pk])


def test_the_page_and_its_live_part_agree(shop: Shop) -> None:
    deployment, client = shop.deployment(), shop.owner
    live = client.get(here("live", deployment)).content.decode()
    assert 'data-state="requested"' in live
    assert 'data-over="0"' in live
    assert live.strip().splitlines()[0] in client.get(here("deployment", deployment)).content.decode()


def test_a_key_is_shown_once_and_opens_this_deployment(shop: Shop) -> None:
    deployment, client = shop.deployment(), shop.owner
    answer = client.post(here("deployment", deployment), {"name": "laptop"})
    made = re.search(r"data-secret>(sk-ark-[0-9A-Za-z]{40})<", answer.content.decode())
    assert made is not None
    key = EndpointKey.objects.get()
    assert [grant.deployment_id for grant in key.grants.all()] == [deployment.pk]
    again = client.get(here("deployment", deployment)).content.decode()
    assert made[1] not in again
    assert f"sk-ark-{key.id_part}…" in again
    assert made[1] not in client.get(reverse("console:keys")).content.decode()


def test_a_key_without_a_name_is_refused_where_the_eye_is(shop: Shop) -> None:
    deployment = shop.deployment()
    answer = shop.owner.post(here("deployment", deployment), {"name": " "})
    assert answer.status_code == 422
    assert 'class="error"' in answer.content.decode()
    assert not EndpointKey.objects.exists()


def test_stopping_asks_then_stops_and_again_changes_nothing(shop: Shop) -> None:
    deployment, client = shop.deployment(), shop.owner
    assert "Everything on it is lost" in client.get(here("stop", deployment)).content.decode()
    deployment.refresh_from_db()
    assert deployment.state == "requested"
    for _ in range(2):
        assert client.post(here("stop", deployment)).status_code == 302
    deployment.refresh_from_db()
    assert (deployment.state, deployment.reason_code) == ("stopping", "stopped_by_customer")
    assert deployment.events.filter(code="stopped_by_customer").count() == 1


def test_a_get_never_stops(shop: Shop) -> None:
    deployment = shop.deployment()
    for name in ("restart", "let-in"):
        assert shop.owner.get(here(name, deployment)).status_code == 405
    assert Client().post(here("stop", deployment)).status_code == 302
    deployment.refresh_from_db()
    assert deployment.state == "requested"


HOSTILE = "\x1b[31mred\x1b[0m <script>alert(1)</script> <img src=x onerror=alert(2)> \u202eevil"


def test_a_log_line_with_markup_is_shown_as_text(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine's own cleaning is tested with deploy.machine; whatever passes it is still only text here."""

    def hostile(**_given: Any) -> str:
        return HOSTILE

    monkeypatch.setattr(services, "logs", hostile)
    page = shop.owner.get(here("logs", shop.deployment())).content.decode()
    assert "<script>alert" not in page
    assert "<img" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page


def test_a_log_that_cannot_be_read_says_why(shop: Shop) -> None:
    page = shop.owner.get(here("logs", shop.deployment()))
    assert page.status_code == 200
    assert 'class="alert"' in page.content.decode()


def test_restarting_what_does_not_run_says_so(shop: Shop) -> None:
    answer = shop.owner.post(here("restart", shop.deployment()), follow=True)
    assert 'class="alert bad"' in answer.content.decode()


def test_letting_in_early_is_asked_once(shop: Shop) -> None:
    deployment = shop.deployment()
    for _ in range(2):
        assert shop.owner.post(here("let-in", deployment)).status_code == 302
    deployment.refresh_from_db()
    assert deployment.let_in_at is not None
    assert deployment.events.filter(code="let_in_asked").count() == 1
