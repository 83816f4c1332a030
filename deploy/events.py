"""Writing down what happened to a deployment: one Event a change, in the change's own transaction."""

from __future__ import annotations

from typing import Any

from arrakis.accounts.models import User
from deploy.models import Deployment, Event, Machine, Replica


def write(
    deployment: Deployment,
    code: str,
    *,
    replica: Replica | None = None,
    machine: Machine | None = None,
    fault: str = "",
    actor: User | None = None,
    **params: Any,
) -> Event:
    """`code` and `params` (JSON values) are stored; deploy.reasons makes the sentence for whoever reads it."""
    return Event.objects.create(
        deployment=deployment,
        replica=replica,
        machine=machine,
        code=code,
        params=params,
        fault=fault,
        actor=actor,
    )
