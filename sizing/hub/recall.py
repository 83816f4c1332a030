"""Facts that were read before: at once for a while, and with their date when the hub does not answer."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from django.conf import settings
from django.core.cache import cache

from sizing.facts import ModelFacts
from sizing.hub import Wanted, asked_for, facts
from sizing.hub.client import MOST_SECONDS
from sizing.hub.errors import Closed, HubUnavailable, Missing

FRESH_SECONDS: Final = 600
_KEPT_SECONDS: Final = 30 * 24 * 3600
_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Told:
    """`read_at`: when the hub was asked; `problem`: why it could not be now (`hub_down`), empty where it could."""

    facts: ModelFacts
    read_at: datetime
    problem: str = ""


def told(
    reference: str | Wanted,
    *,
    endpoint: str = "",
    token: str | None = None,
    fresh_seconds: int = FRESH_SECONDS,
    most_seconds: float = MOST_SECONDS,
) -> Told:
    """Facts of at most `fresh_seconds` ago; older ones only while the hub is down, slow or busy.

    Raises as `sizing.hub.facts`; a repository that is no longer shown to this token is forgotten.
    """
    endpoint = endpoint or settings.HF_ENDPOINT
    asked = asked_for(reference, endpoint)
    key = _key(endpoint, token or "", asked)
    kept = cache.get(key)
    kept = kept if isinstance(kept, Told) else None
    now = datetime.now(UTC)
    if kept is not None and now - kept.read_at < timedelta(seconds=fresh_seconds):
        return kept
    try:
        found = Told(facts(asked, endpoint=endpoint, token=token, most_seconds=most_seconds), now)
    except (Missing, Closed):
        cache.delete(key)
        raise
    except HubUnavailable as error:
        if kept is None:
            raise
        return replace(kept, problem=error.code)
    cache.set(key, found, _KEPT_SECONDS)
    return found


def _key(endpoint: str, token: str, asked: Wanted) -> str:
    parts = (endpoint, token, asked.repo_id, asked.revision, asked.path)
    return f"told:{_VERSION}:{hashlib.sha256(repr(parts).encode()).hexdigest()}"
