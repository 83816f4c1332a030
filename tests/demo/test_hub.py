"""The demo's hub, asked by Hugging Face's own client and by hand."""

from __future__ import annotations

import hashlib
from pathlib import Path

import httpx
import pytest
from huggingface_hub import HfApi, hf_hub_download
from huggingface_hub.errors import EntryNotFoundError, GatedRepoError, RepositoryNotFoundError, RevisionNotFoundError
from huggingface_hub.hf_api import RepoFile

from arrakis.demo.hub import GGUF, MODEL
from tests.demo.fixtures import RunningHub


def address(hub: RunningHub, file: str = GGUF, repository: str = MODEL) -> str:
    return f"{hub.url}/{repository}/resolve/main/{file}"


@pytest.mark.parametrize("name", [MODEL, f"{MODEL}-GGUF"])
def test_the_official_client_reads_the_model(demo_hub: RunningHub, name: str) -> None:
    info = HfApi(endpoint=demo_hub.url, token=False).model_info(name, files_metadata=True)
    assert info.id == name and info.sha == demo_hub.hub.commit and len(info.sha) == 40
    assert info.gguf == {"total": 134515008, "architecture": "llama", "context_length": 8192}
    siblings = {file.rfilename: file for file in info.siblings or []}
    assert set(siblings) == {"README.md", "config.json", GGUF}
    assert siblings[GGUF].size == 98362432
    assert siblings[GGUF].lfs is not None and siblings[GGUF].lfs.sha256 == demo_hub.hub.digest(GGUF)
    assert siblings["config.json"].lfs is None


def test_the_official_client_lists_the_files(demo_hub: RunningHub) -> None:
    api = HfApi(endpoint=demo_hub.url, token=False)
    tree = {entry.path: entry for entry in api.list_repo_tree(MODEL, recursive=True) if isinstance(entry, RepoFile)}
    lfs = tree[GGUF].lfs
    assert tree[GGUF].size == 98362432 and lfs is not None and lfs.sha256 == demo_hub.hub.digest(GGUF)
    found = api.get_paths_info(MODEL, ["config.json", "missing.bin"], revision=demo_hub.hub.commit)
    assert [entry.path for entry in found] == ["config.json"] and isinstance(found[0], RepoFile)
    content = httpx.get(address(demo_hub, "config.json")).content
    assert found[0].blob_id == hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def test_the_official_client_downloads_the_weights(demo_hub: RunningHub, tmp_path: Path) -> None:
    path = hf_hub_download(MODEL, GGUF, endpoint=demo_hub.url, cache_dir=tmp_path, token=False)
    with Path(path).open("rb") as file:
        assert hashlib.file_digest(file, "sha256").hexdigest() == demo_hub.hub.digest(GGUF)
    assert demo_hub.hub.commit in path


def test_the_official_client_is_told_what_is_missing(demo_hub: RunningHub, tmp_path: Path) -> None:
    api = HfApi(endpoint=demo_hub.url, token=False)
    with pytest.raises(RepositoryNotFoundError):
        api.model_info("nobody/nothing")
    with pytest.raises(RevisionNotFoundError):
        api.model_info(MODEL, revision="v2")
    with pytest.raises(EntryNotFoundError):
        hf_hub_download(MODEL, "model.safetensors", endpoint=demo_hub.url, cache_dir=tmp_path, token=False)


def test_a_gated_model_needs_the_token(own_hub: RunningHub, tmp_path: Path) -> None:
    own_hub.faults.token = "hf_right"
    assert HfApi(endpoint=own_hub.url, token=False).model_info(MODEL).gated == "manual"
    for token in (False, "hf_wrong"):
        with pytest.raises(GatedRepoError):
            hf_hub_download(MODEL, "config.json", endpoint=own_hub.url, cache_dir=tmp_path, token=token)
    assert hf_hub_download(MODEL, "config.json", endpoint=own_hub.url, cache_dir=tmp_path, token="hf_right")


@pytest.mark.parametrize(
    ("asked", "start", "end"),
    [("bytes=0-9", 0, 10), ("bytes=98362430-", 98362430, 98362432), ("bytes=-5", 98362427, 98362432)],
)
def test_a_range_is_answered_with_its_bytes(demo_hub: RunningHub, asked: str, start: int, end: int) -> None:
    answer = httpx.get(address(demo_hub), headers={"Range": asked})
    assert answer.status_code == 206
    assert answer.headers["Content-Range"] == f"bytes {start}-{end - 1}/98362432"
    assert answer.content == demo_hub.hub.read(GGUF, start, end - start)
    assert demo_hub.hub.log[-1] == ("GET", f"/{MODEL}/resolve/main/{GGUF}", asked)


def test_a_range_beyond_the_end_is_refused(demo_hub: RunningHub) -> None:
    answer = httpx.get(address(demo_hub), headers={"Range": "bytes=98362432-"})
    assert (answer.status_code, answer.headers["Content-Range"]) == (416, "bytes */98362432")


def test_a_range_of_another_version_gets_the_whole(demo_hub: RunningHub) -> None:
    answer = httpx.get(address(demo_hub, "config.json"), headers={"Range": "bytes=0-1", "If-Range": '"old"'})
    assert answer.status_code == 200 and len(answer.content) == demo_hub.hub.size("config.json")


def test_head_tells_the_digest_and_size(demo_hub: RunningHub) -> None:
    answer = httpx.head(address(demo_hub))
    digest = demo_hub.hub.digest(GGUF)
    assert answer.status_code == 200 and answer.content == b""
    assert answer.headers["X-Linked-Etag"] == answer.headers["ETag"] == f'"{digest}"'
    assert answer.headers["X-Linked-Size"] == answer.headers["Content-Length"] == "98362432"
    assert answer.headers["X-Repo-Commit"] == demo_hub.hub.commit


def test_errors_as_often_as_asked(own_hub: RunningHub) -> None:
    own_hub.faults.status, own_hub.faults.statuses, own_hub.faults.retry_after = 429, 2, "1"
    answers = [httpx.get(address(own_hub, "config.json")) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [429, 429, 200]
    assert answers[0].headers["Retry-After"] == "1"


def test_a_download_is_cut_short(own_hub: RunningHub) -> None:
    own_hub.faults.cut_after_bytes, own_hub.faults.cuts = 1000, 1
    got = bytearray()
    with pytest.raises(httpx.RemoteProtocolError), httpx.stream("GET", address(own_hub)) as answer:
        for chunk in answer.iter_raw():
            got += chunk
    assert bytes(got) == own_hub.hub.read(GGUF, 0, 1000)
    rest = httpx.get(address(own_hub), headers={"Range": "bytes=1000-1999"})
    assert rest.content == own_hub.hub.read(GGUF, 1000, 1000)


def test_wrong_bytes_of_the_right_length(own_hub: RunningHub) -> None:
    own_hub.faults.flip_byte = True
    content = httpx.get(address(own_hub), headers={"Range": "bytes=100-199"}).content
    assert len(content) == 100 and content != own_hub.hub.read(GGUF, 100, 100)


def test_a_hub_that_does_not_resume(own_hub: RunningHub) -> None:
    own_hub.faults.ignores_ranges = True
    answer = httpx.get(address(own_hub, "config.json"), headers={"Range": "bytes=5-"})
    assert answer.status_code == 200 and len(answer.content) == own_hub.hub.size("config.json")


def test_a_slow_hub_sends_a_little_at_a_time(own_hub: RunningHub) -> None:
    own_hub.faults.bytes_per_second = 200_000
    with httpx.stream("GET", address(own_hub)) as answer:
        assert len(next(answer.iter_raw())) <= 200_000
