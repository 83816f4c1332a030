"""Models of which some layers keep a state per sequence in place of keys and values: their caches and states. Pure.

Sizes as vLLM's `MambaStateShapeCalculator` has them: a convolution keeps kernel - 1 columns of its channels.
"""

from __future__ import annotations

from sizing.architecture.fields import (
    HEADS,
    HIDDEN,
    LAYERS,
    Config,
    first,
    head_dim,
    kv_heads,
    part,
    required,
    whole,
    words,
)
from sizing.architecture.shapes import Cache, NotUnderstood, State

Found = tuple[tuple[Cache, ...], tuple[State, ...]]


def _attending(config: Config, layers: int) -> tuple[Cache, ...]:
    return (Cache(layers, kv_heads(config), head_dim(config), head_dim(config)),) if layers else ()


def _split(config: Config, attending: int, state: tuple[int, int]) -> Found:
    layers = required(config, *LAYERS)
    if not 0 <= attending <= layers:
        raise NotUnderstood("config_incomplete", "layer_types")
    return _attending(config, attending), (State(layers - attending, *state),)


def gated_delta(config: Config) -> Found:
    """Qwen3-Next and Qwen3.5 (gated delta net)."""
    layers = required(config, *LAYERS)
    kinds = words(config, "layer_types")
    attending = kinds.count("full_attention") if kinds else layers // required(config, "full_attention_interval")
    keys = required(config, "linear_num_key_heads") * required(config, "linear_key_head_dim")
    heads, width = required(config, "linear_num_value_heads"), required(config, "linear_value_head_dim")
    conv = (required(config, "linear_conv_kernel_dim") - 1) * (2 * keys + heads * width)
    return _split(config, attending, (conv, heads * width * required(config, "linear_key_head_dim")))


def mamba1(config: Config) -> tuple[int, int]:
    """Numbers of one Mamba layer (arXiv:2312.00752): convolution, recurrent."""
    inner = first(config, ("intermediate_size",)) if "mamba_expand" not in config else None
    inner = inner or required(config, "mamba_expand", "expand") * required(config, *HIDDEN)
    kernel = required(config, "mamba_d_conv", "conv_kernel", "d_conv")
    return (kernel - 1) * inner, inner * required(config, "mamba_d_state", "state_size", "d_state")


def mamba2(config: Config) -> tuple[int, int]:
    """Numbers of one Mamba-2 layer (arXiv:2405.21060): convolution, recurrent."""
    heads = required(config, "mamba_num_heads", "mamba_n_heads", "num_heads")
    inner = heads * required(config, "mamba_head_dim", "mamba_d_head", "head_dim")
    state = required(config, "ssm_state_size", "mamba_d_state", "state_size")
    groups = required(config, "n_groups", "mamba_n_groups")
    kernel = required(config, "conv_kernel", "mamba_d_conv")
    return (kernel - 1) * (inner + 2 * groups * state), inner * state


def jamba(config: Config) -> Found:
    layers, period = required(config, *LAYERS), required(config, "attn_layer_period")
    offset = first(config, ("attn_layer_offset",)) or 0
    attending = sum(index % period == offset for index in range(layers))
    return _split(config, attending, mamba1(config))


def nemotron_h(config: Config) -> Found:
    """`hybrid_override_pattern`: M Mamba-2, * attention, - and E feed-forward."""
    pattern = config.get("hybrid_override_pattern")
    if not isinstance(pattern, str) or not pattern or set(pattern) - set("M*-E"):
        raise NotUnderstood("config_incomplete", "hybrid_override_pattern")
    return _attending(config, pattern.count("*")), (State(pattern.count("M"), *mamba2(config)),)


def granite_hybrid(config: Config) -> Found:
    """Granite 4 and Bamba: the layers that attend are listed, by kind or by number."""
    kinds = words(config, "layer_types") or words(config, "layers_block_type")
    listed = config.get("attn_layer_indices")
    if not kinds and not isinstance(listed, list):
        raise NotUnderstood("config_incomplete", "layer_types")
    attending = kinds.count("attention") if kinds else len(listed or [])
    return _split(config, attending, mamba2(config))


def falcon_h1(config: Config) -> Found:
    """Each layer attends and recurs."""
    layers = required(config, *LAYERS)
    return _attending(config, layers), (State(layers, *mamba2(config)),)


def lfm2(config: Config) -> Found:
    """Short convolutions beside a few layers of attention."""
    layers = required(config, *LAYERS)
    indices = config.get("full_attn_idxs")
    kinds = words(config, "layer_types")
    if not kinds and not isinstance(indices, list):
        raise NotUnderstood("config_incomplete", "layer_types")
    attending = kinds.count("full_attention") if kinds else len(indices or [])
    conv = (required(config, "conv_L_cache") - 1) * required(config, *HIDDEN)
    if attending > layers:
        raise NotUnderstood("config_incomplete", "layer_types")
    return _attending(config, attending), (State(layers - attending, conv, 0),)


def kimi_linear(config: Config) -> Found:
    """Kimi Linear (arXiv:2510.26692): one layer in four is MLA, the others keep a delta state."""
    linear = part(config, "linear_attn_config")
    full, delta = linear.get("full_attn_layers"), linear.get("kda_layers")
    heads, width = whole(linear.get("num_heads")), whole(linear.get("head_dim"))
    kernel = whole(linear.get("short_conv_kernel_size"))
    if not isinstance(full, list) or not isinstance(delta, list) or not heads or not width or not kernel:
        raise NotUnderstood("config_incomplete", "linear_attn_config")
    latent = required(config, "kv_lora_rank") + required(config, "qk_rope_head_dim")
    caches = (Cache(len(full), 1, latent, 0, is_latent=True),)
    return caches, (State(len(delta), (kernel - 1) * 3 * heads * width, heads * width * width),)


def only_mamba1(config: Config) -> Found:
    return (), (State(required(config, *LAYERS), *mamba1(config)),)


def only_mamba2(config: Config) -> Found:
    return (), (State(required(config, *LAYERS), *mamba2(config)),)


def heads_of(config: Config) -> int:
    """Attention heads; 1 for a model that has none, so that any number of ranks is judged by its other widths."""
    return first(config, HEADS) or 1
