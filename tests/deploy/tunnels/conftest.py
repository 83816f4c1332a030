"""Tunnels as they run: a process's loop in a thread, a real database, a host that answers SSH."""

from __future__ import annotations

import asyncio
import socket
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

import pytest
import uvloop
from django.conf import settings

from arrakis import vault
from deploy.models import Deployment, Machine, Replica, ReplicaStatus
from deploy.states import State
from deploy.tunnels import process, socket_path
from deploy.tunnels.wanted import Shard
from tests.deploy.shop import a_deployment, a_machine, a_workspace
from tests.fakes.hosts import FakeHost

WAIT_SECONDS = 20


@pytest.fixture
def run_dir() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="ark-") as folder:
        before, settings.RUN_DIR = settings.RUN_DIR, Path(folder)
        yield Path(folder)
        settings.RUN_DIR = before


class Engine:
    """What listens at the engine's port on the machine: gives back what it gets."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.port: int = self._socket.getsockname()[1]
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _address = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._echo, args=(connection,), daemon=True).start()

    def _echo(self, connection: socket.socket) -> None:
        with connection:
            while data := connection.recv(65536):
                connection.sendall(data)

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


@pytest.fixture
def echo() -> Iterator[Engine]:
    engine = Engine()
    yield engine
    engine.close()


@pytest.fixture
def host(echo: Engine) -> Iterator[FakeHost]:
    with FakeHost(echo.port) as host:
        yield host


@dataclass
class Rented:
    deployment: Deployment
    machine: Machine
    replica: Replica

    @property
    def socket(self) -> Path:
        return socket_path(self.machine.pk)

    def status(self) -> ReplicaStatus:
        return ReplicaStatus.objects.get(replica=self.replica)


def rent(host: FakeHost, state: State = State.RUNNING) -> Rented:
    """A machine of ours at that host, as it is once its engine was installed."""
    deployment = a_deployment(a_workspace(), state=state)
    machine = a_machine(deployment)
    Machine.objects.filter(pk=machine.pk).update(
        ssh_host="127.0.0.1",
        ssh_port=host.port,
        ssh_user="root",
        host_key=host.public_host_key,
        tunnel_key=vault.encrypt(host.private_key),
    )
    replica = deployment.replica_set.get()
    Replica.objects.filter(pk=replica.pk).update(state=state)
    ReplicaStatus.objects.filter(replica=replica).update(engine_port=host.forward_to, seen_at=None)
    return Rented(deployment, machine, replica)


@pytest.fixture
def rented(committed: None, run_dir: Path, host: FakeHost) -> Rented:
    return rent(host)


@dataclass
class Running:
    """The tunnels' process, but for its signals."""

    shard: Shard = field(default_factory=Shard)
    error: BaseException | None = None

    def __post_init__(self) -> None:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._started = threading.Event()
        self._thread.start()
        assert self._started.wait(WAIT_SECONDS)

    def _run(self) -> None:
        try:
            uvloop.run(self._serve())
        except BaseException as error:
            self.error = error

    async def _serve(self) -> None:
        self._loop, self._stopped = asyncio.get_running_loop(), asyncio.Event()
        self._started.set()
        await process.serve(self.shard, self._stopped)

    def stop(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopped.set)
        self.wait()

    def wait(self) -> None:
        self._thread.join(WAIT_SECONDS)
        assert not self._thread.is_alive()


@pytest.fixture
def hints(monkeypatch: pytest.MonkeyPatch) -> list[UUID]:
    """The replicas that the workers were told of."""
    told: list[UUID] = []
    monkeypatch.setattr(process, "hint", told.append)
    return told


@pytest.fixture
def tunnels(committed: None, run_dir: Path, hints: list[UUID]) -> Iterator[Running]:
    running = Running()
    yield running
    running.stop()
    assert running.error is None
