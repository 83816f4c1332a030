"""What a step works on, and what it says came of it. `deploy.reconcile` claims, runs and applies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from arrakis.errors import ArrakisError, Fault
from deploy.machine.ssh import Target
from deploy.models import Attempt, Deployment, Machine, MachineSshKey, Quote, Replica
from deploy.plans import Plan
from deploy.states import State
from deploy.targets import target

Write = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Work:
    """Everything about one replica as it was when its lease was taken, at `now` by the database's clock."""

    deployment: Deployment
    replica: Replica
    quote: Quote
    attempt: Attempt | None
    machine: Machine | None
    now: datetime

    @property
    def plan(self) -> Plan:
        return Plan.of(self.deployment.plan)

    @property
    def rented(self) -> Machine:
        """The machine. MachineMissing where a state that needs one has none."""
        if self.machine is None:
            raise MachineMissing("machine_missing")
        return self.machine

    @property
    def target(self) -> Target:
        return target(self.rented)

    @property
    def in_state_for(self) -> timedelta:
        return self.now - self.replica.state_since

    @property
    def customer_is_in(self) -> bool:
        """The customer's keys were let in: what the machine says or does since then may be the customer's doing."""
        return MachineSshKey.objects.filter(machine=self.machine, installed_at__isnull=False).exists()

    def blame(self, fault: Fault) -> Fault:
        """Who pays for what a machine did: with root there, or arguments of their own, the customer."""
        return "customer" if self.customer_is_in or (fault == "platform" and self.deployment.args) else fault


class MachineMissing(ArrakisError):
    """A bug of ours: no machine where there must be one."""


@dataclass(frozen=True, slots=True)
class Move:
    """To another state, now due; `write` happens in the same transaction."""

    to: State
    params: dict[str, Any] = field(default_factory=dict)
    write: Write | None = None
    event: str = ""
    """Its code; the new state's name unless told otherwise."""


@dataclass(frozen=True, slots=True)
class Stay:
    """Look again in `seconds`. `tried`: something was done that did not help, so that the count of tries goes up."""

    seconds: float
    write: Write | None = None
    event: str = ""
    params: dict[str, Any] = field(default_factory=dict)
    tried: bool = False
    progress: int | None = None
    """Bytes done; more than at the last look move the deadline."""
    in_passing: bool = False
    """Done beside what the state is about: the state's deadline does not judge it."""


@dataclass(frozen=True, slots=True)
class NextOffer:
    """This machine will not do and it is not the customer's fault: let it go, rent the next offer, or fail so."""

    code: str
    params: dict[str, Any] = field(default_factory=dict)
    outcome: str = Attempt.Outcome.FAILED


@dataclass(frozen=True, slots=True)
class Fail:
    """It is over. `used_until`: charged no further than that, where the last sign of life was earlier than now."""

    code: str
    fault: Fault
    params: dict[str, Any] = field(default_factory=dict)
    used_until: datetime | None = None


Outcome = Move | Stay | NextOffer | Fail
