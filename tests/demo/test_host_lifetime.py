"""How the demo's machine begins and ends: nothing of it stays, whoever it was started by and however it ended."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import asyncssh
import httpx
import pytest

from arrakis.demo import host as host_module
from arrakis.demo.hub import GGUF, MODEL
from arrakis.embedded.clone import THIS_CLONE, machine_uid
from tests.demo.fixtures import WAIT_SECONDS, RunningHost, RunningHub, reachable_folder


def run(host: RunningHost, command: str) -> Any:
    async def look() -> Any:
        async with host.connect() as connection:
            return await connection.run(command)

    return asyncio.run(asyncio.wait_for(look(), WAIT_SECONDS))


def until(true: Callable[[], object]) -> None:
    end = time.monotonic() + WAIT_SECONDS
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


def named(name: str) -> list[int]:
    """Living processes that have this in their command line."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if name.encode() in (entry / "cmdline").read_bytes() and int(entry.name) != os.getpid():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def stray(host: RunningHost) -> str:
    """A process that left its session, its parent and its environment; its name is all that tells of it."""
    name = f"stray-{host.port}"
    run(host, f"setsid env -i /bin/bash -c 'exec -a {name} /bin/sleep 1000' >/dev/null 2>&1 </dev/null & true")
    until(lambda: named(name))
    return name


def test_it_ends_with_all_that_was_started_on_it(own_host: RunningHost) -> None:
    own_host.start()
    name = stray(own_host)
    run(own_host, "nohup sleep 1000 >/dev/null 2>&1 </dev/null &")
    assert (own_host.folder / "host.json").exists()
    assert own_host.stop() == 0
    assert not (own_host.folder / "host.json").exists()
    assert named(name) == []
    assert marked(own_host) == []


def marked(host: RunningHost) -> list[str]:
    wanted, found = f"ARRAKIS_HOST={host.folder}".encode(), []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if wanted in (entry / "environ").read_bytes().split(b"\0"):
                found.append(entry.name)
        except OSError:
            continue
    return found


def test_what_a_killed_host_left_is_gone_when_the_next_is_up(own_host: RunningHost) -> None:
    own_host.start()
    key = own_host.host_key
    run(own_host, "setsid sleep 1000 >/dev/null 2>&1 </dev/null & true")
    until(lambda: marked(own_host))
    own_host.process.kill()
    own_host.process.communicate()
    assert marked(own_host)
    own_host.start()
    assert marked(own_host) == []
    assert own_host.host_key == key


def test_keys_that_a_customer_let_in_do_not_outlive_it(own_host: RunningHost) -> None:
    own_host.start()
    own_host.add_key(comment="arrakis:arrakis-a-1:admin")
    own_host.add_key(comment="friend@elsewhere")
    own_host.stop()
    own_host.start()
    comments = [line.split()[-1] for line in own_host.keys.read_text().splitlines()]
    assert comments[1:] == ["arrakis:arrakis-a-1:admin"]
    assert run(own_host, "echo in").stdout == "in\n"


def test_it_ends_when_its_parent_is_killed(own_host: RunningHost) -> None:
    keeper = "import subprocess, sys; sys.exit(subprocess.Popen(sys.argv[1:]).wait())"
    command = [sys.executable, "-c", keeper, *own_host.command("--parent-death")]
    parent = subprocess.Popen(command, cwd=THIS_CLONE, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    assert parent.stdout.readline().startswith("{")
    parent.kill()
    assert parent.stdout.read() == ""  # its output ends when the host, which holds it too, has ended
    parent.wait()
    assert named(str(own_host.folder)) == []


def test_two_hosts_do_not_share_a_folder(own_host: RunningHost) -> None:
    own_host.start()
    second = RunningHost(own_host.folder)
    with pytest.raises(RuntimeError, match="is running in"):
        second.start()
    assert run(own_host, "echo in").stdout == "in\n"


def test_a_taken_port_is_told(own_host: RunningHost, demo_host: RunningHost) -> None:
    command = own_host.command()
    command[command.index("--port") + 1] = str(demo_host.port)
    ended = subprocess.run(command, cwd=THIS_CLONE, capture_output=True, text=True, timeout=WAIT_SECONDS)
    assert ended.returncode == 1 and ended.stdout == ""
    assert ended.stderr == f"Port {demo_host.port} of loopback cannot be listened on: Address already in use.\n"


def test_nothing_of_our_environment_is_there_to_read(own_host: RunningHost) -> None:
    own_host.environment["SECRET_KEY"] = "do-not-show"
    own_host.start()
    told = run(own_host, "env; tr '\\0' '\\n' </proc/$PPID/environ").stdout
    assert "HOME=" in told and "do-not-show" not in told


def test_a_link_for_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "target")
    with pytest.raises(host_module.HostError, match="is not a folder of ours"):
        host_module.own_folder(tmp_path / "link", os.geteuid())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_a_folder_that_its_user_cannot_reach_is_refused() -> None:
    with reachable_folder() as folder:
        closed = folder / "closed"
        closed.mkdir(mode=0o700)
        with pytest.raises(host_module.HostError, match="closed is closed to others"):
            host_module.own_folder(closed / "machine", machine_uid())


def test_a_model_is_fetched_and_served_on_it(demo_host: RunningHost, demo_hub: RunningHub) -> None:
    """What a rented machine is for: weights from the hub, the engine on loopback, its port through SSH."""
    weights = f"{demo_hub.url}/{MODEL}/resolve/main/{GGUF}"
    fetch = f'python3 -c \'import urllib.request as r; r.urlretrieve("{weights}", "model.gguf")\''
    serve = "exec llama-server -m model.gguf --host 127.0.0.1 --port 0 -c 1024 -np 1 -t 1 -ngl 0 --jinja --no-ui"

    async def look() -> dict[str, Any]:
        async with demo_host.connect() as connection:
            assert (await connection.run(fetch)).exit_status == 0
            process = await connection.create_process(serve, stderr=asyncssh.STDOUT)
            port = await _port(process)
            listener = await connection.forward_local_port("127.0.0.1", 0, "127.0.0.1", port)
            question = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4}
            async with httpx.AsyncClient(timeout=WAIT_SECONDS) as client:
                address = f"http://127.0.0.1:{listener.get_port()}/v1/chat/completions"
                answer: dict[str, Any] = (await client.post(address, json=question)).json()
            process.send_signal("TERM")
            assert (await process.wait()).exit_status == 0
            return answer

    answer = asyncio.run(asyncio.wait_for(look(), WAIT_SECONDS))
    assert 0 < answer["usage"]["completion_tokens"] <= 4


async def _port(process: asyncssh.SSHClientProcess[str]) -> int:
    async for line in process.stdout:
        if "listening on http" in line:
            return int(line.rsplit(":", 1)[1])
    raise AssertionError("llama-server did not come up")


def test_an_interrupt_ends_it_as_well(own_host: RunningHost) -> None:
    own_host.start()
    own_host.process.send_signal(signal.SIGINT)
    own_host.process.communicate(timeout=WAIT_SECONDS)
    assert own_host.process.returncode == 0
