from __future__ import annotations

from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import IntegrityError, transaction
from django.db.models import F

from deploy import metering, metering_checks
from deploy.models import Deployment, Machine, Window
from deploy.states import MachineState, State
from tests.deploy.conftest import DatabaseClock
from tests.deploy.shop import a_deployment, a_machine, a_workspace

pytestmark = pytest.mark.django_db


@pytest.fixture
def machine(db_clock: DatabaseClock) -> Machine:
    deployment = a_deployment(a_workspace(paid="2", granted="0.1"))
    metering.hold_for_start(deployment)
    machine = a_machine(deployment)
    metering.begin(machine)
    db_clock.forward(290)
    metering.buy_due()
    return machine


def ledger_check() -> str:
    out = StringIO()
    call_command("ledger_check", stdout=out)
    return out.getvalue()


def test_the_sums_when_all_is_well(machine: Machine) -> None:
    assert machine.charged_from is not None
    metering.end(machine, used_until=machine.charged_from + timedelta(seconds=100))
    sums = dict(line.split() for line in ledger_check().splitlines())
    assert sums == {
        "granted": "0.050000",
        "held": "0.300000",
        "paid": "1.740000",
        "receivable": "-2.000000",
        "revenue": "0.010000",
        "writeoff": "-0.100000",
        "total": "0.000000",
    }


def test_it_says_what_is_wrong_and_exits_1(machine: Machine) -> None:
    Machine.objects.filter(pk=machine.pk).update(state=MachineState.GONE)
    err = StringIO()
    with pytest.raises(CommandError) as failed:
        call_command("ledger_check", stderr=err)
    assert failed.value.returncode == 1
    assert err.getvalue() == f"machine {machine.pk}: gone or settled, with windows that are not\n"


def gone_without_settling(machine: Machine) -> None:
    Machine.objects.filter(pk=machine.pk).update(state=MachineState.LOST)


def hold_forgotten(machine: Machine) -> None:
    metering.end(machine, used_until=machine.charged_from)  # type: ignore[arg-type]
    Deployment.objects.filter(quote_id=machine.quote_id).update(state=State.FAILED)


def gap(machine: Machine) -> None:
    Window.objects.filter(machine=machine, n=2).update(starts_at=F("starts_at") + timedelta(seconds=1))


def longer_than_paid(machine: Machine) -> None:
    Window.objects.filter(machine=machine, n=2).update(ends_at=F("ends_at") + timedelta(seconds=1))


def window_lost(machine: Machine) -> None:
    Window.objects.filter(machine=machine, n=2).delete()


def bought_time_moved(machine: Machine) -> None:
    Machine.objects.filter(pk=machine.pk).update(charged_until=F("charged_until") + timedelta(hours=1))


def refunded_in_name_only(machine: Machine) -> None:
    metering.end(machine, used_until=machine.charged_until)  # type: ignore[arg-type]
    Machine.objects.filter(pk=machine.pk).update(refunded_at=machine.settled_at)


@pytest.mark.parametrize(
    ("break_it", "said"),
    [
        (gone_without_settling, "gone or settled, with windows that are not"),
        (hold_forgotten, "ended, still holds"),
        (gap, "the one before it ended at"),
        (longer_than_paid, "the ledger took"),
        (window_lost, "charged for a window that is not there"),
        (bought_time_moved, "its bought time is not that of its windows"),
        (refunded_in_name_only, "refunded, but not all of it"),
    ],
)
def test_each_kind_of_disorder_is_found(machine: Machine, break_it, said: str) -> None:  # type: ignore[no-untyped-def]
    assert metering_checks.check() == []
    break_it(machine)
    assert said in "\n".join(metering_checks.check())


def test_windows_of_one_machine_cannot_overlap(machine: Machine) -> None:
    with pytest.raises(IntegrityError, match="window_disjoint"), transaction.atomic():
        Window.objects.filter(machine=machine, n=2).update(starts_at=F("starts_at") - timedelta(seconds=1))
