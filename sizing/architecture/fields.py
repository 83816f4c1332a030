"""Reads fields of a `config.json`, whatever each family calls them. Pure.

Hostile input: every number is checked to be one and to be of a size that a model may have.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sizing.architecture.shapes import NotUnderstood

Config = Mapping[str, Any]

NESTED: Final = ("text_config", "language_config", "llm_config", "thinker_config", "text_model_config")
LAYERS: Final = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_transformer_layers")
HIDDEN: Final = ("hidden_size", "n_embd", "d_model", "model_dim")
HEADS: Final = ("num_attention_heads", "n_head", "n_heads", "num_query_heads")
KV_HEADS: Final = ("num_key_value_heads", "num_kv_heads", "n_head_kv", "multi_query_group_num", "num_query_groups")
FFN: Final = ("intermediate_size", "ffn_hidden_size", "n_inner", "ffn_dim", "d_ff", "intermediate_size_mlp")
EXPERTS: Final = (
    "num_experts",
    "num_local_experts",
    "n_routed_experts",
    "moe_num_experts",
    "num_moe_experts",
    "num_routed_experts",
)
PER_TOKEN: Final = (
    "num_experts_per_tok",
    "experts_per_token",
    "num_experts_per_token",
    "moe_topk",
    "moe_k",
    "moe_top_k",
    "num_selected_experts",
    "top_k_experts",
)
EXPERT_FFN: Final = ("moe_intermediate_size", "expert_intermediate_size", "moe_ffn_hidden_size")
CONTEXT: Final = ("max_position_embeddings", "n_positions", "max_sequence_length", "max_seq_len", "seq_length", "n_ctx")
MOST: Final = 10**9
MOST_LAYERS: Final = 4096
"""Layers are walked one by one: a hostile count must not cost memory or time."""


def text(config: Config) -> Config:
    """The language model's own part, where a multimodal config hides it; no real one is nested deeper than this."""
    for _level in range(4):
        parts = (config.get(name) for name in NESTED)
        nested = next((each for each in parts if isinstance(each, Mapping) and each), None)
        if nested is None:
            break
        config = nested
    return config


def whole(value: object) -> int | None:
    """The value if it is a count that a model may have."""
    return value if type(value) is int and 0 <= value < MOST else None


def first(config: Config, names: tuple[str, ...]) -> int | None:
    for name in names:
        found = config.get(name)
        if isinstance(found, list) and found:
            found = max((whole(each) or 0 for each in found), default=None)
        if (number := whole(found)) is not None:
            return number
    return None


def required(config: Config, *names: str) -> int:
    """Raises NotUnderstood where none of these is told, or it is nothing."""
    found = first(config, names)
    if not found or (names == LAYERS and found > MOST_LAYERS):
        raise NotUnderstood("config_incomplete", names[0])
    return found


def part(config: Config, name: str) -> Config:
    found = config.get(name)
    return found if isinstance(found, Mapping) else {}


def words(config: Config, name: str) -> list[str]:
    """A list of words, one a layer; empty where it is not told."""
    found = config.get(name)
    return [str(each) for each in found] if isinstance(found, list) else []


def head_dim(config: Config) -> int:
    """The explicit width of a head, else hidden size over heads."""
    explicit = first(config, ("head_dim", "attention_head_dim", "kv_channels"))
    return explicit or required(config, *HIDDEN) // required(config, *HEADS)


def kv_heads(config: Config) -> int:
    """Of one layer; as many as there are heads where nothing else is told."""
    inner = part(config, "attn_config")
    told = first(inner, ("kv_n_heads",)) or first(config, KV_HEADS)
    return told or required(config, *HEADS)
