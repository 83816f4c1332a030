"""Forms of the console: what to run and where, how to reach it, keys."""

from __future__ import annotations

import shlex
from typing import Any

from django import forms
from django.db.models import QuerySet
from django.utils.translation import gettext_lazy as _

from arrakis.accounts.models import User
from deploy.models import Deployment
from deploy.states import ENDED


class ModelForm(forms.Form):
    """The paste box."""

    model = forms.CharField(
        label=_("Model"),
        max_length=500,
        widget=forms.TextInput(
            attrs={"autocomplete": "off", "spellcheck": "false", "autocapitalize": "off", "placeholder": "owner/name"}
        ),
        help_text=_("A repository id or any address of the model at Hugging Face."),
    )


class ChoiceForm(forms.Form):
    """Which engine on which machine, as the page of choices posts it; what it means is the quote's to say."""

    model = forms.CharField(max_length=500, widget=forms.HiddenInput)
    engine = forms.CharField(max_length=20)
    machine = forms.RegexField(r"^[a-z0-9-]{1,40}:[0-9]{1,2}$", error_messages={"invalid": _("Choose a machine.")})
    context = forms.IntegerField(label=_("Context, tokens"), min_value=1, max_value=10_000_000, required=False)

    def gpu(self) -> tuple[str, int]:
        key, _colon, count = self.cleaned_data["machine"].partition(":")
        return key, int(count)

    def shown_price(self) -> str:
        """What the page said the chosen machine costs."""
        return str(self.data.get(f"price:{self.cleaned_data['machine']}", ""))


class AcceptForm(forms.Form):
    """What goes with the acceptance of a quote."""

    name = forms.CharField(
        label=_("Name"), max_length=80, required=False, help_text=_("For your own lists; without one, the model's.")
    )
    ssh_keys = forms.MultipleChoiceField(
        label=_("SSH keys"), required=False, widget=forms.CheckboxSelectMultiple, choices=()
    )
    new_ssh_key = forms.CharField(
        label=_("Another public key"),
        max_length=8192,
        required=False,
        widget=forms.Textarea(attrs={"rows": 3, "spellcheck": "false", "class": "mono"}),
        help_text=_("The content of a .pub file; it is kept under SSH keys."),
    )
    hf_token = forms.CharField(
        label=_("Hugging Face token"),
        max_length=200,
        required=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "off"}),
        help_text=_("Only for gated models. Encrypted, used for this download alone, never shown again."),
    )
    args = forms.CharField(
        label=_("More engine arguments"),
        max_length=4000,
        required=False,
        widget=forms.Textarea(attrs={"rows": 2, "spellcheck": "false", "class": "mono"}),
        help_text=_("As you would type them. Those that open the engine to others are refused."),
    )
    let_in_early = forms.BooleanField(
        label=_("Let me in by SSH as soon as the machine is there"),
        required=False,
        help_text=_("Charged from then on; there is no free start-up."),
    )

    def __init__(self, *args: Any, user: User, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.kept = {str(key.pk): key for key in user.ssh_keys.order_by("-created_at")}
        field = self.fields["ssh_keys"]
        assert isinstance(field, forms.MultipleChoiceField)
        field.choices = [(pk, f"{key.name} ({key.fingerprint})") for pk, key in self.kept.items()]
        field.initial = list(self.kept)

    def clean_args(self) -> list[str]:
        try:
            return shlex.split(self.cleaned_data["args"])
        except ValueError as error:
            raise forms.ValidationError(_("A quotation mark is not closed.")) from error

    def public_keys(self) -> list[str]:
        return [self.kept[pk].public_key for pk in self.cleaned_data["ssh_keys"]]


class KeyForm(forms.Form):
    name = forms.CharField(label=_("Name"), max_length=120, help_text=_("Who or what will use it."))
    deployment = forms.ModelChoiceField(
        label=_("Opens"),
        queryset=Deployment.objects.none(),
        required=False,
        empty_label=_("every deployment of the workspace"),
    )

    def __init__(self, *args: Any, deployments: QuerySet[Deployment], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = self.fields["deployment"]
        assert isinstance(field, forms.ModelChoiceField)
        field.queryset = deployments.exclude(state__in=ENDED)
