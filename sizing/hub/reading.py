"""Reads the files of one model: the right ones of them, and no more of each than its header."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sizing.facts import File
from sizing.hub import config as configs
from sizing.hub import counting, ggufcount, listing, weights
from sizing.hub.contents import Contents, stored_as
from sizing.hub.errors import Closed, Unsizeable
from sizing.hub.packing import UnknownPacking
from sizing.hub.source import Source
from sizing.hub.weights import Checkpoint

Base = Callable[[str], Contents]
"""The contents of the model that an adapter names. Raises what reading it does."""


def read(source: Source, path: str = "", *, base: Base) -> Contents:
    """All that is known of the files; `path` names a GGUF file where one was pointed at.

    Raises:
        Unsizeable: model_empty, model_malformed, model_too_large, model_quantization_unknown, adapter_base_unknown,
            model_kind_not_sized.
        Missing: hub_file_not_found, for a `path` that is not there.
    """
    paths = {file.path for file in source.files}
    index = None if path else listing.index_path(source.files)
    if path or (index is None and not listing.checkpoint(source.files, None)):
        if "adapter_config.json" in paths and not path:
            return _adapter(source, base)
        if not path and (kind := listing.other_weights(paths)):
            raise Unsizeable("model_kind_not_sized", repo=source.repo_id, kind=kind)
        return ggufcount.read(source, path)
    config, notes = _config(source, paths)
    places = _places(source, index) if index else None
    chosen = listing.checkpoint(source.files, places.values() if places is not None else None)
    _must_be_whole(source, chosen, places)
    is_withheld = "config_withheld" in notes
    count, more = weights.count(Checkpoint(source, chosen, config, places, is_withheld=is_withheld))
    if count.total <= 0:
        raise Unsizeable("model_empty", repo=source.repo_id)
    return Contents(
        count=count,
        stored_as=stored_as(count),
        config=config,
        files=listing.beside(source.files, chosen),
        experts=configs.experts(config),
        experts_per_token=configs.experts_per_token(config),
        context=configs.context(config),
        notes=(*notes, *more),
    )


def _config(source: Source, paths: set[str]) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """config.json, or what the hub tells of it where it is kept from us and its own counts are plain numbers."""
    if "config.json" not in paths:
        return source.told_config, ("config_missing",)
    try:
        found = source.document("config.json")
    except Closed as error:
        if error.code != "hub_gated" or not source.counts or configs.quantization(source.told_config):
            raise
        return source.told_config, ("config_withheld",)
    if not isinstance(found, dict):
        raise Unsizeable("model_malformed", repo=source.repo_id, path="config.json")
    return found, ()


def _places(source: Source, index: str) -> dict[str, str] | None:
    """Which file holds each tensor. None where the index is kept from us: the shards are then known by name."""
    try:
        found = source.document(index)
    except Closed:
        return None
    listed = found.get("weight_map") if isinstance(found, dict) else None
    if not isinstance(listed, dict) or not all(isinstance(place, str) for place in listed.values()) or not listed:
        raise Unsizeable("model_malformed", repo=source.repo_id, path=index)
    folder = index.rpartition("/")[0]
    return {name: f"{folder}/{place}" if folder else place for name, place in listed.items()}


def _must_be_whole(source: Source, chosen: Sequence[File], places: Mapping[str, str] | None) -> None:
    """Every shard of the index must be there, or of the set by its numbers: a part of a model is not the model."""
    missing = set(places.values()) - {file.path for file in chosen} if places else set()
    if missing or (places is None and not listing.is_complete(chosen)):
        raise Unsizeable("model_malformed", repo=source.repo_id, path=min(missing, default=""))


def _adapter(source: Source, base: Base) -> Contents:
    """An adapter is loaded on top of its base, so it is sized by that."""
    said = source.document("adapter_config.json")
    name = said.get("base_model_name_or_path") if isinstance(said, dict) else None
    if not isinstance(name, str):
        raise Unsizeable("model_malformed", repo=source.repo_id, path="adapter_config.json")
    below = base(name)
    if below.base_repo:
        raise Unsizeable("adapter_base_unknown", repo=source.repo_id, base=name[:200])
    own = [file for file in source.files if file.path == "adapter_model.safetensors"]
    return replace(
        below,
        files=listing.beside(source.files, own),
        base_repo=name,
        params_adapter=_adapter_params(source, own),
        gguf=None,
        variants={},
    )


def _adapter_params(source: Source, own: Sequence[File]) -> int:
    """0 for an adapter that is stored as a pickle."""
    try:
        return sum(counting.count(weights.header(source, file), {}).total for file in own)
    except UnknownPacking as error:
        raise Unsizeable("model_malformed", repo=source.repo_id, path=own[0].path) from error
