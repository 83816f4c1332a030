"""Tunnels to hosts that come and go, refuse, lie and flood."""

from __future__ import annotations

import socket
import stat
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import asyncssh
from django.db import connection

from arrakis import vault
from deploy.models import Machine, Replica
from deploy.states import MachineState, State
from deploy.tunnels.shardlock import ShardTaken
from tests.deploy.gateway.conftest import until
from tests.deploy.tunnels.conftest import WAIT_SECONDS, Rented, Running, rent
from tests.fakes.hosts import FakeHost, state


def says(path: Path, word: bytes = b"hello") -> bytes:
    """What the engine at the other end gives back; nothing where there is no way."""
    try:
        with socket.socket(socket.AF_UNIX) as way:
            way.settimeout(WAIT_SECONDS)
            way.connect(str(path))
            way.sendall(word)
            way.shutdown(socket.SHUT_WR)
            got = b""
            while data := way.recv(65536):
                got += data
            return got
    except OSError:
        return b""


def opened(rented: Rented) -> bool:
    return says(rented.socket) == b"hello"


def test_a_way_to_the_engine_that_only_we_may_enter(tunnels: Running, rented: Rented) -> None:
    until(lambda: opened(rented))
    assert stat.S_IMODE(rented.socket.stat().st_mode) == 0o600
    assert stat.S_IMODE(rented.socket.parent.stat().st_mode) == 0o700
    big = b"x" * 5_000_000
    assert says(rented.socket, big) == big


def test_two_hundred_connects_at_once(tunnels: Running, rented: Rented) -> None:
    until(lambda: opened(rented))
    with ThreadPoolExecutor(200) as pool:
        got = list(pool.map(lambda n: says(rented.socket, b"%d" % n), range(200)))
    assert got == [b"%d" % n for n in range(200)]


def test_the_state_is_stored_and_wakes_the_replica(
    tunnels: Running, rented: Rented, host: FakeHost, hints: list[UUID]
) -> None:
    until(lambda: rented.status().engine_state == "ready")
    assert rented.status().seen_at is not None
    assert rented.replica.pk in hints
    far = datetime(2099, 1, 1, tzinfo=UTC)
    Replica.objects.filter(pk=rented.replica.pk).update(due_at=far)
    host.say(state(engine_state="crashed", restarts=2, engine_port=22))
    until(lambda: Replica.objects.get(pk=rented.replica.pk).due_at < far)
    status = rented.status()
    assert (status.engine_state, status.restarts) == ("crashed", 2)
    assert status.engine_port == host.forward_to  # what was installed, not what the machine says


def test_a_state_without_change_wakes_nobody(
    tunnels: Running, rented: Rented, host: FakeHost, hints: list[UUID]
) -> None:
    until(lambda: hints == [rented.replica.pk])
    host.say(state(bytes_done=50))
    until(lambda: rented.status().bytes_done == 50)
    assert hints == [rented.replica.pk]


def test_a_flood_stops_at_its_source(tunnels: Running, rented: Rented, host: FakeHost) -> None:
    until(lambda: host.streams == 1)
    host.say(state(bytes_done=1) * 100_000)
    host.say(state(bytes_done=77))
    assert opened(rented)
    assert host.connections == 1


def test_garbage_is_not_stored_and_ends_the_stream_not_the_way(
    tunnels: Running, rented: Rented, host: FakeHost
) -> None:
    until(lambda: rented.status().engine_state == "ready")
    host.say(b"x" * 100_000)
    until(lambda: len(host.commands) >= 2)  # cut, and begun again
    assert rented.status().engine_state == "ready"
    assert opened(rented) and host.connections == 1


def test_a_host_that_comes_back_is_reached_again(tunnels: Running, rented: Rented, host: FakeHost) -> None:
    until(lambda: opened(rented))
    host.down()
    until(lambda: not rented.socket.exists())
    host.up()
    until(lambda: opened(rented))


def test_another_host_key_is_never_trusted(tunnels: Running, rented: Rented, host: FakeHost) -> None:
    until(lambda: opened(rented))
    host.down()
    host.host_key = asyncssh.generate_private_key("ssh-ed25519")
    host.up()
    before = host.connections
    until(lambda: host.connections >= before + 2)
    assert not rented.socket.exists() and host.streams == 0


def test_one_bad_machine_is_no_matter_to_the_others(tunnels: Running, rented: Rented, host: FakeHost) -> None:
    for change in (
        {"ssh_port": 1},
        {"ssh_host": "no such host"},
        {"host_key": "ssh-ed25519 nonsense"},
        {"tunnel_key": "sealed by a key that is gone"},
        {"tunnel_key": vault.encrypt("not a key")},
        {"tunnel_key": vault.encrypt(asyncssh.generate_private_key("ssh-ed25519").export_private_key().decode())},
    ):
        Machine.objects.filter(pk=rent(host).machine.pk).update(**change)
    until(lambda: opened(rented))
    good = rent(host)
    until(lambda: opened(good))
    assert tunnels.error is None


def test_a_machine_given_back_loses_its_tunnel(tunnels: Running, rented: Rented, host: FakeHost) -> None:
    until(lambda: opened(rented))
    Machine.objects.filter(pk=rented.machine.pk).update(state=MachineState.RELEASING)
    until(lambda: not rented.socket.exists() and host.streams == 0)


def test_no_tunnel_before_there_is_an_engine(tunnels: Running, rented: Rented, host: FakeHost) -> None:
    early = rent(host, State.BOOTING)
    until(lambda: opened(rented))
    assert not early.socket.exists()


def test_a_socket_left_by_a_crash_is_replaced(rented: Rented, hints: list[UUID]) -> None:
    rented.socket.parent.mkdir(mode=0o700)
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(rented.socket))
    left.close()
    running = Running()
    until(lambda: opened(rented))
    running.stop()
    assert not rented.socket.exists()
    assert running.error is None


def test_a_second_process_of_a_shard_refuses(tunnels: Running, rented: Rented) -> None:
    until(lambda: opened(rented))
    second = Running()
    second.wait()
    assert isinstance(second.error, ShardTaken)
    assert opened(rented)


def test_what_is_open_stays_open_while_the_database_restarts(tunnels: Running, rented: Rented, host: FakeHost) -> None:
    until(lambda: opened(rented))
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name LIKE 'arrakis-tunnels%%' AND datname = current_database()"
        )
    host.say(state(engine_state="unhealthy"))
    until(lambda: rented.status().engine_state == "unhealthy")
    assert opened(rented) and host.connections == 1
    assert tunnels.error is None
