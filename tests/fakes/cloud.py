"""A GPU cloud in memory: rents, loses answers, refuses and forgets, as told. What it did is on record."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal

from deploy.models import Machine
from deploy.providers.base import Found, Listing, NotYet, OutcomeUnknown, Provider, Refused, Rented


@dataclass
class FakeCloud(Provider):
    """`script` says how the next creates go, a word each: ok, refuse, lost (made, but no answer), dead (no answer)."""

    key = "cloud"

    script: list[str] = field(default_factory=list)
    machines: dict[str, Rented] = field(default_factory=dict)
    created: list[str] = field(default_factory=list)
    released_labels: list[str] = field(default_factory=list)
    cost: Decimal | None = None
    blind: bool = False
    """Looking and listing fail: proves nothing."""
    stubborn: int = 0
    """So many releases are not done yet."""
    port: int = 9

    def create(self, machine: Machine, public_key: str) -> Rented:
        how = self.script.pop(0) if self.script else "ok"
        if how == "refuse":
            raise Refused("sold_out")
        if how == "dead":
            raise OutcomeUnknown("answer_unclear", detail="timeout")
        rented = Rented(f"i-{machine.label[-8:]}", "127.0.0.1", self.port, "root", cost_per_hour=self.cost)
        self.machines[machine.label] = rented
        self.created.append(machine.label)
        if how == "lost":
            raise OutcomeUnknown("answer_unclear", detail="timeout")
        return rented

    def find(self, machine: Machine) -> Rented | None:
        if self.blind:
            raise NotYet("provider_unreachable")
        return self.machines.get(machine.label)

    def release(self, machine: Machine) -> None:
        if self.stubborn:
            self.stubborn -= 1
            raise NotYet("release_pending")
        self.machines.pop(machine.label, None)
        self.released_labels.append(machine.label)

    def listings(self) -> Iterator[Listing]:
        if not self.blind:
            found = tuple(Found(label, each.external_id) for label, each in self.machines.items())
            yield Listing("cloud", found)

    def place_of(self, machine: Machine) -> str:
        return "cloud"

    def release_orphan(self, place: str, found: Found) -> None:
        self.machines.pop(found.label, None)
        self.released_labels.append(found.label)
