"""The processes that make the whole product, and how each shows that it is ready."""

from __future__ import annotations

import socket
import sys
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from arrakis.celery import app as celery
from arrakis.demo.children import Child
from arrakis.demo.machine import Machine
from arrakis.demo.ports import next_free


@dataclass(frozen=True)
class Ports:
    web: int
    gateway: int
    hub: int
    machine: int

    @classmethod
    def choose(cls, wanted: int) -> Ports:
        """The web's as wanted or the next free one, and the others after it."""
        chosen: list[int] = []
        for near in (wanted, wanted + 1, wanted + 100, wanted + 122):
            chosen.append(next_free(near, taken=set(chosen)))
        return cls(*chosen)


@dataclass(frozen=True)
class Product:
    ports: Ports
    logs: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.ports.web}"

    @property
    def gateway_url(self) -> str:
        return f"http://127.0.0.1:{self.ports.gateway}"

    @property
    def hub_url(self) -> str:
        return f"http://127.0.0.1:{self.ports.hub}"

    def environment(self) -> dict[str, str]:
        return {"SITE_URL": self.url, "GATEWAY_URL": self.gateway_url, "PYTHONUNBUFFERED": "1"}

    def places(self, machine: Machine) -> list[Child]:
        """What stands for the outside world: the hub, and the host that can be rented."""
        hub = ["-m", "arrakis.demo.hub", "--port", str(self.ports.hub)]
        return [
            self._child("hub", hub, lambda: _listens(self.ports.hub)),
            self._child("machine", machine.command, lambda: bool(machine.told), stop_seconds=20),
        ]

    def processes(self) -> list[Child]:
        """The product's own."""
        web = ["-m", "uvicorn", "arrakis.asgi:application", "--host", "127.0.0.1", "--port", str(self.ports.web)]
        web += ["--no-access-log", "--timeout-graceful-shutdown", "3"]
        gateway = ["-m", "deploy.gateway", "--host", "127.0.0.1", "--port", str(self.ports.gateway), "--drain", "3"]
        worker = ["-m", "celery", "-A", "arrakis", "worker", "--concurrency", "4", "--loglevel", "INFO"]
        beat = ["-m", "celery", "-A", "arrakis", "beat", "--loglevel", "INFO", "--pidfile="]
        return [
            self._child("web", web, lambda: _answers(f"{self.url}/readyz")),
            self._child("gateway", gateway, lambda: _listens(self.ports.gateway)),
            self._child("tunnels", ["-m", "deploy.tunnels"], lambda: True),
            self._child("worker", [*worker, "--without-mingle", "--without-gossip"], _worker_answers, stop_seconds=20),
            self._child("beat", beat, lambda: True),
        ]

    def _child(self, name: str, arguments: list[str], is_ready: Callable[[], bool], stop_seconds: float = 10) -> Child:
        log = self.logs / f"{name}.log"
        return Child(name, [sys.executable, *arguments], log, self.environment(), is_ready, stop_seconds)


def _listens(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2):
            return True
    except OSError:
        return False


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=5) as answer:  # noqa: S310  (an address of ours)
            return bool(answer.status == 200)
    except OSError:
        return False


def _worker_answers() -> bool:
    return bool(celery.control.ping(timeout=0.5))
