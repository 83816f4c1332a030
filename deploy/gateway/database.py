"""The SQL of the gateway. Nothing here runs while a request waits for it, but for the first use of a key."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from deploy.asyncdb import Database
from deploy.gateway.routes import Key, Network, Route, Workspace

CHANNEL: Final = "gateway"
"""On which the triggers of migration 0002 tell what changed."""
AT_ONCE: Final = 1_024
"""Requests at once with one key, where its own limits do not say."""
NOWHERE: Final = ipaddress.ip_network("255.255.255.255/32")

KEYS: Final = """
SELECT k.sha256, k.id::text, k.workspace_id::text, k.enabled, k.revoked_at IS NOT NULL,
       extract(epoch FROM least(k.expires_at, k.valid_until))::float8, k.cidrs, k.limits,
       coalesce(bool_or(g.id IS NOT NULL AND g.deployment_id IS NULL), false),
       array_remove(array_agg(g.deployment_id::text), NULL)
FROM gateway_endpointkey k LEFT JOIN gateway_keygrant g ON g.key_id = k.id
WHERE k.sha256 = ANY(%s) GROUP BY k.id
"""
WORKSPACES: Final = """
SELECT w.id::text, w.frozen_reason <> '', d.id::text, d.repo_id, d.served_name, d.state, d.desired, d.reason_code,
       extract(epoch FROM d.requested_at)::bigint, m.id::text
FROM accounts_workspace w
LEFT JOIN LATERAL (
  SELECT * FROM deploy_deployment WHERE workspace_id = w.id
  ORDER BY ended_at IS NULL DESC, requested_at DESC LIMIT 500
) d ON true
LEFT JOIN LATERAL (
  SELECT m.id FROM deploy_replica r
  JOIN deploy_attempt a ON a.replica_id = r.id JOIN deploy_machine m ON m.id = a.machine_id
  WHERE r.deployment_id = d.id AND m.state IN ('created', 'ready')
  ORDER BY r.generation DESC, r.ordinal, a.n DESC LIMIT 1
) m ON true
WHERE w.id = ANY(%s::uuid[])
"""


async def load_keys(database: Database, hashes: Sequence[str]) -> dict[str, Key]:
    """The keys with these SHA-256, by it; those that do not exist are left out."""
    return {row[0]: _key(row) for row in await database.fetch(KEYS, [list(hashes)])}


async def load_workspaces(database: Database, ids: Sequence[str]) -> dict[str, Workspace]:
    """The workspaces with these ids and what they deploy."""
    routes: dict[str, list[Route]] = {}
    frozen: dict[str, bool] = {}
    for row in await database.fetch(WORKSPACES, [list(ids)]):
        frozen[row[0]] = row[1]
        routes.setdefault(row[0], []).extend([_route(row)] if row[2] else [])
    return {id_: Workspace.of(id_, frozen[id_], routes[id_]) for id_ in frozen}


def _key(row: tuple[Any, ...]) -> Key:
    _sha, id_, workspace, enabled, revoked, expires_at, cidrs, limits, everything, grants = row
    own = limits.get("at_once") if isinstance(limits, dict) else None
    return Key(
        id=id_,
        workspace=workspace,
        enabled=enabled,
        revoked=revoked,
        expires_at=expires_at,
        networks=tuple(_network(cidr) for cidr in cidrs),
        at_once=own if isinstance(own, int) and own >= 0 else AT_ONCE,
        grants=None if everything else frozenset(grants),
    )


def _network(cidr: str) -> Network:
    try:
        return ipaddress.ip_network(cidr, strict=False)
    except ValueError:
        return NOWHERE  # written past the form: such a line lets nobody in


def _route(row: tuple[Any, ...]) -> Route:
    _workspace, _frozen, id_, repo_id, served_name, state, desired, reason_code, created, machine = row
    if desired == "stopped" and state not in ("stopped", "failed"):
        state = "stopping"  # asked for already, though no worker has begun
    return Route(id_, repo_id, served_name or repo_id, state, reason_code, created, machine)


COUNT: Final = """
INSERT INTO gateway_usagehour AS u (key_id, deployment_id, hour, requests, errors, prompt_tokens, completion_tokens)
SELECT n.key::uuid, n.deployment::uuid, n.hour, n.requests, n.errors, n.prompt, n.completion
FROM json_to_recordset(%s) AS n(key text, deployment text, hour timestamptz, requests bigint, errors bigint,
                                prompt bigint, completion bigint)
WHERE EXISTS (SELECT FROM gateway_endpointkey k WHERE k.id = n.key::uuid)
  AND EXISTS (SELECT FROM deploy_deployment d WHERE d.id = n.deployment::uuid)
ON CONFLICT (key_id, deployment_id, hour) DO UPDATE SET
  requests = u.requests + excluded.requests, errors = u.errors + excluded.errors,
  prompt_tokens = u.prompt_tokens + excluded.prompt_tokens,
  completion_tokens = u.completion_tokens + excluded.completion_tokens
"""


async def add_usage(database: Database, counts: Sequence[tuple[str, str, datetime, Sequence[int]]]) -> None:
    """Add (key, deployment, hour, (requests, errors, prompt tokens, completion tokens)) to what is there."""
    rows = [
        dict(zip(("requests", "errors", "prompt", "completion"), numbers, strict=True))
        | {"key": key, "deployment": deployment, "hour": hour.isoformat()}
        for key, deployment, hour, numbers in counts
    ]
    await database.fetch(COUNT, [json.dumps(rows)])
