"""The operator's own hosts, by SSH. A host is one machine; renting is taking the label's folder on it (DESIGN 5.8).

Bare metal has no fresh machine to give: it is wiped, then its reset command must succeed, else the host is quarantined
until staff have looked. A demo host may do without the command, and pages say what it is.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from django.conf import settings

from arrakis import vault
from catalog.models import FleetHost, Offer
from catalog.sources import fleet as fleet_offers
from deploy.machine import host as machines
from deploy.machine.errors import MachineError
from deploy.machine.ssh import Target, connect
from deploy.models import Machine
from deploy.providers.base import Found, Listing, NotYet, OutcomeUnknown, Provider, Refused, Rented

logger = logging.getLogger(__name__)

RESET_SECONDS = 100


class FleetProvider(Provider):
    key = "fleet"
    machine_answers = True

    def reserve(self, machine: Machine, offer: Offer) -> None:
        if offer.fleet_host_id is None:
            raise Refused("offer_gone")
        taken = FleetHost.objects.filter(pk=offer.fleet_host_id, state=FleetHost.State.READY, enabled=True).update(
            state=FleetHost.State.LEASED
        )
        if not taken:
            raise Refused("sold_out")
        host = FleetHost.objects.get(pk=offer.fleet_host_id)
        if host.mode != FleetHost.Mode.BARE:
            raise Refused("host_mode_unsupported", host=host.name)
        if host.mode == FleetHost.Mode.BARE and not host.reset_command and not host.is_demo:
            raise Refused("host_not_resettable", host=host.name)
        machine.fleet_host = host
        machine.slot = 0
        fleet_offers.refresh()

    def create(self, machine: Machine, public_key: str) -> Rented:
        host = _host(machine)
        try:
            machines.claim(access(host), machine.label, public_key)
        except MachineError as error:
            raise OutcomeUnknown("answer_unclear", detail=error.code) from error
        return _rented(host, machine)

    def find(self, machine: Machine) -> Rented | None:
        host = _host(machine)
        try:
            return _rented(host, machine) if machines.exists(access(host), machine.label) else None
        except MachineError as error:
            raise NotYet("provider_unreachable", detail=error.code) from error

    def release(self, machine: Machine) -> None:
        _clear(_host(machine), machine.label)

    def released(self, machine: Machine) -> None:
        FleetHost.objects.filter(pk=_host(machine).pk, state=FleetHost.State.LEASED).update(state=FleetHost.State.READY)
        fleet_offers.refresh()

    def listings(self) -> Iterator[Listing]:
        # In another order each time: where many do not answer, a sweep's time ends before all were asked.
        for host in FleetHost.objects.order_by("?"):
            try:
                labels = machines.list_labels(access(host))
            except MachineError as error:
                logger.warning("host %s could not be listed: %s", host.name, error)
                continue
            ours = [label for label in labels if label.startswith(label_prefix())]
            yield Listing(str(host.pk), tuple(Found(label, label) for label in ours))

    def place_of(self, machine: Machine) -> str:
        return str(machine.fleet_host_id)

    def release_orphan(self, place: str, found: Found) -> None:
        host = FleetHost.objects.filter(pk=int(place)).first()
        if host is not None:
            _wipe(host, found.label)


def label_prefix() -> str:
    """What begins the label of every machine of this installation, and of no other."""
    return f"arrakis-{settings.INSTALLATION}-"


def access(host: FleetHost) -> Target:
    """How the control plane reaches a host of its own."""
    key = vault.decrypt(host.access_key) if host.access_key else ""
    return Target(host.address, host.port, host.user, host.host_key or None, key)


def _host(machine: Machine) -> FleetHost:
    if machine.fleet_host is None:
        raise NotYet("host_missing")
    return machine.fleet_host


def _rented(host: FleetHost, machine: Machine) -> Rented:
    return Rented(
        external_id=machine.label,
        ssh_host=host.address,
        ssh_port=host.port,
        ssh_user=host.user,
        host_key=host.host_key,
        cost_per_hour=host.cost * host.gpu_count,
    )


def _clear(host: FleetHost, label: str) -> None:
    """Wipe, and reset bare metal: what was rented is gone then, but a host whose reset failed is quarantined."""
    _wipe(host, label)
    if host.mode != FleetHost.Mode.BARE or not host.reset_command:
        return
    try:
        with connect(access(host)) as session:
            result = session.run(host.reset_command, timeout=RESET_SECONDS)
    except MachineError as error:
        raise NotYet("provider_unreachable", detail=error.code) from error
    if result.exit_code != 0:
        detail = f"{result.exit_code}"
        logger.error("host %s is quarantined: its reset command ended with %s", host.name, detail)
        FleetHost.objects.filter(pk=host.pk).update(state=FleetHost.State.QUARANTINED)


def _wipe(host: FleetHost, label: str) -> None:
    try:
        machines.wipe(access(host), label)
    except MachineError as error:
        raise NotYet("release_pending", detail=error.code) from error
