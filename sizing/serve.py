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
    """`needs_gguf`: the repository has no GGUF file, so the command names one that is still to be fetched."""

    engine: str
    text: str
    needs_gguf: bool = False

    @property
    def id(self) -> str:
        return "command-" + self.engine.lower().replace(".", "")


def published_mode(stored_as: str) -> Mode | None:
    """The serving mode that the published precision is: `FP8` -> `serve-8`; None where it is none of the three."""
    return _PUBLISHED.get(stored_as.upper())


def tensor_parallel(fits: Mapping[Mode, Fit], stored_as: str) -> int | None:
    """From the 16-bit configuration; where that does not fit, from the published precision; None where neither does."""
    count = fits["serve-16"].count
    if count is None and (mode := published_mode(stored_as)):
        count = fits[mode].count
    return count


def commands(repo_id: str, count: int, *, gguf: bool = False) -> tuple[Command, ...]:
    """For vLLM, SGLang and llama.cpp, on `count` GPUs. llama.cpp spreads layers over all GPUs it finds by itself.

    `gguf`: whether the repository holds GGUF files, which llama.cpp takes and most repositories lack.
    """
    repo = shlex.quote(repo_id)
    tensor, tp = (f" --tensor-parallel-size {count}", f" --tp {count}") if count > 1 else ("", "")
    source = f"-hf {repo}" if gguf else "-m model.gguf"
    return (
        Command("vLLM", f"vllm serve {repo}{tensor}"),
        Command("SGLang", f"python -m sglang.launch_server --model-path {repo}{tp}"),
        Command("llama.cpp", f"llama-server {source} -ngl all", needs_gguf=not gguf),
    )
