"""The database goes away and comes back while the gateway serves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import openai
import pytest
from django.db import connection

from deploy.gateway import keys
from deploy.gateway.models import UsageHour
from tests.deploy.gateway.conftest import Running, Served, chat, until
from tests.fakes.engines import FakeEngine
from tests.fakes.outage import Way


@pytest.fixture
def way(committed: None, run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Way]:
    """The gateway's way to the database. Django's own connection, open already, does not take it."""
    connection.ensure_connection()
    settings = connection.settings_dict
    port = settings["PORT"] or "5432"
    name = f".s.PGSQL.{port}"
    with Way(run_dir / name, Path(settings["HOST"]) / name) as way:
        monkeypatch.setitem(settings, "HOST", str(run_dir))
        yield way


def test_known_keys_are_served_while_the_database_is_away(
    way: Way, served: Served, engine: FakeEngine, running: Running
) -> None:
    _key, unknown = keys.issue(workspace=served.deployment.workspace, name="unknown to the gateway")
    revoked, plaintext = keys.issue(workspace=served.deployment.workspace, name="revoked meanwhile")
    with running.client(served.plaintext) as known, running.client(unknown) as new, running.client(plaintext) as third:
        chat(known)
        chat(third)
        way.cut()
        chat(known)
        with pytest.raises(openai.InternalServerError) as caught:
            chat(new)
        assert (caught.value.status_code, caught.value.code) == (503, "try_later")
        keys.revoke(key=revoked)
        way.join()
        until(lambda: _is_closed(third))
        chat(new)
        chat(known)
    running.stop()
    assert sum(hour.requests for hour in UsageHour.objects.filter(key=served.key)) == 3


def _is_closed(client: openai.OpenAI) -> bool:
    try:
        chat(client)
    except openai.AuthenticationError as error:
        return error.code == "key_revoked"
    return False


def test_connections_ended_by_the_server_are_replaced(served: Served, engine: FakeEngine, running: Running) -> None:
    with running.client(served.plaintext) as client:
        chat(client)
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE application_name LIKE 'arrakis-gateway%%' AND datname = current_database()"
            )
        keys.revoke(key=served.key)
        until(lambda: _is_closed(client))
    _key, plaintext = keys.issue(workspace=served.deployment.workspace, name="new")
    with running.client(plaintext) as client:
        chat(client)
