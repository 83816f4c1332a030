"""From the paste box to a deployment by the console's forms, and everything that can be in the way."""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import Decimal
from html import unescape
from typing import Any

import pytest
from django.db.models import F
from django.test import Client
from django.urls import reverse

from arrakis.accounts.models import Role
from arrakis.accounts.services import add_ssh_key
from catalog.models import FleetHost
from catalog.services import set_fixed_price
from catalog.sources import fleet
from deploy import services
from deploy.ledger import services as ledger
from deploy.models import Deployment, MachineSshKey, Quote
from tests.deploy.console.conftest import Shop, pay
from tests.deploy.rentals import PUBLIC_KEY

pytestmark = pytest.mark.django_db

MODEL = "acme/Tiny-GGUF"


def text(answer: Any) -> str:
    """The words of a page, without its markup and with plain spaces."""
    plain = re.sub(r"<[^>]+>", " ", answer.content.decode())
    return " ".join(unescape(plain).split())


def choose(client: Client, **fields: str) -> Any:
    values = {"model": MODEL, "engine": "llamacpp", "machine": "test-cpu:1", **fields}
    return client.post(reverse("console:deploy"), values)


def a_quote_page(client: Client) -> str:
    answer = choose(client)
    assert answer.status_code == 302
    return str(answer.headers["Location"])


def accept(client: Client, page: str, **fields: Any) -> Any:
    return client.post(page.partition("?")[0] + "accept/", fields)


@pytest.mark.parametrize(
    "pasted",
    [MODEL, f"https://huggingface.co/{MODEL}", f"https://huggingface.co/{MODEL}/tree/main", f" {MODEL.upper()} "],
)
def test_the_paste_box_takes_ids_and_addresses(shop: Shop, pasted: str) -> None:
    answer = shop.owner.get(reverse("console:models"), {"model": pasted})
    assert answer.headers["Location"] == f"{reverse('console:deploy')}?model=acme%2FTiny-GGUF"


@pytest.mark.parametrize("pasted", ["nobody/Nothing", "https://evil.example/acme/Tiny-GGUF", "../../etc/passwd", "🦙"])
def test_what_is_no_model_here_is_said_at_the_box(shop: Shop, pasted: str) -> None:
    answer = shop.owner.get(reverse("console:models"), {"model": pasted})
    assert answer.status_code == 404
    assert 'class="error"' in answer.content.decode()


def test_the_form_shows_what_it_costs_and_why_engines_will_not_do(shop: Shop) -> None:
    page = shop.owner.get(reverse("console:deploy"), {"model": MODEL})
    words = text(page)
    assert "$0.36 per hour" in words
    assert "$0.36 held at the start" in words
    assert "needs 0.1 GB of memory" in words
    assert "your balance lasts 1 d 3 h" in words
    markup = page.content.decode()
    assert re.search(r'value="llamacpp" checked', markup)
    assert re.search(r'value="vllm" disabled', markup)
    assert re.search(r'value="sglang" disabled', markup)
    assert "vLLM needs a GPU" in words


def test_a_deployment_by_the_forms(shop: Shop) -> None:
    add_ssh_key(user=shop.cast.owner, name="laptop", public_key=PUBLIC_KEY)
    kept = shop.cast.owner.ssh_keys.get()
    client = shop.owner
    page = a_quote_page(client)
    words = text(client.get(page))
    assert "Deploy for $0.36 per hour" in words
    assert "laptop (SHA256:" in words
    answer = accept(client, page, name="first", ssh_keys=[str(kept.pk)])
    deployment = Deployment.objects.get()
    assert answer.headers["Location"] == reverse("console:deployment", args=[deployment.pk])
    assert (deployment.name, deployment.workspace) == ("first", shop.cast.workspace)
    assert MachineSshKey.objects.get(deployment=deployment).fingerprint == kept.fingerprint
    assert ledger.balance(shop.cast.workspace.pk).held == Decimal("0.36")


def test_no_key_chosen_is_no_key_let_in(shop: Shop) -> None:
    add_ssh_key(user=shop.cast.owner, name="laptop", public_key=PUBLIC_KEY)
    accept(shop.owner, a_quote_page(shop.owner))
    assert not MachineSshKey.objects.exists()


def test_sending_twice_is_once(shop: Shop) -> None:
    page = a_quote_page(shop.owner)
    first, second = accept(shop.owner, page, name="a"), accept(shop.owner, page, name="b")
    assert first.headers["Location"] == second.headers["Location"]
    assert Deployment.objects.get().name == "a"
    assert ledger.balance(shop.cast.workspace.pk).held == Decimal("0.36")
    assert shop.owner.get(page).headers["Location"] == first.headers["Location"]


def test_a_price_that_changed_before_the_quote_is_told(shop: Shop) -> None:
    answer = choose(shop.owner, **{"price:test-cpu:1": "0.30"})
    words = text(shop.owner.get(answer.headers["Location"]))
    assert "it was $0.30 per hour and is now $0.36 per hour" in words


def test_a_price_that_changed_after_the_quote_is_asked_again(shop: Shop) -> None:
    page = a_quote_page(shop.owner)
    set_fixed_price(gpu=shop.gpu, price=Decimal("0.50"), actor=shop.cast.owner)
    answer = accept(shop.owner, page, name="kept")
    assert answer.status_code == 409
    assert "it was $0.36 per hour and is now $0.50 per hour" in text(answer)
    assert 'value="kept"' in answer.content.decode()
    assert not Deployment.objects.exists()
    fresh = Quote.objects.get(price_per_hour=Decimal("0.50"))
    accept(shop.owner, reverse("console:quote", args=[fresh.pk]))
    assert Deployment.objects.get().price_per_hour == Decimal("0.50")


def test_a_quote_that_ran_out_is_asked_again(shop: Shop) -> None:
    page = a_quote_page(shop.owner)
    Quote.objects.update(expires_at=F("expires_at") - timedelta(minutes=6))
    answer = accept(shop.owner, page)
    assert answer.status_code == 409
    assert "It is still the same" in text(answer)
    assert not Deployment.objects.exists()
    assert Quote.objects.count() == 2


def test_a_balance_that_is_short_is_told_by_how_much(shop: Shop) -> None:
    poor = shop.client(shop.cast.stranger)
    pay(shop.cast.other_workspace.pk, "0.01")
    words = text(poor.get(reverse("console:deploy"), {"model": MODEL}))
    assert "your balance is $0.35 short of the hold" in words
    answer = accept(poor, a_quote_page(poor))
    assert answer.status_code == 402
    assert "$0.36" in text(answer)
    assert "$0.35" in text(answer)
    assert not Deployment.objects.exists()
    assert ledger.balance(shop.cast.other_workspace.pk).available == Decimal("0.01")


def test_cancelling_in_a_loop_keeps_the_money_right(shop: Shop) -> None:
    for _ in range(5):
        accept(shop.owner, a_quote_page(shop.owner))
        deployment = Deployment.objects.exclude(state__in=["stopping", "stopped"]).get()
        for _again in range(2):
            assert shop.owner.post(reverse("console:stop", args=[deployment.pk])).status_code == 302
        Deployment.objects.filter(pk=deployment.pk).update(state="stopped")
        deployment.replica_set.update(state="stopped")
        deployment.quote.machines.update(state="gone")
        FleetHost.objects.update(state="ready")
        fleet.refresh()
    balance = ledger.balance(shop.cast.workspace.pk)
    assert (balance.available, balance.held) == (Decimal(10), Decimal(0))


def test_a_viewer_may_look_and_not_deploy(shop: Shop) -> None:
    viewer = shop.member_as(Role.VIEWER)
    assert viewer.get(reverse("console:deploy"), {"model": MODEL}).status_code == 200
    assert choose(viewer).status_code == 403
    quote = services.quote(
        workspace=shop.cast.workspace, user=shop.cast.owner, model=MODEL, engine="llamacpp", gpu="test-cpu", count=1
    )
    assert viewer.post(reverse("console:accept", args=[quote.pk])).status_code == 403
    assert not Deployment.objects.exists()


def test_another_workspaces_quote_is_not_found(shop: Shop) -> None:
    page = a_quote_page(shop.owner)
    stranger = shop.client(shop.cast.stranger)
    assert stranger.get(page).status_code == 404
    assert accept(stranger, page).status_code == 404
    assert not Deployment.objects.exists()


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("new_ssh_key", "-----BEGIN OPENSSH PRIVATE KEY-----", "private"),
        ("new_ssh_key", 'command="rm -rf /" ' + PUBLIC_KEY, ""),
        ("args", "--host 0.0.0.0", "--host"),
        ("args", '--alias "open', "quotation mark"),
        ("name", "x" * 81, "80"),
    ],
)
def test_what_cannot_be_is_said_and_nothing_started(shop: Shop, field: str, value: str, said: str) -> None:
    answer = accept(shop.owner, a_quote_page(shop.owner), **{field: value})
    assert answer.status_code in {400, 422}
    assert said in text(answer)
    assert 'class="error"' in answer.content.decode()
    assert not Deployment.objects.exists()


@pytest.mark.parametrize("context", ["99999999999999999999", "-1", "²", "1e9", "<script>"])
def test_a_context_that_is_no_number_does_no_harm(shop: Shop, context: str) -> None:
    answer = shop.owner.get(reverse("console:deploy"), {"model": MODEL, "context": context})
    assert answer.status_code == 200
    assert "<script>" not in answer.content.decode()


def test_a_machine_that_is_gone_is_told(shop: Shop) -> None:
    page = a_quote_page(shop.owner)
    shop.host.enabled = False
    shop.host.save(update_fields=["enabled"])
    shop.host.offers.update(rentable=False)
    assert choose(shop.owner).status_code == 422
    answer = accept(shop.owner, page)
    assert answer.status_code == 409
    assert not Deployment.objects.exists()
