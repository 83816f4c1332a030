"""The control API (DESIGN section 6). Every address answers with and without a slash at its end: a POST that was
redirected would lose its body."""

from __future__ import annotations

from typing import Any

from django.urls import URLPattern, re_path
from rest_framework.views import APIView

from deploy.api import account, deployments

_ID = "[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_DEPLOYMENT = f"deployments/(?P<deployment_id>{_ID})"


def _at(route: str, view: type[APIView], name: str) -> URLPattern:
    handler: Any = view.as_view()
    pattern: URLPattern = re_path(f"^{route}/?$", handler, name=name)
    return pattern


app_name = "api"
urlpatterns = [
    _at("quotes", deployments.QuotesView, "quotes"),
    _at("deployments", deployments.DeploymentsView, "deployments"),
    _at(_DEPLOYMENT, deployments.DetailView, "deployment"),
    _at(f"{_DEPLOYMENT}/events", deployments.EventsView, "events"),
    _at(f"{_DEPLOYMENT}/logs", deployments.LogsView, "logs"),
    _at(f"{_DEPLOYMENT}/stop", deployments.StopView, "stop"),
    _at(f"{_DEPLOYMENT}/restart", deployments.RestartView, "restart"),
    _at(f"{_DEPLOYMENT}/let-in", deployments.LetInView, "let-in"),
    _at(f"{_DEPLOYMENT}/keys", deployments.KeysView, "deployment-keys"),
    _at(f"{_DEPLOYMENT}/keys/(?P<key_id>{_ID})", deployments.KeyView, "deployment-key"),
    _at("keys", deployments.WorkspaceKeysView, "keys"),
    _at(f"keys/(?P<key_id>{_ID})", deployments.WorkspaceKeyView, "key"),
    _at("balance", account.BalanceView, "balance"),
    _at("entries", account.EntriesView, "entries"),
    _at("ssh-keys", account.SshKeysView, "ssh-keys"),
    _at(f"ssh-keys/(?P<key_id>{_ID})", account.SshKeyView, "ssh-key"),
]
