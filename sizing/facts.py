"""What is known of one checkpoint, as the hub and its own files say it: the input of every plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Literal

Kind = Literal["causal", "embedding", "reranker", "multimodal", "diffusion", "adapter", "unknown"]


@dataclass(frozen=True, slots=True)
class File:
    """One file of a repository; `size` in bytes as stored."""

    path: str
    size: int
    sha256: str | None = None
    format: str = ""


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """Facts of one checkpoint at one commit.

    Parameters are logical elements: a packed int32 of AWQ counts as eight. Bytes are those of the tensors as stored.
    `params_mtp` are the multi-token-prediction layers, not in `params_total`. `config` is the parsed `config.json`
    (empty where there is none), `gguf` the metadata of a GGUF file, keys as written there.
    """

    repo_id: str
    revision: str
    params_total: int
    params_active: int | None = None
    params_mtp: int = 0
    bytes_by_dtype: Mapping[str, int] = field(default_factory=dict)
    params_by_dtype: Mapping[str, int] = field(default_factory=dict)
    stored_as: str = ""
    config: Mapping[str, Any] = field(default_factory=dict)
    gguf: Mapping[str, Any] | None = None
    files: tuple[File, ...] = ()
    kind: Kind = "unknown"
    base_repo: str | None = None
    experts: int | None = None
    experts_per_token: int | None = None
    context: int | None = None
    licence: str | None = None
    released_on: date | None = None
    gated: bool = False

    @property
    def bytes_total(self) -> int:
        """Bytes of all tensors as stored."""
        return sum(self.bytes_by_dtype.values())
