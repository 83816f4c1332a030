"""What keeps an engine up on a machine, with real processes: killed, blocked, filled up and tampered with."""

from __future__ import annotations

import ast
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.machine.host import REMOTE
from deploy.machine.status import parse_status
from tests.deploy.machine.place import Place, wait


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place.make(tmp_path / f"arrakis-test-{os.getpid()}")
    yield made
    made.end()


def engine_pid(place: Place) -> int:
    return wait("the engine", lambda: place.processes("engine.py") or None)[0]


def test_programs_are_python_3_8_and_import_nothing_of_ours() -> None:
    for path in REMOTE.glob("*.py"):
        tree = ast.parse(path.read_text(), feature_version=(3, 8))
        imported = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        imported |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        roots = {name.split(".")[0] for name in imported}
        assert roots <= sys.stdlib_module_names | {"label", "keeper", "statefile"}, path.name


def test_the_port_is_chosen_once_and_free(place: Place) -> None:
    port = place.init()
    assert 20000 <= port < 30000
    assert place.init() == port
    with socket.create_server(("127.0.0.1", port)):
        pass


def test_two_labels_get_two_ports(place: Place) -> None:
    other = Place.make(place.base.parent / "arrakis-test-other")
    assert place.init() != other.init()


def test_before_anything_the_state_is_installed(place: Place) -> None:
    port = place.init()
    status = place.status()
    assert (status.stage, status.engine_state, status.engine_port) == ("installed", "none", port)


def test_a_second_start_starts_nothing(place: Place) -> None:
    place.real_engine()
    place.call("start")
    first = place.wait("ready") and engine_pid(place)
    place.call("start")
    assert place.processes("engine.py") == [first]


def test_a_killed_engine_comes_back_without_its_old_workers(place: Place) -> None:
    place.real_engine()
    place.call("start")
    place.wait("ready")
    before = set(place.processes())
    killed = engine_pid(place)
    worker = set(place.processes("time.sleep"))
    os.kill(killed, signal.SIGKILL)
    wait("a restart", lambda: place.status().restarts == 1)
    place.wait("ready")
    assert engine_pid(place) != killed
    assert not worker & set(place.processes())
    assert len(place.processes()) == len(before)


def test_an_engine_that_keeps_dying_is_given_up(place: Place) -> None:
    place.init()
    place.engine("sh", "-c", "exit 7", limit=2)
    place.call("start")
    status = place.wait("failed")
    assert (status.error_code, status.exit_code, status.restarts) == ("engine_crash_limit", 7, 2)
    wait("the keeper's end", lambda: not place.processes())
    assert place.status().engine_state == "failed"


def test_an_engine_that_is_not_there_fails_at_once(place: Place) -> None:
    place.init()
    place.engine("no-such-engine")
    place.call("start")
    assert place.wait("failed").error_code == "engine_missing"


def test_a_port_that_a_customer_took_is_told(place: Place) -> None:
    port = place.real_engine(limit=50)
    with socket.create_server(("127.0.0.1", port)):
        place.call("start")
        wait("port_taken", lambda: place.status().error_code == "port_taken")
    assert place.wait("ready").error_code is None


def test_stop_leaves_no_process_and_start_begins_afresh(place: Place) -> None:
    place.real_engine()
    place.call("start")
    place.wait("ready")
    place.call("stop")
    assert place.processes() == []
    assert place.status().engine_state == "stopped"
    place.call("stop")
    place.call("start")
    assert place.wait("ready").restarts == 0


def test_restart_is_another_process_and_no_crash(place: Place) -> None:
    place.real_engine()
    place.call("start")
    place.wait("ready")
    before = engine_pid(place)
    place.call("restart")
    assert place.wait("ready").restarts == 0
    assert engine_pid(place) != before


def test_watch_tells_changes_revives_the_keeper_and_ends_with_its_reader(place: Place) -> None:
    place.real_engine()
    place.call("start")
    place.wait("ready")
    watch = subprocess.Popen(["sh", str(place.base / "supervisor.sh"), "watch"], stdout=subprocess.PIPE)
    assert watch.stdout is not None
    assert parse_status(watch.stdout.readline().strip()).engine_state == "ready"
    keeper = next(pid for pid in place.processes("supervisor.py\0keep"))
    os.kill(keeper, signal.SIGKILL)
    seen = []
    while "ready" not in seen:
        seen.append(parse_status(watch.stdout.readline().strip()).engine_state)
    assert seen[0] == "crashed"
    assert len(place.processes("engine.py")) == 1
    watch.stdout.close()
    assert watch.wait(10) == 0


def test_a_damaged_state_file_stops_nothing(place: Place) -> None:
    place.real_engine()
    for damage in (b"", b"{", b"[1]", b"\xff\xfe", b'{"restarts": "many"}'):
        (place.base / "state.json").write_bytes(damage)
        place.call("status")
    place.call("start")
    wait("ready", lambda: b'"engine_state":"ready"' in place.call("status"))
    place.call("stop")
    assert place.processes() == []


def test_a_flood_of_log_is_cut_and_its_end_is_kept(place: Place) -> None:
    place.init()
    flood = "i=0; while [ $i -lt 9 ]; do head -c 1000000 /dev/zero | tr '\\0' x; echo; i=$((i+1)); done; echo last; cat"
    place.engine("sh", "-c", f"{flood} /dev/stdin; sleep 60")
    place.call("start")
    log = place.base / "log" / "engine.log"
    wait("the cut", lambda: (place.base / "log" / "engine.log.1").exists() and log.stat().st_size < 4 * 1024 * 1024)
    wait("the last line", lambda: place.call("log", "1").endswith(b"last\n"))
    assert len(place.call("log", "1000")) <= 256 * 1024
