"""Forms of the staff's pages: a price in the list of Gpus, and a host with errors that say what to do."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from django import forms
from django.db.models import QuerySet
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminDecimalFieldWidget

from arrakis.accounts import sshkeys
from arrakis.errors import BadRequest
from catalog import services
from catalog.models import FleetHost, Gpu, PriceRule

if TYPE_CHECKING:
    _GpuForm = forms.ModelForm[Gpu]
    _HostForm = forms.ModelForm[FleetHost]
    _RuleForm = forms.ModelForm[PriceRule]
else:
    _GpuForm = _HostForm = _RuleForm = forms.ModelForm

_HOST_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.:-]{0,252}[A-Za-z0-9])?")


class GpuRowForm(_GpuForm):
    """A row of the list. `fixed_price` is USD per GPU-hour; empty, prices follow cost and the margin rules."""

    fixed_price = forms.DecimalField(
        label=_("Fixed price"),
        required=False,
        min_value=Decimal("0.01"),
        max_value=services.HIGHEST_PRICE,
        decimal_places=2,
        widget=UnfoldAdminDecimalFieldWidget,
    )

    class Meta:
        model = Gpu
        fields = ("position", "is_suggested", "is_listed")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Annotated by the list's query, so that a page of rows asks nothing more.
        fixed = getattr(self.instance, "fixed_now", None)
        self.initial["fixed_price"] = None if fixed is None else fixed.quantize(Decimal("0.01"))

    def clean_fixed_price(self) -> Decimal | None:
        price: Decimal | None = self.cleaned_data["fixed_price"]
        if "fixed_price" in self.changed_data:
            services.check_fixed_price(gpu=self.instance, price=price)
        return price


class FleetHostForm(_HostForm):
    class Meta:
        model = FleetHost
        exclude = ("access_key",)
        help_texts = {
            "host_key": _("As “ssh-keyscan -t ed25519 ADDRESS” prints it: it tells the host from an impostor."),
            "reset_command": _("For bare metal: makes the host as new. It runs after each rental and must succeed."),
            "user": _("Who our key is installed for; it must be able to become root, unless the host is the demo."),
            "mode": _("So far only bare metal can be rented; hosts of the other modes are priced and not rented."),
            "ram": _("Of the machine itself: what a model must fit in where there is no GPU."),
            "cost": _("What a GPU-hour of this host costs you; without a price rule it is also the price."),
        }

    def clean_address(self) -> str:
        address: str = self.cleaned_data["address"].strip()
        if not _HOST_NAME.fullmatch(address):
            raise forms.ValidationError(_("Give a host name or an IP address alone: no scheme, port or path."))
        return address

    def clean_port(self) -> int:
        port: int = self.cleaned_data["port"]
        if not 1 <= port <= 65_535:
            raise forms.ValidationError(_("A port is from 1 to 65535."))
        return port

    def clean_cost(self) -> Decimal:
        cost: Decimal = self.cleaned_data["cost"]
        if cost <= 0:
            raise forms.ValidationError(_("A host that costs nothing would be sold for nothing: give its cost."))
        return cost

    def clean_gpu_count(self) -> int:
        gpu_count: int = self.cleaned_data["gpu_count"]
        if gpu_count < 1:
            raise forms.ValidationError(_("A host has at least one; for one without a GPU choose CPU and 1."))
        return gpu_count

    def clean_host_key(self) -> str:
        words = str(self.cleaned_data["host_key"]).split()
        if len(words) >= 3 and words[1] in sshkeys.TYPES:  # as ssh-keyscan prints it, the address first
            words = words[1:]
        try:
            return sshkeys.parse(" ".join(words)).line
        except BadRequest as error:
            raise forms.ValidationError(
                _("Give the host's public key: “ssh-keyscan -t ed25519 ADDRESS” prints it.")
            ) from error

    def clean(self) -> dict[str, Any]:
        data: dict[str, Any] = super().clean() or self.cleaned_data
        if data.get("mode") == FleetHost.Mode.BARE and not data.get("reset_command") and not data.get("is_demo"):
            self.add_error("reset_command", _("Bare metal is rented only with a command that makes it as new."))
        return data


class PriceRuleForm(_RuleForm):
    class Meta:
        model = PriceRule
        exclude = ("author",)
        help_texts = {
            "gpu": _("What is left empty covers all: a rule with nothing filled in holds for everything."),
            "fixed": _("USD per GPU-hour; it wins over any margin."),
            "percent": _("On top of cost, with the amount per GPU-hour below, or alone."),
            "valid": _("From when until when, in UTC; the end may be left open."),
        }

    def clean(self) -> dict[str, Any]:
        data: dict[str, Any] = super().clean() or self.cleaned_data
        fixed, margin = data.get("fixed"), (data.get("percent"), data.get("add"))
        if (fixed is None) == (margin == (None, None)):
            raise forms.ValidationError(_("Give either a fixed price or a margin."), code="price")
        if fixed is not None and fixed <= 0:
            self.add_error("fixed", _("A price is more than nothing."))
        if data.get("active") and data.get("valid") and self._same_scope(data).exists():
            raise forms.ValidationError(
                _("Another active rule covers exactly this at the same time: end that one first."), code="overlap"
            )
        return data

    def _same_scope(self, data: dict[str, Any]) -> QuerySet[PriceRule]:
        scope = {name: data.get(name) for name in ("gpu", "gpu_count", "provider")}
        region = data.get("region") or None
        others = PriceRule.objects.filter(active=True, valid__overlap=data["valid"], region=region, **scope)
        return others.exclude(pk=self.instance.pk)

    def clean_region(self) -> str | None:
        return self.cleaned_data["region"] or None
