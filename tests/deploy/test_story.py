"""The whole story, every part real: from a quote by the API to an answer to OpenAI's own client, and back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any

import asyncssh
import httpx
import openai
import pytest

from arrakis.accounts import services as accounts
from deploy.ledger import checks
from deploy.ledger import services as ledger
from deploy.machine.ssh import Target, connect
from deploy.models import Machine
from tests.deploy.world import DemoHost, World

CREDIT = Decimal("5")


@dataclass
class Shop:
    """The running product as a customer's programs see it."""

    api: httpx.Client
    gateway_url: str
    world: World
    host: DemoHost

    def get(self, path: str) -> Any:
        answer = self.api.get(path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def post(self, path: str, body: Any = None, *, status: int = 201) -> Any:
        answer = self.api.post(path, json=body or {})
        assert answer.status_code == status, answer.text
        return answer.json()

    def client(self, key: str) -> openai.OpenAI:
        return openai.OpenAI(base_url=f"{self.gateway_url}/v1", api_key=key, max_retries=0, timeout=60)

    def available(self) -> Decimal:
        return Decimal(self.get("balance")["available"])

    def wait_for(self, deployment: str, state: str) -> Any:
        def look() -> Any:
            found = self.get(f"deployments/{deployment}")
            assert found["state"] != "failed", found
            return found if found["state"] == state else None

        return self.world.wait(f"state {state}", look, seconds=120)


@pytest.fixture
def shop(world: World, rented_host: DemoHost, rentable: str) -> Iterator[Shop]:
    user, workspace = accounts.create_customer(email="chani@example.com", password="a long pass phrase 7")
    _token, text = accounts.issue_api_token(workspace=workspace, user=user, name="story")
    ledger.credit(
        owner=workspace.pk, amount=CREDIT, kind="granted", entry_id="credit:story", reason="story", author=None
    )
    web, gateway = world.free_port(), world.free_port()
    world.settings |= {"GATEWAY_URL": f"http://127.0.0.1:{gateway}", "SITE_URL": f"http://127.0.0.1:{web}"}
    world.start("web", "-m", "uvicorn", "arrakis.asgi:application", "--port", str(web))
    world.start("gateway", "-m", "deploy.gateway", "--port", str(gateway))
    world.start("tunnels", "-m", "deploy.tunnels")
    world.start("worker", "-m", "celery", "-A", "arrakis", "worker", "--concurrency", "2", "--loglevel", "INFO")
    schedule = str(world.folder / "beat")
    world.start("beat", "-m", "celery", "-A", "arrakis", "beat", "--pidfile=", "--schedule", schedule)
    for port in (web, gateway):
        world.wait(f"an answer at {port}", partial(world.listens, port))
    headers = {"Authorization": f"Bearer {text}"}
    with httpx.Client(base_url=f"http://127.0.0.1:{web}/api/v1/", headers=headers, timeout=30) as api:
        yield Shop(api, f"http://127.0.0.1:{gateway}", world, rented_host)


def test_the_story(shop: Shop, rentable: str) -> None:
    own_key = asyncssh.generate_private_key("ssh-ed25519")
    quote = shop.post("quotes", {"model": rentable, "engine": "llamacpp", "gpu": "cpu", "count": 1})
    assert Decimal(quote["hold"]) == Decimal(quote["price_per_hour"])
    asked = {"quote": quote["id"], "ssh_keys": [own_key.export_public_key().decode()]}
    deployment = shop.post("deployments", asked)["id"]
    assert shop.post("deployments", asked)["id"] == deployment
    assert shop.available() == CREDIT - Decimal(quote["hold"])

    made = shop.post(f"deployments/{deployment}/keys", {"name": "story"})
    client = shop.client(made["key"])
    with pytest.raises(openai.APIStatusError) as early:
        say_hello(client, rentable)
    assert early.value.status_code == 503

    running = shop.wait_for(deployment, "running")
    assert [stage["status"] for stage in running["timeline"]] == ["done"] * len(running["timeline"])
    check_answers(client, rentable)
    check_refusals(shop, client, rentable)
    check_ssh(shop, deployment, own_key)
    check_charging(shop, deployment)

    assert shop.post(f"deployments/{deployment}/stop", status=200)["state"] in {"stopping", "stopped"}
    stopped = shop.wait_for(deployment, "stopped")
    check_end(shop, client, stopped, rentable)


def say_hello(client: openai.OpenAI, model: str) -> str:
    answer = client.chat.completions.create(
        model=model, messages=[{"role": "user", "content": "Say hello."}], max_tokens=8, temperature=0
    )
    return answer.choices[0].message.content or ""


def check_answers(client: openai.OpenAI, model: str) -> None:
    assert say_hello(client, model)
    assert say_hello(client, "default")
    assert model in [each.id for each in client.models.list()]
    chunks = list(
        client.chat.completions.create(
            model=model,
            messages=[{"role": "user", "content": "Count to three."}],
            max_tokens=8,
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    usage = chunks[-1].usage
    assert usage is not None
    assert usage.completion_tokens > 0


def check_refusals(shop: Shop, client: openai.OpenAI, model: str) -> None:
    with pytest.raises(openai.AuthenticationError):
        say_hello(shop.client("sk-ark-" + "x" * 40), model)
    with pytest.raises(openai.NotFoundError):
        say_hello(client, "acme/no-such-model")
    other = httpx.get(f"{shop.api.base_url}deployments", headers={"Authorization": "Bearer ark_wrong"})
    assert other.status_code == 401


def check_ssh(shop: Shop, deployment: str, own_key: asyncssh.SSHKey) -> None:
    """The customer's own key opens the machine, at the address and host key that the API tells."""
    ssh = shop.world.wait("SSH", lambda: shop.get(f"deployments/{deployment}")["ssh"])
    assert ssh["command"] == f"ssh -p {ssh['port']} {ssh['user']}@{ssh['host']}"
    private = own_key.export_private_key().decode()
    with connect(Target(ssh["host"], ssh["port"], ssh["user"], ssh["host_key"], private)) as session:
        assert session.run("echo $((6 * 7))").stdout.strip() == b"42"


def check_charging(shop: Shop, deployment: str) -> None:
    before = Decimal(shop.get(f"deployments/{deployment}")["cost"])
    shop.world.wait("the cost to grow", lambda: Decimal(shop.get(f"deployments/{deployment}")["cost"]) > before)
    assert shop.available() < CREDIT
    assert shop.get("entries")["results"]


def check_end(shop: Shop, client: openai.OpenAI, stopped: Any, model: str) -> None:
    cost = Decimal(stopped["cost"])
    assert Decimal(0) < cost < Decimal("0.05")
    balance = shop.get("balance")
    assert Decimal(balance["available"]) == CREDIT - cost
    assert Decimal(balance["held"]) == 0
    assert stopped["ssh"] is None
    assert stopped["reason_code"] == "stopped_by_customer"
    with pytest.raises(openai.APIStatusError) as late:
        say_hello(client, model)
    assert late.value.status_code in {404, 409, 503}
    machine = Machine.objects.get()
    assert machine.absence_proven_at is not None
    assert shop.host.left(machine.label) == []
    assert checks.check() == []
    events = [event["code"] for event in shop.get(f"deployments/{stopped['id']}/events")["results"]]
    assert events[0] == "requested"
    assert events[-1] == "stopped"
