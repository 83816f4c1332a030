"""The list of files that a machine fetches, from hubs that answer well and badly."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from pytest_django import Settings

from arrakis.errors import Unavailable
from deploy.plans import Plan
from deploy.weights import HubRefused, fetch_plan

COMMIT, BLOB, SHA256 = "c" * 40, "b" * 40, "a" * 64
GGUF = {"type": "file", "path": "m.gguf", "size": 130, "oid": BLOB, "lfs": {"oid": SHA256, "size": 1000}}
CONFIG = {"type": "file", "path": "config.json", "size": 10, "oid": BLOB}


class Hub:
    """Answers from `pages`: a status and a body for each path asked, in order of the tree's pages."""

    def __init__(self) -> None:
        self.status = 200
        self.revision: Any = {"sha": COMMIT}
        self.pages: list[Any] = [[GGUF, CONFIG]]
        self.link: str | None = None
        self.asked: list[tuple[str, str | None]] = []
        self.url = ""

    def answer(self, path: str) -> tuple[Any, str]:
        if "/revision/" in path:
            return self.revision, ""
        page = int(path.partition("cursor=")[2] or 0)
        more = page + 1 < len(self.pages)
        following = self.link or f"{self.url}/api/models/acme/m/tree/{COMMIT}?cursor={page + 1}"
        return self.pages[page], f'<{following}>; rel="next"' if more else ""


@pytest.fixture
def hub() -> Iterator[Hub]:
    made = Hub()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            made.asked.append((self.path, self.headers.get("Authorization")))
            body, link = made.answer(self.path)
            sent = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(made.status)
            if link:
                self.send_header("Link", link)
            self.send_header("Content-Length", str(len(sent)))
            self.end_headers()
            self.wfile.write(sent)

        def log_message(self, format: str, *args: object) -> None:
            return None

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield made
    server.shutdown()
    thread.join()
    server.server_close()


def ask(hub: Hub, *files: str, revision: str = "", token: str = "") -> Any:
    plan = Plan(files, 1000, "1", 4096, 2)
    return fetch_plan(endpoint=hub.url, repo_id="acme/m", revision=revision, plan=plan, token=token)


def test_files_with_their_sizes_and_checksums_at_a_commit(hub: Hub) -> None:
    plan = ask(hub, "m.gguf")
    assert (plan.revision, plan.repo_id, plan.endpoint) == (COMMIT, "acme/m", hub.url)
    assert [(file.path, file.size, file.sha256) for file in plan.files] == [("m.gguf", 1000, SHA256)]


def test_a_known_commit_is_not_asked_for(hub: Hub) -> None:
    ask(hub, "m.gguf", revision=COMMIT)
    assert not [path for path, _token in hub.asked if "/revision/" in path]


def test_without_a_list_everything_but_other_formats(hub: Hub) -> None:
    weights = {**GGUF, "path": "model.safetensors"}
    hub.pages = [[GGUF, CONFIG], [weights, {**CONFIG, "path": "pytorch_model.bin"}]]
    assert [file.path for file in ask(hub).files] == ["config.json", "model.safetensors"]


def test_the_next_page_is_on_the_same_hub_wherever_it_points(hub: Hub) -> None:
    hub.pages = [[CONFIG], [GGUF]]
    hub.link = f"http://169.254.169.254/api/models/acme/m/tree/{COMMIT}?cursor=1"
    assert [file.path for file in ask(hub, "m.gguf").files] == ["m.gguf"]


def test_whose_token_is_sent_where(hub: Hub, settings: Settings) -> None:
    settings.HF_TOKEN = "operator"
    ask(hub, "m.gguf", token="customer")
    ask(hub, "m.gguf")
    assert {token for _path, token in hub.asked} == {"Bearer customer", None}  # ours goes to our own hub alone
    settings.HF_ENDPOINT = hub.url
    hub.asked.clear()
    ask(hub, "m.gguf")
    assert {token for _path, token in hub.asked} == {"Bearer operator"}


@pytest.mark.parametrize(
    ("status", "code", "fault"),
    [(401, "hub_gated", "customer"), (403, "hub_gated", "customer"), (404, "hub_not_found", "platform")],
)
def test_refusals_say_whose_they_are(hub: Hub, status: int, code: str, fault: str) -> None:
    hub.status = status
    with pytest.raises(HubRefused) as caught:
        ask(hub, "m.gguf")
    assert (caught.value.code, caught.value.fault) == (code, fault)


def test_a_file_that_is_gone(hub: Hub) -> None:
    with pytest.raises(HubRefused) as caught:
        ask(hub, "other.gguf")
    assert caught.value.params == {"file": "other.gguf"}


@pytest.mark.parametrize(
    "row",
    [
        {**GGUF, "path": "../../etc/cron.d/x"},
        {**GGUF, "path": "/etc/passwd"},
        {**GGUF, "path": "a//b"},
        {**GGUF, "path": "a\\b"},
        {**GGUF, "path": "a\nb"},
        {**GGUF, "path": 7},
        {**GGUF, "lfs": {"oid": "x", "size": 1}},
        {**GGUF, "lfs": {"oid": SHA256, "size": "1"}},
        {**CONFIG, "size": -1},
        {**CONFIG, "size": True},
        {**CONFIG, "oid": "short"},
    ],
)
def test_a_row_that_makes_no_sense_is_refused(hub: Hub, row: dict[str, Any]) -> None:
    hub.pages = [[row]]
    with pytest.raises(Unavailable):
        ask(hub)


@pytest.mark.parametrize("page", [{}, b"<html>", "x", None])
def test_an_answer_that_is_no_list_is_refused(hub: Hub, page: Any) -> None:
    hub.pages = [page]
    with pytest.raises(Unavailable):
        ask(hub)


def test_an_outage_may_pass(hub: Hub) -> None:
    hub.status = 502
    with pytest.raises(Unavailable) as caught:
        ask(hub, "m.gguf")
    assert caught.value.params == {"status": 502}
