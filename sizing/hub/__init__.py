"""The facts of one model: from a hub, or from a folder for `manage.py`.

    facts("zai-org/GLM-5.3")
    facts("https://huggingface.co/unsloth/GLM-5.3-GGUF/blob/main/GLM-5.3-Q4_K_M.gguf")
    local_facts(Path("models/mine"))

Two or three requests where the hub's own counts suffice (the repository, config.json, the shard index); headers of
shards by range where weights are packed or the counts do not fit the files; never weights.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from django.conf import settings
from django.core.cache import cache

from sizing import references
from sizing.facts import ModelFacts
from sizing.hub import listing, reading
from sizing.hub.client import MOST_SECONDS, Client
from sizing.hub.contents import Contents
from sizing.hub.errors import Closed, HubUnavailable, Missing, Unsizeable
from sizing.hub.kinds import is_diffusion, kind_of
from sizing.hub.local import Folder
from sizing.hub.source import Repository
from sizing.hub.wanted import Wanted, wanted
from sizing.references import HUB_HOSTS, NotAReference

__all__ = [
    "Closed",
    "HubUnavailable",
    "Missing",
    "Unsizeable",
    "Wanted",
    "facts",
    "local_facts",
    "wanted",
]

_CACHE_SECONDS: Final = 30 * 24 * 3600
_CACHE_VERSION: Final = 1


def facts(
    reference: str | Wanted | references.Repository,
    *,
    endpoint: str = "",
    token: str | None = None,
    revision: str | None = None,
    most_seconds: float = MOST_SECONDS,
) -> ModelFacts:
    """What is known of a model on the hub, now.

    Args:
        endpoint: HF_ENDPOINT unless told.
        token: whose eyes the hub is asked with; None asks as anybody. What one sees is cached for that token alone.
        most_seconds: for all questions together.

    Raises:
        NotAReference: the text names no repository.
        Missing, Closed, Unsizeable, HubUnavailable: see `sizing.hub.errors`.
    """
    endpoint = endpoint or settings.HF_ENDPOINT
    asked = asked_for(reference, endpoint)
    asked = replace(asked, revision=revision) if revision else asked
    hub = _Hub(Client(endpoint, token or "", most_seconds))
    info = hub.info(asked)
    found = hub.contents(info, asked.path)
    return _facts(info, found, hub.paths(info), asked.repo_id)


def local_facts(path: Path, *, endpoint: str = "", token: str | None = None) -> ModelFacts:
    """What is known of a folder or a GGUF file on this machine; the hub is asked only for the base of an adapter.

    Never for what a visitor typed. Raises as `facts`.
    """
    folder = Folder(path)
    hub = _Hub(Client(endpoint or settings.HF_ENDPOINT, token or ""))
    found = reading.read(folder, base=hub.base)
    paths = {file.path for file in folder.files}
    return _facts({"id": folder.repo_id, "sha": ""}, found, paths, folder.repo_id)


def asked_for(reference: str | Wanted | references.Repository, endpoint: str) -> Wanted:
    """What a reference names, on that hub as on the public one. Raises NotAReference."""
    if isinstance(reference, Wanted):
        return reference
    if isinstance(reference, references.Repository):
        return Wanted(reference.repo_id)
    host = urlsplit(endpoint).hostname
    return wanted(reference, hub_hosts=HUB_HOSTS | ({host} if host else set()))


class _Hub:
    """Answers of one hub to one asker, its files read once a commit."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def info(self, asked: Wanted) -> dict[str, Any]:
        return self._client.model(asked.repo_id, asked.revision)

    def paths(self, info: Mapping[str, Any]) -> set[str]:
        return {file.path for file in listing.files(info.get("siblings"))}

    def contents(self, info: Mapping[str, Any], path: str = "") -> Contents:
        if is_diffusion(info, self.paths(info)):
            raise Unsizeable("model_kind_not_sized", repo=info["id"], kind="diffusion")
        key = self._key(info, path)
        found = cache.get(key)
        if isinstance(found, Contents):
            return found
        found = reading.read(self._repository(info), path, base=self.base)
        cache.set(key, found, _CACHE_SECONDS)
        return found

    def base(self, name: str) -> Contents:
        """Of the model an adapter names. Raises Unsizeable adapter_base_unknown where that is no repository."""
        try:
            asked = wanted(name)
        except NotAReference as error:
            raise Unsizeable("adapter_base_unknown", base=name[:200]) from error
        return self.contents(self.info(asked))

    def _repository(self, info: Mapping[str, Any]) -> Repository:
        told = info.get("config")
        return Repository(
            client=self._client,
            repo_id=info["id"],
            commit=info["sha"],
            files=listing.files(info.get("siblings")),
            counts=_counts(info.get("safetensors")),
            told_config=told if isinstance(told, dict) else {},
        )

    def _key(self, info: Mapping[str, Any], path: str) -> str:
        parts = (self._client.endpoint, self._client.token, info["id"], info["sha"], path)
        return f"hub:{_CACHE_VERSION}:{hashlib.sha256(repr(parts).encode()).hexdigest()}"


def _counts(told: Any) -> dict[str, int]:
    listed = told.get("parameters") if isinstance(told, dict) else None
    if not isinstance(listed, dict) or not all(type(n) is int and n >= 0 for n in listed.values()):
        return {}
    return {str(dtype): n for dtype, n in listed.items() if n}


def _facts(info: Mapping[str, Any], found: Contents, paths: set[str], asked: str) -> ModelFacts:
    repo_id = str(info["id"])
    return ModelFacts(
        repo_id=repo_id,
        revision=str(info["sha"]),
        params_total=found.count.total,
        params_active=found.count.active(found.experts, found.experts_per_token),
        params_mtp=found.count.mtp,
        bytes_by_dtype={dtype: n for dtype, n in found.count.nbytes.items() if n},
        params_by_dtype={label: n for label, n in found.count.params.items() if n},
        stored_as=found.stored_as,
        config=found.config,
        gguf=found.gguf,
        files=found.files,
        kind="adapter" if found.base_repo else kind_of(info, found.config, paths),
        base_repo=found.base_repo,
        experts=found.experts,
        experts_per_token=found.experts_per_token,
        context=found.context,
        licence=_licence(info),
        released_on=_date(info.get("createdAt")),
        gated=bool(info.get("gated")),
        bytes_mtp=found.count.mtp_bytes,
        params_adapter=found.params_adapter,
        renamed_from=asked if asked.casefold() != repo_id.casefold() else None,
        variants=found.variants,
        notes=found.notes,
    )


def _licence(info: Mapping[str, Any]) -> str:
    """As the card says it, else the hub's tag."""
    card = info.get("cardData")
    said = card.get("license") if isinstance(card, dict) else None
    if isinstance(said, list) and said:
        said = said[0]
    if not isinstance(said, str):
        tags = info.get("tags")
        listed = [tag for tag in (tags if isinstance(tags, list) else ()) if isinstance(tag, str)]
        said = next((tag.removeprefix("license:") for tag in listed if tag.startswith("license:")), "")
    return said[:60]


def _date(told: Any) -> date | None:
    try:
        return date.fromisoformat(told[:10]) if isinstance(told, str) else None
    except ValueError:
        return None
