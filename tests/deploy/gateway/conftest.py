"""The gateway as it runs: uvicorn in a thread, a real database, an engine on a Unix socket."""

from __future__ import annotations

import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import openai
import pytest
import uvicorn
from django.conf import settings
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from deploy.gateway import keys
from deploy.gateway.app import Gateway
from deploy.gateway.models import EndpointKey
from deploy.models import Deployment, Machine
from deploy.tunnels import socket_path
from tests.deploy.shop import a_deployment, a_machine, a_workspace
from tests.fakes.engines import FakeEngine

WAIT_SECONDS = 20
REPO = "HuggingFaceTB/SmolLM2-135M-Instruct"
MESSAGES: Any = [{"role": "user", "content": "Hello"}]


def chat(client: openai.OpenAI, model: str = REPO) -> ChatCompletion:
    return client.chat.completions.create(model=model, messages=MESSAGES)


def stream(client: openai.OpenAI, *, usage: bool = False) -> openai.Stream[ChatCompletionChunk]:
    options: Any = {"include_usage": True} if usage else openai.omit
    return client.chat.completions.create(model=REPO, messages=MESSAGES, stream=True, stream_options=options)


def words(chunks: Iterable[ChatCompletionChunk]) -> list[str | None]:
    return [chunk.choices[0].delta.content for chunk in chunks if chunk.choices]


def until(true: Callable[[], object]) -> None:
    """Wait for a condition; fail after a time that no working code needs."""
    end = time.monotonic() + WAIT_SECONDS
    while not true():
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.01)


@pytest.fixture
def run_dir() -> Iterator[Path]:
    """A short folder of its own for sockets."""
    with tempfile.TemporaryDirectory(prefix="ark-") as folder:
        before, settings.RUN_DIR = settings.RUN_DIR, Path(folder)
        yield Path(folder)
        settings.RUN_DIR = before


@dataclass
class Served:
    """A deployment that runs, its machine, and a key to it."""

    deployment: Deployment
    machine: Machine
    key: EndpointKey
    plaintext: str

    @property
    def socket(self) -> Path:
        path = socket_path(self.machine.pk)
        path.parent.mkdir(mode=0o700, exist_ok=True)
        return path


def serve(repo_id: str = REPO, served_name: str = REPO, **fields: Any) -> Served:
    deployment = a_deployment(a_workspace(), **fields)
    Deployment.objects.filter(pk=deployment.pk).update(repo_id=repo_id, served_name=served_name)
    deployment.refresh_from_db()
    key, plaintext = keys.issue(workspace=deployment.workspace, name="test", deployment=deployment)
    return Served(deployment, a_machine(deployment), key, plaintext)


@pytest.fixture
def served(committed: None, run_dir: Path) -> Served:
    return serve()


@pytest.fixture
def engine(served: Served) -> Iterator[FakeEngine]:
    with FakeEngine(served.socket) as engine:
        yield engine


class Running:
    """uvicorn with the gateway, in a thread. `stop` is what SIGTERM does."""

    def __init__(self) -> None:
        self.gateway = Gateway(bare_paths=True)
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.port: int = self._socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        config = uvicorn.Config(
            self.gateway,
            loop="uvloop",
            http="httptools",
            lifespan="on",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=10,
            log_config=None,
        )
        self.server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self.server.run, args=([self._socket],), daemon=True)

    def start(self) -> Running:
        self._thread.start()
        until(lambda: self.server.started)
        return self

    def stop(self) -> None:
        self.server.should_exit = True
        self._thread.join(WAIT_SECONDS)
        assert not self._thread.is_alive()
        self._socket.close()

    def client(self, key: str, **options: Any) -> openai.OpenAI:
        return openai.OpenAI(api_key=key, base_url=f"{self.url}/v1", max_retries=0, timeout=WAIT_SECONDS, **options)


@pytest.fixture
def running(committed: None, run_dir: Path) -> Iterator[Running]:
    running = Running().start()
    yield running
    running.stop()


@pytest.fixture
def client(running: Running, served: Served) -> Iterator[openai.OpenAI]:
    with running.client(served.plaintext) as client:
        yield client
