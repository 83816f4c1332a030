from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from django.core.exceptions import ValidationError
from django.db.backends.postgresql.psycopg_any import DateTimeTZRange

from arrakis.accounts.models import User
from arrakis.audit.models import Record
from catalog import ingest, queries, services
from catalog.models import FleetHost, Gpu, PriceRule, Version
from tests.catalog.market import batch, offer, provider, rule

pytestmark = pytest.mark.django_db


@pytest.fixture
def staff() -> User:
    return User.objects.create_superuser("staff@example.org", "a long enough password")


@pytest.fixture
def h100() -> Gpu:
    ingest.apply(provider(), batch(offer("a", cost="2.00"), offer("b", count=8, cost="1.80")))
    return Gpu.objects.get(key="h100")


def shown() -> Decimal | None:
    return queries.market().price("h100")


def test_a_fixed_price_holds_at_once_on_pages_and_for_rent(h100: Gpu, staff: User) -> None:
    before = Version.objects.get().n
    services.set_fixed_price(gpu=h100, price=Decimal("1.50"), actor=staff, reason="launch")
    gpu = queries.market().gpu("h100")
    assert gpu is not None
    assert (gpu.price, gpu.rent_prices[1], gpu.rent_prices[8]) == (Decimal("1.50"), Decimal("1.50"), Decimal("12.00"))
    found = queries.cheapest_quotable(gpu_key="h100", count=1)
    assert found is not None
    assert found.price_per_hour == Decimal("1.50")
    assert Version.objects.get().n == before + 1
    written = Record.objects.get()
    assert (written.action, written.actor, written.object_id) == ("catalog.fixed_price", staff, str(h100.pk))
    assert (written.before, written.after) == ({"fixed": None}, {"fixed": "1.50", "reason": "launch"})


def test_it_is_changed_and_taken_back(h100: Gpu, staff: User) -> None:
    for price, expected in (("3", "3"), ("4", "4"), (None, "1.80")):
        services.set_fixed_price(gpu=h100, price=Decimal(price) if price else None, actor=staff)
        assert shown() == Decimal(expected)
    assert services.fixed_price(h100) is None
    assert PriceRule.objects.filter(active=False).count() == 2
    assert Record.objects.count() == 3


def test_the_same_price_again_is_no_change(h100: Gpu, staff: User) -> None:
    services.set_fixed_price(gpu=h100, price=Decimal("3"), actor=staff)
    before = Version.objects.get().n
    services.set_fixed_price(gpu=h100, price=Decimal("3.00"), actor=staff)
    assert (Version.objects.get().n, PriceRule.objects.count(), Record.objects.count()) == (before, 1, 1)


def test_it_ends_the_margin_of_the_same_gpu_and_says_so(h100: Gpu, staff: User) -> None:
    rule(gpu="h100", percent=Decimal(50))
    assert shown() == Decimal("2.70")
    services.set_fixed_price(gpu=h100, price=None, actor=staff)
    assert shown() == Decimal("2.70")
    services.set_fixed_price(gpu=h100, price=Decimal("3"), actor=staff)
    assert shown() == Decimal("3")
    assert Record.objects.get().before == {"percent": "50.0000", "add": None}


@pytest.mark.parametrize("price", ["0", "-1", "0.001", "10000.01", "1.999"])
def test_prices_are_whole_cents_within_reason(h100: Gpu, staff: User, price: str) -> None:
    with pytest.raises(ValidationError):
        services.set_fixed_price(gpu=h100, price=Decimal(price), actor=staff)
    assert not PriceRule.objects.exists()


def test_a_planned_price_is_not_run_over(h100: Gpu, staff: User) -> None:
    later = datetime.now(UTC) + timedelta(days=7)
    rule(gpu="h100", fixed=Decimal(9), valid=DateTimeTZRange(later, None))
    with pytest.raises(ValidationError, match="later price"):
        services.set_fixed_price(gpu=h100, price=Decimal("3"), actor=staff)
    assert shown() == Decimal("1.80")


def test_our_key_to_a_host_is_made_once_and_kept_encrypted() -> None:
    box = FleetHost(name="box")
    assert services.public_access_key(box) == ""
    services.give_access_key(box)
    public, stored = services.public_access_key(box), box.access_key
    services.give_access_key(box)
    assert box.access_key == stored
    assert "PRIVATE" not in stored
    assert public.startswith("ssh-ed25519 ")
