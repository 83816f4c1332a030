"""A repository of GGUF files: its quants, and what the one that is taken holds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from sizing.facts import File
from sizing.hub import gguf, listing
from sizing.hub.contents import Contents, stored_as
from sizing.hub.counting import Count
from sizing.hub.errors import Missing, Unsizeable
from sizing.hub.gguf import Header
from sizing.hub.prefix import Prefix
from sizing.hub.source import Source
from sizing.hub.tensors import Malformed, Tensor

_AT_ONCE: Final = 8
_MOST_SHARDS: Final = 256
_ROUTED: Final = re.compile(r"_exps\.")
_BLOCK: Final = re.compile(r"^blk\.(\d+)\.")
_NO_WEIGHTS: Final = re.compile(r"^rope_(?:freqs|factors_long|factors_short)\.|\.rope_freqs\.")


def read(source: Source, path: str = "") -> Contents:
    """Of the file pointed at, else of the one that would be served.

    Raises:
        Unsizeable: model_empty, model_malformed, model_too_large.
        Missing: hub_file_not_found.
    """
    variants = listing.quants(source.files)
    first = listing.chosen_quant(variants, path)
    if first is None:
        if path:
            raise Missing("hub_file_not_found", repo=source.repo_id, path=path)
        raise Unsizeable("model_empty", repo=source.repo_id)
    shards = variants[first]
    if not listing.is_complete(shards):
        raise Unsizeable("model_malformed", repo=source.repo_id, path=first)
    if len(shards) > _MOST_SHARDS:
        raise Unsizeable("model_too_large", repo=source.repo_id)
    headers = _headers(source, shards)
    counted = count((tensor for each in headers for tensor in each.tensors), headers[0])
    if counted.total <= 0:
        raise Unsizeable("model_empty", repo=source.repo_id)
    mmproj = tuple(file for file in source.files if file.format == "mmproj")
    return Contents(
        count=counted,
        stored_as=listing.quant_name(first) or headers[0].file_type or stored_as(counted),
        config={},
        files=(*shards, *mmproj),
        gguf=_kept(headers[0].metadata),
        experts=headers[0].number("expert_count"),
        experts_per_token=headers[0].number("expert_used_count"),
        context=headers[0].number("context_length"),
        variants={name: sum(file.size for file in files) for name, files in variants.items()},
    )


def count(tensors: Iterable[Tensor], header: Header) -> Count:
    """Parameters and bytes. Split copies of an MLA projection, and layers that predict further tokens, apart."""
    listed = list(tensors)
    names = {tensor.name for tensor in listed}
    last = (header.number("block_count") or 0) - (header.number("nextn_predict_layers") or 0)
    found = Count()
    for tensor in listed:
        block = _BLOCK.match(tensor.name)
        if block and last > 0 and int(block[1]) >= last:
            found.mtp += tensor.elements
            found.mtp_bytes += tensor.nbytes
            continue
        found.nbytes[tensor.dtype] += tensor.nbytes
        if _NO_WEIGHTS.search(tensor.name) or _is_copy(tensor.name, names):
            continue
        found.params[tensor.dtype] += tensor.elements
        if _ROUTED.search(tensor.name):
            found.routed += tensor.elements
    return found


def _is_copy(name: str, names: set[str]) -> bool:
    """`attn_k_b` and `attn_v_b` are cut from `attn_kv_b`; files that hold all three hold the same weights twice."""
    block, _, rest = name.rpartition(".attn_")
    return rest in {"k_b.weight", "v_b.weight"} and f"{block}.attn_kv_b.weight" in names


def _headers(source: Source, shards: Sequence[File]) -> list[Header]:
    with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        return list(pool.map(lambda file: _header(source, file), shards))


def _header(source: Source, file: File) -> Header:
    prefix = Prefix(lambda start, count: source.read(file.path, start, count), file.size, first=gguf.FIRST_BYTES)
    try:
        return gguf.read_header(prefix)
    except Malformed as error:
        raise Unsizeable("model_malformed", repo=source.repo_id, path=file.path) from error


def _kept(metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in metadata.items() if not name.startswith("tokenizer.")}
