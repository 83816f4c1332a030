"""Accounts and the transfers between them; knows nothing of deployments (DESIGN 5.1).

Each Entry is one business event and sums to zero by construction: every Transfer takes from one account what it gives
to another. Customer accounts store a balance, written by the trigger that follows transfers (migration 0003) and kept
from going below zero by a CHECK; system accounts are summed. What money was held from stays known: each hold has held
accounts of its own, one for each account it took from (`source`).
"""

from __future__ import annotations

from decimal import Decimal

from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

SYSTEM = "system"


class Kind(models.TextChoices):
    PAID = "paid", _("paid credit")
    GRANTED = "granted", _("granted credit")
    HELD = "held", _("held")
    REVENUE = "revenue", _("revenue")
    PROVIDER_COST = "provider_cost", _("provider cost")
    PROCESSOR = "processor", _("payment processor")
    REFUNDS = "refunds", _("refunds")
    WRITEOFF = "writeoff", _("write-off")
    RECEIVABLE = "receivable", _("receivable")
    SUSPENSE = "suspense", _("suspense")


CUSTOMER_KINDS = (Kind.PAID, Kind.GRANTED, Kind.HELD)


class Code(models.TextChoices):
    """What kind of business event an entry is."""

    CREDIT = "credit", _("credit")
    HOLD = "hold", _("hold")
    RELEASE = "release", _("hold released")
    WINDOW = "window", _("time bought")
    SETTLE = "settle", _("unused time returned")
    REFUND = "refund", _("refund")


class Account(models.Model):
    owner = models.CharField(_("owner"), max_length=36)
    kind = models.CharField(_("kind"), max_length=14, choices=Kind.choices)
    grant_ref = models.CharField(_("grant"), max_length=120, null=True, blank=True)
    """Which grant; of a held account, the entry that holds; of revenue and refunds, from which kind of credit."""
    source = models.ForeignKey(
        "self", on_delete=models.PROTECT, null=True, blank=True, related_name="held", verbose_name=_("source")
    )
    """Of a held account, where it was taken from and returns to."""
    priority = models.PositiveSmallIntegerField(_("spent in this order"), default=100)
    expires_at = models.DateTimeField(_("expires at"), null=True, blank=True)
    balance = models.DecimalField(_("balance"), max_digits=20, decimal_places=6, null=True)

    class Meta:
        verbose_name = _("account")
        verbose_name_plural = _("accounts")
        constraints = [
            models.UniqueConstraint(
                fields=["owner", "kind", "grant_ref", "source"], name="account_unique", nulls_distinct=False
            ),
            models.CheckConstraint(condition=Q(balance__isnull=True) | Q(balance__gte=0), name="account_not_negative"),
            models.CheckConstraint(
                condition=(Q(owner=SYSTEM, balance__isnull=True) & ~Q(kind__in=["paid", "granted", "held"]))
                | (~Q(owner=SYSTEM) & Q(balance__isnull=False, kind__in=["paid", "granted", "held"])),
                name="account_balance_for_customers",
            ),
            models.CheckConstraint(
                condition=Q(kind="held", source__isnull=False) | (~Q(kind="held") & Q(source__isnull=True)),
                name="account_held_has_source",
            ),
        ]
        indexes = [models.Index(fields=["owner"], name="account_with_money", condition=Q(balance__gt=0))]

    def __str__(self) -> str:
        return f"{self.owner} {self.kind}"

    @property
    def money(self) -> Decimal:
        """The stored balance of a customer's account."""
        if self.balance is None:
            raise ValueError("system accounts are summed, they store no balance")
        return self.balance


class Entry(models.Model):
    id = models.CharField(_("id"), max_length=120, primary_key=True)
    payload_sha256 = models.CharField(max_length=64)
    owner = models.CharField(_("owner"), max_length=36)
    """Whose customer accounts it moves, so that a customer's entries are found without their transfers."""
    code = models.CharField(_("code"), max_length=40, choices=Code.choices)
    ref_type = models.CharField(_("about"), max_length=40, blank=True)
    ref_id = models.CharField(_("about id"), max_length=64, blank=True)
    reason = models.CharField(_("reason"), max_length=300, blank=True)
    author = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.PROTECT,
        null=True,
        blank=True,
        related_name="+",
        verbose_name=_("author"),
    )
    event_at = models.DateTimeField(_("happened at"))
    created_at = models.DateTimeField(_("written at"), db_default=Now())

    class Meta:
        verbose_name = _("entry")
        verbose_name_plural = _("entries")
        indexes = [
            models.Index(fields=["ref_type", "ref_id"], name="entry_ref"),
            models.Index(fields=["owner", "-event_at"], name="entry_of_owner"),
        ]

    def __str__(self) -> str:
        return self.id


class Transfer(models.Model):
    entry = models.ForeignKey(Entry, on_delete=models.PROTECT, related_name="transfers", verbose_name=_("entry"))
    debit = models.ForeignKey(Account, on_delete=models.PROTECT, related_name="debits", verbose_name=_("debit"))
    credit = models.ForeignKey(Account, on_delete=models.PROTECT, related_name="credits", verbose_name=_("credit"))
    amount = models.DecimalField(_("amount"), max_digits=20, decimal_places=6)

    class Meta:
        verbose_name = _("transfer")
        verbose_name_plural = _("transfers")
        constraints = [
            models.CheckConstraint(condition=Q(amount__gt=0), name="transfer_positive"),
            models.CheckConstraint(condition=~Q(debit=F("credit")), name="transfer_two_accounts"),
        ]

    def __str__(self) -> str:
        return str(self.amount)
