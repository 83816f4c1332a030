"""What the API's apps share: one error shape, one base view, throttles and pages.

Every error, whatever raised it, is `{"code", "message", "suggestion", "request_id"}`: `code` is stable, `message` and
`suggestion` are in the language of Accept-Language, `request_id` is also the header `X-Request-Id` and in our log.
Beside them `details` carries the figures the sentence was made of (both prices of a 409), and `fields` what was wrong
with each field of the request.
"""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import Callable, Mapping
from functools import cache
from types import ModuleType
from typing import Any, ClassVar, Final, TypeVar

from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.db import models
from django.http import Http404, HttpRequest
from django.utils.functional import cached_property
from django.utils.module_loading import import_string
from django.utils.translation import gettext as _
from drf_spectacular.utils import OpenApiParameter, extend_schema, inline_serializer
from rest_framework import exceptions, serializers
from rest_framework.pagination import LimitOffsetPagination
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.throttling import SimpleRateThrottle
from rest_framework.views import APIView, set_rollback

from arrakis.accounts.access import Access, Permission, access_of
from arrakis.accounts.models import ApiToken
from arrakis.errors import ArrakisError, Forbidden

log = logging.getLogger(__name__)
F = TypeVar("F", bound=Callable[..., Any])
_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._-]{8,64}")


class ErrorSerializer(serializers.Serializer[Any]):
    code = serializers.CharField()
    message = serializers.CharField()
    suggestion = serializers.CharField()
    request_id = serializers.CharField()
    details = serializers.DictField(required=False)
    fields = serializers.DictField(required=False)  # type: ignore[assignment]


ERRORS: Final = dict.fromkeys((400, 401, 402, 403, 404, 405, 409, 415, 429, 500, 503), ErrorSerializer)


def documented(
    answer: Any, *, status: int = 200, errors: tuple[int, ...] = (401, 403, 404, 429), many: bool = False, **more: Any
) -> Callable[[F], F]:
    """`extend_schema` with this API's errors: `@documented(Serializer, status=201, errors=(400, 402, 409))`."""
    if many:
        answer, more = paged(answer), {"parameters": PAGE_PARAMETERS, **more}
    answers = {status: answer, **{code: ERRORS[code] for code in errors}}
    schema: Callable[[F], F] = extend_schema(responses=answers, **more)
    return schema


@cache
def paged(serializer: type[serializers.BaseSerializer[Any]]) -> Any:
    """What `WorkspaceView.page` answers with, for the OpenAPI document."""
    return inline_serializer(
        name=f"{serializer.__name__}Page",
        fields={
            "count": serializers.IntegerField(),
            "next": serializers.URLField(allow_null=True),
            "previous": serializers.URLField(allow_null=True),
            "results": serializer(many=True),
        },
    )


PAGE_PARAMETERS: Final = [
    OpenApiParameter("limit", int, description="How many at most, 50 without it."),
    OpenApiParameter("offset", int, description="How many to leave out at the start."),
]


def request_id(request: HttpRequest | Request) -> str:
    """The caller's `X-Request-Id` where it is a sane one, else a new one; the same for the whole request."""
    plain: HttpRequest = request._request if isinstance(request, Request) else request
    found: str | None = getattr(plain, "arrakis_request_id", None)
    if found is None:
        given = plain.headers.get("X-Request-Id", "")
        found = given if _REQUEST_ID.fullmatch(given) else uuid.uuid4().hex
        plain.arrakis_request_id = found  # type: ignore[attr-defined]
    return found


def exception_handler(error: Exception, context: Mapping[str, Any]) -> Response:
    """Any exception of a view as this API's error shape; what nobody expected is logged and says nothing of itself."""
    request = context["request"]
    body, status, headers = _described(error)
    if status >= 500 and not isinstance(error, ArrakisError):
        log.error("request %s failed", request_id(request), exc_info=error)
    set_rollback()
    return Response({**body, "request_id": request_id(request)}, status=status, headers=headers)


def _described(error: Exception) -> tuple[dict[str, Any], int, dict[str, str]]:
    if isinstance(error, ArrakisError):
        return _of_ours(error), error.status, {}
    if isinstance(error, Http404):
        error = exceptions.NotFound()
    elif isinstance(error, PermissionDenied):
        error = exceptions.PermissionDenied()
    if isinstance(error, exceptions.ValidationError):
        return _of_fields(error), 400, {}
    if isinstance(error, exceptions.APIException):
        return _of_framework(error), error.status_code, _headers(error)
    return (
        {
            "code": "internal_error",
            "message": _("Something went wrong on our side."),
            "suggestion": _("Try again; if it stays, tell us the request id."),
        },
        500,
        {},
    )


def _of_ours(error: ArrakisError) -> dict[str, Any]:
    sentences = _sentences()
    return {
        "code": error.code,
        "message": str(sentences.sentence(error.code, error.params)),
        "suggestion": str(sentences.suggestion(error.code, error.params)),
        **({"details": error.params} if error.params else {}),
    }


def _of_fields(error: exceptions.ValidationError) -> dict[str, Any]:
    fields = error.detail if isinstance(error.detail, dict) else {"": error.detail}
    name, reason = _first(fields)
    message = _("%(field)s: %(reason)s") % {"field": name, "reason": reason} if name else reason
    return {
        "code": "invalid",
        "message": message,
        "suggestion": _("See /api/docs/ for what this address takes."),
        "fields": fields,
    }


def _first(detail: Any, name: str = "") -> tuple[str, str]:
    while isinstance(detail, dict | list) and detail:
        if isinstance(detail, dict):
            key, detail = next(iter(detail.items()))
            name = str(key) if key and key != "non_field_errors" else name
        else:
            detail = detail[0]
    return name, str(detail)


def _of_framework(error: exceptions.APIException) -> dict[str, Any]:
    code = error.get_codes()
    suggestions = {
        401: _("Send Authorization: Bearer and an API token; the console makes one."),
        403: _("Ask an owner of the workspace for another role, or use another token."),
        404: _("Check the address; /api/docs/ lists them all."),
        405: _("See /api/docs/ for what this address takes."),
        415: _("Send JSON, with Content-Type: application/json."),
        429: _("Wait as long as Retry-After says."),
    }
    return {
        "code": code if isinstance(code, str) else "invalid",
        "message": str(error.detail),
        "suggestion": suggestions.get(error.status_code, _("See /api/docs/ for what this address takes.")),
    }


def _headers(error: exceptions.APIException) -> dict[str, str]:
    headers = {}
    if challenge := getattr(error, "auth_header", None):
        headers["WWW-Authenticate"] = challenge
    if (wait := getattr(error, "wait", None)) is not None:
        headers["Retry-After"] = str(int(wait) + 1)
    return headers


@cache
def _sentences() -> ModuleType:
    """Whoever knows the sentences of reason codes; named in settings, since the kernel knows no app."""
    module: ModuleType = import_string(settings.REASONS)
    return module


class CallerThrottle(SimpleRateThrottle):
    """By API token, by user, or (nobody signed in) by address: each has its own allowance."""

    def get_cache_key(self, request: Request, view: APIView) -> str | None:
        if isinstance(request.auth, ApiToken):
            caller = f"token:{request.auth.pk}"
        elif request.user.is_authenticated:
            caller = f"user:{request.user.pk}"
        else:
            caller = f"address:{request.META.get('REMOTE_ADDR', '')}"
        return f"throttle:{self.scope}:{caller}"


class ReadThrottle(CallerThrottle):
    scope = "read"

    def allow_request(self, request: Request, view: APIView) -> bool:
        return request.method not in {"GET", "HEAD", "OPTIONS"} or super().allow_request(request, view)


class WriteThrottle(CallerThrottle):
    scope = "write"

    def allow_request(self, request: Request, view: APIView) -> bool:
        return request.method in {"GET", "HEAD", "OPTIONS"} or super().allow_request(request, view)


class Pages(LimitOffsetPagination):
    default_limit = 50
    max_limit = 500


class ApiView(APIView):
    """Adds the request id to every answer."""

    throttle_classes = (ReadThrottle, WriteThrottle)

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        response = super().finalize_response(request, response, *args, **kwargs)
        response.headers["X-Request-Id"] = request_id(request)
        response.headers.setdefault("Cache-Control", "private, no-store")
        return response


class WorkspaceView(ApiView):
    """An address of a workspace: who may use which method is `permissions`; anything not in it needs READ."""

    permissions: ClassVar[dict[str, Permission]] = {}

    @cached_property
    def access(self) -> Access:
        return access_of(self.request)

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        if request.method in self.allowed_methods and request.method != "OPTIONS":
            self.access.require(self.permissions.get(request.method or "", Permission.READ))

    def refuse_read_only(self) -> None:
        """For what belongs to the person and not to the workspace: only a token that may only look is refused."""
        if self.access.read_only:
            raise Forbidden("token_read_only")

    def page(self, rows: models.QuerySet[Any], serializer: type[serializers.BaseSerializer[Any]]) -> Response:
        pages = Pages()
        shown = pages.paginate_queryset(rows, self.request, view=self)
        return pages.get_paginated_response(serializer(shown, many=True).data)


class Nothing(ApiView):
    """Whatever under /api/v1/ is no address of ours: 404 in the API's own shape."""

    authentication_classes = ()
    permission_classes = (AllowAny,)
    schema = None

    def dispatch(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        self.headers = self.default_response_headers
        self.args, self.kwargs = args, kwargs
        self.request = self.initialize_request(request, *args, **kwargs)
        response = self.handle_exception(exceptions.NotFound())
        self.response = self.finalize_response(self.request, response, *args, **kwargs)
        return self.response
