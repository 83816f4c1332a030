"""The pure parts of the tunnels."""

from __future__ import annotations

import asyncio
from pathlib import Path
from uuid import uuid4

import pytest
from django.conf import settings

from deploy.machine.status import Status
from deploy.tunnels.backoff import Backoff
from deploy.tunnels.paths import MAX_PATH_BYTES, make_socket_folder, socket_path
from deploy.tunnels.wanted import Shard
from deploy.tunnels.watch import GARBLED_MOST, Cut, watch
from tests.fakes.hosts import state


def test_every_machine_is_in_one_shard() -> None:
    shards = [Shard(n, 4) for n in range(4)]
    for _ in range(200):
        machine = uuid4()
        assert sum(shard.holds(machine) for shard in shards) == 1


@pytest.mark.parametrize("text", ["", "1", "1/1", "-1/2", "2/2", "0/0", "a/b", "0/9999999"])
def test_shards_that_are_none(text: str) -> None:
    with pytest.raises(ValueError):
        Shard.parse(text)


def test_waits_grow_and_begin_again() -> None:
    backoff = Backoff(first=1, most=10)
    waits = [backoff.next() for _ in range(50)]
    assert 0.5 <= waits[0] <= 1 and all(5 <= wait <= 10 for wait in waits[4:])
    backoff.reset()
    assert backoff.next() <= 1


def test_a_long_folder_still_has_sockets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "RUN_DIR", tmp_path / ("x" * 100))
    one, two = socket_path(uuid4()), socket_path(uuid4())
    assert one != two and one.parent == two.parent
    assert len(str(one)) <= MAX_PATH_BYTES


def test_somebody_elses_folder_is_refused(run_dir: Path) -> None:
    (run_dir / "elsewhere").mkdir()
    (run_dir / "t").symlink_to(run_dir / "elsewhere")
    with pytest.raises(PermissionError):
        make_socket_folder()


class Pieces:
    def __init__(self, *pieces: bytes) -> None:
        self.pieces = list(pieces)

    async def read(self, n: int) -> bytes:
        return self.pieces.pop(0) if self.pieces else b""


def heard(*pieces: bytes) -> list[Status]:
    told: list[Status] = []

    async def at_once(_seconds: float) -> None:
        return None

    asyncio.run(watch(Pieces(*pieces), told.append, at_once))
    return told


def test_the_last_whole_line_is_the_state() -> None:
    line = state(bytes_done=3)
    assert [s.bytes_done for s in heard(state(bytes_done=1) + state(bytes_done=2) + line[:9], line[9:])] == [2, 3]


def test_a_line_that_says_nothing_is_passed_over() -> None:
    assert [s.stage for s in heard(b"\x1b[31m<script>\n", state())] == ["downloaded"]


@pytest.mark.parametrize("pieces", [[b"x" * 10_000], [b"nonsense\n"] * GARBLED_MOST])
def test_a_stream_of_nonsense_is_cut(pieces: list[bytes]) -> None:
    with pytest.raises(Cut):
        heard(*pieces)
