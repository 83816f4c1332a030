"""Endpoint keys and what was used with each, API tokens, SSH keys: made, shown once, taken back."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from django.contrib import messages
from django.db.models import Sum
from django.http import HttpResponse
from django.shortcuts import redirect
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from arrakis.accounts import services as accounts
from arrakis.accounts.access import Permission
from arrakis.accounts.forms import ApiTokenForm, SshKeyForm
from arrakis.errors import BadRequest
from deploy import services
from deploy.console.base import ConsoleRequest, add_error, console, page
from deploy.console.forms import KeyForm
from deploy.gateway import keys
from deploy.gateway.models import UsageHour

USAGE_DAYS = 30


@require_http_methods(["GET", "HEAD", "POST"])
@console()
def endpoint_keys(request: ConsoleRequest) -> HttpResponse:
    """Lists the workspace's keys; POST makes one and shows it, this once, on the page that answers."""
    access, made = request.access, ""
    form = KeyForm(request.POST or None, deployments=services.deployments_of(access.workspace))
    if request.method == "POST":
        access.require(Permission.DEPLOY)
        if form.is_valid():
            try:
                _key, made = keys.issue(
                    workspace=access.workspace,
                    name=form.cleaned_data["name"],
                    deployment=form.cleaned_data["deployment"],
                )
                form = KeyForm(deployments=services.deployments_of(access.workspace))
            except BadRequest as error:
                add_error(form, error, "name")
    rows = list(keys.keys_of(access.workspace)[:200])
    return page(request, "keys.html", {"form": form, "keys": rows, "made": made}, status=_status(request, made))


@require_POST
@console(Permission.DEPLOY)
def revoke_key(request: ConsoleRequest, key_id: UUID) -> HttpResponse:
    key = keys.revoke(key=keys.get_key(request.access.workspace, str(key_id)))
    messages.success(request, _("The key “%(name)s” is revoked.") % {"name": key.name})
    return redirect("console:keys")


@console()
def usage(request: ConsoleRequest) -> HttpResponse:
    """What each key was used for in the last days."""
    since = timezone.now() - timedelta(days=USAGE_DAYS)
    rows = (
        UsageHour.objects.filter(key__workspace=request.access.workspace, hour__gte=since)
        .values("key__name", "key__id_part", "deployment__name", "deployment_id")
        .annotate(
            total_requests=Sum("requests"),
            total_errors=Sum("errors"),
            total_prompt=Sum("prompt_tokens"),
            total_completion=Sum("completion_tokens"),
        )
        .order_by("-total_requests")[:200]
    )
    return page(request, "usage.html", {"rows": list(rows), "days": USAGE_DAYS})


@require_http_methods(["GET", "HEAD", "POST"])
@console()
def api_tokens(request: ConsoleRequest) -> HttpResponse:
    access, made = request.access, ""
    form = ApiTokenForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            _token, made = accounts.issue_api_token(
                workspace=access.workspace,
                user=access.user,
                name=form.cleaned_data["name"],
                read_only=form.cleaned_data["read_only"],
            )
            form = ApiTokenForm()
        except BadRequest as error:
            add_error(form, error)
    rows = access.workspace.api_tokens.filter(user=access.user, revoked_at=None).order_by("-created_at")
    return page(
        request, "api_tokens.html", {"form": form, "tokens": list(rows), "made": made}, status=_status(request, made)
    )


@require_POST
@console()
def revoke_token(request: ConsoleRequest, token_id: UUID) -> HttpResponse:
    accounts.revoke_api_token(workspace=request.access.workspace, actor=request.user, token_id=token_id)
    messages.success(request, _("The token is revoked."))
    return redirect("console:api-tokens")


@require_http_methods(["GET", "HEAD", "POST"])
@console()
def ssh_keys(request: ConsoleRequest) -> HttpResponse:
    form = SshKeyForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            accounts.add_ssh_key(user=request.user, **form.cleaned_data)
        except BadRequest as error:
            add_error(form, error, "public_key")
        else:
            messages.success(request, _("The SSH key is saved."))
            return redirect("console:ssh-keys")
    rows = list(request.user.ssh_keys.order_by("-created_at"))
    return page(request, "ssh_keys.html", {"form": form, "keys": rows}, status=_status(request, ""))


@require_POST
@console()
def delete_ssh_key(request: ConsoleRequest, key_id: UUID) -> HttpResponse:
    accounts.delete_ssh_key(user=request.user, key_id=key_id)
    messages.success(request, _("The SSH key is deleted. Machines that have it keep it until they are stopped."))
    return redirect("console:ssh-keys")


def _status(request: ConsoleRequest, made: str) -> int:
    return 422 if request.method == "POST" and not made else 200
