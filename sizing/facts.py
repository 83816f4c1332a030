"""What is known of one model from its own files. Pure.

Parameters are logical elements: eight 4-bit weights packed in one int32 are eight. Scales, zero points and index
tables of a quantised checkpoint are bytes, not parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Literal

Kind = Literal["text", "multimodal", "embedding", "reranker", "adapter", "speech", "other"]
Format = Literal["safetensors", "bin", "gguf", "mmproj", "other"]


@dataclass(frozen=True, slots=True)
class File:
    """One file of a repository; `size` in bytes, `sha256` empty where the hub tells none."""

    path: str
    size: int
    sha256: str
    format: Format


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """One model at one commit.

    `bytes_by_dtype` and `params_by_dtype` hold what an engine loads: duplicates, a tied output head that is stored
    again, and multi-token-prediction layers are left out of both (`params_mtp` and `bytes_mtp` tell the last).
    Keys are storage names (`BF16`, `F8_E4M3`, `I32`, `Q4_K`) in the first, precisions (`BF16`, `INT4`, `MXFP4`,
    `Q4_K`) in the second. Bytes are exact where headers were read, else elements times element size.
    """

    repo_id: str
    revision: str
    params_total: int
    params_active: int | None
    params_mtp: int
    bytes_by_dtype: Mapping[str, int]
    params_by_dtype: Mapping[str, int]
    stored_as: str
    config: Mapping[str, Any]
    gguf: Mapping[str, Any] | None
    """Metadata of the chosen GGUF file, without the vocabulary."""
    files: tuple[File, ...]
    """Those of the chosen checkpoint or quant, with the small files beside it."""
    kind: Kind
    base_repo: str | None
    """What a LoRA adapter is sized by: `params_total` and `config` are this one's."""
    experts: int | None
    experts_per_token: int | None
    context: int | None
    licence: str
    released_on: date | None
    gated: bool
    bytes_mtp: int = 0
    params_adapter: int = 0
    renamed_from: str | None = None
    variants: Mapping[str, int] = field(default_factory=dict)
    """GGUF repositories: bytes of each quant (its shards summed), by its first file's path."""
    notes: tuple[str, ...] = ()
    """How sure the counts are: `config_withheld` (gated; from the hub's own counts), `counted_by_size`."""

    @property
    def weight_bytes(self) -> int:
        return sum(self.bytes_by_dtype.values())
