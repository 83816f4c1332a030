"""What is refused, and the exception of the official client that a program has to catch for it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import httpx
import openai
import pytest
from django.utils import timezone

from deploy.gateway import keys
from deploy.gateway.models import EndpointKey
from deploy.models import Deployment, Machine
from deploy.states import MachineState, State
from tests.deploy.gateway.conftest import REPO, Running, Served, chat, serve, until
from tests.fakes.engines import FakeEngine

WRONG = keys.PREFIX + "0" * 40


def refusal(client: openai.OpenAI, model: str = REPO) -> openai.APIStatusError:
    with pytest.raises(openai.APIStatusError) as caught:
        chat(client, model)
    error = caught.value.body
    assert isinstance(error, dict) and set(error) == {"message", "type", "param", "code"}
    assert caught.value.response.headers["x-request-id"].startswith("req_")
    return caught.value


@pytest.mark.parametrize("key", [WRONG, "sk-something", "sk-ark-short", "é" * 10])
def test_wrong_key(running: Running, key: str) -> None:
    answer = httpx.get(f"{running.url}/v1/models", headers=[(b"authorization", f"Bearer {key}".encode())])
    assert answer.status_code == 401
    assert answer.json()["error"]["code"] == "invalid_api_key"
    with running.client(WRONG) as client, pytest.raises(openai.AuthenticationError):
        chat(client)


def test_no_key(running: Running) -> None:
    answer = httpx.get(f"{running.url}/v1/models")
    assert answer.status_code == 401
    assert answer.json()["error"]["code"] == "missing_api_key"
    assert answer.headers["www-authenticate"] == "Bearer"


def close(**changes: object) -> Callable[[Served], object]:
    return lambda served: EndpointKey.objects.filter(pk=served.key.pk).update(**changes)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (close(enabled=False), "key_disabled"),
        (close(expires_at=timezone.now() - timedelta(hours=1)), "key_expired"),
        (close(valid_until=timezone.now() - timedelta(hours=1)), "key_expired"),
        (lambda served: keys.revoke(key=served.key), "key_revoked"),
        (lambda served: served.key.delete(), "invalid_api_key"),
    ],
)
def test_key_closed_while_in_use(
    client: openai.OpenAI, served: Served, engine: FakeEngine, change: Callable[[Served], object], code: str
) -> None:
    chat(client)
    change(served)

    def is_closed() -> bool:
        try:
            chat(client)
        except openai.AuthenticationError as error:
            return error.code == code
        return False

    until(is_closed)


def test_key_works_at_once_after_it_was_made(running: Running, served: Served, engine: FakeEngine) -> None:
    _key, plaintext = keys.issue(workspace=served.deployment.workspace, name="new", deployment=None)
    with running.client(plaintext) as client:
        chat(client)


def test_key_from_another_network(running: Running, served: Served, engine: FakeEngine) -> None:
    for cidrs, status in ((["10.0.0.0/8"], 403), (["127.0.0.1"], 200), (["nonsense"], 403)):
        key, plaintext = keys.issue(workspace=served.deployment.workspace, name="net")
        EndpointKey.objects.filter(pk=key.pk).update(cidrs=cidrs)
        headers = {"authorization": f"Bearer {plaintext}"}
        assert httpx.get(f"{running.url}/v1/models", headers=headers).status_code == status


def test_key_of_another_workspace_or_deployment(running: Running, served: Served, engine: FakeEngine) -> None:
    other = serve(repo_id="someone/else", served_name="someone/else")
    with running.client(other.plaintext) as client:
        assert refusal(client).code == "model_not_found"
        assert [model.id for model in client.models.list()] == ["someone/else"]
    second = serve(repo_id="mine/second", served_name="mine/second")
    Deployment.objects.filter(pk=second.deployment.pk).update(workspace=served.deployment.workspace)
    with running.client(served.plaintext) as client:
        error = refusal(client, "mine/second")
        assert isinstance(error, openai.NotFoundError) and REPO in error.message
    assert not engine.requests


def test_unknown_model_names_what_there_is(client: openai.OpenAI, engine: FakeEngine) -> None:
    error = refusal(client, "gpt-4\x1b[31m")
    assert isinstance(error, openai.NotFoundError)
    assert error.code == "model_not_found" and error.param == "model"
    assert REPO in error.message and "\x1b" not in error.message
    assert chat(client, REPO.upper()) and chat(client, "default")


@pytest.mark.parametrize("state", [State.REQUESTED, State.BOOTING, State.DOWNLOADING, State.LOADING])
def test_not_ready(running: Running, served: Served, state: State) -> None:
    Deployment.objects.filter(pk=served.deployment.pk).update(state=state)
    with running.client(served.plaintext) as client:
        error = refusal(client)
    assert isinstance(error, openai.InternalServerError)
    assert (error.status_code, error.code) == (503, "deployment_not_ready")
    assert error.response.headers["x-deployment-stage"] == state
    assert int(error.response.headers["retry-after"]) > 0


@pytest.mark.parametrize(
    ("state", "reason", "error_class", "code"),
    [
        (State.STOPPED, "stopped_by_customer", openai.NotFoundError, "deployment_stopped"),
        (State.STOPPING, "stopped_by_customer", openai.NotFoundError, "deployment_stopped"),
        (State.FAILED, "engine_crash_limit", openai.NotFoundError, "deployment_failed"),
        (State.STOPPED, "balance_empty", openai.RateLimitError, "insufficient_quota"),
        (State.STOPPING, "balance_empty", openai.RateLimitError, "insufficient_quota"),
    ],
)
def test_stopped_while_in_use(
    client: openai.OpenAI,
    served: Served,
    engine: FakeEngine,
    state: State,
    reason: str,
    error_class: type[openai.APIStatusError],
    code: str,
) -> None:
    chat(client)
    Deployment.objects.filter(pk=served.deployment.pk).update(state=state, reason_code=reason)
    until(lambda: _code(client) == code)
    assert isinstance(refusal(client), error_class)


def test_stop_asked_for_closes_before_any_worker_begins(
    client: openai.OpenAI, served: Served, engine: FakeEngine
) -> None:
    chat(client)
    Deployment.objects.filter(pk=served.deployment.pk).update(desired="stopped")
    until(lambda: _code(client) == "deployment_stopped")


def test_machine_given_back_is_never_asked(client: openai.OpenAI, served: Served, engine: FakeEngine) -> None:
    chat(client)
    Machine.objects.filter(pk=served.machine.pk).update(state=MachineState.RELEASING)
    until(lambda: _code(client) == "deployment_not_ready")


def test_workspace_frozen(client: openai.OpenAI, served: Served, engine: FakeEngine) -> None:
    chat(client)
    workspace = served.deployment.workspace
    workspace.frozen_reason = "fraud"
    workspace.save(update_fields=["frozen_reason"])

    def is_frozen() -> bool:
        try:
            chat(client)
        except openai.PermissionDeniedError as error:
            return error.code == "workspace_frozen"
        return False

    until(is_frozen)


def test_no_tunnel(client: openai.OpenAI) -> None:
    error = refusal(client)
    assert isinstance(error, openai.InternalServerError)
    assert (error.status_code, error.code) == (503, "engine_unreachable")


def test_too_much_at_once_with_one_key(running: Running, served: Served, engine: FakeEngine) -> None:
    EndpointKey.objects.filter(pk=served.key.pk).update(limits={"at_once": 0})
    with running.client(served.plaintext) as client:
        error = refusal(client)
    assert isinstance(error, openai.RateLimitError) and error.code == "rate_limit_exceeded"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/chat/completions", 405),
        ("POST", "/v1/models", 405),
        ("POST", "/v1/metrics", 404),
        ("POST", "/v1/../metrics", 404),
        ("POST", "/v1/chat/completions/", 404),
        ("POST", "/v1/load_lora_adapter", 404),
        ("POST", "/invocations", 404),
        ("GET", "/", 404),
    ],
)
def test_other_addresses(
    running: Running, served: Served, engine: FakeEngine, method: str, path: str, status: int
) -> None:
    answer = httpx.request(method, running.url + path, headers={"x-api-key": served.plaintext})
    assert answer.status_code == status
    assert answer.json()["error"]["type"] == "invalid_request_error"
    assert not engine.requests


def test_browsers_may_ask_from_anywhere(running: Running, served: Served) -> None:
    answer = httpx.options(f"{running.url}/v1/chat/completions", headers={"origin": "https://a.example"})
    assert answer.status_code == 204
    assert answer.headers["access-control-allow-origin"] == "*"
    assert "access-control-allow-credentials" not in answer.headers
    assert "authorization" in answer.headers["access-control-allow-headers"]


def test_refusal_in_the_readers_language_keeps_its_code(running: Running) -> None:
    answer = httpx.get(f"{running.url}/v1/models", headers={"accept-language": "fr-CA,fr;q=0.9"})
    assert answer.json()["error"]["code"] == "missing_api_key"


def _code(client: openai.OpenAI) -> str | None:
    try:
        chat(client)
    except openai.APIStatusError as error:
        return error.code
    return None
