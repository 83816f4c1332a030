"""llama.cpp's llama-server. Flags as of its 2026 releases: `-ngl all`, `--no-ui`, `--jinja` on."""

from __future__ import annotations

import re
from typing import Final

from deploy.engines.base import PORT, Engine, GpuFacts, HostKind, LaunchPlan, ModelFacts, Refusal

_PROGRESS: Final = (
    (re.compile(r"loading model '"), "loading_weights"),
    (re.compile(r"llama threadpool init|initializing, n_slots"), "preparing"),
    (re.compile(r"model loaded"), "warming_up"),
    (re.compile(r"listening on http"), "ready"),
)


class LlamaCpp(Engine):
    key = "llamacpp"
    name = "llama.cpp"
    allowed_args = {
        "--temp": 1,
        "--top-p": 1,
        "--top-k": 1,
        "--min-p": 1,
        "--seed": 1,
        "--repeat-penalty": 1,
        "-b": 1,
        "--batch-size": 1,
        "-ub": 1,
        "--ubatch-size": 1,
        "-ctk": 1,
        "--cache-type-k": 1,
        "-ctv": 1,
        "--cache-type-v": 1,
        "-fa": 1,
        "--flash-attn": 1,
        "-sm": 1,
        "--split-mode": 1,
        "-ts": 1,
        "--tensor-split": 1,
        "--chat-template": 1,
        "--reasoning-format": 1,
        "--pooling": 1,
        "--embeddings": 0,
        "--reranking": 0,
        "--metrics": 0,
    }

    def launch_command(self, plan: LaunchPlan) -> list[str]:
        # The context flag is the total: each of the slots gets its share, so that every request has `context` tokens.
        slots = max(plan.parallel, 1)
        where = ["-t", "1", "-ngl", "0"] if plan.host_kind == "cpu" else ["-ngl", "all"]
        command = ["llama-server", "-m", plan.model, "--alias", plan.served_name, "--host", "127.0.0.1"]
        command += ["--port", PORT, "--ctx-size", str(plan.context * slots), "--parallel", str(slots)]
        return [*command, *where, "--jinja", "--no-ui", *plan.args]

    def env(self, plan: LaunchPlan) -> dict[str, str]:
        return {"HF_HUB_OFFLINE": "1"}

    def parse_progress(self, line: str) -> str | None:
        return next((stage for pattern, stage in _PROGRESS if pattern.search(line)), None)

    def refusal(self, host_kind: HostKind, gpu: GpuFacts | None, model: ModelFacts) -> Refusal | None:
        return None if model.has_gguf else Refusal("engine_needs_gguf")
