"""llama.cpp for real, at the other end of a real tunnel, asked through the real gateway by the official client."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import openai
import pytest

from deploy.gateway import keys
from deploy.gateway.models import UsageHour
from deploy.models import Deployment
from tests.deploy.gateway.conftest import MESSAGES, until
from tests.deploy.gateway.conftest import Running as Gateway
from tests.deploy.gateway.test_processes import free_port
from tests.deploy.tunnels.conftest import Rented, Running, rent
from tests.fakes.hosts import FakeHost
from tests.fakes.llama import ALIAS, llama


@pytest.fixture(scope="module")
def engine_port() -> Iterator[int]:
    port = free_port()
    with llama(port):
        yield port


@pytest.fixture
def served(committed: None, run_dir: Path, engine_port: int, hints: list[UUID]) -> Iterator[Rented]:
    with FakeHost(engine_port) as host:
        rented = rent(host)
        Deployment.objects.filter(pk=rented.deployment.pk).update(repo_id=ALIAS, served_name=ALIAS)
        tunnels = Running()
        until(rented.socket.exists)
        yield rented
        tunnels.stop()


@pytest.fixture
def gateway(served: Rented) -> Iterator[Gateway]:
    running = Gateway().start()
    yield running
    running.stop()


@pytest.fixture
def key(served: Rented) -> str:
    return keys.issue(workspace=served.deployment.workspace, name="test", deployment=served.deployment)[1]


def test_chat_streaming_and_usage(gateway: Gateway, served: Rented, key: str) -> None:
    with gateway.client(key) as client:
        answer = client.chat.completions.create(model=ALIAS, messages=MESSAGES, max_tokens=8)
        assert answer.usage is not None and 0 < answer.usage.completion_tokens <= 8
        assert answer.choices[0].finish_reason in ("stop", "length")
        chunks = list(
            client.chat.completions.create(
                model="default",
                messages=MESSAGES,
                max_tokens=8,
                stream=True,
                stream_options={"include_usage": True},
            )
        )
        assert sum(1 for chunk in chunks if chunk.choices and chunk.choices[0].delta.content) > 0
        usage = chunks[-1].usage
        assert usage is not None
        plain = list(client.chat.completions.create(model=ALIAS, messages=MESSAGES, max_tokens=8, stream=True))
        assert plain and all(chunk.usage is None for chunk in plain)
    gateway.stop()
    hour = UsageHour.objects.get(deployment=served.deployment)
    assert hour.requests == 3 and hour.errors == 0
    assert hour.prompt_tokens >= 2 * usage.prompt_tokens
    assert hour.completion_tokens >= answer.usage.completion_tokens + usage.completion_tokens


def test_asynchronous_clients_at_once(gateway: Gateway, key: str) -> None:
    async def all_at_once() -> list[str | None]:
        async with openai.AsyncOpenAI(api_key=key, base_url=f"{gateway.url}/v1", max_retries=0) as client:
            asked = [
                client.chat.completions.create(model=ALIAS, messages=MESSAGES, max_tokens=4, seed=n) for n in range(6)
            ]
            return [answer.choices[0].message.content for answer in await asyncio.gather(*asked)]

    assert all(isinstance(text, str) for text in asyncio.run(all_at_once()))


def test_engine_errors_raise_the_right_class(gateway: Gateway, key: str) -> None:
    with gateway.client(key) as client:
        with pytest.raises(openai.BadRequestError) as caught:
            client.post("/chat/completions", body={"model": ALIAS}, cast_to=object)
        assert "messages" in caught.value.message
        with pytest.raises(openai.BadRequestError) as caught:
            client.chat.completions.create(model=ALIAS, messages=[{"role": "user", "content": "word " * 5_000}])
        assert caught.value.code == "context_length_exceeded"
        with pytest.raises(openai.BadRequestError) as caught:
            client.embeddings.create(model=ALIAS, input="Hello")
        assert caught.value.code == "unsupported_by_engine"


def test_a_stopped_tunnel_is_said_as_unreachable(gateway: Gateway, served: Rented, key: str) -> None:
    with gateway.client(key) as client:
        client.chat.completions.create(model=ALIAS, messages=MESSAGES, max_tokens=1)
        served.socket.unlink()
        with openai.OpenAI(api_key=key, base_url=f"{gateway.url}/v1", max_retries=0) as again:
            until(lambda: _code(again) == "engine_unreachable")


def _code(client: openai.OpenAI) -> str | None:
    try:
        client.chat.completions.create(model=ALIAS, messages=MESSAGES, max_tokens=1)
    except openai.InternalServerError as error:
        return error.code
    return None
