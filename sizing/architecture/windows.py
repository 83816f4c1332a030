"""Caches of attention layers: full, sliding and chunked, by the pattern each family tells. Pure."""

from __future__ import annotations

from collections import Counter
from typing import Final

from sizing.architecture.fields import HEADS, LAYERS, Config, first, head_dim, kv_heads, part, required, whole, words
from sizing.architecture.shapes import Cache, NotUnderstood

SLIDING: Final = frozenset({"sliding_attention", "sliding", "local", "chunked_attention", "local_attention"})
FULL: Final = frozenset({"full_attention", "full", "global", "attention", "global_attention"})
# Every n-th layer is global where the config does not list its layers. Sources: the configuration classes of
# transformers (`sliding_window_pattern` and `_sliding_window_pattern` defaults).
DEFAULT_PATTERN: Final = {"gemma2": 2, "gemma3_text": 6, "gemma3": 6, "cohere2": 4, "llama4_text": 4, "gpt_oss": 2}


def attention(config: Config, model_type: str) -> tuple[Cache, ...]:
    """Caches of a model all of whose layers attend."""
    layers = required(config, *LAYERS)
    window = _window(config)
    if window is None:
        return (Cache(layers, kv_heads(config), head_dim(config), head_dim(config)),)
    kinds = _kinds(config, model_type, layers)
    shared = first(config, ("num_kv_shared_layers",)) or 0
    if shared >= layers:
        raise NotUnderstood("config_incomplete", "num_kv_shared_layers")
    counted = Counter(kinds[: layers - shared])
    return _caches(config, counted, window)


def _window(config: Config) -> int | None:
    """Tokens that a sliding layer looks back at; None where there is no such layer."""
    if config.get("use_sliding_window") is False:
        return None
    return first(config, ("sliding_window", "attention_chunk_size")) or None


def _kinds(config: Config, model_type: str, layers: int) -> list[bool]:
    """Of each layer: does it slide?"""
    if listed := words(config, "layer_types"):
        if len(listed) < layers or (strange := set(listed) - SLIDING - FULL):
            raise NotUnderstood("config_incomplete", f"layer_types {sorted(strange) if len(listed) >= layers else ''}")
        return [kind in SLIDING for kind in listed[:layers]]
    pattern = config.get("sliding_window_pattern", config.get("_sliding_window_pattern"))
    if isinstance(pattern, str) and set(pattern) <= {"L", "G"} and pattern:
        return [pattern[index % len(pattern)] == "L" for index in range(layers)]
    every = whole(pattern) or DEFAULT_PATTERN.get(model_type)
    if every:
        return [(index + 1) % every != 0 for index in range(layers)]
    if config.get("use_sliding_window") and (full := first(config, ("max_window_layers",))) is not None:
        return [index >= full for index in range(layers)]
    return [True] * layers


def _caches(config: Config, counted: Counter[bool], window: int) -> tuple[Cache, ...]:
    """Global layers of some models have heads of another width and number (Gemma 4)."""
    wide = first(config, ("global_head_dim",)) or head_dim(config)
    heads = first(config, ("num_global_key_value_heads",)) or kv_heads(config)
    found = []
    if counted[False]:
        found.append(Cache(counted[False], heads, wide, wide))
    if counted[True]:
        width = first(config, ("swa_head_dim",)) or head_dim(config)
        sliding_heads = first(config, ("swa_num_key_value_heads",)) or kv_heads(config)
        found.append(Cache(counted[True], sliding_heads, width, width, window))
    return tuple(found)


def per_layer(heads: list[int], width: int) -> tuple[Cache, ...]:
    """Layers with heads of their own each; a layer of none keeps nothing."""
    counted = Counter(count for count in heads if count)
    return tuple(Cache(layers, count, width, width) for count, layers in sorted(counted.items()))


def blocks(config: Config) -> tuple[Cache, ...]:
    """Nemotron's searched models (DeciLM): `block_configs` say of each layer whether it attends, and with what."""
    listed = config.get("block_configs")
    if not isinstance(listed, list) or not listed:
        raise NotUnderstood("config_incomplete", "block_configs")
    heads = required(config, *HEADS)
    found = []
    for block in listed:
        told = part(block, "attention") if isinstance(block, dict) else {}
        group = whole(told.get("n_heads_in_group"))
        is_empty = bool(told.get("no_op")) or bool(told.get("replace_with_linear"))
        if not is_empty and not group:
            raise NotUnderstood("config_incomplete", "n_heads_in_group")
        found.append(0 if is_empty or not group else heads // group)
    return per_layer(found, head_dim(config))


def latent(config: Config) -> tuple[Cache, ...]:
    """MLA (arXiv:2405.04434): one compressed vector and the rotary part, per token and layer; with the indexer of
    DeepSeek sparse attention (arXiv:2512.02556) a key of `index_head_dim` in FP8 and a 4-byte scale for each 128."""
    width = required(config, "kv_lora_rank") + required(config, "qk_rope_head_dim")
    index = first(config, ("index_head_dim",)) or 0
    index_bytes = index + 4 * -(-index // 128)
    return (Cache(required(config, *LAYERS), 1, width, 0, is_latent=True, index_bytes=index_bytes),)


def crossing(config: Config) -> tuple[Cache, ...]:
    """Llama 3.2 Vision: cross-attention layers keep the image's tokens only: four tiles of 1,601."""
    listed = config.get("cross_attention_layers")
    crossed = len(listed) if isinstance(listed, list) else 0
    layers, heads, width = required(config, *LAYERS), kv_heads(config), head_dim(config)
    if not 0 < crossed < layers:
        raise NotUnderstood("config_incomplete", "cross_attention_layers")
    return (
        Cache(layers - crossed, heads, width, width),
        Cache(crossed, heads, width, width, 4 * 1601, is_fixed=True),
    )
