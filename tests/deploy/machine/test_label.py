"""What a label has on a machine: taken once, and given back whole from whatever state it was left in."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from deploy.machine.host import REMOTE
from tests.deploy.machine.place import Place

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ2v5gqWsP0UkzIYGdkQCyDhBVRcMDzVUk2fzTiTCfUj"
STRANGERS = b"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ2v5gqWsP0UkzIYGdkQCyDhBVRcMDzVUk2fzTiTCfUj someone@home\n"


@dataclass(frozen=True)
class Home:
    """An account of the machine; for root, folders of labels lie in /var/lib/arrakis all the same."""

    path: Path
    label: str

    @property
    def keys(self) -> Path:
        return self.path / ".ssh" / "authorized_keys"

    @property
    def base(self) -> Path:
        return (Path("/var/lib/arrakis") if os.geteuid() == 0 else self.path / "arrakis") / self.label

    def line(self, kind: str) -> str:
        return f"{KEY} arrakis:{self.label}:{kind}"

    def call(self, *words: str) -> Any:
        done = subprocess.run(
            [sys.executable, "-E", "-s", "-", *words],
            input=(REMOTE / "label.py").read_bytes(),
            env={"HOME": str(self.path), "PATH": os.environ["PATH"]},
            capture_output=True,
            timeout=60,
            check=True,
        )
        return json.loads(done.stdout)

    def claim(self) -> bool:
        return bool(self.call("claim", self.label, self.line("admin"))["created"])

    def exists(self) -> bool:
        return bool(self.call("exists", self.label)["exists"])

    def sleeper(self, **environment: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(["sleep", "600"], env={**os.environ, **environment}, start_new_session=True)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    made = Home(tmp_path, f"arrakis-test-{uuid4()}")
    (tmp_path / ".ssh").mkdir()
    made.keys.write_bytes(STRANGERS)
    yield made
    made.call("wipe", made.label)


def test_of_many_claims_at_once_one_creates(home: Home) -> None:
    with ThreadPoolExecutor(6) as pool:
        created = list(pool.map(lambda _: home.claim(), range(6)))
    assert sorted(created) == [False] * 5 + [True]
    assert home.keys.read_bytes() == STRANGERS + home.line("admin").encode() + b"\n"
    assert home.keys.stat().st_mode & 0o777 == 0o600
    assert home.base.stat().st_mode & 0o777 == 0o700
    assert home.label in home.call("labels")["labels"]


def test_a_claim_that_died_before_its_key_is_made_whole_by_the_next(home: Home) -> None:
    home.base.mkdir(parents=True)
    assert home.claim() is False
    assert home.line("admin").encode() in home.keys.read_bytes()


def test_keys_of_a_kind_are_exactly_those_told(home: Home) -> None:
    home.claim()
    home.call("key", home.label, "customer", home.line("customer:a"), home.line("customer:b"))
    home.call("key", home.label, "customer", home.line("customer:b"))
    lines = home.keys.read_text().splitlines()
    assert lines[1:] == [home.line("admin"), home.line("customer:b")]
    home.call("unkey", home.label, "customer")
    assert home.keys.read_bytes() == STRANGERS + home.line("admin").encode() + b"\n"


def test_a_longer_label_is_another_label(home: Home) -> None:
    """`arrakis-x-1` must not take the keys, folder or processes of `arrakis-x-12` with it."""
    other = Home(home.path, home.label + "2")
    other.claim()
    process = other.sleeper(ARRAKIS_LABEL=other.label)
    home.claim()
    assert home.call("wipe", home.label) == {"left": []}
    assert other.exists()
    assert process.poll() is None
    assert other.line("admin").encode() in other.keys.read_bytes()
    assert other.call("wipe", other.label) == {"left": []}
    process.wait(10)


@pytest.mark.parametrize("state", ["nothing", "folder", "key", "process", "session", "file", "link", "installed"])
def test_wipe_leaves_nothing_from_any_state(home: Home, tmp_path: Path, state: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    home.base.parent.mkdir(parents=True, exist_ok=True)
    process = None
    if state == "folder":
        home.base.mkdir()
    elif state == "key":
        home.call("key", home.label, "tunnel", home.line("tunnel"))
    elif state == "process":
        process = home.sleeper(ARRAKIS_LABEL=home.label)
    elif state == "session":
        process = home.sleeper(ARRAKIS_SESSION=f"arrakis:{home.label}:customer")
    elif state == "file":
        home.base.touch()
    elif state == "link":
        home.base.symlink_to(outside)
    elif state == "installed":
        place = Place.make(home.base)
        place.real_engine()
        place.call("start")
        place.wait("ready")
    assert home.exists() is (state != "nothing")
    assert home.call("wipe", home.label) == {"left": []}
    assert home.call("wipe", home.label) == {"left": []}
    assert not home.exists()
    assert home.keys.read_bytes() == STRANGERS
    assert not os.path.lexists(home.base)
    assert (outside / "kept").exists()
    assert process is None or process.wait(10) < 0
    assert state != "installed" or Place(home.base).processes() == []


@pytest.mark.parametrize(
    "line", ["{0}\nssh-ed25519 AAAA evil", "ssh-ed25519 AAAA someone-else", "{1} arrakis:{2}-x:customer:a"]
)
def test_a_line_that_is_not_of_its_kind_is_refused(home: Home, line: str) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        home.call("key", home.label, "customer", line.format(home.line("customer:a"), KEY, home.label))
    assert home.keys.read_bytes() == STRANGERS


@pytest.mark.parametrize("label", ["..", "arrakis-", "arrakis-x/../../etc", "other-1", "arrakis-x\n"])
def test_what_is_no_label_is_refused(home: Home, label: str) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        home.call("wipe", label)
