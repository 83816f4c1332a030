"""Writing the audit trail: one call a change, in the change's own transaction."""

from __future__ import annotations

import json
from typing import Any

from django.core.serializers.json import DjangoJSONEncoder
from django.db import models

from arrakis.accounts.models import User, Workspace
from arrakis.audit.models import Record


def record(
    *,
    actor: User | None,
    action: str,
    obj: models.Model,
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
    workspace: Workspace | None = None,
) -> Record:
    """`before` and `after` hold only what changed; secrets never go in."""
    encode = DjangoJSONEncoder().encode
    return Record.objects.create(
        actor=actor,
        action=action,
        workspace=workspace,
        object_type=obj._meta.label_lower,
        object_id=str(obj.pk),
        before=_plain(encode, before),
        after=_plain(encode, after),
    )


def _plain(encode: Any, values: dict[str, Any] | None) -> Any:
    return None if values is None else json.loads(encode(values))
