"""What a repository is: a model that makes text, or another kind of thing. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from sizing.facts import Kind
from sizing.hub.config import text_config

_RERANKER_TAGS: Final = frozenset({"text-ranking", "cross-encoder", "reranker", "reranking"})
_EMBEDDING_TAGS: Final = frozenset(
    {"sentence-transformers", "sentence-similarity", "feature-extraction", "text-embeddings-inference"}
)
_SPEECH: Final = frozenset({"automatic-speech-recognition", "text-to-speech", "audio-classification", "text-to-audio"})
_TOWERS: Final = ("vision_config", "visual", "audio_config", "vision_tower", "mm_vision_tower", "thinker_config")


def is_diffusion(info: Mapping[str, Any], paths: Collection[str]) -> bool:
    """A pipeline of several models, of which none makes text."""
    return "model_index.json" in paths or info.get("library_name") == "diffusers"


def kind_of(info: Mapping[str, Any], config: Mapping[str, Any], paths: Collection[str]) -> Kind:
    """By the hub's task and tags, the class in the config, and what lies beside it."""
    told = info.get("tags")
    tags = {tag for tag in (told if isinstance(told, list) else ()) if isinstance(tag, str)}
    task = info["pipeline_tag"] if isinstance(info.get("pipeline_tag"), str) else ""
    classes = config.get("architectures")
    name = classes[0] if isinstance(classes, list) and classes and isinstance(classes[0], str) else ""
    if task in _RERANKER_TAGS or tags & _RERANKER_TAGS or _scores_one(name, config):
        return "reranker"
    if "modules.json" in paths or task in {"sentence-similarity", "feature-extraction"}:
        return "embedding"
    if tags & _EMBEDDING_TAGS and "text-generation" not in tags and not name.endswith("ForCausalLM"):
        return "embedding"
    if task in _SPEECH:
        return "speech"
    if any(part in config for part in _TOWERS) or any("mmproj" in path.lower() for path in paths):
        return "multimodal"
    if name.endswith(("ForCausalLM", "LMHeadModel")) or task in {"text-generation", "image-text-to-text"}:
        return "text"
    return "text" if name.endswith("ForConditionalGeneration") or not name else "other"


def _scores_one(name: str, config: Mapping[str, Any]) -> bool:
    """A sequence classifier with a single output scores how well two texts match."""
    labels = text_config(config).get("id2label")
    return name.endswith("ForSequenceClassification") and isinstance(labels, Mapping) and len(labels) == 1
