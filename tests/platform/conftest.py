"""Clones of their own for tests of what a clone starts; whatever a test leaves is stopped and removed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from arrakis import embedded
from arrakis.embedded import clone
from arrakis.embedded.processes import wait_until

INSTANCE = "try"


class Place:
    """A clone's root folder and the services in it."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def ensure(self, **options: Any) -> embedded.Services:
        return embedded.ensure(instance=INSTANCE, root=self.root, **options)

    def status(self) -> embedded.Services | None:
        return embedded.status(instance=INSTANCE, root=self.root)

    def stop(self) -> bool:
        return embedded.stop(instance=INSTANCE, root=self.root)

    def reset(self) -> None:
        embedded.reset(instance=INSTANCE, root=self.root)

    def folder(self) -> Path:
        return self.root / ".arrakis" / INSTANCE

    def state(self) -> dict[str, Any]:
        state: dict[str, Any] = json.loads((self.folder() / "state.json").read_text())
        return state

    def data(self) -> Path:
        return clone.data_home(self.root) / INSTANCE / "postgres"

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        services = self.status()
        assert services is not None
        with psycopg.connect(services.database_url, autocommit=True) as connection:
            cursor = connection.execute(sql.encode())
            return cursor.fetchall() if cursor.description else []

    def remove(self) -> None:
        if (self.root / ".arrakis").is_dir():
            self.reset()
            places = json.loads((self.root / ".arrakis" / "places.json").read_text())
            for name in ("home", *(name for name in places if name.startswith(("sockets", "run")))):
                shutil.rmtree(places.get(name, "/nonexistent"), ignore_errors=True)


@pytest.fixture
def new_place(tmp_path: Path) -> Iterator[Callable[[str], Place]]:
    made: list[Place] = []

    def make(name: str) -> Place:
        (tmp_path / name).mkdir(parents=True)
        made.append(Place(tmp_path / name))
        return made[-1]

    yield make
    for place in made:
        place.remove()


@pytest.fixture
def place(new_place: Callable[[str], Place]) -> Place:
    return new_place("clone")


def is_gone(pid: int) -> bool:
    """Whether the process ended; one that nobody has collected yet counts as ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def ends(*pids: int, seconds: float = 30) -> bool:
    return wait_until(lambda: all(is_gone(pid) for pid in pids), seconds)


def python_for_anybody() -> str | None:
    """A Python that another user may run; the one that runs the tests may lie in root's own folder."""
    for candidate in (getattr(sys, "_base_executable", ""), "/usr/bin/python3", "/usr/local/bin/python3"):
        path = Path(candidate).resolve()
        if candidate and path.exists() and clone.reachable_by_others(path) and _is_new_enough(path):
            return str(path)
    return None


def _is_new_enough(python: Path) -> bool:
    test = "import sys; sys.exit(sys.version_info < (3, 11))"
    return subprocess.run([str(python), "-c", test], env={"PATH": os.environ["PATH"]}).returncode == 0
