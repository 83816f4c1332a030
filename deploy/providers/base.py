"""The contract of what rents machines. Adaptors know their provider's API and nothing of deployments or money.

The type of an error is the protocol (research on what goes wrong: an unclear answer is never taken for an answer):

    Refused          not this one; nothing was made, the next offer may do
    OutcomeUnknown   a time-out, a cut connection, a 5xx: it may have been made; look the label up
    NotYet           asked for and under way, or not to be had now; call again
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import ClassVar

from arrakis.errors import ArrakisError, Fault
from catalog.models import Offer
from deploy.models import Machine


class ProviderError(ArrakisError):
    fault: Fault = "provider"


class Refused(ProviderError):
    """Codes: sold_out, offer_gone, host_mode_unsupported, host_not_resettable, provider_refused (params: detail)."""


class OutcomeUnknown(ProviderError):
    """Code: answer_unclear (params: detail)."""


class NotYet(ProviderError):
    """Call again, with back-off. Codes: provider_unreachable, release_pending, host_quarantined..."""


@dataclass(frozen=True, slots=True)
class Rented:
    """A machine that exists at the provider. `cost_per_hour` is what they charge us for it, whole, read back."""

    external_id: str
    ssh_host: str
    ssh_port: int
    ssh_user: str
    host_key: str = ""
    cost_per_hour: Decimal | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """One machine of ours in a provider's list."""

    label: str
    external_id: str


@dataclass(frozen=True, slots=True)
class Listing:
    """All that we have in one place, completely. A provider has one place, or one for each of its hosts."""

    place: str
    found: tuple[Found, ...]


class Provider(ABC):
    """One kind of provider; stateless. `key` is `catalog.Provider.adaptor`."""

    key: ClassVar[str]

    machine_answers: ClassVar[bool] = False
    """What it says of a machine comes from the machine itself: with a customer's root there, absence proves nothing."""

    def reserve(self, machine: Machine, offer: Offer) -> None:
        """Bind what can be bound in our own database, in the transaction that commits the machine's intent.

        Sets fields of the machine, which is not saved yet. Raises Refused: sold_out. Nothing outside is called.
        """
        return None

    @abstractmethod
    def create(self, machine: Machine, public_key: str) -> Rented:
        """Rent it under `machine.label` and let `public_key` log in. Returns fast: it need not be reachable yet.

        Called again after OutcomeUnknown only when `find` proved that there is none. Raises Refused, OutcomeUnknown.
        """

    @abstractmethod
    def find(self, machine: Machine) -> Rented | None:
        """Look the label up. None is proof that there is nothing; what cannot be proven raises NotYet."""

    @abstractmethod
    def release(self, machine: Machine) -> None:
        """Give it back, from whatever state, without needing it to work. Returns only when its absence is proven.

        Absent already is success. Raises NotYet: it will be called again, with back-off, for ever.
        """

    def released(self, machine: Machine) -> None:
        """Unbind what `reserve` bound, in the transaction that marks the machine gone."""
        return None

    @abstractmethod
    def listings(self) -> Iterator[Listing]:
        """What of ours is there, place by place. A place that cannot be read completely is left out."""

    @abstractmethod
    def place_of(self, machine: Machine) -> str:
        """The place in whose listing the machine must appear."""

    @abstractmethod
    def release_orphan(self, place: str, found: Found) -> None:
        """Release what no machine row has. Raises NotYet. Absent already is success."""
