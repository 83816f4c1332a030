"""The story by HTTP alone and with OpenAI's own client: quote, deploy, chat, pay by the second, stop."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import httpx
import openai
import pytest

from tests.e2e.conftest import Running, until

MODEL = "HuggingFaceTB/SmolLM2-135M-Instruct"
RUNNING_SECONDS = 150


class Shop:
    def __init__(self, product: Running) -> None:
        token = product.customer["api_token"]
        self.http = httpx.Client(
            base_url=f"{product.url}/api/v1/", headers={"Authorization": f"Bearer {token}"}, timeout=30
        )

    def get(self, path: str) -> dict[str, Any]:
        answer = self.http.get(path)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def post(self, path: str, data: dict[str, Any] | None = None, status: int = 201) -> dict[str, Any]:
        answer = self.http.post(path, json=data or {})
        assert answer.status_code == status, answer.text
        made: dict[str, Any] = answer.json()
        return made

    def available(self) -> Decimal:
        return Decimal(self.get("balance")["available"])

    def total(self) -> Decimal:
        balance = self.get("balance")
        return Decimal(balance["available"]) + Decimal(balance["held"])


def test_the_story(product: Running) -> None:
    shop = Shop(product)
    before = shop.total()
    quote = shop.post("quotes", {"model": MODEL, "engine": "llamacpp", "gpu": product.machine_gpu, "count": 1})
    made = shop.post("deployments", {"quote": quote["id"], "name": "story"})
    assert shop.available() == before - Decimal(quote["hold"])
    where = f"deployments/{made['id']}"
    try:
        until(lambda: _is_running(shop.get(where)), RUNNING_SECONDS, lambda: str(shop.get(where)))
        key = shop.post(f"{where}/keys", {"name": "story"})["key"]
        _chat(made["endpoint"], made["model"], key)
        _refusals(made["endpoint"], made["model"], key)
        until(lambda: Decimal(shop.get(where)["cost"]) > 0, 30)
    finally:
        shop.post(f"{where}/stop", status=200)
    until(lambda: shop.get(where)["state"] == "stopped", 60, lambda: str(shop.get(where)))
    _after_the_end(made["endpoint"], made["model"], key)
    cost = Decimal(shop.get(where)["cost"])
    assert 0 < cost < Decimal(quote["price_per_hour"])
    balance = shop.get("balance")
    assert Decimal(balance["held"]) == 0
    assert Decimal(balance["available"]) == before - cost
    check = product.manage("ledger_check")
    assert check.returncode == 0, check.stdout + check.stderr


def _is_running(deployment: dict[str, Any]) -> bool:
    assert deployment["state"] not in {"failed", "stopped"}, deployment
    return bool(deployment["state"] == "running")


def _chat(endpoint: str, model: str, key: str) -> None:
    client = openai.OpenAI(base_url=endpoint, api_key=key, max_retries=0)
    question: Any = [{"role": "user", "content": "Say hello."}]
    answer = until(lambda: _answered(client, model, question), 30)
    assert answer.choices[0].message.content
    assert answer.usage.completion_tokens > 0
    assert model in [each.id for each in client.models.list()]
    parts = list(
        client.chat.completions.create(
            model="default", messages=question, max_tokens=8, stream=True, stream_options={"include_usage": True}
        )
    )
    assert parts[-1].usage is not None
    assert parts[-1].usage.completion_tokens > 0


def _answered(client: openai.OpenAI, model: str, question: Any) -> Any:
    """A key reaches the gateways within a second or two; until then it is refused."""
    try:
        return client.chat.completions.create(model=model, messages=question, max_tokens=8)
    except openai.AuthenticationError:
        return None


def _refusals(endpoint: str, model: str, key: str) -> None:
    question: Any = [{"role": "user", "content": "Say hello."}]
    wrong = openai.OpenAI(base_url=endpoint, api_key=key[:-1] + ("a" if key[-1] != "a" else "b"), max_retries=0)
    with pytest.raises(openai.AuthenticationError):
        wrong.chat.completions.create(model=model, messages=question, max_tokens=8)
    right = openai.OpenAI(base_url=endpoint, api_key=key, max_retries=0)
    with pytest.raises(openai.NotFoundError):
        right.chat.completions.create(model="no/such-model", messages=question, max_tokens=8)


def _after_the_end(endpoint: str, model: str, key: str) -> None:
    client = openai.OpenAI(base_url=endpoint, api_key=key, max_retries=0)
    with pytest.raises(openai.APIStatusError) as caught:
        client.chat.completions.create(model=model, messages=[{"role": "user", "content": "Hello?"}], max_tokens=8)
    assert caught.value.status_code in {404, 409, 410, 503}
