"""API tokens: `Authorization: Bearer ark_...` (or `Token ark_...`), looked up by SHA-256."""

from __future__ import annotations

import hashlib
from datetime import timedelta
from typing import Any

from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from arrakis.accounts.models import ApiToken, User


class TokenAuthentication(BaseAuthentication):
    def authenticate(self, request: Request) -> tuple[User, ApiToken] | None:
        scheme, _space, token = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() not in {"bearer", "token"}:
            return None
        digest = hashlib.sha256(token.strip().encode()).hexdigest()
        found = (
            ApiToken.objects.select_related("user", "workspace")
            .filter(sha256=digest, revoked_at=None, user__is_active=True, user__suspended_at=None)
            .filter(Q(expires_at=None) | Q(expires_at__gt=timezone.now()))
            .first()
        )
        if found is None:
            raise AuthenticationFailed(_("This API token is not valid."), code="invalid_token")
        _note_use(found)
        return found.user, found

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"


def _note_use(token: ApiToken) -> None:
    """Written at most once a minute: enough to see which tokens are dead, and no write on every request."""
    now = timezone.now()
    if token.last_used_at is None or now - token.last_used_at > timedelta(minutes=1):
        ApiToken.objects.filter(pk=token.pk).update(last_used_at=now)


class TokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]  # registers itself by being defined
    """How the OpenAPI document names the tokens."""

    target_class = TokenAuthentication
    name = "token"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer", "description": "An API token: ark_..."}
