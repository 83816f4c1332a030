"""The form by which staff give a workspace money."""

from __future__ import annotations

import re
from contextlib import suppress
from decimal import Decimal
from typing import Any
from uuid import UUID

from django import forms
from django.core.exceptions import ValidationError
from django.db.models import Q
from django.utils.translation import gettext_lazy as _
from unfold.widgets import (
    UnfoldAdminDecimalFieldWidget,
    UnfoldAdminRadioSelectWidget,
    UnfoldAdminSplitDateTimeWidget,
    UnfoldAdminTextareaWidget,
    UnfoldAdminTextInputWidget,
)

from arrakis.accounts.models import Workspace
from arrakis.ids import new_id
from deploy.ledger.models import Kind

_ENTRY_ID = re.compile(r"credit:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def new_entry_id() -> str:
    return f"credit:{new_id()}"


class CreditForm(forms.Form):
    """`entry_id` is made with the form, so that sending it twice gives the money once."""

    entry_id = forms.CharField(widget=forms.HiddenInput, initial=new_entry_id)
    workspace = forms.CharField(
        label=_("workspace"),
        help_text=_("Its id or short name, or a member's e-mail."),
        widget=UnfoldAdminTextInputWidget,
    )
    amount = forms.DecimalField(
        label=_("amount, USD"),
        max_digits=12,
        decimal_places=6,
        min_value=Decimal("0.000001"),
        widget=UnfoldAdminDecimalFieldWidget(attrs={"step": "any"}),
    )
    kind = forms.ChoiceField(
        label=_("kind"),
        choices=[(Kind.GRANTED.value, Kind.GRANTED.label), (Kind.PAID.value, Kind.PAID.label)],
        initial=Kind.GRANTED.value,
        help_text=_("Granted: given by us. Paid: money we received outside the payment processor."),
        widget=UnfoldAdminRadioSelectWidget,
    )
    expires_at = forms.SplitDateTimeField(
        label=_("expires at, UTC"),
        required=False,
        help_text=_("Only for granted credit."),
        widget=UnfoldAdminSplitDateTimeWidget,
    )
    reason = forms.CharField(
        label=_("reason"),
        max_length=300,
        help_text=_("Kept with the entry; the customer can read it."),
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 3}),
    )

    def clean_entry_id(self) -> str:
        entry_id: str = self.cleaned_data["entry_id"]
        if not _ENTRY_ID.fullmatch(entry_id):
            raise ValidationError(_("This form was changed on its way. Open it again."), code="entry_id")
        return entry_id

    def clean_workspace(self) -> Workspace:
        text: str = self.cleaned_data["workspace"].strip()
        by = Q(slug=text.lower()) | Q(members__email__iexact=text)
        with suppress(ValueError):  # a name or an address is not an id
            by |= Q(pk=UUID(text))
        found = list(Workspace.objects.filter(by).distinct()[:2])
        if not found:
            raise ValidationError(_("There is no such workspace."), code="unknown")
        if len(found) > 1:
            raise ValidationError(_("This person has several workspaces: give the short name of one."), code="several")
        return found[0]

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        if cleaned.get("expires_at") and cleaned.get("kind") != Kind.GRANTED:
            self.add_error("expires_at", _("Paid credit does not expire."))
        return cleaned
