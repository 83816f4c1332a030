"""Balance and entries, members, settings, and moving between workspaces."""

from __future__ import annotations

from decimal import Decimal
from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.contrib.auth import update_session_auth_hash
from django.contrib.auth.forms import PasswordChangeForm
from django.core.paginator import Paginator
from django.http import HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import translation
from django.utils.translation import gettext as _
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from arrakis.accounts import access as accounts_access
from arrakis.accounts import services as accounts
from arrakis.accounts.access import Permission
from arrakis.accounts.forms import MemberForm, RoleForm, SettingsForm
from arrakis.accounts.models import Role
from arrakis.errors import BadRequest, NotFound
from deploy import metering, reasons
from deploy.console.base import ConsoleRequest, add_error, console, page
from deploy.ledger import services as ledger

ENTRIES_A_PAGE = 50


@console(Permission.MONEY)
def billing(request: ConsoleRequest) -> HttpResponse:
    workspace = request.access.workspace
    rate = metering.running_rate(workspace)
    context = {
        "funds": metering.funds(workspace),
        "entries": Paginator(ledger.entries(workspace.pk), ENTRIES_A_PAGE).get_page(request.GET.get("page")),
        "rate": rate,
        "hours_left": metering.hours_left(workspace, Decimal(0)) if rate else None,
    }
    return page(request, "billing.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@console()
def members(request: ConsoleRequest) -> HttpResponse:
    access = request.access
    form = MemberForm(request.POST or None)
    if request.method == "POST":
        access.require(Permission.MEMBERS)
        if form.is_valid():
            try:
                accounts.add_member(workspace=access.workspace, actor=request.user, **form.cleaned_data)
            except BadRequest as error:
                add_error(form, error)
            else:
                messages.success(request, _("They can now use this workspace."))
                return redirect("console:members")
    rows = access.workspace.memberships.select_related("user").order_by("pk")
    context = {"form": form, "memberships": list(rows), "roles": Role.choices}
    return page(request, "members.html", context, status=422 if request.method == "POST" else 200)


@require_POST
@console(Permission.MEMBERS)
def change_role(request: ConsoleRequest, membership_id: int) -> HttpResponse:
    form = RoleForm(request.POST)
    if form.is_valid():
        try:
            accounts.change_role(
                workspace=request.access.workspace,
                actor=request.user,
                membership_id=membership_id,
                role=form.cleaned_data["role"],
            )
            messages.success(request, _("The role is changed."))
        except BadRequest as error:
            _say(request, error)
    return redirect("console:members")


@require_POST
@console()
def remove_member(request: ConsoleRequest, membership_id: int) -> HttpResponse:
    """Anybody may leave; removing others takes the right to manage members."""
    own = request.access.workspace.memberships.filter(pk=membership_id, user=request.user).exists()
    if not own:
        request.access.require(Permission.MEMBERS)
    try:
        accounts.remove_member(workspace=request.access.workspace, actor=request.user, membership_id=membership_id)
    except BadRequest as error:
        _say(request, error)
    else:
        messages.success(request, _("They can no longer use this workspace."))
        if own:
            request.session.pop(accounts_access.SESSION_KEY, None)
            return redirect("console:models")
    return redirect("console:members")


@require_POST
@console()
def switch_workspace(request: ConsoleRequest) -> HttpResponse:
    try:
        wanted = UUID(request.POST.get("workspace", ""))
    except ValueError:
        return redirect("console:models")
    accounts_access.switch(request, wanted)
    return redirect("console:deployments")


@require_http_methods(["GET", "HEAD", "POST"])
@console()
def preferences(request: ConsoleRequest) -> HttpResponse:
    initial = {"locale": request.user.locale or translation.get_language()}
    form = SettingsForm(request.POST or None, instance=request.user, initial=initial)
    if request.method == "POST" and form.is_valid():
        form.save()
        with translation.override(form.cleaned_data["locale"]):
            messages.success(request, _("Saved."))
            response = redirect(reverse("console:settings"))
        response.set_cookie(
            settings.LANGUAGE_COOKIE_NAME, form.cleaned_data["locale"], max_age=31_536_000, samesite="Lax"
        )
        return response
    return page(request, "settings.html", {"form": form}, status=422 if request.method == "POST" else 200)


@sensitive_post_parameters()
@require_http_methods(["GET", "HEAD", "POST"])
@console()
def password(request: ConsoleRequest) -> HttpResponse:
    form = PasswordChangeForm(request.user, request.POST or None)
    if request.method == "POST" and form.is_valid():
        form.save()
        update_session_auth_hash(request, request.user)
        messages.success(request, _("The password is changed; other sessions are signed out."))
        return redirect("console:settings")
    return page(request, "password.html", {"form": form}, status=422 if request.method == "POST" else 200)


def _say(request: ConsoleRequest, error: BadRequest) -> None:
    if isinstance(error, NotFound):
        raise error
    messages.error(request, str(reasons.sentence(error.code, error.params)))
