"""Tries to get a replica its machine. Known before asked for: the intent is committed before any provider hears of it.

Everything here runs in the caller's transaction and calls nothing outside.
"""

from __future__ import annotations

from uuid import UUID

import asyncssh
from django.db.models import Max

from arrakis import vault
from arrakis.clock import ClockTimestamp
from arrakis.ids import new_id
from catalog.queries import PricedOffer
from deploy.models import Attempt, Machine, Quote, Replica
from deploy.providers import PROVIDERS
from deploy.providers.fleet import label_prefix
from deploy.quotes import offer_facts
from deploy.states import MachineState

MOST = 5
"""Machines tried for one replica; then its deployment has failed."""


def begin(replica: Replica, quote: Quote, priced: PricedOffer) -> Machine:
    """The next attempt, with a machine of state `intent`: its label and key exist, nothing was asked yet.

    Raises Refused: another deployment took the offer first; nothing is written then that the caller's transaction
    would not undo.
    """
    offer = priced.offer
    machine_id = new_id()
    machine = Machine(
        id=machine_id,
        workspace_id=quote.workspace_id,
        quote=quote,
        provider=offer.provider,
        label=f"{label_prefix()}{machine_id.hex}",
        price_per_hour=quote.price_per_hour,
        admin_key=vault.encrypt(new_private_key()),
    )
    PROVIDERS[offer.provider.adaptor].reserve(machine, offer)
    machine.save(force_insert=True)
    last = replica.attempts.aggregate(n=Max("n"))["n"] or 0
    Attempt.objects.create(
        replica=replica,
        n=last + 1,
        machine=machine,
        offer_facts=offer_facts(priced, int(quote.offer_facts["count"])),
    )
    return machine


def current(replica: Replica) -> Attempt | None:
    """The attempt that is open or that got its machine; None before the first and after the last."""
    wanted = (Attempt.Outcome.OPEN, Attempt.Outcome.UNKNOWN, Attempt.Outcome.OK)
    attempts = replica.attempts.filter(outcome__in=wanted).order_by("-n")
    return attempts.select_related("machine__provider", "machine__fleet_host__gpu", "machine__quote").first()


def give_up(attempt: Attempt, *, outcome: str, reason_code: str) -> None:
    """Close an attempt and let its machine go: released until its absence is proven, whatever it is like."""
    Attempt.objects.filter(pk=attempt.pk).update(outcome=outcome, reason_code=reason_code)
    if attempt.machine_id is not None:
        let_go(attempt.machine_id)


def let_go(machine_id: UUID) -> None:
    """Begin the release of a machine; does nothing to one that is being released or gone."""
    alive = (MachineState.INTENT, MachineState.UNKNOWN, MachineState.CREATED, MachineState.READY)
    Machine.objects.filter(pk=machine_id, state__in=alive).update(
        state=MachineState.RELEASING,
        release_asked_at=ClockTimestamp(),
        due_at=ClockTimestamp(),
        hinted_until=None,
        tries=0,
    )


def tried(replica: Replica) -> set[str]:
    """External ids of the offers that were tried already."""
    return {str(facts.get("external_id")) for facts in replica.attempts.values_list("offer_facts", flat=True)}


def new_private_key() -> str:
    """A fresh Ed25519 key, OpenSSH text."""
    return asyncssh.generate_private_key("ssh-ed25519").export_private_key().decode()


def public_key(private_key: str) -> str:
    """The public half, one line."""
    return asyncssh.import_private_key(private_key).export_public_key().decode().strip()
