"""How each family keeps what it read, and the refusal of what is not known."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sizing.architecture import Architecture, Cache, NotUnderstood, State, read
from sizing.architecture.families import FAMILIES
from sizing.architecture.gguf import FULL, LATENT, RECURRENT

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "num_hidden_layers": 32,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "tie_word_embeddings": False,
}
MLA = {"kv_lora_rank": 512, "qk_rope_head_dim": 64, "q_lora_rank": 1536}


def config(**changes: Any) -> dict[str, Any]:
    return {key: value for key, value in {**LLAMA, **changes}.items() if value is not None}


@pytest.mark.parametrize(
    ("changes", "caches"),
    [
        pytest.param({}, (Cache(32, 8, 128, 128),), id="grouped"),
        pytest.param({"num_key_value_heads": None}, (Cache(32, 32, 128, 128),), id="multi-head"),
        pytest.param({"num_key_value_heads": 1}, (Cache(32, 1, 128, 128),), id="multi-query"),
        pytest.param({"head_dim": 256}, (Cache(32, 8, 256, 256),), id="explicit-head"),
        pytest.param({"model_type": "mistral", "sliding_window": None}, (Cache(32, 8, 128, 128),), id="null-window"),
        pytest.param({"model_type": "mistral", "sliding_window": 4096}, (Cache(32, 8, 128, 128, 4096),), id="window"),
        pytest.param(
            {"model_type": "qwen2", "sliding_window": 4096, "use_sliding_window": False},
            (Cache(32, 8, 128, 128),),
            id="window-unused",
        ),
        pytest.param(
            {"model_type": "gemma3_text", "sliding_window": 1024, "sliding_window_pattern": 6},
            (Cache(5, 8, 128, 128), Cache(27, 8, 128, 128, 1024)),
            id="pattern",
        ),
        pytest.param(
            {"model_type": "gemma2", "sliding_window": 4096},
            (Cache(16, 8, 128, 128), Cache(16, 8, 128, 128, 4096)),
            id="pattern-unsaid",
        ),
        pytest.param(
            {
                "model_type": "gpt_oss",
                "sliding_window": 128,
                "layer_types": ["sliding_attention", "full_attention"] * 16,
            },
            (Cache(16, 8, 128, 128), Cache(16, 8, 128, 128, 128)),
            id="listed",
        ),
        pytest.param(
            {"model_type": "llama4_text", "attention_chunk_size": 8192},
            (Cache(8, 8, 128, 128), Cache(24, 8, 128, 128, 8192)),
            id="chunked",
        ),
        pytest.param({"model_type": "deepseek_v3", **MLA}, (Cache(32, 1, 576, 0, is_latent=True),), id="latent"),
        pytest.param(
            {"model_type": "deepseek_v32", **MLA, "index_head_dim": 128, "index_n_heads": 64},
            (Cache(32, 1, 576, 0, is_latent=True, index_bytes=132),),
            id="latent-with-indexer",
        ),
        pytest.param(
            {
                "model_type": "nemotron-nas",
                "block_configs": [{"attention": {"n_heads_in_group": 4}}] * 10
                + [{"attention": {"no_op": True}}] * 20
                + [{"attention": {"n_heads_in_group": 8}}] * 2,
            },
            (Cache(2, 4, 128, 128), Cache(10, 8, 128, 128)),
            id="heads-per-layer",
        ),
        pytest.param(
            {"model_type": "mllama_text_model", "cross_attention_layers": [3, 8]},
            (Cache(30, 8, 128, 128), Cache(2, 8, 128, 128, 6404, is_fixed=True)),
            id="cross-attention",
        ),
    ],
)
def test_caches(changes: dict[str, Any], caches: tuple[Cache, ...]) -> None:
    assert read(config(**changes)).caches == caches


def test_the_text_part_of_a_multimodal_config_is_read() -> None:
    assert read({"model_type": "mistral3", "text_config": config()}).caches == (Cache(32, 8, 128, 128),)


def test_layers_that_share_a_cache_of_another_have_none_and_global_ones_are_wider() -> None:
    kinds = (["sliding_attention"] * 5 + ["full_attention"]) * 7
    found = read(
        config(
            model_type="gemma4_text",
            num_hidden_layers=42,
            num_key_value_heads=2,
            head_dim=256,
            global_head_dim=512,
            num_kv_shared_layers=18,
            sliding_window=512,
            layer_types=kinds,
        )
    )
    assert found.caches == (Cache(4, 2, 512, 512), Cache(20, 2, 256, 256, 512))


def test_a_gated_delta_hybrid_attends_in_every_fourth_layer() -> None:
    found = read(
        config(
            model_type="qwen3_next",
            num_hidden_layers=48,
            num_key_value_heads=2,
            head_dim=256,
            full_attention_interval=4,
            linear_num_key_heads=16,
            linear_key_head_dim=128,
            linear_num_value_heads=32,
            linear_value_head_dim=128,
            linear_conv_kernel_dim=4,
        )
    )
    assert found.caches == (Cache(12, 2, 256, 256),)
    assert found.states == (State(36, 3 * 8192, 32 * 128 * 128),)


MAMBA2 = {"mamba_num_heads": 64, "mamba_head_dim": 64, "ssm_state_size": 128, "n_groups": 8, "conv_kernel": 4}


@pytest.mark.parametrize(
    ("changes", "attending", "states"),
    [
        pytest.param(
            {"model_type": "nemotron_h", "hybrid_override_pattern": "MM*-" * 8, **MAMBA2},
            8,
            (State(16, 3 * 6144, 4096 * 128),),
            id="nemotron-h",
        ),
        pytest.param(
            {"model_type": "granitemoehybrid", "layer_types": ["mamba"] * 28 + ["attention"] * 4, **MAMBA2},
            4,
            (State(28, 3 * 6144, 4096 * 128),),
            id="granite-hybrid",
        ),
        pytest.param({"model_type": "falcon_h1", **MAMBA2}, 32, (State(32, 3 * 6144, 4096 * 128),), id="falcon-h1"),
        pytest.param(
            {
                "model_type": "jamba",
                "attn_layer_period": 8,
                "attn_layer_offset": 4,
                "mamba_expand": 2,
                "mamba_d_conv": 4,
                "mamba_d_state": 16,
            },
            4,
            (State(28, 3 * 8192, 8192 * 16),),
            id="jamba",
        ),
        pytest.param(
            {"model_type": "lfm2", "full_attn_idxs": [2, 5, 8], "conv_L_cache": 3}, 3, (State(29, 8192, 0),), id="lfm2"
        ),
    ],
)
def test_hybrids(changes: dict[str, Any], attending: int, states: tuple[State, ...]) -> None:
    found = read(config(**changes))
    assert sum(cache.layers for cache in found.caches) == attending
    assert found.states == states


@pytest.mark.parametrize("name", ["num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"])
def test_experts_under_the_name_of_each_family(name: str) -> None:
    found = read(config(model_type="qwen3_moe", num_experts_per_tok=8, **{name: 128}))
    assert (found.experts, found.experts_per_token) == (128, 8)


@pytest.mark.parametrize(
    ("told", "code"),
    [
        ({}, "config_missing"),
        (config(model_type="retnet_of_tomorrow"), "architecture_unknown"),
        (config(model_type=None), "architecture_unknown"),
        (config(num_hidden_layers=None), "config_incomplete"),
        (config(num_hidden_layers=-4), "config_incomplete"),
        (config(num_hidden_layers=10**12), "config_incomplete"),
        (config(hidden_size="4096"), "config_incomplete"),
        (config(model_type="deepseek_v3"), "config_incomplete"),
        (config(model_type="gpt_oss", sliding_window=8, layer_types=["full_attention"]), "config_incomplete"),
        (config(model_type="gpt_oss", sliding_window=8, layer_types=["novel"] * 32), "config_incomplete"),
        (config(model_type="nemotron_h", hybrid_override_pattern="MX"), "config_incomplete"),
    ],
)
def test_refusals(told: dict[str, Any], code: str) -> None:
    with pytest.raises(NotUnderstood) as refused:
        read(told)
    assert refused.value.code == code


def gguf(name: str, **keys: Any) -> dict[str, Any]:
    told = {
        "block_count": 16,
        "embedding_length": 2048,
        "attention.head_count": 32,
        "attention.head_count_kv": 8,
        **{key.replace("__", "."): value for key, value in keys.items()},
    }
    return {"general.architecture": name} | {f"{name}.{key}": value for key, value in told.items()}


def test_gguf_reads_heads_of_each_layer() -> None:
    heads = [0, 0, 8, 0, 0, 8, 0, 0, 8, 0, 8, 0, 8, 0, 8, 0]
    found = read({}, gguf=gguf("lfm2", attention__head_count_kv=heads, shortconv__l_cache=3))
    assert found.caches == (Cache(6, 8, 64, 64),)
    assert found.states == (State(10, 4096, 0),)


def test_gguf_latent_and_windows() -> None:
    latent = read({}, gguf=gguf("deepseek2", attention__kv_lora_rank=512, rope__dimension_count=64))
    assert latent.caches == (Cache(16, 1, 576, 0, is_latent=True),)
    windowed = read({}, gguf=gguf("gpt-oss", attention__sliding_window=128))
    assert windowed.caches == (Cache(8, 8, 64, 64), Cache(8, 8, 64, 64, 128))


def test_gguf_unknown_is_refused() -> None:
    with pytest.raises(NotUnderstood) as refused:
        read({}, gguf=gguf("rwkv9"))
    assert refused.value.code == "architecture_unknown"


FIELDS = sorted(
    set(LLAMA)
    | set(MLA)
    | set(MAMBA2)
    | {"sliding_window", "sliding_window_pattern", "layer_types", "num_kv_shared_layers", "head_dim", "block_configs"}
    | {"full_attention_interval", "attn_layer_period", "attn_layer_indices", "hybrid_override_pattern", "text_config"}
    | {"linear_attn_config", "cross_attention_layers", "num_kv_heads", "attn_config", "quantization_config"}
)
HOSTILE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.integers(0, 64),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=300)
@given(st.sampled_from(sorted(FAMILIES)), st.dictionaries(st.sampled_from(FIELDS), HOSTILE, max_size=4))
def test_a_hostile_config_is_read_or_refused(family: str, changes: dict[str, Any]) -> None:
    try:
        found = read({**LLAMA, **changes, "model_type": family})
    except NotUnderstood:
        return
    assert isinstance(found, Architecture)
    assert all(cache.layers > 0 for cache in found.caches)


GGUF_FIELDS = [
    "block_count",
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.sliding_window",
    "attention.sliding_window_pattern",
    "attention.shared_kv_layers",
    "attention.kv_lora_rank",
    "nextn_predict_layers",
    "full_attention_interval",
    "feed_forward_length",
    "ssm.inner_size",
    "ssm.state_size",
    "ssm.conv_kernel",
]


@settings(max_examples=300)
@given(
    st.sampled_from(sorted(FULL | LATENT | RECURRENT)),
    st.dictionaries(st.sampled_from(GGUF_FIELDS), HOSTILE, max_size=4),
)
def test_hostile_gguf_metadata_is_read_or_refused(name: str, changes: dict[str, Any]) -> None:
    try:
        found = read({}, gguf=gguf(name, **changes))
    except NotUnderstood:
        return
    assert isinstance(found, Architecture)


def test_a_config_nested_in_itself_ends() -> None:
    deep: dict[str, Any] = config()
    for _level in range(5000):
        deep = {"text_config": deep}
    with pytest.raises(NotUnderstood):
        read(deep)
