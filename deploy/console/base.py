"""What every page of the console stands on: who asks, what they may, and how an error becomes a page."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache

from arrakis.accounts.access import Access, Permission, access_of, workspaces_of
from arrakis.accounts.models import User
from arrakis.errors import ArrakisError
from deploy import reasons

P = ParamSpec("P")


class ConsoleRequest(HttpRequest):
    user: User
    access: Access


View = Callable[Concatenate[ConsoleRequest, P], HttpResponse]


def console(permission: Permission = Permission.READ) -> Callable[[View[P]], Callable[..., HttpResponse]]:
    """A page for members whose role has `permission`. What is not theirs is 404, what their role forbids 403."""

    def decorate(view: View[P]) -> Callable[..., HttpResponse]:
        @wraps(view)
        def wrapper(request: ConsoleRequest, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
            try:
                request.access = access_of(request)
                request.access.require(permission)
                return view(request, *args, **kwargs)
            except ArrakisError as error:
                return problem(request, error)

        return never_cache(login_required(wrapper))

    return decorate


def page(
    request: ConsoleRequest, template: str, context: dict[str, Any] | None = None, *, status: int = 200
) -> HttpResponse:
    """Renders `console/<template>` with what the frame around it shows."""
    frame = {"access": request.access, "workspaces": workspaces_of(request.user)}
    return render(request, f"console/{template}", {**frame, **(context or {})}, status=status)


def problem(request: HttpRequest, error: ArrakisError) -> HttpResponse:
    """A page that says what is in the way, in the reader's language."""
    context = {
        "access": getattr(request, "access", None),
        "sentence": reasons.sentence(error.code, error.params),
        "suggestion": reasons.suggestion(error.code, error.params),
    }
    return render(request, "console/problem.html", context, status=error.status)


def add_error(form: Any, error: ArrakisError, field: str | None = None) -> None:
    """Puts a refusal where the eye is: at a field of the form, or above it."""
    sentence, suggestion = reasons.sentence(error.code, error.params), reasons.suggestion(error.code, error.params)
    form.add_error(field, f"{sentence} {suggestion}".strip())
