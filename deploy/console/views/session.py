"""Signing in, out and up, and the corner that public pages fetch to show who is signed in."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth import login, logout
from django.core.exceptions import ValidationError
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import translation
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from arrakis.accounts.access import access_of
from arrakis.accounts.backends import WINDOW_SECONDS, count
from arrakis.accounts.forms import SignInForm, SignUpForm
from arrakis.accounts.models import User
from arrakis.accounts.services import create_customer
from arrakis.errors import BadRequest, NotFound
from deploy.console.base import add_error, problem
from deploy.ledger import services as ledger

MOST_SIGN_UPS = 20
"""New accounts from one address within the sign-in window."""


@sensitive_post_parameters("password")
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def sign_in(request: HttpRequest) -> HttpResponse:
    target = _target(request)
    if request.user.is_authenticated:
        return redirect(target or "console:models")
    form = SignInForm(request.POST or None, request=request)
    if request.method == "POST" and form.is_valid() and form.user:
        login(request, form.user)
        return redirect(target or _home(form.user))
    context = {"form": form, "next": target, "may_sign_up": settings.SIGN_UP_OPEN}
    return render(request, "console/sign_in.html", context, status=200 if request.method != "POST" else 422)


@require_POST
def sign_out(request: HttpRequest) -> HttpResponse:
    logout(request)
    return redirect("/" + translation.get_language() + "/")


@sensitive_post_parameters("password")
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def sign_up(request: HttpRequest) -> HttpResponse:
    if not settings.SIGN_UP_OPEN:
        raise Http404
    if request.user.is_authenticated:
        return redirect("console:models")
    target = _target(request)
    form = SignUpForm(request.POST or None)
    if request.method == "POST" and form.is_valid() and (user := _created(request, form)):
        login(request, user, backend=settings.AUTHENTICATION_BACKENDS[0])
        messages.success(request, _("Your account is ready."))
        return redirect(target or "console:models")
    context = {"form": form, "next": target}
    return render(request, "console/sign_up.html", context, status=200 if request.method != "POST" else 422)


@require_GET
def corner(request: HttpRequest) -> HttpResponse:
    """The account corner of public pages, which read no session themselves."""
    context: dict[str, Any] = {"access": None, "balance": None, "may_sign_up": settings.SIGN_UP_OPEN}
    if request.user.is_authenticated:
        try:
            access = access_of(request)
        except NotFound:
            access = None
        if access is not None:
            context["access"] = access
            context["balance"] = ledger.balance(access.workspace.pk) if access.may_see_money else None
    response = render(request, "console/corner.html", context)
    response.headers["Cache-Control"] = "private, no-store"
    return response


def _created(request: HttpRequest, form: SignUpForm) -> User | None:
    if count(f"signup:{request.META.get('REMOTE_ADDR', '')}", WINDOW_SECONDS) > MOST_SIGN_UPS:
        form.add_error(None, _("Too many new accounts from your address. Wait 15 minutes, then try again."))
        return None
    try:
        user, _workspace = create_customer(**form.cleaned_data, locale=translation.get_language() or "")
    except BadRequest as error:
        add_error(form, error, "email")
    except ValidationError as error:
        if hasattr(error, "error_dict"):
            form.add_error(None, error)
        else:
            form.add_error("password", error)
    else:
        return user
    return None


def _target(request: HttpRequest) -> str:
    """Where to go after: an address of this site, or none."""
    wanted = request.POST.get("next") or request.GET.get("next") or ""
    safe = url_has_allowed_host_and_scheme(wanted, {request.get_host()}, require_https=request.is_secure())
    return wanted if safe else ""


def _home(user: User) -> str:
    language = user.locale if user.locale in dict(settings.LANGUAGES) else translation.get_language()
    with translation.override(language):
        return reverse("console:models")


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """A form that was open for too long, or that another site sent."""
    return problem(request, _CsrfFailed("csrf_failed"))


class _CsrfFailed(BadRequest):
    status = 403
