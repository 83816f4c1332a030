"""Two at once: one wins, the other hears why; nothing is held, leased or made twice."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from django.db import connection
from pytest_django import Settings

from arrakis.errors import ArrakisError
from catalog.models import FleetHost
from deploy import services, wake
from deploy.ledger import services as ledger
from deploy.models import Deployment, Machine
from deploy.providers import PROVIDERS
from deploy.states import State
from tests.deploy.rentals import a_cloud_offer, a_customer, a_gpu, a_host, a_model, a_quote, a_request
from tests.fakes.cloud import FakeCloud

pytestmark = pytest.mark.usefixtures("clean_market", "committed")


@pytest.fixture(autouse=True)
def quiet(clean_market: None, committed: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PROVIDERS, "cloud", FakeCloud())
    monkeypatch.setattr(wake, "_send", lambda task, pk: None)


def at_once(*calls: Callable[[], object]) -> list[str]:
    """Run all together, each on a connection of its own; `ok` or the code of the error, sorted."""
    said: list[str] = []
    together = threading.Barrier(len(calls))

    def run(call: Callable[[], object]) -> None:
        try:
            together.wait()
            call()
            said.append("ok")
        except ArrakisError as error:
            said.append(error.code)
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sorted(said)


def test_two_requests_for_one_balance() -> None:
    a_model()
    gpu, customer = a_gpu(), a_customer(paid="0.50")
    for _ in range(2):
        a_cloud_offer(gpu)
    first, second = a_quote(customer, gpu), a_quote(customer, gpu)
    said = at_once(lambda: a_request(customer, first), lambda: a_request(customer, second))
    assert said == ["insufficient_balance", "ok"]
    assert Deployment.objects.count() == Machine.objects.count() == 1
    balance = ledger.balance(customer.workspace.pk)
    assert (str(balance.available), str(balance.held)) == ("0.100000", "0.400000")


def test_two_customers_for_the_last_host() -> None:
    a_model()
    gpu = a_gpu()
    host = a_host(gpu)
    one, two = a_customer(), a_customer()
    first, second = a_quote(one, gpu), a_quote(two, gpu)
    said = at_once(lambda: a_request(one, first), lambda: a_request(two, second))
    assert said == ["ok", "sold_out"]
    assert Machine.objects.filter(fleet_host=host).count() == 1
    assert FleetHost.objects.get(pk=host.pk).state == FleetHost.State.LEASED
    assert sorted(ledger.balance(each.workspace.pk).held > 0 for each in (one, two)) == [False, True]


def test_one_quote_asked_for_many_times_at_once() -> None:
    a_model()
    gpu, customer = a_gpu(), a_customer()
    a_cloud_offer(gpu)
    quote = a_quote(customer, gpu)
    made: list[object] = []
    said = at_once(*[lambda: made.append(a_request(customer, quote).pk) for _ in range(5)])
    assert said == ["ok"] * 5
    assert len(set(made)) == 1


def test_the_last_free_start_is_given_once(settings: Settings) -> None:
    settings.FREE_START_AT_ONCE = 1
    a_model()
    gpu, customer = a_gpu(), a_customer()
    for _ in range(2):
        a_cloud_offer(gpu)
    first, second = a_quote(customer, gpu), a_quote(customer, gpu)
    said = at_once(lambda: a_request(customer, first), lambda: a_request(customer, second))
    assert said == ["free_starts_at_once", "ok"]


def test_stopping_from_all_sides() -> None:
    a_model()
    gpu, customer = a_gpu(), a_customer()
    a_cloud_offer(gpu)
    deployment = a_request(customer, a_quote(customer, gpu))
    said = at_once(*[lambda: services.stop(deployment=deployment, actor=None) for _ in range(5)])
    assert said == ["ok"] * 5
    assert deployment.events.filter(code="stopped_by_customer").count() == 1
    assert Deployment.objects.get().state == State.STOPPING
    assert ledger.balance(customer.workspace.pk).available == 10
