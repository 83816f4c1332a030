"""Forms of the staff's pages: a price in the list of Gpus, and a host with errors that say what to do."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from django import forms
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminDecimalFieldWidget

from arrakis.accounts import sshkeys
from arrakis.errors import BadRequest
from catalog import services
from catalog.models import FleetHost, Gpu

if TYPE_CHECKING:
    _GpuForm = forms.ModelForm[Gpu]
    _HostForm = forms.ModelForm[FleetHost]
else:
    _GpuForm = _HostForm = forms.ModelForm

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
