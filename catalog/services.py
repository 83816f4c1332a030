"""What staff decide: one function a decision, each with its audit record and the market's version."""

from __future__ import annotations

from decimal import Decimal

import asyncssh
from django.contrib.postgres.fields import DateTimeRangeField
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import DateTimeField, Func, QuerySet, Value
from django.db.models.functions import Cast, Now
from django.utils.translation import gettext as _

from arrakis import vault
from arrakis.accounts.models import User
from arrakis.audit.services import record
from catalog import versions
from catalog.models import FleetHost, Gpu, PriceRule

HIGHEST_PRICE = Decimal(10_000)


def fixed_price(gpu: Gpu) -> Decimal | None:
    """The fixed price per GPU-hour that staff set for the Gpu wherever it is rented, USD."""
    rule = _rules_for(gpu).first()
    return rule.fixed if rule else None


def check_fixed_price(*, gpu: Gpu, price: Decimal | None) -> None:
    """Raises ValidationError unless it is whole cents from 0.01 to 10,000, and where a later price is planned."""
    if price is None:
        return
    if not (0 < price <= HIGHEST_PRICE and price == price.quantize(Decimal("0.01"))):
        raise ValidationError(_("A price per GPU-hour is from 0.01 to 10,000 USD, in whole cents."), code="price")
    if _scope(gpu).filter(valid__startswith__gt=Now()).exists():
        raise ValidationError(_("A later price is planned for this GPU: end that rule first."), code="planned")


def set_fixed_price(*, gpu: Gpu, price: Decimal | None, actor: User, reason: str = "") -> None:
    """From now on the Gpu costs `price` per GPU-hour, at every count, provider and region; None takes that back.

    Typed by staff, it holds also below cost. A margin rule for the same Gpu is ended with it, since two rules for one
    scope cannot both hold. Raises ValidationError as `check_fixed_price` does.
    """
    with transaction.atomic():
        if write_fixed_price(gpu=gpu, price=price, actor=actor, reason=reason):
            versions.bump()


def write_fixed_price(*, gpu: Gpu, price: Decimal | None, actor: User, reason: str = "") -> bool:
    """`set_fixed_price` for a caller that has its own transaction and counts the market's version up at its end.

    Returns whether anything changed.
    """
    Gpu.objects.select_for_update(no_key=True).get(pk=gpu.pk)
    before = _rules_for(gpu).first()
    if (before.fixed if before else None) == price:
        return False
    check_fixed_price(gpu=gpu, price=price)
    _rules_for(gpu).update(active=False)
    if price is not None:
        PriceRule.objects.create(
            gpu=gpu, fixed=price, below_cost_ok=True, valid=_from_now(), author=actor, reason=reason
        )
    after = {"fixed": price, "reason": reason} if reason else {"fixed": price}
    record(actor=actor, action="catalog.fixed_price", obj=gpu, before=_said(before), after=after)
    return True


def _rules_for(gpu: Gpu) -> QuerySet[PriceRule]:
    return _scope(gpu).filter(valid__contains=Now())


def _scope(gpu: Gpu) -> QuerySet[PriceRule]:
    return PriceRule.objects.filter(gpu=gpu, gpu_count=None, provider=None, region=None, active=True)


def _from_now() -> Func:
    endless = Cast(Value(None), DateTimeField())
    return Func(Now(), endless, function="tstzrange", output_field=DateTimeRangeField())


def _said(rule: PriceRule | None) -> dict[str, Decimal | None]:
    if rule is None:
        return {"fixed": None}
    return {"fixed": rule.fixed} if rule.fixed is not None else {"percent": rule.percent, "add": rule.add}


def lock_gpus() -> None:
    """All of them, in one order, before several are changed: two lists sorted otherwise would wait for each other."""
    list(Gpu.objects.select_for_update(no_key=True).order_by("pk").values_list("pk", flat=True))


def give_access_key(host: FleetHost) -> None:
    """Makes our key pair for a host that has none; the private half is stored encrypted. The host is not saved here."""
    if not host.access_key:
        private = asyncssh.generate_private_key("ssh-ed25519", comment="arrakis").export_private_key("openssh")
        host.access_key = vault.encrypt(private.decode())


def public_access_key(host: FleetHost) -> str:
    """The line to put into the host's `authorized_keys`; empty while it has no key."""
    if not host.access_key:
        return ""
    key = asyncssh.import_private_key(vault.decrypt(host.access_key))
    return key.export_public_key("openssh").decode().strip()
