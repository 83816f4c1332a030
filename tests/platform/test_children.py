"""The demo's processes: started again when they die, all gone when it ends, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from arrakis.demo.children import Child, ChildFailed, Children
from arrakis.demo.ports import next_free
from arrakis.embedded.processes import wait_until
from tests.platform.conftest import ends, is_gone

pytestmark = pytest.mark.services

ROOT = Path(__file__).resolve().parents[2]
# Says its pid and that of a child of its own, then ignores every polite request.
STUBBORN = (
    "import os, signal, subprocess, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
    "inner = subprocess.Popen(['sleep', '600']);"
    "open(sys.argv[1], 'w').write(f'{os.getpid()} {inner.pid}'); signal.pause()"
)


def a_child(tmp_path: Path, code: str, *arguments: str, stop_seconds: float = 5) -> Child:
    command = [sys.executable, "-c", code, *arguments]
    return Child("toy", command, tmp_path / "toy.log", {}, lambda: True, stop_seconds)


def test_one_that_dies_is_started_again_after_a_longer_pause_each_time(tmp_path: Path) -> None:
    said: list[str] = []
    child = a_child(tmp_path, "raise SystemExit(3)")
    children = Children([child], said.append)
    children.start()
    for _time in range(2):
        assert wait_until(lambda: child.ended is not None, 20)
        children.revive()
        assert child.start_at is not None
        child.start_at = 0  # its pause is over
        children.revive()
    children.stop()
    assert said == [
        "toy ended (status 3); started again in 1.0 s.",
        "toy ended (status 3); started again in 2.0 s.",
    ]


def test_stopping_takes_the_stubborn_and_what_they_started(tmp_path: Path) -> None:
    note = tmp_path / "pids"
    children = Children([a_child(tmp_path, STUBBORN, str(note), stop_seconds=0.2)], lambda _line: None)
    children.start()
    assert wait_until(lambda: note.exists() and len(note.read_text().split()) == 2, 20)
    children.stop()
    assert ends(*map(int, note.read_text().split()))


def test_one_that_ends_instead_of_answering_is_named(tmp_path: Path) -> None:
    child = a_child(tmp_path, "raise SystemExit(4)")
    child.is_ready = lambda: False
    children = Children([child], lambda _line: None)
    children.start()
    with pytest.raises(ChildFailed, match=r"toy ended with status 4; .*toy\.log says why"):
        children.wait_until_ready(30)


def test_none_outlives_a_killed_supervisor(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    code = (
        "import sys, time; from pathlib import Path; from arrakis.demo.children import Child, Children\n"
        f"toy = \"import os, signal; open({str(note)!r}, 'w').write(str(os.getpid())); signal.pause()\"\n"
        f"log = Path({str(tmp_path)!r}) / 'toy.log'\n"
        "Children([Child('toy', [sys.executable, '-c', toy], log, {}, lambda: True)], print).start()\n"
        "time.sleep(600)\n"
    )
    supervisor = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT)
    assert wait_until(lambda: note.exists() and note.read_text().isdigit(), 20)
    child = int(note.read_text())
    assert not is_gone(child)
    os.kill(supervisor.pid, signal.SIGKILL)
    supervisor.wait()
    assert ends(child)


def test_a_child_of_a_dead_parent_does_not_start() -> None:
    leash = ROOT / "arrakis" / "demo" / "leash.py"
    done = subprocess.run([sys.executable, "-I", "-S", leash, "1", "/bin/echo", "started"], capture_output=True)
    assert (done.returncode, done.stdout) == (1, b"")


def test_the_next_free_port_is_taken() -> None:
    first = next_free(42_000)
    assert next_free(first, taken={first}) > first
