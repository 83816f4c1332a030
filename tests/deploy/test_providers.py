"""The operator's own hosts as a provider, on a real host: renting, looking, giving back, quarantine, orphans."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pytest_django import Settings

from arrakis.clock import ClockTimestamp
from catalog.models import FleetHost, Offer
from deploy import attempts, releases, services, sweeps, wake
from deploy.machine import host as machines
from deploy.models import Deployment, Machine
from deploy.providers import PROVIDERS
from deploy.providers.base import NotYet, OutcomeUnknown
from deploy.providers.fleet import access, label_prefix
from deploy.states import MachineState, State
from tests.deploy.rentals import a_customer, a_quote, a_request, codes, machine_of, step
from tests.deploy.world import DemoHost

FLEET = PROVIDERS["fleet"]


@pytest.fixture
def host(rentable: str) -> FleetHost:
    return FleetHost.objects.get()


@pytest.fixture
def deployment(host: FleetHost, rentable: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Deployment]:
    monkeypatch.setattr(wake, "_send", lambda task, pk: None)
    customer = a_customer()
    yield a_request(customer, a_quote(customer, host.gpu, model=rentable), ssh_keys=[])


def release(machine: Machine) -> Machine:
    Machine.objects.filter(pk=machine.pk).update(due_at=ClockTimestamp())
    releases.step(machine.pk)
    return Machine.objects.get(pk=machine.pk)


def offered() -> bool:
    return Offer.objects.get(fleet_host__isnull=False).rentable


def test_from_ready_to_ready(rented_host: DemoHost, host: FleetHost, deployment: Deployment) -> None:
    assert not offered()
    machine = machine_of(deployment)
    assert FLEET.find(machine) is None
    step(deployment, 2)
    machine = machine_of(deployment)
    assert machine.state == MachineState.CREATED
    assert machine.cost_per_hour == host.cost * host.gpu_count
    found = FLEET.find(machine)
    assert found is not None
    assert found.external_id == machine.label
    step(deployment, 3)
    assert deployment.state == State.DOWNLOADING
    assert machine_of(deployment).host_key == host.host_key
    services.stop(deployment=deployment, actor=None)
    step(deployment)
    machine = release(machine)
    assert machine.state == MachineState.GONE
    host.refresh_from_db()
    assert host.state == FleetHost.State.READY
    assert offered()
    assert rented_host.left(machine.label) == []
    FLEET.release(machine)  # absent already is success


def test_a_host_that_does_not_answer_proves_nothing(host: FleetHost, deployment: Deployment) -> None:
    step(deployment, 2)
    FleetHost.objects.update(port=1)
    machine = Machine.objects.get()
    for call in (FLEET.find, FLEET.release):
        with pytest.raises(NotYet):
            call(machine)
    with pytest.raises(OutcomeUnknown):
        FLEET.create(machine, attempts.public_key(attempts.new_private_key()))
    assert list(FLEET.listings()) == []
    services.stop(deployment=deployment, actor=None)
    step(deployment)
    assert release(machine).state == MachineState.RELEASING
    assert FleetHost.objects.get().state == FleetHost.State.LEASED
    FleetHost.objects.update(port=host.port)
    assert release(machine).state == MachineState.GONE


@pytest.mark.parametrize(("command", "state"), [("true", "ready"), ("exit 3", "quarantined")])
def test_bare_metal_is_reset_or_quarantined(host: FleetHost, deployment: Deployment, command: str, state: str) -> None:
    FleetHost.objects.update(reset_command=command)
    step(deployment, 2)
    services.stop(deployment=deployment, actor=None)
    step(deployment)
    assert release(machine_of(deployment)).state == MachineState.GONE
    step(deployment)
    assert deployment.state == State.STOPPED
    assert FleetHost.objects.get().state == state
    assert offered() is (state == "ready")


def test_a_label_that_nobody_knows_is_wiped_after_two_sightings(host: FleetHost, settings: Settings) -> None:
    settings.ORPHAN_GRACE_SECONDS = 0
    stray = f"{label_prefix()}{'0' * 31}1"
    foreign = f"arrakis-elsewhere-{'0' * 31}2"
    for label in (stray, foreign):
        machines.claim(access(host), label, attempts.public_key(attempts.new_private_key()))
    sweeps.machines()
    assert machines.exists(access(host), stray)
    sweeps.machines()
    assert not machines.exists(access(host), stray)
    assert machines.exists(access(host), foreign)  # another installation's
    machines.wipe(access(host), foreign)


def test_a_machine_whose_folder_is_gone_is_lost(host: FleetHost, deployment: Deployment) -> None:
    step(deployment, 2)
    machine = machine_of(deployment)
    Machine.objects.update(asked_at=machine.asked_at - sweeps.SETTLED_AFTER)
    machines.wipe(access(host), machine.label)
    for _ in range(2):
        sweeps.machines()
    deployment.refresh_from_db()
    assert (deployment.state, deployment.reason_code) == (State.FAILED, "machine_lost")
    assert "machine_lost" in codes(deployment)
    assert release(machine).state == MachineState.GONE
    assert FleetHost.objects.get().state == FleetHost.State.READY
