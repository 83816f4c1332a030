"""What an engine takes beside weights and cache, per GPU and in bytes, and where each figure comes from. Pure.

Figures with a log beside them were fitted to that log: they describe it, and do not yet prove themselves on others.
The shares of SGLang and the margin of llama.cpp are their usual defaults, not measured here.

Activations. vLLM profiles the larger of two peaks before it sizes the cache:
  prefill: each batched token holds its feed-forward's gate, up and product and three hidden vectors in 16 bits;
    27 MiB x tokens of Llama 3.1 8B gives the 2.07 and 2.99 GiB logged for 20,000 and 29,000 tokens (vllm#10517);
  sampling: logits of every sequence, sorted, with their indices, probabilities and sums: 38.4 bytes a logit. That is
    the 5.56 GiB of Qwen3-0.6B and the 7.38 GiB of gpt-oss at 1,024 sequences (llm-d planner, empirical results) and
    the 0.48 GiB of phi-1.5 at 256.
Batch sizes: vLLM's `EngineArgs.get_batch_defaults`: 8,192 tokens, 1,024 sequences from 70 GiB on, else 2,048 and 256.
Share of memory: vLLM's `--gpu-memory-utilization` 0.92, SGLang's `--mem-fraction-static` about 0.88 for weights and
cache. llama.cpp takes what it needs and keeps 1 GiB free for each device (`--fit-target`).
Outside the allocator: 0.14 GiB on one GPU (llm-d planner); with NCCL's buffers about 2 GiB on several (vllm#21348).
Rotary tables: vLLM keeps cosine and sine of each position in 16 bits, counted with the weights: Llama 3.1 8B logs
14.9888 GiB for 14.958 of parameters (vllm#10517).
MXFP4: the 13.47 and 64.38 GiB of gpt-oss 20B and 120B (llm-d planner) are experts of 2,880 padded to 3,072, the next
multiple of 256, on one side of each matrix; vLLM's Marlin kernel pads both.
CUDA graphs: 0.1 to 1.0 GiB logged (llm-d planner); counted once at 0.5 GiB.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sizing.architecture import Architecture
from sizing.precision import Engine

GIB: Final = 1024**3
LOGIT_BYTES: Final = 38.4
SHARE: Final[dict[Engine, float]] = {"vllm": 0.92, "sglang": 0.88, "llamacpp": 1.0, "transformers": 1.0}


@dataclass(frozen=True, slots=True)
class Batch:
    """What one forward pass may hold: `tokens` of prefill, `sequences` that decode."""

    tokens: int
    sequences: int


def batch(engine: Engine, memory: int, concurrency: int) -> Batch:
    """The engine's defaults on a GPU with `memory` bytes; never fewer sequences than asked for."""
    if engine == "llamacpp":
        return Batch(512, concurrency)
    if engine == "transformers":
        return Batch(1, concurrency)
    if engine == "sglang":
        return Batch(8192, concurrency)
    is_large = memory >= 70 * GIB
    return Batch(8192 if is_large else 2048, max(1024 if is_large else 256, concurrency))


def activations(architecture: Architecture, engine: Engine, batched: Batch, ranks: int) -> int:
    """The peak of one forward pass, bytes per GPU."""
    prefill = batched.tokens * (3 * -(-architecture.ffn // ranks) + 3 * architecture.hidden) * 2
    if engine == "vllm":
        return max(prefill, round(batched.sequences * architecture.vocab * LOGIT_BYTES))
    logits = min(batched.tokens, batched.sequences) * architecture.vocab * 4
    return prefill + logits


def rotary(architecture: Architecture) -> int:
    """Tables of cosines and sines for the whole context; one for full and one for windowed layers."""
    kinds = {(cache.window is None, cache.key) for cache in architecture.caches if not cache.is_latent}
    return sum((architecture.context or 0) * width * 2 for _is_full, width in kinds)


def padding(params: int, architecture: Architecture, ranks: int) -> int:
    """Bytes that `params` weights of experts in MXFP4 take beyond their own, over all ranks."""
    width = (architecture.expert_ffn or 0) // ranks
    if not params or not width:
        return 0
    return round(params * 17 / 32 * (-(-width // 256) * 256 / width - 1))


def fixed(engine: Engine, ranks: int) -> int:
    """CUDA's context and communication buffers, bytes per GPU."""
    if engine == "llamacpp":
        return GIB
    return round(0.14 * GIB) if ranks == 1 else 2 * GIB


def graphs(engine: Engine) -> int:
    """CUDA graphs, bytes per GPU."""
    return GIB // 2 if engine in {"vllm", "sglang"} else 0
