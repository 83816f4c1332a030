from __future__ import annotations

from decimal import Decimal
from typing import Any

import asyncssh
import pytest
from django.test import Client
from django.urls import reverse

from arrakis.accounts.models import User
from arrakis.audit.models import Record
from catalog import ingest, queries
from catalog.models import FleetHost, Gpu, Offer, PriceRule, Provider, Version
from tests.catalog.market import batch, offer, provider

pytestmark = pytest.mark.django_db

HOST_KEY = asyncssh.generate_private_key("ssh-ed25519").export_public_key("openssh").decode().strip()


@pytest.fixture
def staff(client: Client) -> Client:
    client.force_login(User.objects.create_superuser("staff@example.org", "a long enough password"))
    return client


def gpu_rows(**changed: str) -> dict[str, str]:
    """The list's form as a browser sends it, with the fixed prices of `changed` by key."""
    gpus = list(Gpu.objects.order_by("position", "key"))
    data = {"form-TOTAL_FORMS": str(len(gpus)), "form-INITIAL_FORMS": str(len(gpus)), "_save": "Save"}
    for number, gpu in enumerate(gpus):
        row = {
            "id": str(gpu.pk),
            "position": str(gpu.position),
            "fixed_price": changed.get(gpu.key.replace("-", "_"), ""),
        }
        row |= {"is_suggested": "on"} if gpu.is_suggested else {}
        row |= {"is_listed": "on"} if gpu.is_listed else {}
        data |= {f"form-{number}-{name}": value for name, value in row.items()}
    return data


def test_every_page_opens(staff: Client) -> None:
    ingest.apply(provider(), batch(offer("a")))
    for model, first in ((Gpu, Gpu.objects.first()), (Provider, Provider.objects.get()), (Offer, Offer.objects.get())):
        assert first is not None
        name = model._meta.model_name
        assert staff.get(reverse(f"admin:catalog_{name}_changelist")).status_code == 200
        assert staff.get(reverse(f"admin:catalog_{name}_change", args=[first.pk])).status_code == 200
    for name in ("gpualias", "fleethost", "pricerule", "sourcerun"):
        assert staff.get(reverse(f"admin:catalog_{name}_changelist")).status_code == 200
    for name in ("gpu", "provider", "gpualias", "fleethost", "pricerule"):
        assert staff.get(reverse(f"admin:catalog_{name}_add")).status_code == 200


def test_a_fixed_price_typed_into_the_list_wins_at_once(staff: Client) -> None:
    ingest.apply(provider(), batch(offer("a", cost="2.00"), offer("b", gpu="H200", cost="3")))
    before, address = Version.objects.get().n, reverse("admin:catalog_gpu_changelist")
    assert staff.post(address, gpu_rows(h100="1.50", rtx_4090="0.40")).status_code == 302
    market = queries.market()
    assert (market.price("h100"), market.price("h200")) == (Decimal("1.50"), Decimal("3.00"))
    assert market.version == before + 1
    assert {record.action for record in Record.objects.all()} == {"catalog.fixed_price"}
    assert 'value="1.50"' in staff.get(address).content.decode()
    assert staff.post(address, gpu_rows(rtx_4090="0.40")).status_code == 302
    assert queries.market().price("h100") == Decimal("2.00")
    assert PriceRule.objects.filter(active=True).count() == 1


def test_the_list_asks_the_same_number_of_queries_whatever_the_prices(
    staff: Client, django_assert_max_num_queries: Any
) -> None:
    staff.post(reverse("admin:catalog_gpu_changelist"), gpu_rows(h100="1.50", rtx_4090="0.40"))
    with django_assert_max_num_queries(12):
        staff.get(reverse("admin:catalog_gpu_changelist"))


@pytest.mark.parametrize("price", ["0", "-1", "1.234", "10001", "x"])
def test_a_price_that_is_no_price_is_refused_in_the_list(staff: Client, price: str) -> None:
    response = staff.post(reverse("admin:catalog_gpu_changelist"), gpu_rows(h100=price))
    assert response.status_code == 200
    assert not PriceRule.objects.exists()


def test_nothing_is_deleted(staff: Client) -> None:
    gpu = Gpu.objects.get(key="h100")
    assert staff.post(reverse("admin:catalog_gpu_delete", args=[gpu.pk]), {"post": "yes"}).status_code == 403


def test_a_provider_is_switched_off(staff: Client) -> None:
    acme = provider()
    ingest.apply(acme, batch(offer("a")))
    before = Version.objects.get().n
    form = {"form-TOTAL_FORMS": "1", "form-INITIAL_FORMS": "1", "form-0-id": str(acme.pk), "_save": "Save"}
    assert staff.post(reverse("admin:catalog_provider_changelist"), form).status_code == 302
    market = queries.market()
    assert (market.price("h100"), market.version) == (None, before + 1)
    written = Record.objects.get()
    assert (written.before, written.after) == ({"enabled": True}, {"enabled": False})


def host_form(**changes: str) -> dict[str, str]:
    return {
        "name": "box",
        "address": "10.0.0.1",
        "port": "22",
        "user": "root",
        "host_key": f"10.0.0.1 {HOST_KEY}",
        "reset_command": "/usr/local/sbin/reset-host",
        "gpu": str(Gpu.objects.get(key="h100").pk),
        "gpu_count": "4",
        "cost": "1.50",
        "mode": "bare",
        "region": "FR",
        "state": "ready",
        "enabled": "on",
        **changes,
    }


def test_a_host_is_entered_offered_and_shows_our_key(staff: Client) -> None:
    assert staff.post(reverse("admin:catalog_fleethost_add"), host_form()).status_code == 302
    box = FleetHost.objects.get()
    assert box.host_key == HOST_KEY
    found = queries.cheapest_quotable(gpu_key="h100", count=4)
    assert found is not None
    assert (found.offer.fleet_host, found.price_per_hour) == (box, Decimal("6.00"))
    page = staff.get(reverse("admin:catalog_fleethost_change", args=[box.pk])).content.decode()
    assert "ssh-ed25519 " in page
    assert box.access_key not in page
    written = Record.objects.get()
    assert written.after is not None
    assert written.after["access_key"] == "***"
    assert staff.post(reverse("admin:catalog_fleethost_change", args=[box.pk]), host_form(cost="2")).status_code == 302
    assert FleetHost.objects.get().access_key == box.access_key
    assert queries.market().price("h100") == Decimal("2.00")


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("address", "https://10.0.0.1", "no scheme"),
        ("address", "-oProxyCommand=x", "no scheme"),
        ("port", "0", "from 1 to 65535"),
        ("host_key", "", "required"),
        ("host_key", "ssh-ed25519 AAAA", "ssh-keyscan"),
        ("host_key", "-----BEGIN OPENSSH PRIVATE KEY-----", "ssh-keyscan"),
        ("reset_command", "", "makes it as new"),
        ("cost", "0", "give its cost"),
        ("gpu_count", "0", "at least one"),
    ],
)
def test_what_is_wrong_with_a_host_is_said(staff: Client, field: str, value: str, says: str) -> None:
    response = staff.post(reverse("admin:catalog_fleethost_add"), host_form(**{field: value}))
    assert response.status_code == 200
    assert says in response.content.decode()
    assert not FleetHost.objects.exists()


def test_an_offer_is_taken_off_the_market_until_the_next_batch(staff: Client) -> None:
    acme = provider()
    ingest.apply(acme, batch(offer("a")))
    first = Offer.objects.get()
    assert staff.post(reverse("admin:catalog_offer_change", args=[first.pk]), {}).status_code == 302
    assert queries.market().price("h100") is None
    ingest.apply(acme, batch(offer("a")))
    assert queries.market().price("h100") == Decimal("2.00")


def rule_form(**changes: str) -> dict[str, str]:
    return {"percent": "10", "valid_0": "2026-01-01 00:00:00", "valid_1": "", "active": "on", **changes}


def test_a_margin_for_everything(staff: Client) -> None:
    ingest.apply(provider(), batch(offer("a")))
    assert staff.post(reverse("admin:catalog_pricerule_add"), rule_form()).status_code == 302
    assert queries.market().price("h100") == Decimal("2.20")
    made = PriceRule.objects.get()
    assert made.author is not None
    assert made.author.email == "staff@example.org"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({}, "end that one first"),
        ({"valid_0": "2027-01-01 00:00:00"}, "end that one first"),
        ({"fixed": "3"}, "either a fixed price or a margin"),
        ({"percent": ""}, "either a fixed price or a margin"),
        ({"percent": "", "fixed": "0"}, "more than nothing"),
        ({"valid_0": "2027-01-01 00:00:00", "valid_1": "2026-01-01 00:00:00", "region": "FR"}, "valid"),
    ],
)
def test_rules_that_cannot_both_hold_or_say_nothing_are_refused(
    staff: Client, changes: dict[str, str], says: str
) -> None:
    staff.post(reverse("admin:catalog_pricerule_add"), rule_form())
    response = staff.post(reverse("admin:catalog_pricerule_add"), rule_form(**changes))
    assert response.status_code == 200
    assert says in response.content.decode()
    assert PriceRule.objects.count() == 1


def test_a_rule_ends_and_another_follows(staff: Client) -> None:
    staff.post(reverse("admin:catalog_pricerule_add"), rule_form())
    first = PriceRule.objects.get()
    ended = rule_form()
    del ended["active"]
    assert staff.post(reverse("admin:catalog_pricerule_change", args=[first.pk]), ended).status_code == 302
    assert staff.post(reverse("admin:catalog_pricerule_add"), rule_form(percent="20")).status_code == 302
    assert list(PriceRule.objects.filter(active=True).values_list("percent", flat=True)) == [Decimal(20)]
