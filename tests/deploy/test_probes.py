"""The probes: for this machine, or for who has the token."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from tests.deploy.shop import a_deployment, a_workspace

pytestmark = pytest.mark.django_db


def test_metrics_count_what_runs(client: Client) -> None:
    a_deployment(a_workspace())
    answer = client.get("/metrics")
    assert answer.headers["Content-Type"].startswith("text/plain")
    lines = answer.content.decode().splitlines()
    assert 'arrakis_deployments{state="running"} 1' in lines
    assert any(line.startswith("arrakis_step_delay_seconds ") for line in lines)


@pytest.mark.parametrize("headers", [{"REMOTE_ADDR": "10.0.0.1"}, {"HTTP_X_FORWARDED_FOR": "127.0.0.1"}])
def test_metrics_are_not_for_others(client: Client, headers: dict[str, str]) -> None:
    assert client.get("/metrics", **headers).status_code == 404  # type: ignore[arg-type]


def test_a_token_opens_them_and_nothing_else_does(client: Client, settings: Any) -> None:
    settings.METRICS_TOKEN = "secret"
    assert client.get("/metrics").status_code == 404
    assert client.get("/metrics", headers={"Authorization": "Bearer wrong"}).status_code == 404
    assert client.get("/metrics", headers={"Authorization": "Bearer secret"}).status_code == 200


@pytest.mark.parametrize("address", ["/healthz", "/readyz"])
def test_the_others_say_ok(client: Client, address: str) -> None:
    assert client.get(address).json() == {"status": "ok"}
