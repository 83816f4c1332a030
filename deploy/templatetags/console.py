"""`{% load console %}`: what only the console writes: hours of balance, states as badges."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import asyncssh
from django import template
from django.utils.translation import gettext as _

from arrakis import localize
from deploy import reasons
from deploy.engines import ENGINES
from deploy.states import ENDED, STARTING, State

register = template.Library()

LONGEST_DAYS = 1000


@register.filter
def hours(value: Decimal | None) -> str:
    """`2 h 30 min`, `12 d 4 h`; what would be years is not told to the hour."""
    if value is None:
        return ""
    if not value.is_finite() or value > LONGEST_DAYS * 24:
        return _("more than %(days)s days") % {"days": localize.number(LONGEST_DAYS)}
    return localize.duration(int(value * 3600))


@register.filter
def badge(state: str) -> str:
    """The colour a state is shown in; never the only sign of it."""
    if state in STARTING or state == State.STOPPING:
        return "now"
    return {State.RUNNING: "ok", State.UNHEALTHY: "warn", State.FAILED: "bad"}.get(State(state), "")


@register.filter
def over(state: str) -> bool:
    return state in ENDED


@register.filter
def sentence(event: Any) -> str:
    """An Event in words."""
    return str(reasons.sentence(event.code, event.params))


@register.filter
def whole(value: int | str) -> str:
    """For attributes: digits and nothing else."""
    return str(int(value))


@register.filter
def clock(moment: datetime) -> str:
    """`17:40:03`, UTC: enough beside others of the same day."""
    return f"{moment.astimezone(UTC):%H:%M:%S}"


@register.filter
def engine_name(key: str) -> str:
    """`llama.cpp` for `llamacpp`; what is no engine any more is named by its key."""
    return ENGINES[key].name if key in ENGINES else key


@register.filter
def fingerprint(host_key: str) -> str:
    """What SSH asks a person to compare when it first connects: `SHA256:...`."""
    try:
        return asyncssh.import_public_key(host_key).get_fingerprint("sha256")
    except (asyncssh.KeyImportError, ValueError):
        return host_key
