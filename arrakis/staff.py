"""The navigation of the staff's pages: what is asked for most stands first, each only for who may see it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.http import HttpRequest
from django.urls import reverse_lazy
from django.utils.translation import gettext_lazy as _


def _may(model: str) -> Callable[[HttpRequest], bool]:
    app, _dot, name = model.partition(".")

    def allowed(request: HttpRequest) -> bool:
        return request.user.has_perm(f"{app}.view_{name}") or request.user.has_perm(f"{app}.change_{name}")

    return allowed


def _link(title: Any, icon: str, model: str) -> dict[str, Any]:
    link = reverse_lazy(f"admin:{model.replace('.', '_')}_changelist")
    return {"title": title, "icon": icon, "link": link, "permission": _may(model)}


NAVIGATION: list[dict[str, Any]] = [
    {
        "title": _("Running"),
        "items": [
            _link(_("Deployments"), "rocket_launch", "deploy.deployment"),
            _link(_("Machines"), "dns", "deploy.machine"),
            _link(_("Quotes"), "request_quote", "deploy.quote"),
            _link(_("Orphans"), "link_off", "deploy.orphan"),
        ],
    },
    {
        "title": _("Market"),
        "items": [
            _link(_("GPUs and prices"), "memory", "catalog.gpu"),
            _link(_("Price rules"), "percent", "catalog.pricerule"),
            _link(_("Offers"), "sell", "catalog.offer"),
            _link(_("Providers"), "storefront", "catalog.provider"),
            _link(_("Own hosts"), "computer", "catalog.fleethost"),
            _link(_("GPU aliases"), "label", "catalog.gpualias"),
            _link(_("Source runs"), "sync", "catalog.sourcerun"),
            _link(_("Models"), "deployed_code", "sizing.hubmodel"),
        ],
    },
    {
        "title": _("Money"),
        "items": [
            _link(_("Accounts"), "account_balance_wallet", "ledger.account"),
            _link(_("Entries"), "receipt_long", "ledger.entry"),
        ],
    },
    {
        "title": _("Customers"),
        "items": [
            _link(_("Workspaces"), "workspaces", "accounts.workspace"),
            _link(_("Users"), "person", "accounts.user"),
            _link(_("API tokens"), "api", "accounts.apitoken"),
            _link(_("Endpoint keys"), "key", "gateway.endpointkey"),
            _link(_("Usage"), "bar_chart", "gateway.usagehour"),
        ],
    },
    {
        "title": _("Staff"),
        "items": [
            _link(_("Groups"), "groups", "auth.group"),
            _link(_("Audit records"), "history", "audit.record"),
        ],
    },
]


def navigation(request: HttpRequest) -> list[dict[str, Any]]:
    """For the UNFOLD setting."""
    return NAVIGATION
