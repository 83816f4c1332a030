"""Signing in by e-mail and password, with a limit on wrong tries that holds for every form (the admin's too)."""

from __future__ import annotations

import hashlib
from typing import Any, Final

from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import AnonymousUser
from django.core.cache import cache
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest

from arrakis.accounts.models import User

WINDOW_SECONDS: Final = 15 * 60
MOST_FOR_PAIR: Final = 8
"""Wrong tries from one address at one account within the window."""
MOST_FOR_ADDRESS: Final = 60
"""Wrong tries from one address at whatever accounts."""


class EmailBackend(ModelBackend):
    def authenticate(
        self, request: HttpRequest | None, username: str | None = None, password: str | None = None, **kwargs: Any
    ) -> User | None:
        """None for a wrong password, an unknown account and a suspended one alike; each costs one password hash.

        Raises PermissionDenied (which ends the sign-in, as a wrong password does) after too many wrong tries.
        """
        email = username or kwargs.get("email") or ""
        if too_many_tries(request, email):
            raise PermissionDenied
        user = super().authenticate(request, username=email, password=password)
        if user is None:
            _count_wrong(request, email)
        return user

    def user_can_authenticate(self, user: User | AnonymousUser | None) -> bool:
        return super().user_can_authenticate(user) and getattr(user, "suspended_at", None) is None


def too_many_tries(request: HttpRequest | None, email: str) -> bool:
    pair, address = _names(request, email)
    tried = cache.get_many([pair, address])
    return bool(tried.get(pair, 0) >= MOST_FOR_PAIR or tried.get(address, 0) >= MOST_FOR_ADDRESS)


def _count_wrong(request: HttpRequest | None, email: str) -> None:
    for name in _names(request, email):
        count(name, WINDOW_SECONDS)


def count(name: str, seconds: int) -> int:
    """One more of `name` within a window that began with the first; how many there are."""
    if cache.add(name, 1, seconds):
        return 1
    try:
        return cache.incr(name)
    except ValueError:  # it expired between the two calls
        cache.set(name, 1, seconds)
        return 1


def _names(request: HttpRequest | None, email: str) -> tuple[str, str]:
    address = request.META.get("REMOTE_ADDR", "") if request else ""
    account = hashlib.sha256(email.strip().lower().encode()).hexdigest()[:32]
    return f"signin:{address}:{account}", f"signin:{address}"
