"""What one GPU configuration holds of a model when an engine serves it: exact where files tell, else marked. Pure.

All sizes are bytes per GPU, memory is what the machine reports (MiB), not the vendor's GB. vLLM and SGLang split each
layer over the GPUs (tensor parallel), llama.cpp gives each GPU layers of its own. `overheads` holds the figures that
are not in the files, with their sources.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from sizing import overheads, precision
from sizing.architecture import Architecture
from sizing.facts import ModelFacts
from sizing.overheads import Batch
from sizing.precision import Engine

Reason = Literal["heads", "kv_heads", "groups", "weights", "cache", "context"]
RANKS: Final = (1, 2, 4, 8)
MIB: Final = 1024**2
_CELLS: Final = 256
_LONGEST: Final = 2**24


@dataclass(frozen=True, slots=True)
class Machine:
    """`count` GPUs of `memory_mib` each, as the machine reports it."""

    memory_mib: int
    count: int = 1

    @property
    def memory(self) -> int:
        return self.memory_mib * MIB


@dataclass(frozen=True, slots=True)
class Serving:
    """How it is to be served. `share` and `batch` are the engine's defaults where None."""

    engine: Engine = "vllm"
    precision: str = "published"
    kv_dtype: str = "auto"
    context: int = 8192
    concurrency: int = 1
    share: float | None = None
    batch: Batch | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """Bytes per GPU. `cache` and `state` are of all requests; `free` may be negative; `reason` says why not."""

    weights: int
    cache_per_token: int
    cache: int
    state: int
    activations: int
    overhead: int
    free: int
    concurrency: int
    longest_context: int
    reason: Reason | None

    @property
    def holds(self) -> bool:
        return self.reason is None

    @property
    def needed(self) -> int:
        return self.weights + self.cache + self.state + self.activations + self.overhead


def plan(facts: ModelFacts, architecture: Architecture, machine: Machine, serving: Serving) -> Plan:
    """Raises UnknownPrecision, and ValueError for no context, no request or no GPU."""
    if min(serving.context, serving.concurrency, machine.count, machine.memory_mib) < 1:
        raise ValueError("a plan is for at least one token, one request and one GPU")
    batch = serving.batch or overheads.batch(serving.engine, machine.memory, serving.concurrency)
    weights = weights_per_gpu(facts, architecture, machine.count, serving)
    activations = overheads.activations(architecture, serving.engine, batch, machine.count)
    overhead = overheads.fixed(serving.engine, machine.count) + overheads.graphs(serving.engine)
    pool = _pool(machine, serving, activations, overhead) - weights
    state = state_bytes(architecture, serving.engine, machine.count)
    request = request_bytes(architecture, serving, serving.context, batch, machine.count)
    each = request + state
    most = max(0, pool // each) if each else serving.concurrency
    return Plan(
        weights=weights,
        cache_per_token=bytes_per_token(architecture, serving, machine.count),
        cache=request * serving.concurrency,
        state=state * serving.concurrency,
        activations=activations,
        overhead=overhead,
        free=pool - each * serving.concurrency,
        concurrency=most,
        longest_context=_longest(architecture, serving, batch, machine.count, pool - state),
        reason=_reason(architecture, machine.count, serving, pool, each),
    )


def weights_total(facts: ModelFacts, architecture: Architecture, served_in: str) -> int:
    """Bytes of all weights in that precision; as published: those of the files."""
    if served_in == "published":
        return facts.weight_bytes
    return precision.weight_bytes(facts.params_total, architecture.embedding, served_in)


def weights_per_gpu(facts: ModelFacts, architecture: Architecture, ranks: int, serving: Serving) -> int:
    """What is whole on each rank, and its part of the rest; key and value projections repeat with their heads."""
    total = weights_total(facts, architecture, serving.precision)
    if serving.engine == "llamacpp":
        return -(-total // ranks)
    if serving.engine == "vllm":
        rotary = overheads.rotary(architecture)
        if serving.precision == "published":
            total += overheads.padding(facts.params_by_dtype.get("MXFP4", 0), architecture, ranks)
    else:
        rotary = 0
    return _split(facts, architecture, ranks, total) + rotary


def _split(facts: ModelFacts, architecture: Architecture, ranks: int, total: int) -> int:
    if ranks == 1:
        return total
    each = total / max(facts.params_total, 1)
    whole = min(total, round(2 * architecture.replicated))  # routers and latent projections stay in 16 bits or less
    heads = architecture.kv_heads
    repeated = architecture.kv_weights * each * (1 / heads - 1 / ranks) if 0 < heads < ranks else 0.0
    return -(-(total - whole) // ranks) + whole + round(repeated)


def bytes_per_token(architecture: Architecture, serving: Serving, ranks: int) -> int:
    """What one more token of a short request takes, on each GPU."""
    return request_bytes(architecture, serving, 1, Batch(1, 1), ranks) - request_bytes(
        architecture, serving, 0, Batch(1, 1), ranks
    )


def request_bytes(architecture: Architecture, serving: Serving, context: int, batch: Batch, ranks: int) -> int:
    """Cache of one request on each GPU."""
    number = precision.cache_bytes(serving.kv_dtype)
    is_layered = serving.engine == "llamacpp"
    split = 1 if is_layered else ranks
    total = 0
    for cache in architecture.caches:
        tokens = cache.tokens(context, batch.tokens)
        if is_layered and cache.window is not None and not cache.is_fixed:
            tokens = min(-(-tokens // _CELLS) * _CELLS, context)
        width = cache.heads_per_rank(split) * (cache.key + cache.value)
        total += cache.layers * tokens * (round(width * number) + cache.index_bytes)
    return -(-total // ranks) if is_layered else total


def state_bytes(architecture: Architecture, engine: Engine, ranks: int) -> int:
    """Of one request on each GPU. Recurrent states are kept in 32 bits; convolutions in 16, in llama.cpp in 32."""
    conv = 4 if engine == "llamacpp" else 2
    total = sum(state.layers * (state.conv * conv + state.recurrent * 4) for state in architecture.states)
    return -(-total // ranks)


def valid_ranks(architecture: Architecture, engine: Engine) -> tuple[int, ...]:
    """Over how many GPUs the engine can split it."""
    return tuple(ranks for ranks in RANKS if _split_reason(architecture, ranks, engine) is None)


def _split_reason(architecture: Architecture, ranks: int, engine: Engine) -> Reason | None:
    if ranks == 1 or engine == "llamacpp":
        return None
    if architecture.heads % ranks:
        return "heads"
    heads = architecture.kv_heads
    if heads and heads % ranks and ranks % heads:
        return "kv_heads"
    width = architecture.expert_ffn or architecture.ffn
    if width % (ranks * (architecture.group_size or 1)):
        return "groups"
    return None


def _pool(machine: Machine, serving: Serving, activations: int, overhead: int) -> int:
    """What weights and cache may take together."""
    share = overheads.SHARE[serving.engine] if serving.share is None else serving.share
    shared = round(machine.memory * share)
    if serving.engine == "sglang":  # its share is for weights and cache; the rest is for everything else
        return min(shared, machine.memory - activations - overhead)
    return shared - activations - overhead


def _longest(architecture: Architecture, serving: Serving, batch: Batch, ranks: int, room: int) -> int:
    """The longest context of one request in `room` bytes, at most the model's own."""
    low, high = 0, architecture.context or _LONGEST
    while low < high:
        middle = (low + high + 1) // 2
        if request_bytes(architecture, serving, middle, batch, ranks) <= room:
            low = middle
        else:
            high = middle - 1
    return low if room >= 0 else 0


def _reason(architecture: Architecture, ranks: int, serving: Serving, pool: int, each: int) -> Reason | None:
    """Why it does not hold: it cannot be split, the weights do not fit, the cache does not, the context is too long."""
    if split := _split_reason(architecture, ranks, serving.engine):
        return split
    if pool < 0:
        return "weights"
    if each * serving.concurrency > pool:
        return "cache"
    if architecture.context is not None and serving.context > architecture.context:
        return "context"
    return None
