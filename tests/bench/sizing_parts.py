"""What the plan predicts of one logged case, part by part."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sizing.architecture import Architecture, Cache, read
from sizing.facts import ModelFacts
from sizing.overheads import Batch
from sizing.plan import Machine, Serving, bytes_per_token, plan, request_bytes, weights_per_gpu
from sizing.precision import Engine, cache_bytes, weight_bytes
from tests.bench.sizing_cases import Case

MIB, GIB = 1024**2, 1024**3
ENGINES: dict[str, Engine] = {
    "vllm": "vllm",
    "vllm-ascend": "vllm",
    "sglang": "sglang",
    "llama.cpp": "llamacpp",
    "ik_llama.cpp": "llamacpp",
    "transformers": "transformers",
}
# As PyTorch reports it; the first from the llm-d planner's results.
MACHINES = {"H100-80GB": 79.18}


@dataclass(frozen=True, slots=True)
class Error:
    """`share` of the measured value: above zero, the plan says more."""

    part: str
    share: float


def parts(case: Case) -> list[Error]:
    return [Error(part, said / real - 1) for part, said, real in _pairs(case) if real > 0]


def _pairs(case: Case) -> Iterator[tuple[str, float, float]]:
    measured = case.measured
    if "file_model_size" in measured:
        size = float(measured["file_model_size"].split()[0])
        yield "file", size * 1024, sum(measured["model_buffer_mib"].values())
        if (planned := _cache_by_metadata(case)) is not None:
            yield "kv", planned, measured["kv_total_mib"] * MIB
        elif (said := _forked_cache(case)) is not None:
            yield "kv-fork", said, measured["kv_total_mib"] * MIB
        return
    if not case.config:
        yield from _weights_alone(case)
        return
    architecture = read(case.config)
    served = _served(case)
    facts = _facts(case, architecture)
    if facts and (real := measured.get("weights_gib_per_gpu")):
        yield "weights", weights_per_gpu(facts, architecture, case.ranks, served), real * GIB
    yield from _cache(case, architecture, served)
    if facts and (real := measured.get("gpu_used_mb_peak")):
        tokens = case.told["input_len"] + case.told["output_len"]
        held = request_bytes(architecture, served, tokens, Batch(1, 1), 1)
        yield "total", facts.weight_bytes + held, real * MIB
    if facts and (machine := _machine(case)):
        yield from _pool(case, facts, architecture, machine, served)


def _weights_alone(case: Case) -> Iterator[tuple[str, float, float]]:
    """Where the number of parameters is all that is known for sure."""
    if real := case.measured.get("file_bytes"):
        yield "weights", weight_bytes(case.params, 0, str(case.told["quant"])), real
    if real := case.measured.get("weights_gib_per_gpu"):
        yield "weights", 2 * case.params / case.ranks, real * GIB


def _cache(case: Case, architecture: Architecture, served: Serving) -> Iterator[tuple[str, float, float]]:
    measured, said = case.measured, bytes_per_token(architecture, served, case.ranks)
    if real := measured.get("kv_bytes_per_token"):
        yield "kv", said, real
    elif (size := measured.get("kv_bytes")) and (tokens := measured.get("kv_tokens")):
        yield "kv", said, size / tokens
    elif (gib := measured.get("kv_gib")) and (tokens := measured.get("kv_tokens")) and gib > 0:
        yield "kv", said, gib * GIB / tokens
    elif (mib := measured.get("kv_mib")) and (cells := case.told.get("n_ctx") or measured.get("cells")):
        yield "kv", said, mib * MIB / cells
    elif gib := measured.get("kv_gib_needed"):
        batch = Batch(case.told.get("max_num_batched_tokens") or 2048, 256)
        needed = request_bytes(architecture, served, case.told["max_model_len"], batch, case.ranks)
        yield "kv", needed, gib * GIB


def _pool(
    case: Case, facts: ModelFacts, architecture: Architecture, machine: Machine, served: Serving
) -> Iterator[tuple[str, float, float]]:
    """Tokens that the pool holds; where only its size was logged, by the bytes of a token both ways."""
    real = case.measured.get("kv_gib") or 0
    if real <= 0:
        return
    each = bytes_per_token(architecture, served, case.ranks)
    planned = plan(facts, architecture, machine, served)
    pool = max(0, planned.free + planned.cache + planned.state)
    yield "tokens", pool / each, real * GIB / each


def _machine(case: Case) -> Machine | None:
    told = str(case.told.get("gpu") or "")
    gib = case.measured.get("total_gpu_gib")
    if gib is None:
        gib = next((size for name, size in MACHINES.items() if told.startswith(name)), None)
    return Machine(int(gib * 1024), case.ranks) if gib else None


def _served(case: Case) -> Serving:
    told = case.told
    dtype = told.get("kv_cache_dtype")
    length = told.get("max_model_len") or 4096
    version = str(told.get("engine_version") or "")
    batch = Batch(length, 256) if "V0" in version or version.startswith(("0.5", "0.6")) or "0.6.4" in version else None
    if most := told.get("max_num_batched_tokens"):
        is_large = str(told["gpu"]).startswith("H100")
        batch = Batch(most, 1024 if is_large else 256)
    return Serving(
        engine=ENGINES.get(case.engine, "vllm"),
        kv_dtype=dtype if isinstance(dtype, str) else "auto",
        context=length,
        share=told.get("gpu_memory_utilization"),
        batch=batch,
    )


def _precision(quant: str) -> str | None:
    """How the weights of the case are stored; None where this file cannot tell their bytes."""
    if quant in {"none", "None"}:
        return "16"
    if re.match(r"fp8|gptq int8", quant):
        return "8"
    if re.match(r"awq int4$|int4 \(", quant):
        return "4"
    return None


def _facts(case: Case, architecture: Architecture) -> ModelFacts | None:
    quant = str(case.told.get("quant"))
    if not case.params:
        return None
    if quant.startswith("mxfp4"):
        blocks = (
            3 * architecture.layers * (architecture.experts or 0) * architecture.hidden * (architecture.expert_ffn or 0)
        )
        stored = {"U8": blocks * 17 // 32, "BF16": 2 * (case.params - blocks)}
        return _model(case.params, stored, {"MXFP4": blocks, "BF16": case.params - blocks})
    if (name := _precision(quant)) is None:
        return None
    size = weight_bytes(case.params, architecture.embedding, name)
    return _model(case.params, {"stored": size}, {"stored": case.params})


def _model(params: int, stored: dict[str, int], counted: dict[str, int]) -> ModelFacts:
    return ModelFacts(
        repo_id="bench/case",
        revision="",
        params_total=params,
        params_active=None,
        params_mtp=0,
        bytes_by_dtype=stored,
        params_by_dtype=counted,
        stored_as="",
        config={},
        gguf=None,
        files=(),
        kind="text",
        base_repo=None,
        experts=None,
        experts_per_token=None,
        context=None,
        licence="",
        released_on=None,
        gated=False,
    )


def _cache_by_metadata(case: Case) -> float | None:
    """By the plan from the printed GGUF metadata, where the fork keeps what llama.cpp keeps: one type for keys and
    values, no window, of a latent the latent alone; else None."""
    meta: dict[str, Any] = case.told["arch_meta"]
    types = set(case.told["kv_cache_dtype"])
    is_latent = "n_lora_kv" in meta
    mode = str(case.told.get("mla_attn") or "0")
    if len(types) > 1 or int(meta.get("n_swa") or 0) or "n_head_kv" not in meta:
        return None
    if is_latent and mode not in {"2", "3"}:
        return None
    told = {
        "block_count": int(meta["n_layer"]),
        "embedding_length": int(meta["n_embd"]),
        "attention.head_count": int(meta["n_head"]),
        "attention.head_count_kv": int(meta["n_head_kv"]),
        "attention.key_length": int(meta["n_embd_head_k"]),
        "rope.dimension_count": int(meta["n_rot"]),
    }
    if is_latent:
        told["attention.kv_lora_rank"] = int(meta["n_lora_kv"])
    name = str(case.told["arch"])
    architecture = read({}, gguf={"general.architecture": name} | {f"{name}.{key}": told[key] for key in told})
    served = Serving(engine="llamacpp", kv_dtype=types.pop())
    return request_bytes(architecture, served, int(case.told["n_ctx"]), Batch(512, 1), 1)


def _forked_cache(case: Case) -> float | None:
    """ik_llama.cpp: K and V in types of their own, windows kept in full, MLA as `-mla` says: 0 all heads, 1 the latent
    and a transposed copy of its compressed part, 2 and 3 the latent."""
    meta: dict[str, Any] = case.told["arch_meta"]
    types = [cache_bytes(each) for each in case.told["kv_cache_dtype"]]
    layers, cells = int(meta["n_layer"]), int(case.told["n_ctx"])
    rank, mode = int(meta.get("n_lora_kv") or 0), str(case.told.get("mla_attn") or "0")
    if rank and mode != "0":
        copied = rank if mode == "1" else 0
        return float(layers * cells * (rank + int(meta["n_rot"]) + copied) * types[0])
    heads = int(meta.get("n_head_kv") or 0)
    if not heads:
        return None  # a list, one a layer, which the log does not print
    held = Cache(layers, heads, int(meta["n_embd_head_k"]), int(meta["n_embd_head_v"]))
    return float(layers * cells * held.heads * (held.key * types[0] + held.value * types[-1]))
