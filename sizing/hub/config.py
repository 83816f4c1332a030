"""What a config.json says of size, whatever family it comes from. Pure.

Only what counting needs; layers, heads and caches are read by `sizing.architecture`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

Config = Mapping[str, Any]

_NESTED: Final = ("text_config", "llm_config", "language_config", "thinker_config", "text_model_config")
_EXPERTS: Final = ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts", "num_moe_experts")
_PER_TOKEN: Final = (
    "num_experts_per_tok",
    "num_experts_per_token",
    "experts_per_token",
    "moe_top_k",
    "moe_topk",
    "moe_k",
    "top_k_experts",
)
_CONTEXT: Final = (
    "max_position_embeddings",
    "n_positions",
    "max_sequence_length",
    "max_seq_len",
    "seq_length",
    "n_ctx",
    "model_max_length",
)
_MTP: Final = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_layers", "n_mtp_layers", "num_mtp_modules")
_LAYERS: Final = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
# Classes of transformers whose configuration ties input and output embeddings unless told otherwise; a checkpoint
# that stores both all the same is loaded with one of them.
_TIED_UNSAID: Final = frozenset(
    {"gemma", "gemma2", "gemma3", "gemma3_text", "gemma3n", "gemma3n_text", "gemma4", "gemma4_text"}
    | {"cohere", "cohere2", "gpt2", "bloom", "opt", "mpt", "falcon", "starcoder2"}
)
_LONGEST_CONTEXT: Final = 10**9


def text_config(config: Config) -> Config:
    """The language model's own part of it, however deep a multimodal one hides it."""
    for name in _NESTED:
        if isinstance(nested := config.get(name), Mapping):
            return text_config(nested)
    return config


def experts(config: Config) -> int | None:
    return _first(config, _EXPERTS, least=2)


def experts_per_token(config: Config) -> int | None:
    return _first(config, _PER_TOKEN) if experts(config) else None


def context(config: Config) -> int | None:
    found = _first(config, _CONTEXT)
    return found if found and found < _LONGEST_CONTEXT else None


def hidden_layers(config: Config) -> int | None:
    return _first(config, _LAYERS)


def mtp_layers(config: Config) -> int:
    return _first(config, _MTP) or 0


def is_tied(config: Config) -> bool:
    """Whether the output head is the input embedding: what the text part says, else the whole, else its class."""
    text = text_config(config)
    for part in (text, config):
        if isinstance(said := part.get("tie_word_embeddings"), bool):
            return said
    name = text.get("model_type")
    return isinstance(name, str) and name in _TIED_UNSAID


def quantization(config: Config) -> Config | None:
    """`quantization_config`, also where it is nested with the text part, or MLX's `quantization`."""
    for part in (config, text_config(config)):
        for name in ("quantization_config", "compression_config", "quantization"):
            if isinstance(found := part.get(name), Mapping) and found:
                return found
    return None


def integer(config: Config, name: str) -> int | None:
    """A count that the config gives under that name: positive, or None."""
    value = config.get(name)
    if isinstance(value, list) and value:  # one for each layer or modality, such as [64, 64]
        value = value[0]
    return value if type(value) is int and 0 < value < 10**12 else None


def dtype(config: Config) -> str:
    """`torch_dtype` as safetensors would name it; empty where it is not told."""
    for part in (config, text_config(config)):
        said = part.get("dtype") or part.get("torch_dtype")
        if isinstance(said, str):
            return {"bfloat16": "BF16", "float16": "F16", "half": "F16", "float32": "F32", "float": "F32"}.get(
                re.sub(r"^torch\.", "", said), ""
            )
    return ""


def _first(config: Config, names: Iterable[str], *, least: int = 1) -> int | None:
    text = text_config(config)
    places = [text, text.get("ffn_config"), text.get("moe_config"), config]
    for place in places:
        if isinstance(place, Mapping):
            for name in names:
                if (value := integer(place, name)) and value >= least:
                    return value
    return None
