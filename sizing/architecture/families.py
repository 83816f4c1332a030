"""Which families are understood, and how each keeps tokens: `model_type` -> caches and states. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sizing.architecture import hybrids, windows
from sizing.architecture.fields import HEADS, LAYERS, Config, first, kv_heads, part, required
from sizing.architecture.shapes import Cache, State

Found = tuple[tuple[Cache, ...], tuple[State, ...]]
Reader = Callable[[Config, str], Found]


def _attention(config: Config, family: str) -> Found:
    return windows.attention(config, family), ()


def _latent(config: Config, family: str) -> Found:
    return windows.latent(config), ()


def _blocks(config: Config, family: str) -> Found:
    return windows.blocks(config), ()


def _crossing(config: Config, family: str) -> Found:
    return windows.crossing(config), ()


def _lists(config: Config, family: str) -> Found:
    """OpenELM: heads of each layer in a list."""
    listed = config.get("num_kv_heads")
    heads = [each for each in listed if type(each) is int and 0 <= each < 10**6] if isinstance(listed, list) else []
    return windows.per_layer(heads or [kv_heads(config)] * required(config, *LAYERS), required(config, "head_dim")), ()


def _old(config: Config, family: str) -> Found:
    """Before grouped queries: one KV head (multi-query) or as many as heads; widths under names of their own."""
    layers, heads = required(config, *LAYERS), required(config, *HEADS)
    width = first(config, ("head_dim",)) or required(config, "hidden_size", "n_embd", "d_model") // heads
    grouped = first(config, ("num_kv_heads", "n_head_kv")) if config.get("new_decoder_architecture") else None
    inner = first(part(config, "attn_config"), ("kv_n_heads",))
    kept = grouped or inner or (1 if config.get("multi_query") else heads)
    return (Cache(layers, kept, width, width),), ()


def _hybrid(reader: Callable[[Config], Found]) -> Reader:
    return lambda config, family: reader(config)


PLAIN: Final = (
    "llama mistral mixtral ministral qwen2 qwen2_moe qwen3 qwen3_moe qwen2_vl_text qwen2_5_vl_text qwen3_vl_text "
    "qwen3_vl_moe_text qwen2_vl qwen2_5_vl phi phi3 phi3_v phimoe gemma gemma2 gemma3 gemma3_text gemma4_text glm glm4 "
    "glm4_moe glm4v_text glm4v_moe_text chatglm internlm internlm2 internlm3 baichuan yi olmo olmo2 olmo3 olmoe "
    "starcoder2 stablelm cohere cohere2 granite granitemoe granitemoeshared exaone exaone4 nemotron smollm3 arcee "
    "ernie4_5 ernie4_5_moe hunyuan_v1_dense hunyuan_v1_moe seed_oss dots1 minimax_m2 bitnet apertus solar persimmon "
    "orion xverse aquila helium gpt_oss llama4_text ministral3 bailing_moe"
)
"""Keys and values of each head and layer, full or in a window."""

OLD: Final = "gpt2 gptj gpt_neox gpt_bigcode falcon RefinedWeb RefinedWebModel bloom opt mpt dbrx codegen"
LATENT: Final = "deepseek_v2 deepseek_v3 deepseek_v32 kimi_k2 minicpm3 glm4_moe_lite glm_moe_dsa"
ENCODERS: Final = frozenset(
    [
        "bert",
        "roberta",
        "xlm-roberta",
        "distilbert",
        "mpnet",
        "nomic_bert",
        "modernbert",
        "deberta-v2",
        "new",
        "camembert",
        "electra",
    ]
)
"""They read a whole text at once and keep nothing of it."""

FAMILIES: Final[dict[str, Reader]] = {
    **dict.fromkeys(PLAIN.split(), _attention),
    **dict.fromkeys(OLD.split(), _old),
    **dict.fromkeys(LATENT.split(), _latent),
    "nemotron-nas": _blocks,
    "deci": _blocks,
    "mllama_text_model": _crossing,
    "openelm": _lists,
    **dict.fromkeys(
        ("qwen3_next", "qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text"), _hybrid(hybrids.gated_delta)
    ),
    "jamba": _hybrid(hybrids.jamba),
    "nemotron_h": _hybrid(hybrids.nemotron_h),
    "granitemoehybrid": _hybrid(hybrids.granite_hybrid),
    "bamba": _hybrid(hybrids.granite_hybrid),
    "falcon_h1": _hybrid(hybrids.falcon_h1),
    "lfm2": _hybrid(hybrids.lfm2),
    "lfm2_moe": _hybrid(hybrids.lfm2),
    "kimi_linear": _hybrid(hybrids.kimi_linear),
    "mamba": _hybrid(hybrids.only_mamba1),
    "falcon_mamba": _hybrid(hybrids.only_mamba1),
    "mamba2": _hybrid(hybrids.only_mamba2),
}
