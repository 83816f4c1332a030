"""A hub over HTTP on loopback, with as many repositories as a test wants and all that can go wrong.

It answers as Hugging Face does (https://huggingface.co/docs/hub/api), which the official client is asked to confirm
in tests/sizing/test_hub.py: error codes in `X-Error-Code`, renamed repositories by 307, large files by a redirect to
a store, ranges. `arrakis.demo.hub` is the one that is shipped, with one real model.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests.fakes.checkpoints import Sparse

_LARGE = (".safetensors", ".bin", ".gguf")


@dataclass
class Repo:
    """`counts` is what the hub tells of elements by dtype; None where it never counted."""

    files: dict[str, bytes | Sparse]
    counts: dict[str, int] | None = None
    told: dict[str, Any] = field(default_factory=dict)
    gated: bool = False
    private: bool = False
    disabled: bool = False
    token: str = ""
    """What a gated or private repository is opened by."""
    branches: tuple[str, ...] = ("main",)
    moved_to: str = ""

    @property
    def commit(self) -> str:
        listing = "".join(f"{path}{size(content)}" for path, content in sorted(self.files.items()))
        return hashlib.sha1(listing.encode(), usedforsecurity=False).hexdigest()


@dataclass(frozen=True)
class Request:
    path: str
    range: str
    token: str


@dataclass
class FakeHub:
    repos: dict[str, Repo] = field(default_factory=dict)
    log: list[Request] = field(default_factory=list)
    """Of the hub alone; `stored` is of the store that large files are redirected to."""
    stored: list[Request] = field(default_factory=list)
    address: str = ""
    status: int = 0
    """When set, every request gets it."""
    body: bytes | None = None
    """When set, every answer has it."""
    cut: bool = False
    """Answers end in their middle."""
    ignores_ranges: bool = False
    revoked: str = ""
    """A token that is none any more."""
    stall: threading.Event | None = None
    """When set, answers wait for it."""

    def add(self, repo_id: str, files: dict[str, bytes | Sparse], **more: Any) -> Repo:
        self.repos[repo_id] = Repo(files, **more)
        return self.repos[repo_id]

    def requests(self) -> list[str]:
        return [request.path for request in self.log]


def size(content: bytes | Sparse) -> int:
    return len(content) if isinstance(content, bytes) else content.size


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Whoever asked has heard enough and hung up; anything else is a mistake of this module."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


@contextmanager
def running() -> Iterator[FakeHub]:
    hub = FakeHub()
    server = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": hub}))
    hub.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield hub
    finally:
        if hub.stall is not None:
            hub.stall.set()
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    hub: FakeHub
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        address = urlsplit(self.path)
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        self.is_store = address.path.startswith("/store/")
        path = unquote(address.path.removeprefix("/store"))
        request = Request(path, self.headers.get("Range", ""), token)
        (self.hub.stored if self.is_store else self.hub.log).append(request)
        if self.hub.stall is not None:
            self.hub.stall.wait(60)
        if self.hub.status:
            return self._answer(self.hub.status, b'{"error": "Not now"}', {"Retry-After": "7"})
        if self.hub.body is not None:
            return self._answer(200, self.hub.body)
        if token and token == self.hub.revoked:
            return self._refuse(401, "", "Invalid credentials in Authorization header")
        if model := re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/(revision|tree)/(.+))?", request.path):
            return self._model(model[1], model[2], model[3], parse_qs(address.query), token)
        if file := re.fullmatch(r"/([^/]+/[^/]+)/(?:resolve|raw)/([^/]+)/(.+)", request.path):
            return self._file(file[1], file[2], file[3], request)
        return self._refuse(404, "", "Not found")

    # ------------------------------------------------------------------ the API

    def _model(self, repo_id: str, view: str | None, revision: str | None, query: Any, token: str) -> None:
        repo = self._repo(repo_id, token)
        if repo is None:
            return None
        if repo.moved_to:
            target = self.path.replace(repo_id, repo.moved_to, 1)
            return self._answer(307, b"", {"Location": target})
        if (revision or "main") not in {*repo.branches, repo.commit}:
            return self._refuse(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        if view == "tree":
            entries = [
                {"type": "file", "path": path, "size": size(content), **self._blob(path, content, tree=True)}
                for path, content in sorted(repo.files.items())
            ]
            return self._answer(200, json.dumps(entries).encode())
        info = self._info(repo_id, repo, blobs="blobs" in query)
        if "securityStatus" in query:
            info["securityRepoStatus"] = {"scansDone": True, "filesWithIssues": []}
        if fields := query.get("expand"):
            info = {name: info[name] for name in ("_id", "id", *fields) if name in info}
        return self._answer(200, json.dumps(info).encode())

    def _info(self, repo_id: str, repo: Repo, *, blobs: bool) -> dict[str, Any]:
        siblings = [
            {"rfilename": path, **({"size": size(content), **self._blob(path, content)} if blobs else {})}
            for path, content in sorted(repo.files.items())
        ]
        told: dict[str, Any] = {
            "_id": "6" * 24,
            "id": repo_id,
            "modelId": repo_id,
            "author": repo_id.partition("/")[0],
            "sha": repo.commit,
            "createdAt": "2025-04-27T03:41:02.000Z",
            "lastModified": "2025-07-26T03:46:27.000Z",
            "private": repo.private,
            "disabled": repo.disabled,
            "gated": "manual" if repo.gated else False,
            "downloads": 1000,
            "likes": 10,
            "library_name": "transformers",
            "pipeline_tag": "text-generation",
            "tags": ["transformers", "safetensors", "text-generation", "license:apache-2.0"],
            "cardData": {"license": "apache-2.0"},
            "config": {"architectures": ["LlamaForCausalLM"], "model_type": "llama"},
            "siblings": siblings,
        }
        if repo.counts is not None:
            told["safetensors"] = {"parameters": repo.counts, "total": sum(repo.counts.values())}
        return told | repo.told

    def _blob(self, path: str, content: bytes | Sparse, *, tree: bool = False) -> dict[str, Any]:
        digest = hashlib.sha256(path.encode()).hexdigest()
        found: dict[str, Any] = {"oid" if tree else "blobId": digest[:40]}
        if path.endswith(_LARGE):
            name = "oid" if tree else "sha256"
            found["lfs"] = {name: digest, "size": size(content), "pointerSize": 135}
        return found

    # ------------------------------------------------------------------ files

    def _file(self, repo_id: str, revision: str, path: str, request: Request) -> None:
        repo = self.hub.repos[repo_id] if self.is_store else self._repo(repo_id, request.token)
        if repo is None:
            return None
        if not self.is_store and repo.gated and (not request.token or request.token != repo.token):
            return self._refuse(403 if request.token else 401, "GatedRepo", "Access to this model is restricted.")
        if revision not in {*repo.branches, repo.commit}:
            return self._refuse(404, "RevisionNotFound", "Invalid rev id")
        if path not in repo.files:
            return self._refuse(404, "EntryNotFound", "Entry not found")
        content = repo.files[path]
        headers = {"X-Repo-Commit": repo.commit, "ETag": f'"{hashlib.sha256(path.encode()).hexdigest()}"'}
        if path.endswith(_LARGE) and not self.is_store:
            linked = {"X-Linked-Size": str(size(content)), "X-Linked-Etag": headers["ETag"]}
            return self._answer(302, b"", headers | linked | {"Location": "/store" + self.path})
        return self._send(content, headers, request.range)

    def _send(self, content: bytes | Sparse, headers: dict[str, str], asked: str) -> None:
        whole = size(content)
        part = None if self.hub.ignores_ranges else re.fullmatch(r"bytes=(\d+)-(\d+)", asked)
        start, end = (int(part[1]), min(int(part[2]) + 1, whole)) if part else (0, whole)
        if part and start >= whole:
            return self._answer(416, b"", headers | {"Content-Range": f"bytes */{whole}"})
        count = min(end - start, 100_000_000)  # what no reader here may ask for is not sent in full either
        body = content[start:end] if isinstance(content, bytes) else content.read(start, count)
        if part:
            headers |= {"Content-Range": f"bytes {start}-{end - 1}/{whole}"}
        return self._answer(206 if part else 200, body, headers)

    def _repo(self, repo_id: str, token: str) -> Repo | None:
        """None after a refusal was sent: to anybody, a private repository is one that is not there."""
        repo = self.hub.repos.get(repo_id)
        if repo is None or (repo.private and (not token or token != repo.token)):
            self._refuse(404 if token else 401, "RepoNotFound", "Repository not found")
            return None
        if repo.disabled:
            self._refuse(403, "", "Access to this resource is disabled.")
            return None
        return repo

    def _refuse(self, status: int, code: str, message: str) -> None:
        headers = {"X-Error-Message": message} | ({"X-Error-Code": code} if code else {})
        self._answer(status, json.dumps({"error": message}).encode(), headers)

    def _answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        if self.hub.cut:
            self.close_connection = True
        try:
            self._write(status, body, headers or {})
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True  # whoever asked has heard enough

    def _write(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[: len(body) // 2] if self.hub.cut else body)

    def log_message(self, format: str, *args: object) -> None:
        return None
