"""What one model's files hold, at one commit: all of the facts but its card. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from sizing.facts import File
from sizing.hub.counting import Count

_PLAIN: Final = frozenset({"BF16", "FP16", "FP32", "FP64", "F32", "F16"})


@dataclass(frozen=True, slots=True)
class Contents:
    count: Count
    stored_as: str
    config: Mapping[str, Any]
    files: tuple[File, ...]
    gguf: Mapping[str, Any] | None = None
    experts: int | None = None
    experts_per_token: int | None = None
    context: int | None = None
    variants: Mapping[str, int] = field(default_factory=dict)
    base_repo: str | None = None
    params_adapter: int = 0
    notes: tuple[str, ...] = ()


def stored_as(count: Count) -> str:
    """The precision that most weights are in; where a tenth or more are quantised, the most usual of those."""
    quantized = {label: n for label, n in count.params.items() if label not in _PLAIN}
    if sum(quantized.values()) * 10 >= count.total:
        return max(quantized, key=lambda label: quantized[label])
    return max(count.params, key=lambda label: count.params[label])
