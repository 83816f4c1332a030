"""The verbs of deploy.machine.host, in their order, over the demo's SSH server: real downloads, a real engine."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import asyncssh
import pytest

from arrakis.demo.hub import REPOSITORY
from deploy.engines import ENGINES
from deploy.engines.base import MODEL_DIR, LaunchPlan
from deploy.machine import host
from deploy.machine.errors import HostKeyChanged, HostUnreachable, LoginRefused
from deploy.machine.status import Status, parse_status
from tests.demo.fixtures import WAIT_SECONDS, RunningHost, RunningHub
from tests.deploy.machine.place import wait

LABEL = "arrakis-test-host"


def public(key: asyncssh.SSHKey) -> str:
    return key.export_public_key().decode()


@pytest.fixture
def machine(own_host: RunningHost) -> Iterator[RunningHost]:
    yield own_host.start()
    host.wipe(own_host.target, LABEL)


def plan(hub: RunningHub) -> tuple[str, host.FetchPlan]:
    name = next(name for name in hub.hub.files if name.endswith(".gguf"))
    size = Path(str(hub.hub.files[name])).stat().st_size
    file = host.FetchFile(name, size, sha256=hub.hub.digest(name))
    return name, host.FetchPlan(hub.url, REPOSITORY, hub.hub.commit, (file,))


def until(machine: RunningHost, **wanted: Any) -> Status:
    def look() -> Status | None:
        status = host.read_status(machine.target, LABEL)
        return status if all(getattr(status, name) == value for name, value in wanted.items()) else None

    return wait(f"{wanted}", look)


def engine_pids() -> list[int]:
    found = []
    for path in Path("/proc").iterdir():
        try:
            command = (path / "cmdline").read_bytes() if path.name.isdigit() else b""
        except OSError:
            continue
        if b"--alias\0smol" in command and LABEL.encode() in command:
            found.append(int(path.name))
    return found


def ask(port: int) -> dict[str, Any]:
    body = {"model": "smol", "max_tokens": 4, "messages": [{"role": "user", "content": "Hi"}]}
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=WAIT_SECONDS) as answer:
        return dict(json.load(answer))


async def through_the_tunnel(machine: RunningHost, key: asyncssh.SSHKey, port: int) -> None:
    """An answer and the state stream, and nothing else that a connection can ask for."""
    async with machine.connect(key) as connection:
        listener = await connection.forward_local_port("127.0.0.1", 0, "127.0.0.1", port)
        answer = await asyncio.to_thread(ask, listener.get_port())
        assert answer["choices"][0]["message"]["content"]
        async with connection.create_process("id; touch stolen", encoding=None) as watch:
            assert parse_status((await watch.stdout.readline()).strip()).engine_state == "ready"
        with pytest.raises(asyncssh.ChannelOpenError):
            await connection.open_connection("127.0.0.1", machine.port)
        with pytest.raises((asyncssh.SFTPError, asyncssh.Error)):
            async with asyncio.timeout(5):
                await connection.start_sftp_client()
    assert not (machine.home / "stolen").exists()


def test_the_whole_path(machine: RunningHost, own_hub: RunningHub) -> None:
    target, tunnel, admin = machine.target, *(asyncssh.generate_private_key("ssh-ed25519") for _ in range(2))
    facts = host.check(target)
    assert facts.cpu_count >= 1
    assert facts.python
    assert [host.claim(target, LABEL, public(admin)) for _ in range(2)] == [True, False]
    target = replace(target, private_key=admin.export_private_key().decode())
    assert host.list_labels(target) == [LABEL]
    name, fetched = plan(own_hub)
    launch = LaunchPlan(f"{MODEL_DIR}/{name}", "smol", 512, host_kind="cpu")
    ports = [host.install(target, LABEL, ENGINES["llamacpp"].spec(launch), public(tunnel)) for _ in range(2)]
    assert ports[0] == ports[1]

    own_hub.faults.cut_after_bytes, own_hub.faults.cuts = fetched.files[0].size // 2, 1
    host.start_fetch(target, LABEL, fetched)
    status = until(machine, stage="downloaded")
    assert status.bytes_done == status.bytes_total == fetched.files[0].size
    assert [bool(asked) for _, path, asked in own_hub.hub.log if path.endswith(name)] == [False, True]

    host.start_engine(target, LABEL)
    assert until(machine, engine_state="ready").engine_port == ports[0]
    asyncio.run(asyncio.wait_for(through_the_tunnel(machine, tunnel, ports[0]), WAIT_SECONDS))

    before = engine_pids()
    assert before
    for pid in before:
        os.kill(pid, signal.SIGKILL)
    until(machine, engine_state="ready", restarts=1)
    assert ask(ports[0])["choices"]
    assert "\x1b" not in host.read_log(target, LABEL)
    assert host.read_log(target, LABEL)

    for _ in range(2):
        host.wipe(machine.target, LABEL)
    assert not host.exists(machine.target, LABEL)
    assert host.list_labels(machine.target) == []
    assert engine_pids() == []
    assert LABEL not in machine.keys.read_text()


def test_a_customers_key_goes_with_what_it_started(machine: RunningHost) -> None:
    admin, customer = (asyncssh.generate_private_key("ssh-ed25519") for _ in range(2))
    host.claim(machine.target, LABEL, public(admin))
    host.install_customer_keys(machine.target, LABEL, {"laptop": public(customer)})

    async def leave() -> int:
        async with machine.connect(customer) as connection:
            return int(str((await connection.run("setsid sleep 600 >/dev/null 2>&1 & echo $!")).stdout))

    pid = asyncio.run(asyncio.wait_for(leave(), WAIT_SECONDS))
    assert Path(f"/proc/{pid}").exists()
    host.remove_customer_keys(machine.target, LABEL)
    wait("its end", lambda: not Path(f"/proc/{pid}").exists())
    with pytest.raises(LoginRefused):
        host.check(replace(machine.target, private_key=customer.export_private_key().decode()))


def test_another_machine_at_the_address_is_never_used(demo_host: RunningHost) -> None:
    other = public(asyncssh.generate_private_key("ssh-ed25519")).strip()
    with pytest.raises(HostKeyChanged):
        host.check(replace(demo_host.target, host_key=other))


def test_a_stranger_is_refused(demo_host: RunningHost) -> None:
    stranger = asyncssh.generate_private_key("ssh-ed25519").export_private_key().decode()
    with pytest.raises(LoginRefused):
        host.check(replace(demo_host.target, private_key=stranger))


def test_nothing_there_is_unreachable(demo_host: RunningHost) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # taken, and not listening: connections are refused
        with pytest.raises(HostUnreachable):
            host.check(replace(demo_host.target, port=bound.getsockname()[1]))
