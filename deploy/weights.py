"""Which files a machine must fetch: asked of the hub's tree API by the control plane, which gives the machine a list.

The operator's own token is used here and never leaves; a customer's token asks for them, and goes to the machine's
downloader on stdin.
"""

from __future__ import annotations

import re
from typing import Any, Final
from urllib.parse import quote, urlsplit

from django.conf import settings

from arrakis import http
from arrakis.errors import ArrakisError, Unavailable
from deploy.machine.host import FetchFile, FetchPlan
from deploy.plans import Plan

MOST_FILES: Final = 2000
MOST_PAGES: Final = 20
_HEX: Final = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_UNWANTED: Final = (".gguf", ".bin", ".pt", ".pth", ".msgpack", ".h5", ".onnx", ".tflite", ".md", ".png", ".jpg")


class HubRefused(ArrakisError):
    """The hub answered, and what it said ends the deployment.

    Codes: hub_gated (customer: no access with this token), hub_not_found (platform: our facts are out of date),
    hub_files_missing (platform; params: file).
    """


def fetch_plan(*, endpoint: str, repo_id: str, revision: str, plan: Plan, token: str = "") -> FetchPlan:
    """Every file with its size and checksum, at a commit.

    Raises:
        HubRefused
        Unavailable: the hub did not answer as a hub does; later it may.
    """
    ask = _Hub(endpoint, token)
    commit = revision if _HEX.fullmatch(revision) else ask.commit(repo_id, revision or "main")
    listed = {file.path: file for file in ask.tree(repo_id, commit)}
    if plan.files:
        missing = [path for path in plan.files if path not in listed]
        if missing:
            raise HubRefused("hub_files_missing", file=missing[0][:200])
        chosen = [listed[path] for path in plan.files]
    else:
        chosen = [file for path, file in sorted(listed.items()) if not path.lower().endswith(_UNWANTED)]
    if not chosen:
        raise HubRefused("hub_files_missing", file="")
    return FetchPlan(endpoint, repo_id, commit, tuple(chosen))


class _Hub:
    def __init__(self, endpoint: str, token: str) -> None:
        self._endpoint = endpoint.rstrip("/")
        own = settings.HF_TOKEN if self._endpoint == settings.HF_ENDPOINT else ""
        self._token = token or own

    def commit(self, repo_id: str, revision: str) -> str:
        data = self._ask(f"/api/models/{quote(repo_id)}/revision/{quote(revision, safe='')}").json()
        sha = data.get("sha") if isinstance(data, dict) else None
        if not isinstance(sha, str) or not _HEX.fullmatch(sha):
            raise Unavailable("hub_garbled")
        return sha

    def tree(self, repo_id: str, commit: str) -> list[FetchFile]:
        path = f"/api/models/{quote(repo_id)}/tree/{commit}?recursive=true"
        files: list[FetchFile] = []
        for _page in range(MOST_PAGES):
            answer = self._ask(path)
            rows = answer.json()
            if not isinstance(rows, list):
                raise Unavailable("hub_garbled")
            files += [_file(row) for row in rows if isinstance(row, dict) and row.get("type") == "file"]
            following = _next(answer.headers.get("link", ""))
            if not following or len(files) > MOST_FILES:
                return files[:MOST_FILES]
            path = following
        return files

    def _ask(self, path: str) -> http.Answer:
        answer = http.get(self._endpoint + path, token=self._token, allow_private=_own_hubs(self._endpoint))
        if answer.status in (401, 403):
            raise HubRefused("hub_gated", fault="customer")
        if answer.status == 404:
            raise HubRefused("hub_not_found")
        if answer.status != 200:
            raise Unavailable("hub_unavailable", status=answer.status)
        return answer


def _own_hubs(endpoint: str) -> tuple[str, ...]:
    """An endpoint comes from staff or the demo, never from a customer; a hub of one's own may be on loopback."""
    return (endpoint,)


def _file(row: dict[str, Any]) -> FetchFile:
    path, size, lfs = row.get("path"), row.get("size"), row.get("lfs")
    if not isinstance(path, str) or type(size) is not int or size < 0 or not _safe(path):
        raise Unavailable("hub_garbled")
    if isinstance(lfs, dict):
        sha256 = str(lfs.get("oid", "")).removeprefix("sha256:")
        if not re.fullmatch(r"[0-9a-f]{64}", sha256) or type(lfs.get("size")) is not int:
            raise Unavailable("hub_garbled")
        return FetchFile(path, int(lfs["size"]), sha256=sha256)
    blob = str(row.get("oid", ""))
    if not re.fullmatch(r"[0-9a-f]{40}", blob):
        raise Unavailable("hub_garbled")
    return FetchFile(path, size, git_sha1=blob)


def _safe(path: str) -> bool:
    parts = path.split("/")
    return path.isprintable() and "\\" not in path and all(part not in ("", ".", "..") for part in parts)


def _next(link: str) -> str:
    """The path of the next page. Only the path: a hub does not send us elsewhere."""
    match = re.search(r'<([^>]+)>;\s*rel="next"', link)
    if match is None:
        return ""
    parts = urlsplit(match[1])
    return parts.path + (f"?{parts.query}" if parts.query else "")
