"""API tokens: `Authorization: Bearer ark_...` (or `Token ark_...`), looked up by SHA-256."""

from __future__ import annotations

import hashlib

from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
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
        return found.user, found

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"
