"""The command that serves a model on one's own machine, per engine. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from sizing.fit import Fit
from sizing.memory import Mode

_PUBLISHED: Final[dict[str, Mode]] = {
    **dict.fromkeys(("BF16", "FP16", "F16"), "serve-16"),
    **dict.fromkeys(("FP8", "F8", "INT8"), "serve-8"),
    **dict.fromkeys(("FP4", "MXFP4", "NVFP4", "INT4"), "serve-4"),
}


@dataclass(frozen=True)
class Command:
    engine: str
    text: str


def published_mode(stored_as: str) -> Mode | None:
    """The serving mode that the published precision is: `FP8` -> `serve-8`; None where it is none of the three."""
    return _PUBLISHED.get(stored_as.upper())


def tensor_parallel(fits: Mapping[Mode, Fit], stored_as: str) -> int | None:
    """From the 16-bit configuration; where that does not fit, from the published precision; None where neither does."""
    count = fits["serve-16"].count
    if count is None and (mode := published_mode(stored_as)):
        count = fits[mode].count
    return count


def commands(repo_id: str, count: int) -> tuple[Command, ...]:
    """For vLLM and SGLang. llama.cpp takes GGUF files, which most repositories do not hold: pages say so instead."""
    repo = shlex.quote(repo_id)
    parallel = f" --tensor-parallel-size {count}" if count > 1 else ""
    return (
        Command("vLLM", f"vllm serve {repo}{parallel}"),
        Command(
            "SGLang", f"python -m sglang.launch_server --model-path {repo}" + (f" --tp {count}" if count > 1 else "")
        ),
    )
