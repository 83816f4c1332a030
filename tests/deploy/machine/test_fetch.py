"""The downloader against a hub that cuts, lies, refuses and is not there; real processes, real HTTP."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from arrakis.demo.hub import REPOSITORY, Hub
from deploy.machine.status import Status
from tests.deploy.machine.place import Place, wait

SIZE = 3 * 1024 * 1024 + 7
README = b"# A model\n"


class RunningHub:
    """A hub in a thread of its own, at `address`."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self._loop = asyncio.new_event_loop()
        self._runner = web.AppRunner(hub.application(), shutdown_timeout=0.1)
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self.address = asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(10)

    async def _listen(self) -> str:
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        return f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._runner.cleanup(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[RunningHub]:
    weights = tmp_path / "weights.gguf"
    weights.write_bytes(os.urandom(SIZE))
    running = RunningHub(Hub({"weights.gguf": weights, "docs/README.md": README}))
    yield running
    running.close()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place.make(tmp_path / f"arrakis-test-{os.getpid()}")
    made.init()
    yield made
    made.end()


def plan(hub: RunningHub, **changes: Any) -> dict[str, Any]:
    files = [
        {"path": "weights.gguf", "size": SIZE, "sha256": hub.hub.digest("weights.gguf"), "git_sha1": None},
        {"path": "docs/README.md", "size": len(README), "sha256": None, "git_sha1": hub.hub.digest("docs/README.md")},
    ]
    told = {"endpoint": hub.address, "repo_id": REPOSITORY, "revision": hub.hub.commit, "files": files}
    return {**told, "retry_seconds": 0.01, **changes}


def fetch(place: Place, told: dict[str, Any], token: bytes = b"") -> Status:
    (place.base / "plan.json").write_text(json.dumps(told))
    place.call("fetch", stdin=token)
    return wait("the end", lambda: status if (status := place.status()).stage in {"downloaded", "failed"} else None)


def ranges(hub: RunningHub) -> list[str]:
    return [asked for _, path, asked in hub.hub.log if path.endswith("weights.gguf")]


def test_everything_arrives_whole_and_is_counted(place: Place, hub: RunningHub) -> None:
    status = fetch(place, plan(hub))
    assert (status.stage, status.error_code) == ("downloaded", None)
    assert (status.bytes_done, status.bytes_total) == (SIZE + len(README),) * 2
    weights = (place.base / "model" / "weights.gguf").read_bytes()
    assert hashlib.sha256(weights).hexdigest() == hub.hub.digest("weights.gguf")
    assert (place.base / "model" / "docs" / "README.md").read_bytes() == README


def test_what_is_there_is_not_fetched_again(place: Place, hub: RunningHub) -> None:
    fetch(place, plan(hub))
    before = len(hub.hub.log)
    assert fetch(place, plan(hub)).stage == "downloaded"
    assert len(hub.hub.log) == before


def test_cut_halfway_it_goes_on_where_it_was(place: Place, hub: RunningHub) -> None:
    hub.hub.faults.cut_after_bytes, hub.hub.faults.cuts = SIZE // 2, 1
    assert fetch(place, plan(hub)).stage == "downloaded"
    first, second = ranges(hub)
    assert first == ""
    begin = int(second.removeprefix("bytes=").rstrip("-"))
    assert 0 < begin <= SIZE // 2


def test_a_killed_download_is_told_and_resumed(place: Place, hub: RunningHub) -> None:
    hub.hub.faults.bytes_per_second = 2 * 1024 * 1024
    (place.base / "plan.json").write_text(json.dumps(plan(hub)))
    place.call("fetch")
    part = place.base / "model" / "weights.gguf.part"
    wait("half of it", lambda: part.exists() and part.stat().st_size > SIZE // 4)
    place.end()
    status = place.status()
    assert (status.stage, status.error_code) == ("failed", "fetch_crashed")
    hub.hub.faults.bytes_per_second = 0
    assert fetch(place, plan(hub)).stage == "downloaded"
    assert ranges(hub)[-1].startswith("bytes=")


def test_a_second_fetch_while_one_runs_is_none(place: Place, hub: RunningHub) -> None:
    hub.hub.faults.bytes_per_second = 4 * 1024 * 1024
    (place.base / "plan.json").write_text(json.dumps(plan(hub)))
    place.call("fetch")
    place.call("fetch")
    wait("the end", lambda: place.status().stage == "downloaded")
    assert len(ranges(hub)) == 1


def test_wrong_bytes_are_not_kept(place: Place, hub: RunningHub) -> None:
    hub.hub.faults.flip_byte = True
    status = fetch(place, plan(hub))
    assert (status.stage, status.error_code) == ("failed", "checksum_mismatch")
    assert not (place.base / "model" / "weights.gguf").exists()


def test_a_gated_model_needs_its_token_which_is_in_no_command_or_environment(place: Place, hub: RunningHub) -> None:
    hub.hub.faults.token = "hf_right"
    assert fetch(place, plan(hub)).error_code == "gated"
    assert fetch(place, plan(hub), b"hf_wrong").error_code == "gated"
    hub.hub.faults.bytes_per_second = 2 * 1024 * 1024
    (place.base / "plan.json").write_text(json.dumps(plan(hub)))
    place.call("fetch", stdin=b"hf_right")
    pid = wait("the downloader", lambda: place.processes("fetch.py"))[0]
    for name in ("cmdline", "environ"):
        assert b"hf_right" not in Path(f"/proc/{pid}/{name}").read_bytes()
    wait("the end", lambda: place.status().stage == "downloaded")
    kept = [path for path in place.base.rglob("*") if path.is_file() and b"hf_right" in path.read_bytes()]
    assert kept == []


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_hub_that_is_busy_for_a_while_is_asked_again(place: Place, hub: RunningHub, status: int) -> None:
    hub.hub.faults.status, hub.hub.faults.statuses = status, 3
    assert fetch(place, plan(hub)).stage == "downloaded"


def test_a_hub_that_stays_broken_or_away_is_given_up(place: Place, hub: RunningHub) -> None:
    hub.hub.faults.status, hub.hub.faults.statuses = 500, 10_000
    assert fetch(place, plan(hub)).error_code == "hub_unreachable"
    assert fetch(place, plan(hub, endpoint="http://127.0.0.1:9")).error_code == "hub_unreachable"


def test_a_revision_that_is_not_there(place: Place, hub: RunningHub) -> None:
    assert fetch(place, plan(hub, revision="0" * 40)).error_code == "not_found"


def test_a_disk_that_is_too_small_is_told_before_it_is_full(place: Place, hub: RunningHub) -> None:
    told = plan(hub)
    told["files"][0]["size"] = 2**49
    assert fetch(place, told).error_code == "disk_full"
    assert ranges(hub) == []


def test_a_path_cannot_leave_the_folder(place: Place, hub: RunningHub) -> None:
    told = plan(hub)
    told["files"][1]["path"] = "../../escaped"
    assert fetch(place, told).stage == "failed"
    assert not (place.base.parent / "escaped").exists()
