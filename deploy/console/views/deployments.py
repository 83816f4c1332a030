"""Deployments: the list, one of them live, its log, and what can be done to it."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from arrakis.accounts.access import Permission
from arrakis.errors import ArrakisError, BadRequest, Conflict
from deploy import metering, presenter, reasons, services
from deploy.console.base import ConsoleRequest, add_error, console, page
from deploy.console.forms import KeyForm
from deploy.console.snippets import snippets
from deploy.gateway import keys
from deploy.models import Deployment
from deploy.states import ENDED

A_PAGE = 25
SHOWN_KEYS = 20


@require_GET
@console()
def deployments(request: ConsoleRequest) -> HttpResponse:
    rows = Paginator(services.deployments_of(request.access.workspace), A_PAGE).get_page(request.GET.get("page"))
    costs = metering.costs_so_far(rows.object_list)
    shown = [{"deployment": row, "cost": costs.get(row.pk)} for row in rows.object_list]
    return page(request, "deployments.html", {"rows": shown, "pages": rows})


@require_http_methods(["GET", "HEAD", "POST"])
@console()
def deployment(request: ConsoleRequest, deployment_id: UUID) -> HttpResponse:
    """POST makes an endpoint key of this deployment and shows it, this once, on the page that answers."""
    found = services.get_deployment(request.access.workspace, deployment_id)
    made = ""
    form = _key_form(request, found, bound=request.method == "POST")
    if request.method == "POST":
        request.access.require(Permission.DEPLOY)
        if form.is_valid():
            try:
                _key, made = keys.issue(
                    workspace=request.access.workspace, name=form.cleaned_data["name"], deployment=found
                )
                form = _key_form(request, found)
            except BadRequest as error:
                add_error(form, error, "name")
    context = {
        **_live(found),
        "form": form,
        "made": made,
        "keys": [key for key in keys.keys_of(found)[:SHOWN_KEYS] if key.revoked_at is None],
        "snippets": snippets(found.served_name, made),
    }
    return page(request, "deployment.html", context, status=200 if request.method != "POST" or made else 422)


@require_GET
@console()
def live(request: ConsoleRequest, deployment_id: UUID) -> HttpResponse:
    """The part of the page that changes by itself; its `data-live` says whether it still will."""
    found = services.get_deployment(request.access.workspace, deployment_id)
    context = {**_live(found), "access": request.access}
    return render(request, "console/deployment_live.html", context)


@require_GET
@console()
def logs(request: ConsoleRequest, deployment_id: UUID) -> HttpResponse:
    """What the engine wrote, as text: it comes from a machine that its customer may have changed."""
    found = services.get_deployment(request.access.workspace, deployment_id)
    context: dict[str, Any] = {"deployment": found, "log": "", "reason": ""}
    try:
        context["log"] = services.logs(deployment=found)
    except ArrakisError as error:
        context["reason"] = reasons.sentence(error.code, error.params)
    return page(request, "logs.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@console(Permission.DEPLOY)
def stop(request: ConsoleRequest, deployment_id: UUID) -> HttpResponse:
    """GET asks; POST stops. Twice is once."""
    found = services.get_deployment(request.access.workspace, deployment_id)
    if request.method != "POST":
        return page(request, "stop.html", _live(found))
    services.stop(deployment=found, actor=request.user)
    return redirect("console:deployment", found.pk)


@require_POST
@console(Permission.DEPLOY)
def restart(request: ConsoleRequest, deployment_id: UUID) -> HttpResponse:
    found = services.get_deployment(request.access.workspace, deployment_id)
    return _done(request, found, services.restart, _("The engine is being restarted."))


@require_POST
@console(Permission.DEPLOY)
def let_in(request: ConsoleRequest, deployment_id: UUID) -> HttpResponse:
    found = services.get_deployment(request.access.workspace, deployment_id)
    return _done(request, found, services.let_in, _("You are charged from now on, and your SSH keys are let in."))


def _done(request: ConsoleRequest, found: Deployment, action: Any, said: str) -> HttpResponse:
    try:
        action(deployment=found, actor=request.user)
    except Conflict as error:
        messages.error(request, str(reasons.sentence(error.code, error.params)))
    else:
        messages.success(request, said)
    return redirect("console:deployment", found.pk)


def _live(found: Deployment) -> dict[str, Any]:
    return {"deployment": found, "view": presenter.describe(found), "is_over": found.state in ENDED}


def _key_form(request: ConsoleRequest, found: Deployment, *, bound: bool = False) -> KeyForm:
    mine = services.deployments_of(request.access.workspace).filter(pk=found.pk)
    return KeyForm(request.POST if bound else None, deployments=mine)
