"""A worker killed at every step, right before and right after what it asks of the world: nothing is lost or doubled."""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator

import pytest

from deploy import failpoints, metering_checks, services
from deploy.ledger import checks
from deploy.models import Attempt, Deployment, Machine, MachineSshKey, Window
from deploy.states import MachineState, State
from tests.deploy.rentals import (
    PUBLIC_KEY,
    Customer,
    a_customer,
    a_request,
    codes,
)
from tests.deploy.world import DemoHost, World

UP = ("renting", "booting", "checking", "installing", "downloading", "loading", "running", "keys")
AGAIN = ("restarting",)
DOWN = ("stopping", "releasing")


def both(steps: tuple[str, ...]) -> list[str]:
    return [f"{step}:{moment}_call" for step in steps for moment in ("before", "after")]


@pytest.fixture
def customer(committed: None) -> Customer:
    return a_customer()


@pytest.fixture
def started(world: World, rentable: str, customer: Customer) -> Iterator[Deployment]:
    world.start("tunnels", "-m", "deploy.tunnels")
    quote = services.quote(
        workspace=customer.workspace,
        user=customer.user,
        model=rentable,
        engine="llamacpp",
        gpu="cpu",
        count=1,
    )
    yield a_request(customer, quote, ssh_keys=[PUBLIC_KEY])


def die_at(world: World, failpoint: str) -> None:
    """A worker runs until it reaches the failpoint, where it is killed."""
    worker = world.start("worker", "-m", "tests.deploy.thin_worker", ARRAKIS_FAILPOINT=failpoint)
    status = world.wait(f"the worker's death at {failpoint}", lambda: -(worker.poll() or 0))
    assert status == signal.SIGKILL, world.said("worker")


def now(deployment: Deployment, state: State) -> bool:
    deployment.refresh_from_db()
    assert deployment.state in (state, *STATES_ON_THE_WAY), (deployment.reason_code, deployment.reason_params)
    return deployment.state == state


STATES_ON_THE_WAY = tuple(state for state in State if state != State.FAILED)


def test_the_walk_covers_every_step_that_calls_out() -> None:
    assert {*UP, *AGAIN, *DOWN} == set(failpoints.STEPS)


def test_every_step_both_ways(world: World, rented_host: DemoHost, started: Deployment, customer: Customer) -> None:
    for failpoint in both(UP):
        die_at(world, failpoint)
    world.start("worker", "-m", "tests.deploy.thin_worker")
    world.wait("running", lambda: now(started, State.RUNNING))
    assert MachineSshKey.objects.get().installed_at is not None
    world.stop("worker")
    services.restart(deployment=started, actor=customer.user)
    for failpoint in both(AGAIN):
        die_at(world, failpoint)
    world.start("worker", "-m", "tests.deploy.thin_worker")
    world.wait("running again", lambda: codes(started).count("running") == 2)
    world.stop("worker")
    services.stop(deployment=started, actor=customer.user)
    for failpoint in both(DOWN):
        die_at(world, failpoint)
    world.start("worker", "-m", "tests.deploy.thin_worker")
    world.wait("the stop", lambda: now(started, State.STOPPED))
    assert_nothing_is_lost_or_doubled(rented_host)


def assert_nothing_is_lost_or_doubled(rented_host: DemoHost) -> None:
    machine = Machine.objects.get()
    assert machine.state == MachineState.GONE
    assert Attempt.objects.count() == 1
    assert rented_host.claims() == [machine.label]
    windows = list(Window.objects.order_by("n"))
    assert windows
    assert windows[0].starts_at == machine.charged_from
    for before, after in itertools.pairwise(windows):
        assert before.ends_at == after.starts_at
    assert checks.check() == []
    assert metering_checks.check() == []
    assert rented_host.left(machine.label) == []


def test_a_failpoint_kills_the_pool_and_its_parent() -> None:
    """A worker with a pool: the child hits the failpoint, and nobody is left to go on."""
    code = textwrap.dedent(
        """
        import os, sys, time
        from deploy import failpoints
        print(os.getpid(), flush=True)
        if os.fork() == 0:
            print(os.getpid(), flush=True)
            failpoints.hit("booting", "after")   # not this one
            failpoints.hit("booting", "before")
        time.sleep(60)
        """
    )
    worker = subprocess.run(
        [sys.executable, "-c", code],
        env={"ARRAKIS_FAILPOINT": "booting:before_call", "PYTHONPATH": "."},
        capture_output=True,
        timeout=30,
    )
    assert worker.returncode == -signal.SIGKILL
    assert len(worker.stdout.split()) == 2


def test_without_the_variable_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ARRAKIS_FAILPOINT", raising=False)
    for step in failpoints.STEPS:
        failpoints.hit(step, "before")
        failpoints.hit(step, "after")
