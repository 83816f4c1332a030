"""The story of a request that goes well, told by the official client."""

from __future__ import annotations

import httpx
import openai

from deploy.gateway.models import UsageHour
from tests.deploy.gateway.conftest import MESSAGES, REPO, Running, Served, chat, stream, words
from tests.fakes.engines import USAGE, WORDS, FakeEngine


def test_chat(client: openai.OpenAI, engine: FakeEngine) -> None:
    answer = chat(client)
    assert answer.choices[0].message.content == "".join(WORDS)
    assert answer.usage is not None and answer.usage.prompt_tokens == USAGE["prompt_tokens"]
    assert engine.requests[0].target == "/v1/chat/completions"


def test_stream_with_usage(client: openai.OpenAI, engine: FakeEngine) -> None:
    chunks = list(stream(client, usage=True))
    assert words(chunks) == list(WORDS)
    assert chunks[-1].usage is not None and chunks[-1].usage.total_tokens == USAGE["total_tokens"]


def test_embeddings(client: openai.OpenAI, engine: FakeEngine) -> None:
    answer = client.embeddings.create(model=REPO, input="Hello", encoding_format="float")
    assert answer.data[0].embedding == [0.5, 0.25]


def test_models(client: openai.OpenAI, engine: FakeEngine) -> None:
    assert [model.id for model in client.models.list()] == [REPO]
    assert client.models.retrieve("default").id == REPO
    assert client.models.retrieve(REPO).owned_by == "arrakis"
    assert not engine.requests


def test_x_api_key_and_bare_paths(running: Running, served: Served, engine: FakeEngine) -> None:
    for path in ("/v1/chat/completions", "/chat/completions"):
        answer = httpx.post(
            running.url + path, headers={"x-api-key": served.plaintext}, json={"model": "default", "messages": MESSAGES}
        )
        assert answer.status_code == 200, answer.text


def test_usage_is_counted(client: openai.OpenAI, running: Running, served: Served, engine: FakeEngine) -> None:
    chat(client)
    list(stream(client))
    list(stream(client, usage=True))
    running.stop()
    hours = UsageHour.objects.filter(key=served.key, deployment=served.deployment)
    assert sum(hour.requests for hour in hours) == 3
    assert sum(hour.prompt_tokens for hour in hours) == 2 * USAGE["prompt_tokens"]
    assert sum(hour.errors for hour in hours) == 0
