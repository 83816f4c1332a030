"""Parameters of a checkpoint by its headers. Pure.

What an engine loads is counted once: a tied output head that is stored again is left out, multi-token-prediction
layers are counted apart, and what only serves packed weights (scales, zero points) is bytes and no parameters.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from sizing.hub import config as configs
from sizing.hub.packing import Packing, precision
from sizing.hub.tensors import Tensor

_BUFFERS: Final = re.compile(
    r"\.(?:inv_freq|masked_bias|num_batches_tracked|position_ids)$|(?:^|\.)h\.\d+\.attn\.bias$|"
    r"^gpt_neox\.layers\.\d+\.attention\.bias$"
)
_LAYER: Final = re.compile(r"(?:^|\.)layers\.(\d+)\.")
_TOWER: Final = re.compile(r"(?:^|[._])(?:vision|visual|audio|encoder|speech|vit|talker|code2wav)")
_MTP: Final = re.compile(r"(?:^|[._])(?:mtp|nextn)(?:[._]|$)|(?:^|\.)mtp_(?:layers|block)\.")
_HEAD: Final = re.compile(r"(?:^|\.)(?:lm_head|embed_out|output_projection)\.(.+)$")
_EMBEDDING: Final = re.compile(
    r"(?:^|\.)(?:embed_tokens|wte|word_embeddings|tok_embeddings|embed_in)\.(?:weight|qweight)$"
)
_EXPERT: Final = re.compile(r"(?:^|\.)(?:experts|switch_mlp)\.")  # the second is MLX's
_ONE_EXPERT: Final = re.compile(r"(?:^|\.)experts\.(\d+)\.")


@dataclass(slots=True)
class Count:
    """Of one checkpoint. `routed` are parameters of experts of which only some work on a token."""

    params: Counter[str] = field(default_factory=Counter)
    nbytes: Counter[str] = field(default_factory=Counter)
    mtp: int = 0
    mtp_bytes: int = 0
    routed: int = 0

    @property
    def total(self) -> int:
        return self.params.total()

    def active(self, experts: int | None, per_token: int | None) -> int | None:
        """Parameters that work on one token, embeddings included; None where the model has no experts."""
        if not experts or not per_token or not self.routed or per_token > experts:
            return None
        return self.total - self.routed + self.routed * per_token // experts


def count(tensors: Iterable[Tensor], config: Mapping[str, Any]) -> Count:
    """Raises UnknownPacking."""
    by_name = {tensor.name: tensor for tensor in tensors}
    said = configs.quantization(config)
    packing = Packing(by_name, said or {})
    is_quantized = said is not None or any(is_packed(tensor) for tensor in by_name.values())
    skipped = tied_heads(by_name, config)
    found = Count()
    for tensor in by_name.values():
        if tensor.name in skipped:
            continue
        if _BUFFERS.search(tensor.name) or (is_quantized and packing.is_helper(tensor)):
            weights, label = 0, ""
        elif is_quantized:
            weights, label = packing.weights(tensor)
        else:  # integers in a checkpoint that is not quantised are masks and positions
            weights, label = tensor.elements if "F" in tensor.dtype else 0, precision(tensor.dtype)
        _add(found, tensor, weights, label, is_mtp=is_mtp(tensor.name, config))
    return found


def _add(found: Count, tensor: Tensor, weights: int, label: str, *, is_mtp: bool) -> None:
    if is_mtp:
        found.mtp += weights
        found.mtp_bytes += tensor.nbytes
        return
    found.nbytes[tensor.dtype] += tensor.nbytes
    if weights:
        found.params[label] += weights
    if is_routed(tensor.name):
        found.routed += weights


def is_packed(tensor: Tensor) -> bool:
    """Whether it is of a quantised checkpoint, whatever the config forgot to say."""
    last = tensor.name.rpartition(".")[2]
    if last in {"qweight", "weight_packed", "SCB"} or last.endswith("_blocks"):
        return True
    return last == "weight" and (tensor.dtype in {"U8", "I8", "U32", "I32", "F4"} or tensor.dtype.startswith("F8"))


def is_mtp(name: str, config: Mapping[str, Any]) -> bool:
    """Whether the tensor is of a multi-token-prediction layer: named so, or a layer behind the last."""
    if _MTP.search(name):
        return True
    behind, layers = configs.mtp_layers(config), configs.hidden_layers(config)
    layer = _LAYER.search(name)
    if not behind or not layers or layer is None or _TOWER.search(name):
        return False
    return layers <= int(layer[1]) < layers + behind


def is_routed(name: str) -> bool:
    return bool(_EXPERT.search(name)) and "shared" not in name


def tied_heads(names: Iterable[str], config: Mapping[str, Any]) -> set[str]:
    """Names of an output head that repeats the embeddings, with its helpers; it must be stored beside them."""
    listed = list(names)
    if not configs.is_tied(config) or not any(_EMBEDDING.search(name) for name in listed):
        return set()
    return {name for name in listed if _HEAD.search(name)}


def expert_matrices(names: Iterable[str], experts: int) -> int:
    """How many h x m matrices of routed experts these names stand for; a fused gate and up projection is two."""
    found = 0
    for name in names:
        if is_routed(name) and name.endswith(("weight", "_proj")):
            each = 1 if _ONE_EXPERT.search(name) else experts
            found += each * (2 if "gate_up" in name else 1)
    return found
