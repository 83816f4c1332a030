"""Leases: one worker at a time, and the result of one that lost its lease is dropped."""

from __future__ import annotations

import threading
from datetime import timedelta
from uuid import UUID

import pytest
from django.db import connection
from pytest_django import Settings

from arrakis.clock import ClockTimestamp
from deploy import claims, services, wake
from deploy.claims import StaleClaim
from deploy.models import Deployment, Replica
from deploy.providers import PROVIDERS
from deploy.states import TRANSITIONS, State
from tests.deploy.rentals import a_cloud_offer, a_customer, a_gpu, a_model, a_quote, a_request, replica_of
from tests.fakes.cloud import FakeCloud


@pytest.fixture
def deployment(clean_market: None, committed: None, monkeypatch: pytest.MonkeyPatch) -> Deployment:
    monkeypatch.setitem(PROVIDERS, "cloud", FakeCloud())
    monkeypatch.setattr(wake, "_send", lambda task, pk: None)
    a_model()
    gpu = a_gpu()
    a_cloud_offer(gpu)
    customer = a_customer()
    return a_request(customer, a_quote(customer, gpu))


def test_of_many_workers_one_gets_the_lease(deployment: Deployment) -> None:
    pk, got = replica_of(deployment).pk, []
    together = threading.Barrier(6)

    def worker() -> None:
        try:
            together.wait()
            if claims.take_replica(pk):
                got.append(pk)
        finally:
            connection.close()

    threads = [threading.Thread(target=worker) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == [pk]


def test_what_a_killed_worker_held_is_free_when_its_lease_ends(deployment: Deployment) -> None:
    pk = replica_of(deployment).pk
    first = claims.take_replica(pk)
    assert first is not None
    assert claims.take_replica(pk) is None
    Replica.objects.filter(pk=pk).update(lease_until=ClockTimestamp())
    second = claims.take_replica(pk)
    assert second is not None
    with pytest.raises(StaleClaim):
        claims.apply(first, tries=7)
    claims.apply(second, tries=1)
    assert Replica.objects.get(pk=pk).tries == 1


def test_a_result_for_a_state_that_moved_on_is_dropped(deployment: Deployment) -> None:
    claim = claims.take_replica(replica_of(deployment).pk)
    assert claim is not None
    services.stop(deployment=deployment, actor=None)
    with pytest.raises(StaleClaim):
        claims.apply(claim, state=State.RENTING)
    assert replica_of(deployment).state == State.STOPPING


def test_what_is_not_due_is_left_alone(deployment: Deployment) -> None:
    pk = replica_of(deployment).pk
    Replica.objects.filter(pk=pk).update(due_at=ClockTimestamp() + timedelta(minutes=1))
    assert claims.take_replica(pk) is None
    assert claims.take_replica(UUID(int=0)) is None


def test_a_lease_is_renewed_while_the_work_lasts(deployment: Deployment, settings: Settings) -> None:
    settings.LEASE_SECONDS = 1
    pk = replica_of(deployment).pk
    claim = claims.take_replica(pk)
    assert claim is not None
    begun = Replica.objects.get(pk=pk).lease_until
    assert begun is not None
    with claims.renewed(claim):
        for _ in range(200):
            now = Replica.objects.get(pk=pk).lease_until
            if now is not None and now > begun:
                break
            threading.Event().wait(0.05)
    renewed = Replica.objects.get(pk=pk).lease_until
    assert renewed is not None
    assert renewed > begun
    claims.apply(claim)


def test_every_state_says_where_it_may_go() -> None:
    assert set(TRANSITIONS) == set(State)
    assert not TRANSITIONS[State.STOPPED]
    assert not TRANSITIONS[State.FAILED]
    for state, following in TRANSITIONS.items():
        if following and state != State.STOPPING:
            assert {State.STOPPING, State.FAILED} <= following
