"""The control API (DESIGN section 6). Every address answers with and without a slash at its end: a POST that was
redirected would lose its body."""

from __future__ import annotations

from typing import Any

from django.urls import URLPattern, re_path
from rest_framework.views import APIView

from deploy.api import account

_ID = "[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_DEPLOYMENT = f"deployments/(?P<deployment_id>{_ID})"


def _at(route: str, view: type[APIView], name: str) -> URLPattern:
    handler: Any = view.as_view()
    return re_path(f"^{route}/?$", handler, name=name)


app_name = "api"
urlpatterns = [
    _at("balance", account.BalanceView, "balance"),
    _at("entries", account.EntriesView, "entries"),
    _at("ssh-keys", account.SshKeysView, "ssh-keys"),
    _at(f"ssh-keys/(?P<key_id>{_ID})", account.SshKeyView, "ssh-key"),
]
