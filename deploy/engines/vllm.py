"""vLLM. Its own key leaves paths outside /v1 open, so it listens on loopback behind the gateway (DESIGN 5.7)."""

from __future__ import annotations

import re
from typing import Final

from deploy.engines.base import PORT, Engine, GpuFacts, HostKind, LaunchPlan, ModelFacts, Refusal, cuda_refusal

LEAST_COMPUTE_CAPABILITY: Final = 75
LEAST_DRIVER: Final = 580
"""CUDA 13, which its images are built for since 0.20."""

_PROGRESS: Final = (
    (re.compile(r"Starting to load model|Loading safetensors checkpoint shards"), "loading_weights"),
    (re.compile(r"KV cache size:|Capturing CUDA graphs|torch\.compile"), "preparing"),
    (re.compile(r"Starting vLLM server on"), "warming_up"),
    (re.compile(r"Application startup complete"), "ready"),
)


class Vllm(Engine):
    key = "vllm"
    name = "vLLM"
    allowed_args = {
        "--dtype": 1,
        "--quantization": 1,
        "-q": 1,
        "--kv-cache-dtype": 1,
        "--gpu-memory-utilization": 1,
        "--max-num-seqs": 1,
        "--max-num-batched-tokens": 1,
        "--enforce-eager": 0,
        "--enable-prefix-caching": 0,
        "--no-enable-prefix-caching": 0,
        "--enable-auto-tool-choice": 0,
        "--tool-call-parser": 1,
        "--reasoning-parser": 1,
        "--seed": 1,
        "--pipeline-parallel-size": 1,
        "--data-parallel-size": 1,
        "--enable-expert-parallel": 0,
    }

    def launch_command(self, plan: LaunchPlan) -> list[str]:
        command = ["vllm", "serve", plan.model, "--served-model-name", plan.served_name, "--host", "127.0.0.1"]
        command += ["--port", PORT, "--max-model-len", str(plan.context)]
        if plan.tensor_parallel > 1:
            command += ["--tensor-parallel-size", str(plan.tensor_parallel)]
        return [*command, *plan.args]

    def env(self, plan: LaunchPlan) -> dict[str, str]:
        return {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}

    def parse_progress(self, line: str) -> str | None:
        return next((stage for pattern, stage in _PROGRESS if pattern.search(line)), None)

    def refusal(self, host_kind: HostKind, gpu: GpuFacts | None, model: ModelFacts) -> Refusal | None:
        return cuda_refusal(host_kind, gpu, model, capability=LEAST_COMPUTE_CAPABILITY, driver=LEAST_DRIVER)
