"""Memory of fine-tuning beyond the rule of thumb: states by optimiser, activations by sequence and batch. Pure.

Activations of a layer, of s tokens in b sequences, hidden size h, a heads: 34 s b h bytes with an attention that does
not store its scores (FlashAttention), 2 s b h where each layer is checkpointed and one at a time recomputed
(arXiv:2205.05198, sections 4 and 5). States a parameter: ZeRO, arXiv:1910.02054, section 3.1; 8-bit Adam,
arXiv:2110.02861. NF4 with double quantisation: 4.127 bits (QLoRA, arXiv:2305.14314, section 3).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from sizing.architecture import Architecture
from sizing.facts import ModelFacts

Method = Literal["full", "lora", "qlora"]
Optimiser = Literal["adamw", "adamw-8bit", "adafactor", "sgd"]
STATES: Final[dict[Optimiser, int]] = {"adamw": 8, "adamw-8bit": 2, "adafactor": 0, "sgd": 0}
"""Bytes of the optimiser for each trained parameter, beside its 32-bit copy; Adafactor's rows and columns are small."""
_NF4_BITS: Final = 4.127


@dataclass(frozen=True, slots=True)
class Tuning:
    method: Method = "lora"
    sequence: int = 2048
    batch: int = 1
    rank: int = 16
    optimiser: Optimiser = "adamw"
    checkpointing: bool = True


@dataclass(frozen=True, slots=True)
class Training:
    """Bytes, over all GPUs."""

    weights: int
    gradients: int
    optimiser: int
    activations: int
    trained: int

    @property
    def total(self) -> int:
        return self.weights + self.gradients + self.optimiser + self.activations


def training(facts: ModelFacts, architecture: Architecture, tuning: Tuning) -> Training:
    """Raises ValueError for no sequence, batch or rank."""
    if min(tuning.sequence, tuning.batch, tuning.rank) < 1:
        raise ValueError("training needs a sequence, a batch and a rank")
    is_full = tuning.method == "full"
    trained = facts.params_total if is_full else adapter_params(architecture, tuning.rank)
    base = _base_bytes(facts.params_total, architecture, tuning.method)
    return Training(
        weights=base + (0 if is_full else 2 * trained),
        gradients=2 * trained,
        optimiser=(4 + STATES[tuning.optimiser]) * trained,
        activations=activations(architecture, tuning),
        trained=trained,
    )


def adapter_params(architecture: Architecture, rank: int) -> int:
    """Low-rank pairs on every linear layer of attention and one feed-forward path (arXiv:2106.09685, section 4.1)."""
    hidden, ffn = architecture.hidden, architecture.ffn
    kept = sum(cache.layers * cache.heads * (cache.key + cache.value) for cache in architecture.caches)
    attention = architecture.layers * 4 * hidden + 2 * architecture.layers * hidden + kept
    return rank * (attention + 3 * architecture.layers * (hidden + ffn))


def activations(architecture: Architecture, tuning: Tuning) -> int:
    """Bytes; the logits of the loss in 32 bits are in, and are held twice with their gradient."""
    tokens = tuning.sequence * tuning.batch
    stored = 2 * architecture.hidden
    worked = 34 * architecture.hidden + 8 * max(0, architecture.ffn - 4 * architecture.hidden)
    layers = architecture.layers * stored + worked if tuning.checkpointing else architecture.layers * worked
    return tokens * (layers + 8 * architecture.vocab)


def _base_bytes(params: int, architecture: Architecture, method: Method) -> int:
    if method != "qlora":
        return 2 * params
    kept = min(params, architecture.embedding)
    return round((params - kept) * _NF4_BITS / 8) + 2 * kept
