"""The gateway as a process, and in front of Django; the tunnels as a process: how they begin and end."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from django.conf import settings
from django.db import connection

from arrakis.asgi import application as web
from deploy.gateway.app import Gateway
from deploy.gateway.models import UsageHour
from tests.deploy.gateway.conftest import MESSAGES, Served, until
from tests.fakes import engines
from tests.fakes.engines import FakeEngine


def environment() -> dict[str, str]:
    """What a process needs to find this test's database and folder."""
    name = connection.settings_dict
    password = f":{name['PASSWORD']}" if name["PASSWORD"] else ""
    url = f"postgresql://{name['USER']}{password}@/{name['NAME']}?host={name['HOST']}"
    if name["PORT"]:
        url += f"&port={name['PORT']}"
    return {
        **os.environ,
        "DATABASE_URL": url,
        "REDIS_URL": settings.REDIS_URL,
        "RUN_DIR": str(settings.RUN_DIR),
        "SECRET_KEY": settings.SECRET_KEY,
        "ENCRYPTION_KEYS": ",".join(settings.ENCRYPTION_KEYS),
        "DJANGO_SETTINGS_MODULE": "arrakis.settings",
    }


@contextmanager
def process(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-m", *arguments], env=environment(), cwd=settings.BASE_DIR) as running:
        try:
            yield running
        finally:
            running.kill()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def answers(url: str) -> bool:
    try:
        return httpx.get(url).status_code == 401
    except httpx.TransportError:
        return False


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_gateway_ends_its_streams_and_writes_its_counts(served: Served, engine: FakeEngine, number: int) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with process("deploy.gateway", "--port", str(port), "--drain", "15") as running:
        until(lambda: answers(f"{url}/models"))
        pieces = [engines.event("one"), engines.event("two"), b"data: [DONE]\n\n"]
        asked_to_stop = asyncio.Event()

        async def answer(request: engines.Received, writer: asyncio.StreamWriter) -> None:
            await engines.send(writer, engines.STREAM_HEAD + engines.http_chunk(pieces[0]))
            await asked_to_stop.wait()
            await engines.send(writer, b"".join(map(engines.http_chunk, pieces[1:])) + b"0\r\n\r\n")

        engine.answer = answer
        body = {"messages": MESSAGES, "stream": True}
        headers = {"x-api-key": served.plaintext}
        with httpx.stream("POST", f"{url}/v1/chat/completions", json=body, headers=headers, timeout=20) as response:
            chunks = response.iter_raw()
            got = next(chunks)
            running.send_signal(number)
            until(lambda: not answers(f"{url}/models"))
            engine.run(asked_to_stop.set)
            got += b"".join(chunks)
        assert got == b"".join(pieces)
        assert running.wait(20) in (0, -number)
    assert UsageHour.objects.get(key=served.key).requests == 1


def test_tunnels_end_at_once(committed: None, run_dir: object) -> None:
    with process("deploy.tunnels", "--shard", "0/1") as running:
        with connection.cursor() as cursor:

            def holds_its_lock() -> bool:
                cursor.execute(
                    "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'arrakis-tunnels 0/1'"
                    " AND datname = current_database()"
                )
                return bool(cursor.fetchone()[0])

            until(holds_its_lock)
            with process("deploy.tunnels") as second:
                assert second.wait(20) == 1
        running.send_signal(signal.SIGTERM)
        assert running.wait(20) == 0


def test_tunnels_refuse_a_shard_that_is_none(committed: None, run_dir: object) -> None:
    with process("deploy.tunnels", "--shard", "3/2") as running:
        assert running.wait(20) == 2


def ask(app: Any, path: str, host: str = "testserver") -> tuple[int, str]:
    """One request to an ASGI application without any server or lifespan."""

    async def go() -> tuple[int, str]:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url=f"http://{host}") as client:
            answer = await client.get(path)
            if isinstance(app, Gateway):
                await app.stop()
            return answer.status_code, answer.headers["content-type"]

    return asyncio.run(go())


def test_in_front_of_django_without_lifespan(db: None) -> None:
    assert ask(web, "/v1/models") == (401, "application/json")
    assert ask(web, "/healthz")[0] == 200


def test_hosts_of_its_own_serve_nothing_else(run_dir: object) -> None:
    gateway = Gateway(hosts=["api.example"])

    def scope(host: bytes, path: str) -> dict[str, Any]:
        return {"type": "http", "path": path, "headers": [(b"host", host)]}

    assert gateway.serves(scope(b"API.example:443", "/")) and gateway.serves(scope(b"api.example", "/v1/models"))
    assert not gateway.serves(scope(b"www.example", "/v1/models")) and not gateway.serves(scope(b"", "/v1/models"))
    assert ask(gateway, "/models", "api.example") == (401, "application/json")
    assert ask(gateway, "/admin/", "api.example") == (404, "application/json")
