"""SGLang. It prints its arguments at start, keys included, so that none is ever given to it."""

from __future__ import annotations

import re
from typing import Final

from deploy.engines.base import PORT, Engine, GpuFacts, HostKind, LaunchPlan, ModelFacts, Refusal, cuda_refusal

LEAST_COMPUTE_CAPABILITY: Final = 75
LEAST_DRIVER: Final = 580
"""CUDA 13, which its images are built for since 0.5.20."""

_PROGRESS: Final = (
    (re.compile(r"Load weight begin|loading shards"), "loading_weights"),
    (re.compile(r"KV Cache is allocated|Capture cuda graph"), "preparing"),
    (re.compile(r"Uvicorn running on"), "warming_up"),
    (re.compile(r"The server is fired up and ready to roll"), "ready"),
)


class Sglang(Engine):
    key = "sglang"
    name = "SGLang"
    allowed_args = {
        "--dtype": 1,
        "--quantization": 1,
        "--kv-cache-dtype": 1,
        "--mem-fraction-static": 1,
        "--max-running-requests": 1,
        "--max-total-tokens": 1,
        "--tool-call-parser": 1,
        "--reasoning-parser": 1,
        "--disable-radix-cache": 0,
        "--enable-metrics": 0,
        "--random-seed": 1,
        "--pp-size": 1,
        "--dp-size": 1,
        "--ep-size": 1,
    }

    def launch_command(self, plan: LaunchPlan) -> list[str]:
        command = ["sglang", "serve", "--model-path", plan.model, "--served-model-name", plan.served_name]
        command += ["--host", "127.0.0.1", "--port", PORT, "--context-length", str(plan.context)]
        if plan.tensor_parallel > 1:
            command += ["--tp", str(plan.tensor_parallel)]
        return [*command, *plan.args]

    def env(self, plan: LaunchPlan) -> dict[str, str]:
        return {"HF_HUB_OFFLINE": "1"}

    def parse_progress(self, line: str) -> str | None:
        return next((stage for pattern, stage in _PROGRESS if pattern.search(line)), None)

    def refusal(self, host_kind: HostKind, gpu: GpuFacts | None, model: ModelFacts) -> Refusal | None:
        return cuda_refusal(host_kind, gpu, model, capability=LEAST_COMPUTE_CAPABILITY, driver=LEAST_DRIVER)
