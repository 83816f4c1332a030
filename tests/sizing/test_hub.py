"""How a hub is asked: with how few questions, and what comes of each thing that goes wrong."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
from django.core.cache import cache
from django.test import override_settings
from huggingface_hub import errors as official

from arrakis import http
from arrakis.errors import ArrakisError
from sizing.hub import Closed, HubUnavailable, Missing, Unsizeable, Wanted, facts, local_facts, wanted
from sizing.hub.recall import told
from sizing.references import NotAReference
from tests.demo.fixtures import RunningHub
from tests.fakes import checkpoints as made
from tests.fakes.checkpoints import LLAMA_8B, LLAMA_8B_PARAMS, Shapes, Sparse
from tests.fakes.hub import FakeHub, Repo, running

REPO = "meta/Llama-8B"
MEMORY = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache", "LOCATION": "hub"}}
NOTHING = {"default": {"BACKEND": "django.core.cache.backends.dummy.DummyCache"}}


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    with override_settings(CACHES=MEMORY):
        cache.clear()
    with running() as hub, override_settings(HF_ENDPOINT=hub.address, CACHES=NOTHING):
        yield hub


def add(hub: FakeHub, repo_id: str = REPO, *, shards: int = 4, config: Any = None, **more: Any) -> Repo:
    shapes = LLAMA_8B.shapes()
    said = made.document("config.json", config or LLAMA_8B.config())
    more.setdefault("counts", made.elements(shapes))
    return hub.add(repo_id, said | made.sharded(shapes, shards), **more)


def problem(reference: str = REPO, **more: Any) -> ArrakisError:
    with pytest.raises(ArrakisError) as caught:
        facts(reference, **more)
    return caught.value


# ------------------------------------------------------------------ how few questions


@pytest.mark.parametrize(("shards", "most"), [(1, 3), (2, 3), (8, 3), (200, 6)])
def test_few_requests_where_the_counts_of_the_hub_suffice(shards: int, most: int, hub: FakeHub) -> None:
    add(hub, shards=shards)
    assert facts(REPO).params_total == LLAMA_8B_PARAMS
    assert len(hub.log) <= most
    assert hub.stored == []


def test_few_requests_for_experts_and_tied_heads_too(hub: FakeHub) -> None:
    shapes = made.QWEN3_30B.shapes()
    hub.add(REPO, made.document("config.json", made.QWEN3_30B.config()) | made.sharded(shapes, 8))
    hub.repos[REPO].counts = made.elements(shapes)
    assert facts(REPO).params_active is not None
    tied = made.QWEN3_06B.shapes() | {"lm_head.weight": ("BF16", (151936, 1024))}
    hub.add("a/tied", made.document("config.json", made.QWEN3_06B.config()) | made.sharded(tied, 8))
    hub.repos["a/tied"].counts = made.elements(tied)
    assert facts("a/tied").params_total == made.QWEN3_06B_PARAMS
    assert len(hub.log) == 6
    assert hub.stored == []


def test_only_the_shards_with_predicting_layers_are_opened(hub: FakeHub) -> None:
    shapes = LLAMA_8B.shapes() | {"model.layers.32.eh_proj.weight": ("BF16", (4096, 8192))}
    config = LLAMA_8B.config(num_nextn_predict_layers=1)
    files = made.document("config.json", config) | made.sharded(shapes, 40)
    hub.add(REPO, files, counts=made.elements(shapes))
    assert facts(REPO).params_mtp == 4096 * 8192
    assert len(hub.log) == 4


def test_headers_are_all_that_is_read_of_weights(hub: FakeHub) -> None:
    shapes = made.fp8(LLAMA_8B)
    config = LLAMA_8B.config(quantization_config={"quant_method": "fp8"})
    files = made.document("config.json", config) | made.sharded(shapes, 30)
    hub.add(REPO, files, counts=made.elements(shapes))
    assert facts(REPO).params_total == LLAMA_8B_PARAMS
    assert len(hub.stored) == 30
    assert all(int(request.range.removeprefix("bytes=0-")) < 256 * 1024 for request in hub.stored)


def test_a_header_longer_than_the_first_reading_is_read_on(hub: FakeHub) -> None:
    shapes: Shapes = {f"model.layers.{n}.{'x' * 100}.weight": ("BF16", (8, 8)) for n in range(4000)}
    hub.add(REPO, {"config.json": b"{}", "model.safetensors": made.safetensors(shapes)})
    assert facts(REPO).params_total == 4000 * 64
    assert len(hub.stored) == 2
    assert hub.stored[1].range.startswith("bytes=262144-")


def test_an_index_tells_how_long_the_headers_are(hub: FakeHub) -> None:
    shapes: Shapes = {f"model.layers.{n}.{'x' * 60}.weight": ("F8_E4M3", (64, 64)) for n in range(6000)}
    hub.add(REPO, made.document("config.json", {}) | made.sharded(shapes, 2))
    assert facts(REPO).params_total == 6000 * 64 * 64
    assert len(hub.stored) == 2


def test_what_was_read_of_a_commit_is_not_read_again(hub: FakeHub) -> None:
    with override_settings(CACHES=MEMORY):
        repo = add(hub)
        first, asked = facts(REPO), len(hub.log)
        assert facts(REPO) == first
        assert len(hub.log) == asked + 1
        repo.files["added.json"] = b"{}"  # another commit
        assert facts(REPO).revision != first.revision
        assert len(hub.log) == 2 * asked + 1


def test_what_one_token_sees_is_kept_for_that_token(hub: FakeHub) -> None:
    with override_settings(CACHES=MEMORY):
        add(hub, private=True, token="hf_owner")
        assert facts(REPO, token="hf_owner").params_total == LLAMA_8B_PARAMS
        assert problem().code == "hub_not_found"
        assert problem(token="hf_other").code == "hub_not_found"


# ------------------------------------------------------------------ the card


def test_the_card(hub: FakeHub) -> None:
    repo = add(hub, told={"cardData": {"license": "llama3.1"}})
    found = facts(REPO)
    assert (found.repo_id, found.revision, found.licence) == (REPO, repo.commit, "llama3.1")
    assert (found.released_on, found.gated, found.kind) == (date(2025, 4, 27), False, "text")
    weights = [file for file in found.files if file.format == "safetensors"]
    assert [len(file.sha256) for file in weights] == [64] * 4
    assert "config.json" in {file.path for file in found.files}


@pytest.mark.parametrize(
    "card",
    [
        {"cardData": None, "tags": None, "createdAt": 7, "config": [], "safetensors": "x", "gated": None},
        {
            "cardData": {"license": {"a": 1}},
            "tags": [1, None],
            "createdAt": "yesterday",
            "safetensors": {"parameters": 1},
        },
        {"safetensors": {"parameters": {"BF16": "many"}}, "siblings_more": [1]},
        {"safetensors": {"parameters": {"BF16": -5}}},
        {"safetensors": {"parameters": {"BF16": 10**30}}},
    ],
)
def test_a_card_of_nonsense_does_no_harm(card: dict[str, Any], hub: FakeHub) -> None:
    add(hub, told=card)
    assert facts(REPO).params_total == LLAMA_8B_PARAMS


def test_a_renamed_repository_is_followed(hub: FakeHub) -> None:
    add(hub, "new/Name")
    hub.add("old/Name", {}, moved_to="new/Name")
    found = facts("old/Name")
    assert (found.repo_id, found.renamed_from) == ("new/Name", "old/Name")
    assert all("/new/Name/" in path for path in hub.requests()[2:])


def test_a_revision_is_resolved_to_its_commit(hub: FakeHub) -> None:
    repo = add(hub, branches=("main", "refs/pr/1", "v1.0"))
    for text in (f"{REPO}@v1.0", f"https://huggingface.co/{REPO}/tree/v1.0"):
        assert facts(text).revision == repo.commit
    assert facts(REPO, revision="refs/pr/1").revision == repo.commit
    assert "/revision/v1.0" in hub.requests()[0]
    found = problem(f"{REPO}@v2.0")
    assert (found.code, found.params["revision"]) == ("hub_revision_not_found", "v2.0")


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("a/b", Wanted("a/b")),
        ("https://huggingface.co/a/b", Wanted("a/b")),
        ("huggingface.co/a/b/tree/main", Wanted("a/b", "main")),
        ("https://hf.co/a/b/tree/refs%2Fpr%2F3/sub?x=1", Wanted("a/b", "refs/pr/3")),
        ("https://huggingface.co/a/b/discussions/4", Wanted("a/b")),
        (
            "https://huggingface.co/a/b/blob/main/sub/m.Q4_0.gguf?download=true#x",
            Wanted("a/b", "main", "sub/m.Q4_0.gguf"),
        ),
        ("https://huggingface.co/a/b/blob/main/README.md", Wanted("a/b", "main")),
        ("a/b@v1", Wanted("a/b", "v1")),
    ],
)
def test_what_people_paste(text: str, right: Wanted) -> None:
    assert wanted(text) == right


@pytest.mark.parametrize(
    "text",
    [
        "70B",
        "a-slug",
        "/etc/passwd",
        "a/b@../../x",
        "a/b@-x",
        "https://huggingface.co/a/b/tree/..%2F..%2Fapi",
        "https://huggingface.co/a/b/blob/main/..%2Fx.gguf",
        "https://evil.example/a/b",
    ],
)
def test_what_names_no_repository(text: str) -> None:
    with pytest.raises(NotAReference):
        wanted(text)


# ------------------------------------------------------------------ what goes wrong


def test_a_missing_repository_and_a_private_one_look_the_same(hub: FakeHub) -> None:
    add(hub, "meta/Private", private=True, token="hf_owner")
    found, other = problem("meta/None"), problem("meta/Private")
    assert isinstance(found, Missing)
    assert (found.code, found.status, found.fault) == ("hub_not_found", 404, "customer")
    assert (other.code, other.status) == (found.code, found.status)


def test_a_gated_model_is_sized_by_the_counts_of_the_hub(hub: FakeHub) -> None:
    add(hub, gated=True, token="hf_leave")
    found = facts(REPO)
    assert (found.params_total, found.gated, found.notes) == (LLAMA_8B_PARAMS, True, ("config_withheld",))
    assert found.context is None
    assert facts(REPO, token="hf_leave").context == 131072


def test_a_gated_model_of_a_family_that_ties_its_head(hub: FakeHub) -> None:
    said = {"config": {"architectures": ["GemmaForCausalLM"], "model_type": "gemma"}}
    add(hub, gated=True, shards=1, told=said)
    assert facts(REPO).params_total == LLAMA_8B_PARAMS


def test_a_gated_model_that_needs_its_files_is_refused(hub: FakeHub) -> None:
    add(hub, gated=True, token="hf_leave", counts=None)
    for token in (None, "hf_other"):
        found = problem(token=token)
        assert isinstance(found, Closed)
        assert (found.code, found.status, found.fault) == ("hub_gated", 403, "customer")


def test_a_token_that_the_hub_does_not_know(hub: FakeHub) -> None:
    add(hub)
    hub.revoked = "hf_old"
    found = problem(token="hf_old")
    assert (found.code, found.status) == ("hub_token_refused", 403)


def test_a_disabled_repository(hub: FakeHub) -> None:
    add(hub, disabled=True)
    assert problem().code == "hub_disabled"


@pytest.mark.parametrize(
    ("files", "code"),
    [
        ({}, "model_empty"),
        ({"README.md": b"# soon", ".gitattributes": b""}, "model_empty"),
        ({"config.json": b"{}", "onnx/model.onnx": Sparse(b"", 10**9)}, "model_kind_not_sized"),
        ({"config.json": b"{}", "consolidated.00.pth": Sparse(b"PK", 10**9)}, "model_kind_not_sized"),
        ({"config.json": b"{}", "model.safetensors": b""}, "model_malformed"),
        ({"config.json": b"{}", "model.safetensors": b"\xff" * 100}, "model_malformed"),
        ({"config.json": b"{}", "model.safetensors": b"\x02" + b"\0" * 7 + b"{}"}, "model_empty"),
        ({"config.json": b"{}", "model.safetensors": b"\x02" + b"\0" * 7 + b"[]"}, "model_malformed"),
        ({"config.json": b"{", "model.safetensors": made.safetensors({"a": ("F16", (2,))})}, "model_malformed"),
        ({"config.json": b"[1]", "model.safetensors": made.safetensors({"a": ("F16", (2,))})}, "model_malformed"),
        ({"config.json": b"{}", "model.safetensors.index.json": b"{}"}, "model_malformed"),
        ({"model.safetensors.index.json": b'{"weight_map": {"a": "gone.safetensors"}}'}, "model_malformed"),
        ({"model-00001-of-00002.safetensors": made.safetensors({"a": ("F16", (2,))})}, "model_malformed"),
        ({"m.Q4_0.gguf": b"GGML" + b"\0" * 100}, "model_malformed"),
        ({"m.Q4_0.gguf": b"GGUF\3\0\0\0" + b"\xff" * 100}, "model_malformed"),
        ({"m.Q4_0.gguf": b"GGUF\3\0\0\0" + b"\1" + b"\0" * 7 + b"\0" * 8 + b"\1"}, "model_malformed"),
        ({"m.Q4_0.gguf": b""}, "model_malformed"),
    ],
)
def test_empty_and_malformed_repositories(files: dict[str, bytes | Sparse], code: str, hub: FakeHub) -> None:
    hub.add(REPO, files)
    found = problem()
    assert isinstance(found, Unsizeable)
    assert (found.code, found.status, found.fault) == (code, 422, "customer")


@pytest.mark.parametrize(
    "header",
    [
        {"a": {"dtype": "F16", "shape": [2**40, 2**40], "data_offsets": [0, 4]}},
        {"a": {"dtype": "F16", "shape": [-2, -2], "data_offsets": [0, 8]}},
        {"a": {"dtype": "F16", "shape": [2], "data_offsets": [0, 400]}},
        {"a": {"dtype": "F16", "shape": [True], "data_offsets": [0, 2]}},
        {"a": {"dtype": "F16", "shape": "12", "data_offsets": [0, 2]}},
        {"a": {"dtype": "Q9", "shape": [2], "data_offsets": [0, 2]}},
        {"a": ["F16"]},
    ],
)
def test_a_header_that_lies_is_refused(header: dict[str, Any], hub: FakeHub) -> None:
    text = json.dumps(header).encode()
    hub.add(REPO, {"config.json": b"{}", "model.safetensors": len(text).to_bytes(8, "little") + text + b"\0" * 8})
    assert problem().code == "model_malformed"


def test_a_file_that_is_not_there(hub: FakeHub) -> None:
    add(hub)
    found = problem(f"https://huggingface.co/{REPO}/blob/main/none.gguf")
    assert (found.code, found.params["path"]) == ("hub_file_not_found", "none.gguf")


def test_a_repository_of_too_many_shards(hub: FakeHub) -> None:
    shapes: Shapes = {f"t{n}": ("F16", (2,)) for n in range(300)}
    hub.add(REPO, made.document("config.json", {}) | made.sharded(shapes, 300))
    assert problem().code == "model_too_large"


@pytest.mark.parametrize(
    ("status", "code", "params"),
    [
        (429, "hub_busy", {"repo": REPO, "seconds": 7}),
        (500, "hub_down", {"repo": REPO}),
        (503, "hub_down", {"repo": REPO}),
        (418, "hub_answer_malformed", {"repo": REPO}),
    ],
)
def test_a_hub_that_says_no(status: int, code: str, params: dict[str, Any], hub: FakeHub) -> None:
    add(hub)
    hub.status = status
    found = problem()
    assert isinstance(found, HubUnavailable)
    assert (found.code, found.params, found.status, found.fault) == (code, params, 503, "provider")


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"{}", b'{"id": 1, "sha": "x"}', b"[" * 100_000])
def test_a_hub_that_talks_nonsense(body: bytes, hub: FakeHub) -> None:
    hub.body = body
    assert problem().code == "hub_answer_malformed"


def test_an_answer_without_end(hub: FakeHub) -> None:
    hub.body = b" " * 20_000_000
    assert problem().code == "model_too_large"


def test_an_answer_that_breaks_off(hub: FakeHub) -> None:
    add(hub)
    hub.cut = True
    assert problem().code == "hub_answer_malformed"


def test_a_hub_that_sends_whole_weights_is_not_listened_to(hub: FakeHub) -> None:
    add(hub, counts=None)
    hub.ignores_ranges = True
    assert problem().code == "hub_answer_malformed"


def test_a_hub_that_does_not_answer(hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    add(hub)
    hub.stall = threading.Event()
    monkeypatch.setattr(http, "READ_SECONDS", 0.05)
    assert problem().code == "hub_slow"


def test_questions_end_when_their_time_is_up(hub: FakeHub) -> None:
    add(hub)
    assert problem(most_seconds=0).code == "hub_slow"
    assert hub.log == []


def test_a_hub_that_is_down() -> None:
    with override_settings(CACHES=NOTHING):
        assert problem().code == "hub_down"  # HF_ENDPOINT of the test settings, where nobody listens


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(Missing, match="hub_file_not_found"):
        local_facts(tmp_path / "none")


# ------------------------------------------------------------------ facts of before


def test_facts_are_served_from_memory_for_a_while(hub: FakeHub) -> None:
    with override_settings(CACHES=MEMORY):
        add(hub)
        first, asked = told(REPO), len(hub.log)
        again = told(f"https://huggingface.co/{REPO}")
        assert (again, again.problem) == (first, "")
        assert len(hub.log) == asked
        told(REPO, fresh_seconds=0)
        assert len(hub.log) == asked + 1


@pytest.mark.parametrize("status", [429, 500])
def test_facts_of_before_are_served_with_their_date_while_the_hub_is_down(status: int, hub: FakeHub) -> None:
    with override_settings(CACHES=MEMORY):
        add(hub)
        first = told(REPO)
        hub.status = status
        found = told(REPO, fresh_seconds=0)
        assert (found.facts, found.read_at) == (first.facts, first.read_at)
        assert found.problem == ("hub_busy" if status == 429 else "hub_down")
        with pytest.raises(HubUnavailable):
            told("meta/never-seen", fresh_seconds=0)


def test_facts_of_what_was_taken_away_are_forgotten(hub: FakeHub) -> None:
    with override_settings(CACHES=MEMORY):
        repo = add(hub)
        told(REPO)
        repo.private = True
        with pytest.raises(Missing):
            told(REPO, fresh_seconds=0)
        hub.status = 500
        with pytest.raises(HubUnavailable):
            told(REPO)


def test_facts_of_before_are_of_the_same_token_alone(hub: FakeHub) -> None:
    with override_settings(CACHES=MEMORY):
        add(hub, private=True, token="hf_owner")
        told(REPO, token="hf_owner")
        hub.status = 500
        with pytest.raises(HubUnavailable):
            told(REPO)


# ------------------------------------------------------------------ a real file


def test_the_facts_of_a_real_model(demo_hub: RunningHub) -> None:
    """The demo's, over HTTP: SmolLM2 135M as it was published in GGUF."""
    with override_settings(CACHES=NOTHING, HF_ENDPOINT=demo_hub.url):
        found = facts("HuggingFaceTB/SmolLM2-135M-Instruct")
    assert (found.params_total, found.stored_as, found.context) == (134_515_008, "Q4_1", 8192)
    assert found.gguf is not None
    assert found.gguf["llama.attention.head_count_kv"] == 3
    assert 0 < found.files[0].size - found.weight_bytes < 2_000_000  # the rest is its header


# ------------------------------------------------------------------ the fake is a hub


def test_the_official_client_reads_the_fake(hub: FakeHub) -> None:
    repo = add(hub, shards=2)
    api = huggingface_hub.HfApi(endpoint=hub.address, token=False)
    info = api.model_info(REPO, files_metadata=True)
    assert info.sha == repo.commit
    assert info.safetensors is not None
    assert info.safetensors.total == LLAMA_8B_PARAMS
    assert {each.rfilename: each.size for each in info.siblings or ()} == {
        path: len(content) if isinstance(content, bytes) else content.size for path, content in repo.files.items()
    }
    assert api.model_info(REPO, revision="main").id == REPO
    assert api.model_info(REPO, securityStatus=True).sha == repo.commit
    few = api.model_info(REPO, expand=["safetensors", "gated"])
    assert (few.safetensors, few.gated, few.siblings) == (info.safetensors, False, None)
    listed = {entry.path for entry in api.list_repo_tree(REPO)}
    assert listed == set(repo.files)
    metadata = api.get_safetensors_metadata(REPO)
    assert metadata.parameter_count == {"BF16": LLAMA_8B_PARAMS}


def test_the_official_client_knows_the_refusals_of_the_fake(hub: FakeHub) -> None:
    add(hub, "a/gated", gated=True)
    add(hub, "a/private", private=True)
    add(hub, "a/disabled", disabled=True)
    add(hub, "new/name")
    hub.add("old/name", {}, moved_to="new/name")
    api = huggingface_hub.HfApi(endpoint=hub.address, token=False)
    with pytest.raises(official.RepositoryNotFoundError):
        api.model_info("a/private")
    with pytest.raises(official.RevisionNotFoundError):
        api.model_info("new/name", revision="v9")
    with pytest.raises(official.GatedRepoError):
        api.parse_safetensors_file_metadata("a/gated", "model-00001-of-00004.safetensors")
    with pytest.raises(official.DisabledRepoError):
        api.model_info("a/disabled")
    assert api.model_info("old/name").id == "new/name"
