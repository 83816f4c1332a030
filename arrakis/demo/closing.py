"""Ending deployments when the demo ends: engines stopped and time settled by the product's own way of stopping."""

from __future__ import annotations

import time
from collections.abc import Callable

from django.db import DatabaseError, close_old_connections

from arrakis.errors import ArrakisError
from deploy import services
from deploy.models import Deployment
from deploy.states import ENDED

REASON = "demo_ended"
_PATIENCE_S = 30.0


def stop_leftovers() -> int:
    """Ask all that live to stop; how many there were. The workers carry it out."""
    asked = 0
    for deployment in Deployment.objects.exclude(state__in=ENDED):
        services.stop(deployment=deployment, actor=None, reason_code=REASON)
        asked += 1
    return asked


def stop_deployments(*, is_hurried: Callable[[], bool], say: Callable[[str], None]) -> None:
    """Ask all to stop and wait until the workers have done it, for a while; the next start reclaims what is left."""
    try:
        asked = stop_leftovers()
    except (DatabaseError, ArrakisError) as error:
        say(f"Deployments could not be stopped ({error}); the next start does it.")
        return
    if asked:
        say(f"Stopping {asked} deployment(s); Ctrl-C again to leave that to the next start ...")
    deadline = time.monotonic() + _PATIENCE_S
    while asked and not is_hurried() and time.monotonic() < deadline:
        close_old_connections()
        if not Deployment.objects.exclude(state__in=ENDED).exists():
            return
        time.sleep(0.2)
