"""Keys to endpoints: made, shown once, and taken back.

    key, plaintext = issue(workspace=workspace, name="laptop", deployment=deployment)

A key is `sk-ark-` and 40 characters of base 62: 8 that name it (`id_part`, shown in lists) and 32 that nobody can
guess (190 bits). Only the SHA-256 of the whole is stored; of 190 random bits a slow hash would protect nothing more.
The gateways hear of every change from the database itself (migration 0002), so whoever writes a row is obeyed.
"""

from __future__ import annotations

import hashlib
import ipaddress
import secrets
import string
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from arrakis.accounts.models import Workspace
from arrakis.errors import BadRequest, NotFound
from deploy.gateway.models import EndpointKey, KeyGrant
from deploy.models import Deployment

PREFIX: Final = "sk-ark-"
ID_CHARACTERS: Final = 8
SECRET_CHARACTERS: Final = 32
MAX_NETWORKS: Final = 50
ALPHABET: Final = string.digits + string.ascii_uppercase + string.ascii_lowercase


def issue(
    *,
    workspace: Workspace,
    name: str,
    deployment: Deployment | None = None,
    expires_at: datetime | None = None,
    cidrs: Sequence[str] = (),
) -> tuple[EndpointKey, str]:
    """A new key that opens `deployment`, or (None) everything the workspace has; the second value is shown once.

    BadRequest: name_required, name_too_long, network_invalid (params: network), too_many_networks.
    NotFound: deployment_not_found, for another workspace's.
    """
    if deployment is not None and deployment.workspace_id != workspace.pk:
        raise NotFound("deployment_not_found")
    name, networks = _name(name), _networks(cidrs)
    while True:
        id_part, secret = _random(ID_CHARACTERS), _random(SECRET_CHARACTERS)
        plaintext = f"{PREFIX}{id_part}{secret}"
        try:
            with transaction.atomic():
                key = EndpointKey.objects.create(
                    workspace=workspace,
                    name=name,
                    id_part=id_part,
                    sha256=digest(plaintext),
                    expires_at=expires_at,
                    cidrs=networks,
                )
                KeyGrant.objects.create(key=key, deployment=deployment)
        except IntegrityError:
            if not EndpointKey.objects.filter(id_part=id_part).exists():
                raise
            continue  # the name is taken (1 in 2 * 10^14): draw another
        return key, plaintext


def revoke(*, key: EndpointKey) -> EndpointKey:
    """Close the key for good; the gateways follow within a second or two. Again: no change, the first time stays."""
    EndpointKey.objects.filter(pk=key.pk, revoked_at=None).update(revoked_at=Now())
    key.refresh_from_db()
    return key


def set_enabled(*, key: EndpointKey, enabled: bool) -> EndpointKey:
    """Close the key for a while, or open it again. A revoked key stays closed whatever this says."""
    key.enabled = enabled
    key.save(update_fields=["enabled"])
    return key


def keys_of(owner: Workspace | Deployment) -> QuerySet[EndpointKey]:
    """The keys of a workspace, newest first; of a deployment: those that open it, workspace-wide ones included."""
    keys = EndpointKey.objects.order_by("-created_at").prefetch_related("grants__deployment")
    if isinstance(owner, Workspace):
        return keys.filter(workspace=owner)
    opens = Q(grants__deployment=owner) | Q(grants__deployment=None)
    return keys.filter(opens, workspace=owner.workspace_id, grants__isnull=False).distinct()


def get_key(workspace: Workspace, key_id: str) -> EndpointKey:
    """NotFound("key_not_found") for another workspace's, or none."""
    try:
        return EndpointKey.objects.get(workspace=workspace, pk=key_id)
    except (EndpointKey.DoesNotExist, ValidationError) as error:
        raise NotFound("key_not_found") from error


def digest(plaintext: str) -> str:
    """What is stored of a key: 64 hex digits of SHA-256."""
    return hashlib.sha256(plaintext.encode()).hexdigest()


def looks_like_key(text: str) -> bool:
    """Whether it could be a key at all, so that nothing else is ever looked up."""
    return len(text) == len(PREFIX) + ID_CHARACTERS + SECRET_CHARACTERS and text.startswith(PREFIX)


def hint(key: EndpointKey) -> str:
    """How a key is told from others without showing it."""
    return f"{PREFIX}{key.id_part}…"


def _random(length: int) -> str:
    return "".join(secrets.choice(ALPHABET) for _ in range(length))


def _name(name: str) -> str:
    name = " ".join(name.split())
    if not name or not name.isprintable():
        raise BadRequest("name_required")
    if len(name) > 120:
        raise BadRequest("name_too_long", most=120)
    return name


def _networks(cidrs: Sequence[str]) -> list[str]:
    """Networks as `ipaddress` writes them; a lone address is a network of one."""
    if len(cidrs) > MAX_NETWORKS:
        raise BadRequest("too_many_networks", most=MAX_NETWORKS)
    networks = []
    for text in cidrs:
        try:
            networks.append(str(ipaddress.ip_network(text.strip(), strict=False)))
        except ValueError as error:
            raise BadRequest("network_invalid", network=text[:60]) from error
    return networks
