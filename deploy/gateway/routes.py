"""What a key opens, and which deployment answers a request. Pure: no Django, no network.

Ids are text here: a UUID is hashed by Python code, and each request looks several of them up.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from deploy.gateway.errors import Refused, shorten

DEFAULT_MODEL: Final = "default"
"""Names whatever the key opens: the newest deployment that serves, else the newest there is."""

SERVING: Final = frozenset({"running", "unhealthy"})
ENDED: Final = frozenset({"stopping", "stopped", "failed"})
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, slots=True)
class Key:
    """An endpoint key. Times are seconds since 1970; `grants` None opens all of the workspace."""

    id: str
    workspace: str
    enabled: bool
    revoked: bool
    expires_at: float | None
    networks: tuple[Network, ...]
    at_once: int
    grants: frozenset[str] | None

    def check(self, now: float, address: str | None) -> None:
        """Refused where the key is no longer good, or is not used from where it may be."""
        if self.revoked:
            raise Refused("key_revoked")
        if not self.enabled:
            raise Refused("key_disabled")
        if self.expires_at is not None and now >= self.expires_at:
            raise Refused("key_expired")
        if self.networks and not _inside(address, self.networks):
            raise Refused("ip_not_allowed")

    def opens(self, route: Route) -> bool:
        return self.grants is None or route.deployment in self.grants


@dataclass(frozen=True, slots=True)
class Route:
    """One deployment, and the machine that serves it now (None where none does)."""

    deployment: str
    repo_id: str
    served_name: str
    state: str
    reason_code: str
    created: int
    machine: str | None

    def names(self) -> set[str]:
        return {self.repo_id.casefold(), self.served_name.casefold()}

    def rank(self) -> tuple[int, int]:
        """What serves goes first, what starts next, what has ended last; the newest of each before the others."""
        return (0 if self.state in SERVING else 2 if self.state in ENDED else 1, -self.created)

    def check(self) -> None:
        """Refused where it cannot answer now, with the status that makes clients do the right thing (errors.py)."""
        if self.state in SERVING and self.machine is not None:
            return
        if self.state not in ENDED:
            stage = "loading" if self.state in SERVING else self.state
            raise Refused("deployment_not_ready", model=self.repo_id, stage=stage)
        if self.reason_code.startswith("balance"):
            raise Refused("insufficient_quota", model=self.repo_id)
        raise Refused("deployment_failed" if self.state == "failed" else "deployment_stopped", model=self.repo_id)


@dataclass(frozen=True, slots=True)
class Workspace:
    """The deployments of a workspace: all that live, and the newest of those that ended."""

    id: str
    frozen: bool
    routes: tuple[Route, ...]
    named: dict[str, tuple[Route, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, workspace: str, frozen: bool, routes: Iterable[Route]) -> Workspace:
        ranked = tuple(sorted(routes, key=Route.rank))
        named: dict[str, tuple[Route, ...]] = {}
        for route in ranked:
            for name in route.names():
                named[name] = (*named.get(name, ()), route)
        return cls(workspace, frozen, ranked, named)

    def choose(self, key: Key, model: str | None) -> Route:
        """The deployment that answers to `model` for this key; case does not matter. Refused: model_not_found."""
        wanted = DEFAULT_MODEL if model is None else model.strip().casefold()
        for route in self.routes if wanted == DEFAULT_MODEL else self.named.get(wanted, ()):
            if key.opens(route):
                return route
        available = ", ".join(route.repo_id for route in self.models(key))
        if not available:
            raise Refused("no_model", model=shorten(model or DEFAULT_MODEL))
        raise Refused("model_not_found", model=shorten(model or DEFAULT_MODEL), available=shorten(available, 2000))

    def models(self, key: Key) -> Iterator[Route]:
        """What the key opens and has not ended, one for each name, what serves first."""
        seen: set[str] = set()
        for route in self.routes:
            if route.state not in ENDED and key.opens(route) and route.repo_id.casefold() not in seen:
                seen.add(route.repo_id.casefold())
                yield route


def _inside(address: str | None, networks: Iterable[Network]) -> bool:
    try:
        caller = ipaddress.ip_address((address or "").partition("%")[0])
    except ValueError:
        return False
    mapped = caller.ipv4_mapped if isinstance(caller, ipaddress.IPv6Address) else None
    return any((mapped or caller) in network for network in networks)
