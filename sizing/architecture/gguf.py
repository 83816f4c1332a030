"""The metadata of a GGUF file as an architecture. Pure. Keys: ggml's `gguf.md`, llama.cpp's `llm_kv`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sizing.architecture.fields import MOST_LAYERS, whole
from sizing.architecture.shapes import Architecture, Cache, NotUnderstood, State
from sizing.architecture.windows import per_layer

FULL: Final = frozenset(
    [
        "llama",
        "llama4",
        "deci",
        "falcon",
        "grok",
        "gpt2",
        "gptj",
        "gptneox",
        "mpt",
        "baichuan",
        "starcoder",
        "starcoder2",
        "refact",
        "bloom",
        "stablelm",
        "qwen",
        "qwen2",
        "qwen2moe",
        "qwen2vl",
        "qwen3",
        "qwen3moe",
        "qwen3vl",
        "qwen3vlmoe",
        "phi2",
        "phi3",
        "phimoe",
        "plamo",
        "codeshell",
        "orion",
        "internlm2",
        "minicpm",
        "gemma",
        "gemma2",
        "gemma3",
        "gemma3n",
        "cohere2",
        "gpt-oss",
        "gemma4",
        "xverse",
        "command-r",
        "dbrx",
        "olmo",
        "olmo2",
        "olmoe",
        "openelm",
        "arctic",
        "chatglm",
        "glm4",
        "glm4moe",
        "bitnet",
        "bitnet-25",
        "jais",
        "nemotron",
        "exaone",
        "exaone4",
        "granite",
        "granitemoe",
        "smollm3",
        "ernie4_5",
        "ernie4_5-moe",
        "hunyuan-dense",
        "hunyuan-moe",
        "seed_oss",
        "dots1",
        "minimax-m2",
        "apertus",
        "arcee",
        "mistral3",
    ]
)
LATENT: Final = frozenset({"deepseek2", "minicpm3"})
RECURRENT: Final = frozenset(
    [
        "mamba",
        "mamba2",
        "jamba",
        "nemotron_h",
        "nemotron_h_moe",
        "granitehybrid",
        "falcon-h1",
        "qwen3next",
        "qwen35",
        "qwen35moe",
        "lfm2",
        "lfm2moe",
    ]
)
ENCODERS: Final = frozenset({"bert", "nomic-bert", "nomic-bert-moe", "jina-bert-v2", "modern-bert"})
# llama.cpp's `set_swa_pattern(n)`: each n-th layer is global, the others slide; 1 where none does.
PATTERN: Final = {"gemma2": 2, "gemma3": 6, "cohere2": 4, "gpt-oss": 2, "llama4": 4, "phi3": 0, "exaone4": 4}


def read(keys: Mapping[str, Any]) -> Architecture:
    """Raises NotUnderstood."""
    name = keys.get("general.architecture")
    if not isinstance(name, str) or not name:
        raise NotUnderstood("config_incomplete", "general.architecture")
    if name not in FULL | LATENT | RECURRENT | ENCODERS:
        raise NotUnderstood("architecture_unknown", name)
    told = _Keys(keys, name)
    layers = told.required("block_count") - (told.number("nextn_predict_layers") or 0)
    if not 0 < layers <= MOST_LAYERS:
        raise NotUnderstood("config_incomplete", f"{name}.block_count")
    experts = told.number("expert_count") or None
    caches = () if name in ENCODERS else _caches(told, layers)
    hidden = told.required("embedding_length")
    return Architecture(
        model_type=name,
        layers=layers,
        hidden=hidden,
        heads=max(told.per_layer("attention.head_count", layers), default=0) or 1,
        vocab=told.number("vocab_size") or 0,
        ffn=max(told.per_layer("feed_forward_length", layers), default=0) or 4 * hidden,
        caches=caches,
        states=_states(told, layers) if name in RECURRENT else (),
        experts=experts,
        experts_per_token=told.number("expert_used_count") if experts else None,
        context=told.number("context_length"),
        kv_weights=sum(each.layers * hidden * each.heads * (each.key + each.value) for each in caches),
    )


class _Keys:
    def __init__(self, keys: Mapping[str, Any], name: str) -> None:
        self._keys, self.name = keys, name

    def get(self, key: str) -> Any:
        return self._keys.get(f"{self.name}.{key}")

    def number(self, key: str) -> int | None:
        return whole(self.get(key))

    def required(self, key: str) -> int:
        """Raises NotUnderstood."""
        if not (found := self.number(key)):
            raise NotUnderstood("config_incomplete", f"{self.name}.{key}")
        return found

    def per_layer(self, key: str, layers: int) -> list[int]:
        """One number a layer: some files tell one for all."""
        found = self.get(key)
        if isinstance(found, list):
            numbers = [whole(each) for each in found[:layers]]
            return [0 if each is None else each for each in numbers]
        return [] if (one := whole(found)) is None else [one] * layers


def _caches(told: _Keys, layers: int) -> tuple[Cache, ...]:
    if told.name in LATENT and (rank := told.number("attention.kv_lora_rank")):
        return (Cache(layers, 1, rank + told.required("rope.dimension_count"), 0, is_latent=True),)
    heads = told.per_layer("attention.head_count_kv", layers) or told.per_layer("attention.head_count", layers)
    if told.name in {"mamba", "mamba2"}:
        return ()
    if not heads or len(heads) != layers:
        raise NotUnderstood("config_incomplete", f"{told.name}.attention.head_count_kv")
    heads = _attending(told, heads)
    width = told.number("attention.key_length") or _even_width(told, layers)
    window = told.number("attention.sliding_window")
    if not window:
        return per_layer(heads, width)
    return _windowed(told, heads, width, window)


def _even_width(told: _Keys, layers: int) -> int:
    heads = max(told.per_layer("attention.head_count", layers), default=0)
    if not heads:
        raise NotUnderstood("config_incomplete", f"{told.name}.attention.head_count")
    return told.required("embedding_length") // heads


def _attending(told: _Keys, heads: list[int]) -> list[int]:
    """Qwen's hybrids tell one head count for all, and that each n-th layer attends."""
    every = told.number("full_attention_interval")
    if told.name not in {"qwen3next", "qwen35", "qwen35moe"}:
        return heads
    if not every:
        raise NotUnderstood("config_incomplete", f"{told.name}.full_attention_interval")
    return [count if (index + 1) % every == 0 else 0 for index, count in enumerate(heads)]


def _windowed(told: _Keys, heads: list[int], width: int, window: int) -> tuple[Cache, ...]:
    kept = len(heads) - (told.number("attention.shared_kv_layers") or 0)
    if kept <= 0:
        raise NotUnderstood("config_incomplete", f"{told.name}.attention.shared_kv_layers")
    slides = _slides(told, len(heads))[:kept]
    narrow = told.number("attention.key_length_swa") or width
    found: dict[tuple[bool, int], int] = {}
    for index, does_slide in enumerate(slides):
        if heads[index]:
            found[does_slide, heads[index]] = found.get((does_slide, heads[index]), 0) + 1
    return tuple(
        Cache(count, head, narrow if slide else width, narrow if slide else width, window if slide else None)
        for (slide, head), count in sorted(found.items())
    )


def _slides(told: _Keys, layers: int) -> list[bool]:
    pattern = told.get("attention.sliding_window_pattern")
    if isinstance(pattern, list) and len(pattern) >= layers:
        return [bool(each) for each in pattern[:layers]]
    every = whole(pattern) or PATTERN.get(told.name)
    if every is None:
        raise NotUnderstood("config_incomplete", f"{told.name}.attention.sliding_window_pattern")
    return [every == 0 or (index + 1) % every != 0 for index in range(layers)]


def _states(told: _Keys, layers: int) -> tuple[State, ...]:
    heads = told.per_layer("attention.head_count_kv", layers) or [0] * layers
    if told.name.startswith("lfm2"):
        conv = (told.required("shortconv.l_cache") - 1) * told.required("embedding_length")
        return (State(heads.count(0), conv, 0),)
    inner, state = told.required("ssm.inner_size"), told.required("ssm.state_size")
    groups = told.number("ssm.group_count") or 0
    conv = (told.required("ssm.conv_kernel") - 1) * (inner + 2 * groups * state)
    if told.name == "falcon-h1" or told.name in {"mamba", "mamba2"}:
        count = layers
    elif told.name.startswith("nemotron_h"):
        widths = told.per_layer("feed_forward_length", layers)
        if len(widths) != layers:
            raise NotUnderstood("config_incomplete", f"{told.name}.feed_forward_length")
        count = sum(not head and not width for head, width in zip(heads, widths, strict=True))
    else:
        count = _attending(told, heads).count(0)
    return (State(count, conv, inner * state),)
