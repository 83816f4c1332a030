"""The nets: lost messages, orphans at the provider, machines that are gone, and money that ran out."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest
from django.db import connection
from pytest_django import DjangoCaptureOnCommitCallbacks, Settings

from arrakis import clock
from arrakis.clock import ClockTimestamp
from deploy import services, sweeps, wake
from deploy.ledger import services as ledger
from deploy.models import Deployment, Machine, MachineSshKey, Orphan, Replica
from deploy.providers import PROVIDERS
from deploy.providers.base import Rented
from deploy.providers.fleet import label_prefix
from deploy.states import MachineState, State
from tests.deploy.rentals import (
    PUBLIC_KEY,
    a_cloud_offer,
    a_customer,
    a_gpu,
    a_model,
    a_quote,
    a_request,
    codes,
    machine_of,
    replica_of,
    step,
)
from tests.fakes.cloud import FakeCloud

pytestmark = pytest.mark.django_db


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch) -> FakeCloud:
    fake = FakeCloud()
    monkeypatch.setitem(PROVIDERS, "cloud", fake)
    return fake


@pytest.fixture
def deployment(cloud: FakeCloud) -> Deployment:
    a_model()
    gpu, customer = a_gpu(), a_customer()
    a_cloud_offer(gpu)
    return step(a_request(customer, a_quote(customer, gpu), ssh_keys=[PUBLIC_KEY]), 2)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    messages: list[str] = []
    monkeypatch.setattr(wake, "_send", lambda task, pk: messages.append(f"{task} {pk}"))
    return messages


class TestDue:
    def tell(self, capture: DjangoCaptureOnCommitCallbacks) -> int:
        with capture(execute=True):
            return sweeps.due()

    def test_what_nobody_was_told_of_is_told_once(
        self,
        deployment: Deployment,
        sent: list[str],
        django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
    ) -> None:
        pk = replica_of(deployment).pk
        Replica.objects.update(due_at=ClockTimestamp(), hinted_until=None)
        assert self.tell(django_capture_on_commit_callbacks) == 1
        assert self.tell(django_capture_on_commit_callbacks) == 0
        assert sent == [f"deploy.tasks.advance {pk}"]
        Replica.objects.update(hinted_until=clock.now() - timedelta(seconds=1))  # that message was lost
        assert self.tell(django_capture_on_commit_callbacks) == 1

    def test_what_a_worker_holds_is_not(
        self,
        deployment: Deployment,
        sent: list[str],
        django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
    ) -> None:
        Replica.objects.update(due_at=ClockTimestamp(), lease_until=clock.now() + timedelta(minutes=1))
        assert self.tell(django_capture_on_commit_callbacks) == 0

    def test_machines_to_be_released_are_told_too(
        self,
        deployment: Deployment,
        sent: list[str],
        django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
    ) -> None:
        services.stop(deployment=deployment, actor=None)
        step(deployment)
        self.tell(django_capture_on_commit_callbacks)
        assert f"deploy.tasks.release {machine_of(deployment).pk}" in sent


class TestOrphans:
    LABEL = f"{label_prefix()}00000000000000000000000000000001"

    def put(self, cloud: FakeCloud, label: str) -> None:
        cloud.machines[label] = Rented("i-orphan", "127.0.0.1", 9, "root")

    def test_seen_twice_and_after_its_grace_it_is_released(
        self, cloud: FakeCloud, deployment: Deployment, settings: Settings
    ) -> None:
        settings.ORPHAN_GRACE_SECONDS = 0
        self.put(cloud, self.LABEL)
        sweeps.machines()
        assert self.LABEL in cloud.machines
        sweeps.machines()
        assert self.LABEL not in cloud.machines
        assert Orphan.objects.get().released_at is not None
        assert machine_of(deployment).label in cloud.machines

    def test_within_its_grace_it_is_left_alone(self, cloud: FakeCloud, deployment: Deployment) -> None:
        self.put(cloud, self.LABEL)
        for _ in range(3):
            sweeps.machines()
        assert self.LABEL in cloud.machines
        assert Orphan.objects.get().sightings == 3

    def test_a_sighting_that_was_not_repeated_is_forgotten(self, cloud: FakeCloud, deployment: Deployment) -> None:
        self.put(cloud, self.LABEL)
        sweeps.machines()
        del cloud.machines[self.LABEL]
        sweeps.machines()
        assert not Orphan.objects.exists()

    def test_a_machine_that_came_back_after_its_release_is_an_orphan(
        self, cloud: FakeCloud, deployment: Deployment, settings: Settings
    ) -> None:
        settings.ORPHAN_GRACE_SECONDS = 0
        label = machine_of(deployment).label
        Machine.objects.update(state=MachineState.GONE)
        for _ in range(2):
            sweeps.machines()
        assert label in cloud.released_labels


class TestLostMachines:
    def age(self, deployment: Deployment) -> None:
        Machine.objects.update(asked_at=clock.now() - timedelta(minutes=5))

    def test_missing_from_two_complete_lists_is_lost_and_returned(
        self, cloud: FakeCloud, deployment: Deployment
    ) -> None:
        self.age(deployment)
        cloud.machines.clear()
        sweeps.machines()
        deployment.refresh_from_db()
        assert deployment.state == State.BOOTING
        sweeps.machines()
        deployment.refresh_from_db()
        assert (deployment.state, deployment.reason_code, deployment.fault) == (
            State.FAILED,
            "machine_lost",
            "provider",
        )
        assert ledger.balance(deployment.workspace_id).available == 10

    def test_lists_that_cannot_be_read_prove_nothing(self, cloud: FakeCloud, deployment: Deployment) -> None:
        self.age(deployment)
        cloud.machines.clear()
        cloud.blind = True
        for _ in range(4):
            sweeps.machines()
        deployment.refresh_from_db()
        assert deployment.state == State.BOOTING

    def test_one_miss_is_forgotten_when_it_is_seen_again(self, cloud: FakeCloud, deployment: Deployment) -> None:
        self.age(deployment)
        there = dict(cloud.machines)
        for _ in range(3):
            cloud.machines.clear()
            sweeps.machines()
            cloud.machines.update(there)
            sweeps.machines()
        deployment.refresh_from_db()
        assert deployment.state == State.BOOTING

    def test_a_young_machine_may_not_be_listed_yet(self, cloud: FakeCloud, deployment: Deployment) -> None:
        cloud.machines.clear()
        for _ in range(3):
            sweeps.machines()
        deployment.refresh_from_db()
        assert deployment.state == State.BOOTING

    def test_root_on_a_host_that_answers_for_itself_cannot_make_itself_lost(
        self, cloud: FakeCloud, deployment: Deployment, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(FakeCloud, "machine_answers", True)
        MachineSshKey.objects.update(installed_at=clock.now(), machine=machine_of(deployment))
        self.age(deployment)
        cloud.machines.clear()
        for _ in range(2):
            sweeps.machines()
        deployment.refresh_from_db()
        assert (deployment.state, deployment.fault) == (State.FAILED, "customer")


def test_the_end_of_a_term_is_told_once_and_renewed(deployment: Deployment) -> None:
    price = deployment.price_per_hour
    Deployment.objects.update(price_until=clock.now() + timedelta(days=6))
    for _ in range(2):
        sweeps.terms()
    assert codes(deployment).count("price_term_ends") == 1
    Deployment.objects.update(price_until=clock.now())
    for _ in range(2):
        sweeps.terms()
    assert codes(deployment).count("price_renewed") == 1
    deployment.refresh_from_db()
    assert deployment.price_per_hour == price
    assert deployment.price_until > clock.now() + timedelta(days=29)


def test_two_sweeps_at_once_are_one(committed: None) -> None:
    got: list[bool] = []

    def other() -> None:
        with sweeps.alone("due") as alone:
            got.append(alone)
        connection.close()

    with sweeps.alone("due") as alone:
        assert alone
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert got == [False]
    with sweeps.alone("due") as alone:
        assert alone
