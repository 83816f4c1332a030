"""Questions to the configured hub, each answered within limits or with a typed error.

Through `arrakis.http`, the control plane's one door: it refuses private addresses, gives a token to the hub alone and
not to the store that its redirects lead to, and caps what it reads. `huggingface_hub` does none of the three.
Routes and error headers: https://huggingface.co/docs/hub/api.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

from arrakis import http
from arrakis.http import Answer, NoAnswer
from sizing.hub.errors import Closed, HubUnavailable, Missing, Unsizeable

MOST_BYTES: Final = 16 * 1024 * 1024
MOST_DOCUMENT_BYTES: Final = 64 * 1024 * 1024
"""The shard index of a mixture of 1,000 billion parameters has 24 MB."""
MOST_SECONDS: Final = 60
"""For all the questions of one model together."""
_CODES: Final = {
    "net_timeout": "hub_slow",
    "net_protocol": "hub_answer_malformed",
    "net_too_large": "hub_answer_malformed",  # asked for a part, it sent the whole
}


@dataclass
class Client:
    """One hub, asked for one person: `token` empty asks as anybody. Threads may share it."""

    endpoint: str
    token: str = ""
    most_seconds: float = MOST_SECONDS
    _started: float = field(default_factory=time.monotonic)

    def model(self, repo_id: str, revision: str = "") -> dict[str, Any]:
        """What the hub tells of a repository, its files with size and sha256 among it.

        Raises:
            Missing, Closed, HubUnavailable.
        """
        at = f"/revision/{quote(revision, safe='')}" if revision else ""
        answer = self._get(f"/api/models/{quote(repo_id)}{at}?blobs=true", repo_id, what=revision)
        found = self._json(answer, repo_id)
        if not isinstance(found, dict) or not isinstance(found.get("id"), str) or not isinstance(found.get("sha"), str):
            raise HubUnavailable("hub_answer_malformed", repo=repo_id)
        return found

    def document(self, repo_id: str, commit: str, path: str) -> Any:
        """A JSON file. Raises as `model`, and Unsizeable model_malformed."""
        address = self._address(repo_id, commit, path)
        answer = self._get(address, repo_id, what=path, most_bytes=MOST_DOCUMENT_BYTES)
        try:
            return answer.json()
        except NoAnswer as error:
            raise Unsizeable("model_malformed", repo=repo_id, path=path) from error

    def part(self, repo_id: str, commit: str, path: str, start: int, count: int) -> bytes:
        """`count` bytes of a file from `start`, fewer at its end. Never more: a hub without ranges is an error."""
        headers = {"Range": f"bytes={start}-{start + count - 1}", "Accept-Encoding": "identity"}
        address = self._address(repo_id, commit, path)
        answer = self._get(address, repo_id, what=path, headers=headers, most_bytes=count + 1024)
        if answer.status == 200 and start:
            raise HubUnavailable("hub_answer_malformed", repo=repo_id)
        return answer.body[:count]

    def _address(self, repo_id: str, commit: str, path: str) -> str:
        return f"/{quote(repo_id)}/resolve/{quote(commit, safe='')}/{quote(path)}"

    def _get(
        self,
        target: str,
        repo_id: str,
        *,
        what: str = "",
        headers: Mapping[str, str] | None = None,
        most_bytes: int = MOST_BYTES,
    ) -> Answer:
        left = self._started + self.most_seconds - time.monotonic()
        if left <= 0:
            raise HubUnavailable("hub_slow", repo=repo_id)
        try:
            url = self.endpoint.rstrip("/") + target
            answer = http.get(url, token=self.token, headers=headers, most_bytes=most_bytes, most_seconds=left)
        except NoAnswer as error:
            if error.code == "net_too_large" and headers is None:
                raise Unsizeable("model_too_large", repo=repo_id, path=what) from error
            raise HubUnavailable(_CODES.get(error.code, "hub_down"), repo=repo_id) from error
        if answer.status not in {200, 206}:
            raise _refusal(answer, repo_id, what)
        return answer

    def _json(self, answer: Answer, repo_id: str) -> Any:
        try:
            return answer.json()
        except NoAnswer as error:
            raise HubUnavailable("hub_answer_malformed", repo=repo_id) from error


def _refusal(answer: Answer, repo_id: str, what: str) -> Exception:
    """The error that a status and the hub's own code for it stand for."""
    code = answer.headers.get("x-error-code", "")
    if code == "GatedRepo":
        return Closed("hub_gated", repo=repo_id)
    if code == "RevisionNotFound":
        return Missing("hub_revision_not_found", repo=repo_id, revision=what)
    if code == "EntryNotFound":
        return Missing("hub_file_not_found", repo=repo_id, path=what)
    if answer.status == 401 and "Invalid credentials" in answer.headers.get("x-error-message", ""):
        return Closed("hub_token_refused", repo=repo_id)
    if answer.status == 403 or "disabled" in answer.headers.get("x-error-message", ""):
        return Closed("hub_disabled", repo=repo_id)
    if answer.status in {401, 404, 410} or code == "RepoNotFound":
        return Missing("hub_not_found", repo=repo_id)
    if answer.status == 429:
        return HubUnavailable("hub_busy", repo=repo_id, seconds=_seconds(answer.headers.get("retry-after", "")))
    if answer.status >= 500:
        return HubUnavailable("hub_down", repo=repo_id)
    return HubUnavailable("hub_answer_malformed", repo=repo_id)


def _seconds(text: str) -> int | None:
    return min(int(text), 86_400) if text.isascii() and text.isdigit() else None
