"""`make demo` itself, in a clone of its own: up, second start, Ctrl-C, kill -9, up again."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from arrakis.demo.ports import next_free
from arrakis.embedded.processes import command_line, wait_until
from tests.platform.conftest import ends, is_gone

pytestmark = [pytest.mark.services, pytest.mark.timeout(280)]

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("arrakis", "catalog", "sizing", "deploy", "templates", "locale")


class Clone:
    """A checkout that runs with this one's packages."""

    def __init__(self, root: Path) -> None:
        self.root, self.port = root, next_free(18_400)
        for part in PARTS:
            shutil.copytree(ROOT / part, root / part, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "manage.py", root)
        names = ("DATABASE_URL", "REDIS_URL", "DJANGO_SETTINGS_MODULE", "SITE_URL", "GATEWAY_URL", "HF_ENDPOINT")
        self.environment = {name: value for name, value in os.environ.items() if name not in names}
        self.environment.update(PORT=str(self.port), RESET="", PYTHONPATH=str(root))
        self.output = root / "output"

    def demo(self) -> subprocess.Popen[bytes]:
        with self.output.open("wb") as output:
            return subprocess.Popen(
                [sys.executable, "-m", "arrakis.demo"],
                cwd=self.root,
                env=self.environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def told(self) -> dict[str, object]:
        told: dict[str, object] = json.loads((self.root / ".arrakis" / "demo.json").read_text())
        return told

    def is_up(self) -> bool:
        return (self.root / ".arrakis" / "demo.json").exists()

    def up(self) -> subprocess.Popen[bytes]:
        (self.root / ".arrakis" / "demo.json").unlink(missing_ok=True)
        demo = self.demo()
        assert wait_until(lambda: self.is_up() or demo.poll() is not None, 120) and self.is_up(), self.text()
        return demo

    def text(self) -> str:
        return self.output.read_text()

    def processes(self) -> set[int]:
        """All that live and were started for this clone: what they were started with names it, or they run in it."""
        mine = set()
        for entry in Path("/proc").glob("[0-9]*"):
            pid = int(entry.name)
            try:
                environment = (entry / "environ").read_bytes()
            except OSError:
                environment = b""
            words = " ".join(command_line(pid))
            if (str(self.root) in words or os.fsencode(f"PYTHONPATH={self.root}") in environment) and not is_gone(pid):
                mine.add(pid)
        return mine - {os.getpid()}


@pytest.fixture
def clone() -> Iterator[Clone]:
    root = Path(tempfile.mkdtemp(prefix="arrakis-demo-"))
    root.chmod(0o755)
    made = Clone(root)
    yield made
    for what in (["stop"], ["reset"]):
        subprocess.run([sys.executable, "-m", "arrakis.embedded", *what], cwd=root, env=made.environment, check=True)
    for pid in made.processes():
        os.kill(pid, signal.SIGKILL)
    places = json.loads((root / ".arrakis" / "places.json").read_text())
    for folder in (places.get("home"), places.get("run"), str(root)):
        shutil.rmtree(folder or "/nonexistent", ignore_errors=True)


def test_the_demo_from_start_to_end(clone: Clone) -> None:
    demo = clone.up()
    told = clone.told()
    assert set(told) == {"url", "gateway_url", "customer", "staff", "machine_gpu"}
    assert (clone.root / ".arrakis" / "demo.json").stat().st_mode & 0o777 == 0o600
    assert f"{told['url']}/" in clone.text() and "Ready in " in clone.text()
    with urllib.request.urlopen(f"{told['url']}/readyz", timeout=10) as answer:
        assert json.load(answer) == {"status": "ok"}

    again = subprocess.run(
        [sys.executable, "-m", "arrakis.demo"], cwd=clone.root, env=clone.environment, capture_output=True, text=True
    )
    assert again.stdout == f"The demo of this clone is already running at {told['url']}.\n"
    books = subprocess.run(
        [sys.executable, "manage.py", "ledger_check"], cwd=clone.root, env=clone.environment, capture_output=True
    )
    assert books.returncode == 0, books.stderr

    started = clone.processes()
    assert len(started) > 8
    os.killpg(demo.pid, signal.SIGINT)
    assert demo.wait(90) == 0
    assert clone.text().endswith("Stopped.\n")
    assert clone.processes() == set()
    assert not clone.is_up()


def test_nothing_outlives_a_killed_demo_and_the_next_start_works(clone: Clone) -> None:
    first = clone.up()
    told = clone.told()
    started = clone.processes() - _services(clone)
    first.kill()
    first.wait()
    assert ends(*started, seconds=60)
    second = clone.up()
    assert clone.told()["customer"] == told["customer"]  # the same data, so the same accounts
    os.killpg(second.pid, signal.SIGTERM)
    assert second.wait(90) == 0
    assert clone.processes() == set()


def _services(clone: Clone) -> set[int]:
    """PostgreSQL and Valkey with their keeper, which wait for the next start, and end by themselves without one."""
    state = json.loads((clone.root / ".arrakis" / "main" / "state.json").read_text())
    own = {state["keeper"], *state["pids"].values()}
    return own | {pid for pid in clone.processes() if "postgres" in " ".join(command_line(pid))}
