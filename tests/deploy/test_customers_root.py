"""A customer with root on the machine: engines killed, frozen, taken away; what we do, and who pays for it."""

from __future__ import annotations

from datetime import timedelta

import asyncssh
import pytest

from arrakis import clock
from catalog.models import FleetHost
from deploy import metering_checks, presenter, services
from deploy.ledger import checks
from deploy.ledger import services as ledger
from deploy.machine.ssh import Target, connect
from deploy.models import Deployment, Machine, MachineSshKey, Replica, ReplicaStatus
from deploy.states import State
from tests.deploy.rentals import Customer, a_customer, a_quote, a_request, codes
from tests.deploy.world import DemoHost, World


class Inside:
    """The customer's own way in, with their own key, at what the product tells them."""

    def __init__(self, deployment: Deployment, key: asyncssh.SSHKey) -> None:
        ssh = presenter.describe(deployment).ssh
        assert ssh is not None
        private = key.export_private_key().decode()
        self.target = Target(ssh.host, ssh.port, ssh.user, ssh.host_key, private)
        self.label = Machine.objects.get().label

    def run(self, command: str) -> str:
        with connect(self.target) as session:
            return session.run(command).stdout.decode()

    def signal_engine(self, name: str) -> None:
        """To the process that listens on the engine's port, however its supervisor tries to keep it."""
        port = ReplicaStatus.objects.get().engine_port
        self.run(
            f"for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline 2>/dev/null"
            f" | grep -q -- '--por[t] {port} ' && kill -{name} ${{p#/proc/}}; done; true"
        )


@pytest.fixture
def customer(committed: None) -> Customer:
    return a_customer()


@pytest.fixture
def key() -> asyncssh.SSHKey:
    return asyncssh.generate_private_key("ssh-ed25519")


@pytest.fixture
def deployment(world: World, rentable: str, customer: Customer, key: asyncssh.SSHKey) -> Deployment:
    world.start("tunnels", "-m", "deploy.tunnels")
    world.start("worker", "-m", "tests.deploy.thin_worker")
    quote = a_quote(customer, FleetHost.objects.get().gpu, model=rentable)
    made = a_request(customer, quote, ssh_keys=[key.export_public_key().decode()])
    world.wait("running", lambda: is_in(made, State.RUNNING))
    assert MachineSshKey.objects.get().installed_at is not None
    return made


def is_in(deployment: Deployment, *states: str) -> bool:
    deployment.refresh_from_db()
    return deployment.state in states


def test_a_killed_engine_comes_back_and_goes_on(
    world: World, rented_host: DemoHost, deployment: Deployment, key: asyncssh.SSHKey, customer: Customer
) -> None:
    assert is_in(deployment, State.RUNNING)
    Inside(deployment, key).signal_engine("KILL")
    world.wait("the recovery", lambda: "recovered" in codes(deployment))
    assert is_in(deployment, State.RUNNING)
    services.restart(deployment=deployment, actor=customer.user)
    world.wait("the restart", lambda: codes(deployment).count("running") == 2)
    assert Replica.objects.get().restart_asked_at is None
    over(world, rented_host, deployment)


def test_a_frozen_engine_is_restarted(
    world: World, rented_host: DemoHost, deployment: Deployment, key: asyncssh.SSHKey
) -> None:
    Inside(deployment, key).signal_engine("STOP")
    world.wait("its illness", lambda: "unhealthy" in codes(deployment))
    Replica.objects.filter(state=State.UNHEALTHY).update(state_since=clock.now() - timedelta(seconds=90))
    world.wait("the recovery", lambda: "recovered" in codes(deployment))
    over(world, rented_host, deployment)


def test_what_we_put_there_is_gone_and_its_customer_pays(
    world: World, rented_host: DemoHost, deployment: Deployment, key: asyncssh.SSHKey, customer: Customer
) -> None:
    inside = Inside(deployment, key)
    charged_from = Machine.objects.get().charged_from
    assert charged_from is not None
    served = charged_from + timedelta(seconds=2)
    world.wait("two seconds of service", lambda: ReplicaStatus.objects.filter(seen_at__gt=served).exists())
    inside.run(f"rm -rf $HOME/arrakis/{inside.label} /var/lib/arrakis/{inside.label}")
    inside.signal_engine("KILL")
    world.wait("its illness", lambda: is_in(deployment, State.UNHEALTHY))
    Replica.objects.update(state_since=clock.now() - timedelta(minutes=11))
    world.wait("the end", lambda: is_in(deployment, State.FAILED))
    assert deployment.fault == "customer"
    assert 0 < 10 - ledger.balance(customer.workspace.pk).available < 1
    world.wait("the release", lambda: FleetHost.objects.get().state == FleetHost.State.READY)
    assert rented_host.left(inside.label) == []
    assert checks.check() == [] == metering_checks.check()


def over(world: World, rented_host: DemoHost, deployment: Deployment) -> None:
    services.stop(deployment=deployment, actor=None)
    world.wait("the stop", lambda: is_in(deployment, State.STOPPED))
    assert rented_host.left(Machine.objects.get().label) == []
    assert checks.check() == [] == metering_checks.check()
