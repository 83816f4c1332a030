"""Forms of an account: signing in and up, keys, tokens, members, settings."""

from __future__ import annotations

from typing import Any

from django import forms
from django.conf import settings
from django.contrib.auth import authenticate, password_validation
from django.core.exceptions import ValidationError
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from arrakis.accounts.backends import too_many_tries
from arrakis.accounts.models import Role, User


class SignInForm(forms.Form):
    email = forms.EmailField(
        label=_("E-mail"), max_length=254, widget=forms.EmailInput(attrs={"autocomplete": "username"})
    )
    password = forms.CharField(
        label=_("Password"),
        strip=False,
        max_length=1000,
        widget=forms.PasswordInput(attrs={"autocomplete": "current-password"}),
    )

    def __init__(self, *args: Any, request: HttpRequest, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.request = request
        self.user: User | None = None

    def clean(self) -> dict[str, Any]:
        data = self.cleaned_data
        if "email" not in data or "password" not in data:
            return data
        user = authenticate(self.request, username=data["email"], password=data["password"])
        if isinstance(user, User):
            self.user = user
        elif too_many_tries(self.request, data["email"]):
            raise ValidationError(_("Too many wrong tries. Wait 15 minutes, then try again."), code="throttled")
        else:
            raise ValidationError(_("This e-mail and password do not go together."), code="wrong")
        return data


class SignUpForm(forms.Form):
    email = forms.EmailField(
        label=_("E-mail"), max_length=254, widget=forms.EmailInput(attrs={"autocomplete": "username"})
    )
    name = forms.CharField(
        label=_("Name"),
        max_length=120,
        required=False,
        widget=forms.TextInput(attrs={"autocomplete": "name"}),
        help_text=_("What your workspace is called; you can leave it empty."),
    )
    password = forms.CharField(
        label=_("Password"),
        strip=False,
        max_length=1000,
        help_text=password_validation.password_validators_help_text_html,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
    )


class ApiTokenForm(forms.Form):
    name = forms.CharField(label=_("Name"), max_length=120, help_text=_("Where you will use it, such as: laptop, CI."))
    read_only = forms.BooleanField(
        label=_("Read only"), required=False, help_text=_("May look at everything, may start or stop nothing.")
    )


class SshKeyForm(forms.Form):
    name = forms.CharField(
        label=_("Name"), max_length=120, required=False, help_text=_("Without one, the key's own comment is used.")
    )
    public_key = forms.CharField(
        label=_("Public key"),
        max_length=8192,
        widget=forms.Textarea(attrs={"rows": 4, "spellcheck": "false", "class": "mono"}),
        help_text=_("The content of a .pub file: it begins with ssh-ed25519, ecdsa-sha2- or ssh-rsa."),
    )


class MemberForm(forms.Form):
    email = forms.EmailField(label=_("E-mail"), max_length=254, help_text=_("Of somebody who has an account here."))
    role = forms.ChoiceField(label=_("Role"), choices=Role.choices, initial=Role.DEVELOPER)


class RoleForm(forms.Form):
    role = forms.ChoiceField(label=_("Role"), choices=Role.choices)


class SettingsForm(forms.ModelForm):  # type: ignore[type-arg]
    locale = forms.ChoiceField(
        label=_("Language"), choices=lambda: settings.LANGUAGES, help_text=_("Of the console and of what we send you.")
    )

    class Meta:
        model = User
        fields = ["name", "locale"]
