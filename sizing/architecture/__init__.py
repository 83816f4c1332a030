"""A model's `config.json`, or the metadata of its GGUF file, as layers, heads, widths and experts. Pure.

    read(config)                -> Architecture
    read(config, gguf=metadata) -> Architecture, from the metadata where there is any

Raises NotUnderstood for what is not known; nothing is guessed from the shape of an unknown family, because a new
kind of attention keeps something else of a token than an old one with the same fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sizing.architecture import gguf as metadata
from sizing.architecture.families import ENCODERS, FAMILIES
from sizing.architecture.fields import (
    CONTEXT,
    EXPERT_FFN,
    EXPERTS,
    FFN,
    HIDDEN,
    LAYERS,
    PER_TOKEN,
    Config,
    first,
    part,
    required,
    text,
)
from sizing.architecture.hybrids import heads_of
from sizing.architecture.shapes import Architecture, Cache, Code, NotUnderstood, State

__all__ = ["Architecture", "Cache", "Code", "NotUnderstood", "State", "read"]

# Families whose output head is the token table where their config does not say: transformers' own defaults.
_TIED = ("gemma", "cohere", "gpt2", "bloom", "opt", "mpt", "falcon", "starcoder2", "gpt_bigcode")


def read(config: Mapping[str, Any], *, gguf: Mapping[str, Any] | None = None) -> Architecture:
    """Raises NotUnderstood: no config, a field that is missing or absurd, a family that is not known."""
    if gguf:
        return metadata.read(gguf)
    if not config:
        raise NotUnderstood("config_missing")
    inner = text(config)
    family = str(inner.get("model_type") or config.get("model_type") or "")
    if family in ENCODERS:
        return _frame(config, inner, family, (), ())
    if family not in FAMILIES:
        raise NotUnderstood("architecture_unknown", family)
    caches, states = FAMILIES[family](inner, family)
    return _frame(config, inner, family, caches, states)


def _frame(
    config: Config, inner: Config, family: str, caches: tuple[Cache, ...], states: tuple[State, ...]
) -> Architecture:
    experts = first(inner, EXPERTS) or first(part(inner, "ffn_config"), EXPERTS)
    if experts is not None and experts < 2:
        experts = None
    hidden = required(inner, *HIDDEN)
    return Architecture(
        model_type=family,
        layers=required(inner, *LAYERS),
        hidden=hidden,
        heads=heads_of(inner),
        vocab=first(inner, ("vocab_size", "padded_vocab_size")) or required(config, "vocab_size"),
        ffn=_ffn(inner, hidden, experts),
        caches=caches,
        states=states,
        experts=experts,
        experts_per_token=_per_token(inner) if experts else None,
        context=first(inner, CONTEXT),
        is_tied=_is_tied(config, inner, family),
        replicated=_replicated(inner, caches, experts),
        kv_weights=_kv_weights(inner, caches, hidden),
        group_size=_group_size(config, inner),
        expert_ffn=first(inner, EXPERT_FFN) or first(inner, FFN) if experts else None,
    )


def _per_token(inner: Config) -> int | None:
    return first(inner, PER_TOKEN) or first(part(inner, "ffn_config"), PER_TOKEN)


def _ffn(inner: Config, hidden: int, experts: int | None) -> int:
    """Of the experts that work on one token together, or of the dense layer; four times the width where untold."""
    dense = first(inner, FFN) or first(part(inner, "ffn_config"), FFN) or 4 * hidden
    if experts is None:
        return dense
    one = first(inner, EXPERT_FFN) or dense
    return max(one * (_per_token(inner) or 1), dense)


def _is_tied(config: Config, inner: Config, family: str) -> bool:
    for told in (inner.get("tie_word_embeddings"), config.get("tie_word_embeddings")):
        if isinstance(told, bool):
            return told
    return family.startswith(_TIED)


def _replicated(inner: Config, caches: tuple[Cache, ...], experts: int | None) -> int:
    """Routers, and the projections down into a latent: whole on each rank (vLLM's `ReplicatedLinear`)."""
    hidden, layers = required(inner, *HIDDEN), required(inner, *LAYERS)
    latent = sum(
        cache.layers * (cache.key + (first(inner, ("q_lora_rank",)) or 0)) for cache in caches if cache.is_latent
    )
    indexed = sum(cache.layers for cache in caches if cache.index_bytes)
    index = (first(inner, ("index_head_dim",)) or 0) * (
        hidden + (first(inner, ("index_n_heads",)) or 0) * (first(inner, ("q_lora_rank",)) or 0)
    )
    return hidden * latent + layers * hidden * (experts or 0) + indexed * index


def _kv_weights(inner: Config, caches: tuple[Cache, ...], hidden: int) -> int:
    split = [cache for cache in caches if not cache.is_latent]
    return sum(cache.layers * hidden * cache.heads * (cache.key + cache.value) for cache in split)


def _group_size(config: Config, inner: Config) -> int | None:
    """Weights that share one scale: no rank may hold part of a group."""
    for told in (part(config, "quantization_config"), part(inner, "quantization_config")):
        if found := first(told, ("group_size",)):
            return found
        groups = part(told, "config_groups")
        sizes = [first(part(part(groups, name), "weights"), ("group_size",)) for name in groups]
        if known := [size for size in sizes if size]:
            return max(known)
    return None
