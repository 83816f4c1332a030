"""Steps, one by one: renting with its unclear answers, deadlines, failures and who pays for them."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest
from django.db.models import F

from arrakis import clock
from deploy import reconcile, releases, services
from deploy.ledger import services as ledger
from deploy.models import Attempt, Deployment, Machine, MachineSshKey, Replica
from deploy.providers import PROVIDERS
from deploy.states import MachineState, State
from deploy.steps import base, rent
from tests.deploy.rentals import (
    PUBLIC_KEY,
    Customer,
    a_cloud_offer,
    a_customer,
    a_gpu,
    a_model,
    a_quote,
    a_request,
    codes,
    machine_of,
    past_deadline,
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
def customer(cloud: FakeCloud) -> Customer:
    a_model()
    return a_customer()


@pytest.fixture
def deployment(customer: Customer) -> Deployment:
    gpu = a_gpu()
    a_cloud_offer(gpu, cost="0.40")
    a_cloud_offer(gpu, cost="0.40", region="two")
    return a_request(customer, a_quote(customer, gpu), ssh_keys=[PUBLIC_KEY])


def release(machine: Machine) -> Machine:
    Machine.objects.filter(pk=machine.pk).update(due_at=F("asked_at"))
    releases.step(machine.pk)
    machine.refresh_from_db()
    return machine


class TestRenting:
    def test_a_machine_is_created_once(self, cloud: FakeCloud, deployment: Deployment) -> None:
        step(deployment, 2)
        assert deployment.state == State.BOOTING
        assert cloud.created == [machine_of(deployment).label]
        assert machine_of(deployment).state == MachineState.CREATED

    def test_an_answer_that_was_lost_is_found_by_its_label(self, cloud: FakeCloud, deployment: Deployment) -> None:
        cloud.script = ["lost"]
        step(deployment, 2)
        assert machine_of(deployment).state == MachineState.UNKNOWN
        step(deployment)
        assert deployment.state == State.BOOTING
        assert len(cloud.created) == 1

    def test_only_two_looks_in_vain_allow_another_create(self, cloud: FakeCloud, deployment: Deployment) -> None:
        cloud.script = ["dead"]
        step(deployment, 2)
        step(deployment)
        assert machine_of(deployment).state == MachineState.UNKNOWN
        step(deployment)
        assert machine_of(deployment).state == MachineState.INTENT
        step(deployment)
        assert cloud.created == [machine_of(deployment).label]

    def test_what_cannot_be_looked_at_proves_nothing(self, cloud: FakeCloud, deployment: Deployment) -> None:
        cloud.script, cloud.blind = ["lost"], True
        step(deployment, 6)
        assert machine_of(deployment).state == MachineState.UNKNOWN
        assert len(cloud.created) == 1

    def test_a_crash_before_the_answer_makes_no_second_machine(
        self, cloud: FakeCloud, deployment: Deployment, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def crash(work: base.Work, rented: object) -> None:
            raise RuntimeError("the worker dies here")

        step(deployment)
        with monkeypatch.context() as patch:
            patch.setattr(rent, "_rented", crash)
            with pytest.raises(RuntimeError):
                step(deployment)
        step(deployment)
        assert len(cloud.created) == 1
        assert deployment.state == State.BOOTING

    def test_a_refusal_takes_the_next_offer(self, cloud: FakeCloud, deployment: Deployment) -> None:
        cloud.script = ["refuse"]
        step(deployment, 2)
        assert deployment.state == State.RENTING
        assert [attempt.outcome for attempt in Attempt.objects.order_by("n")] == ["refused", "open"]
        step(deployment)
        assert deployment.state == State.BOOTING
        assert "next_offer" in codes(deployment)

    def test_sold_out_everywhere_fails_and_returns_everything(self, cloud: FakeCloud, deployment: Deployment) -> None:
        cloud.script = ["refuse", "refuse"]
        step(deployment, 3)
        assert (deployment.state, deployment.reason_code, deployment.fault) == (State.FAILED, "sold_out", "provider")
        assert ledger.balance(deployment.workspace_id).available == 10
        assert set(Machine.objects.values_list("state", flat=True)) == {MachineState.RELEASING}

    def test_a_price_above_the_ceiling_is_not_taken(self, cloud: FakeCloud, deployment: Deployment) -> None:
        cloud.cost = Decimal("0.41")
        step(deployment, 2)
        first = Machine.objects.order_by("asked_at")[0]
        assert first.state == MachineState.RELEASING
        assert first.cost_per_hour == Decimal("0.41")
        assert release(first).state == MachineState.GONE
        assert cloud.released_labels == [first.label]

    def test_a_dearer_offer_is_never_the_next(self, cloud: FakeCloud, customer: Customer) -> None:
        gpu = a_gpu()
        a_cloud_offer(gpu, cost="0.40")
        a_cloud_offer(gpu, cost="0.60")
        deployment = a_request(customer, a_quote(customer, gpu))
        cloud.script = ["refuse"]
        step(deployment, 2)
        assert deployment.state == State.FAILED


class TestDeadlines:
    def test_a_machine_that_never_answers_is_given_up(self, cloud: FakeCloud, deployment: Deployment) -> None:
        step(deployment, 2)
        step(deployment)
        assert deployment.state == State.BOOTING
        assert replica_of(deployment).tries == 1
        past_deadline(deployment)
        step(deployment)
        assert deployment.state == State.RENTING  # the other offer
        step(deployment)
        past_deadline(deployment)
        step(deployment)
        assert (deployment.state, deployment.reason_code) == (State.FAILED, "host_unreachable")
        assert ledger.balance(deployment.workspace_id).available == 10

    def test_waiting_grows(self, cloud: FakeCloud, deployment: Deployment) -> None:
        step(deployment, 2)
        waits = []
        for _ in range(4):
            step(deployment)
            waits.append((replica_of(deployment).due_at - clock.now()).total_seconds())
        assert waits == sorted(waits)
        assert waits[-1] > 4

    def test_a_step_that_surprises_is_given_back(
        self, cloud: FakeCloud, deployment: Deployment, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def surprise(work: base.Work) -> base.Outcome:
            raise ZeroDivisionError

        monkeypatch.setitem(reconcile.STEPS, State.REQUESTED, surprise)
        with pytest.raises(ZeroDivisionError):
            step(deployment)
        row = replica_of(deployment)
        assert row.lease_token is None
        assert row.due_at > clock.now() + timedelta(seconds=20)


class TestStopping:
    def test_it_is_stopped_when_the_absence_is_proven(self, cloud: FakeCloud, deployment: Deployment) -> None:
        step(deployment, 2)
        cloud.stubborn = 2
        services.stop(deployment=deployment, actor=None)
        step(deployment, 2)
        machine = machine_of(deployment)
        assert deployment.state == State.STOPPING
        for _ in range(2):
            assert release(machine).state == MachineState.RELEASING
        assert machine.tries == 2
        assert release(machine).state == MachineState.GONE
        assert machine.absence_proven_at is not None
        step(deployment)
        assert deployment.state == State.STOPPED
        assert cloud.machines == {}

    @pytest.mark.parametrize("steps", [0, 1, 2, 3])
    def test_from_any_state(self, cloud: FakeCloud, deployment: Deployment, steps: int) -> None:
        step(deployment, steps)
        services.stop(deployment=deployment, actor=None)
        step(deployment)
        release(machine_of(deployment))
        step(deployment)
        assert deployment.state == State.STOPPED
        assert cloud.machines == {}
        assert ledger.balance(deployment.workspace_id).available == 10

    def test_a_stop_during_a_create_leaves_nothing_behind(
        self, cloud: FakeCloud, deployment: Deployment, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        create = cloud.create

        def stopped_meanwhile(machine: Machine, public_key: str) -> object:
            rented = create(machine, public_key)
            services.stop(deployment=deployment, actor=None)
            return rented

        monkeypatch.setattr(cloud, "create", stopped_meanwhile)
        step(deployment, 2)
        assert deployment.state == State.STOPPING
        assert cloud.machines
        step(deployment)
        release(machine_of(deployment))
        step(deployment)
        assert deployment.state == State.STOPPED
        assert cloud.machines == {}

    def test_a_machine_that_is_still_there_after_a_day_is_told(self, cloud: FakeCloud, deployment: Deployment) -> None:
        step(deployment, 2)
        cloud.stubborn = 3
        services.stop(deployment=deployment, actor=None)
        step(deployment)
        machine = machine_of(deployment)
        Machine.objects.filter(pk=machine.pk).update(release_asked_at=clock.now() - timedelta(hours=25))
        release(machine)
        release(machine)
        assert codes(deployment).count("release_overdue") == 1
        assert machine.state == MachineState.RELEASING


class TestLettingIn:
    def reached(self, deployment: Deployment) -> None:
        step(deployment, 2)
        Machine.objects.update(state=MachineState.READY, ready_at=clock.now())
        Replica.objects.update(state=State.INSTALLING)
        Deployment.objects.update(state=State.INSTALLING)

    def test_start_up_is_free_until_the_allowance_is_over(self, cloud: FakeCloud, deployment: Deployment) -> None:
        self.reached(deployment)
        step(deployment)
        assert machine_of(deployment).charged_from is None
        Deployment.objects.update(free_until=clock.now())
        step(deployment)
        assert machine_of(deployment).charged_from is not None
        assert "charging_began" in codes(deployment)

    def test_keys_are_installed_only_once_it_is_charged(
        self, cloud: FakeCloud, customer: Customer, deployment: Deployment, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        let_in: list[dict[str, str]] = []
        monkeypatch.setattr(
            "deploy.machine.host.install_customer_keys", lambda target, label, keys: let_in.append(dict(keys))
        )
        self.reached(deployment)
        step(deployment)
        assert let_in == []
        services.let_in(deployment=deployment, actor=customer.user)
        step(deployment)
        assert machine_of(deployment).charged_from is not None
        assert let_in == []
        step(deployment)
        assert [list(keys.values()) for keys in let_in] == [[" ".join(PUBLIC_KEY.split()[:2])]]
        assert MachineSshKey.objects.get().installed_at is not None

    def test_a_failure_of_the_providers_returns_what_was_charged(
        self, cloud: FakeCloud, customer: Customer, deployment: Deployment
    ) -> None:
        self.reached(deployment)
        services.let_in(deployment=deployment, actor=customer.user)
        step(deployment)
        past_deadline(deployment)
        step(deployment)
        assert deployment.state == State.FAILED
        assert deployment.fault == "provider"
        assert ledger.balance(deployment.workspace_id).available == 10

    def test_with_root_inside_what_was_charged_stands(
        self, cloud: FakeCloud, customer: Customer, deployment: Deployment
    ) -> None:
        self.reached(deployment)
        services.let_in(deployment=deployment, actor=customer.user)
        step(deployment)
        MachineSshKey.objects.update(installed_at=clock.now())
        past_deadline(deployment)
        step(deployment)
        assert (deployment.state, deployment.fault) == (State.FAILED, "customer")
