"""What the weights of one checkpoint are: from the hub's own counts where these suffice, else from the headers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

from sizing.facts import File
from sizing.hub import config as configs
from sizing.hub import counting, safetensors, torchfile
from sizing.hub.counting import Count
from sizing.hub.errors import Unsizeable
from sizing.hub.packing import UnknownPacking, precision
from sizing.hub.prefix import Prefix
from sizing.hub.source import Source
from sizing.hub.tensors import BITS, Malformed, Tensor

MOST_SHARDS: Final = 256
AT_ONCE: Final = 8
_FIRST_BYTES: Final = 256 * 1024
_USUAL_BYTES: Final = 200
_MOST_AT_FIRST: Final = 8 * 1024 * 1024
_FLOATS: Final = frozenset({"F64", "F32", "F16", "BF16"})
_HEADER_OF_TENSOR: Final = 400
"""Bytes of a header that one tensor takes at most, when files are compared with counts."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The files with the weights, the config beside them, and the tensor names of the index (None: no index).

    `is_withheld`: no file can be read, so the hub's counts are all there is.
    """

    source: Source
    files: Sequence[File]
    config: Mapping[str, Any]
    places: Mapping[str, str] | None = None
    is_withheld: bool = False


def count(checkpoint: Checkpoint) -> tuple[Count, tuple[str, ...]]:
    """The count, and notes on how sure it is.

    Raises:
        Unsizeable: model_malformed, model_too_large, model_quantization_unknown; and what reading raises.
    """
    if len(checkpoint.files) > MOST_SHARDS:
        raise Unsizeable("model_too_large", repo=checkpoint.source.repo_id)
    if all(file.format == "bin" for file in checkpoint.files):
        return _of_torch_files(checkpoint)
    if found := _of_hub(checkpoint):
        return found, ()
    tensors = _headers(checkpoint, checkpoint.files)
    try:
        return counting.count(tensors, checkpoint.config), ()
    except UnknownPacking as error:
        raise _unknown(checkpoint, str(error)) from error


# ------------------------------------------------------------------ the hub's own counts


def _of_hub(checkpoint: Checkpoint) -> Count | None:
    """None where they do not suffice: packed weights, files of another size, or something that only headers tell."""
    counts, config, places = checkpoint.source.counts, checkpoint.config, checkpoint.places
    if not counts or not _FLOATS.issuperset(counts) or configs.quantization(config):
        return None
    if not _fits_the_files(checkpoint):
        return None
    if places is None and not checkpoint.is_withheld and _only_headers_tell(config):
        return None
    names = places or {}
    if any(name.endswith((".qweight", ".weight_packed", "_blocks")) for name in names):
        return None
    found = Count()
    for dtype, elements in counts.items():
        found.params[precision(dtype)] += elements
        found.nbytes[dtype] += elements * BITS[dtype] // 8
    if not _leave_out_head(found, names, config):
        return None
    _set_mtp_apart(found, checkpoint, names)
    found.routed = _routed(names, config)
    has_unknown_experts = any(map(counting.is_routed, names)) and not 0 < found.routed < found.total
    return None if configs.experts(config) and has_unknown_experts else found


def _only_headers_tell(config: Mapping[str, Any]) -> bool:
    """Whether what is counted once, apart or as an expert may be in a file without an index."""
    return configs.is_tied(config) or configs.mtp_layers(config) > 0 or configs.experts(config) is not None


def _fits_the_files(checkpoint: Checkpoint) -> bool:
    """Whether the counts are those of these files: bytes of the weights, and little more for the headers."""
    expected = sum(n * BITS[dtype] // 8 for dtype, n in checkpoint.source.counts.items())
    stored = sum(file.size for file in checkpoint.files)
    names = len(checkpoint.places) if checkpoint.places is not None else 0
    headers = names * _HEADER_OF_TENSOR + len(checkpoint.files) * 4096 if names else 1_000_000 + expected // 1000
    return expected <= stored <= expected + headers


def _leave_out_head(found: Count, names: Mapping[str, str], config: Mapping[str, Any]) -> bool:
    """Take a tied head that is stored again out of the count. False where its size cannot be told."""
    heads = counting.tied_heads(names, config)
    if not heads:
        return True
    text = configs.text_config(config)
    width, rows = configs.integer(text, "hidden_size"), configs.integer(text, "vocab_size")
    if len(heads) > 1 or len(found.nbytes) > 1 or not width or not rows or width * rows >= found.total:
        return False
    (dtype,) = found.nbytes
    found.params[precision(dtype)] -= width * rows
    found.nbytes[dtype] -= width * rows * BITS[dtype] // 8
    return True


def _set_mtp_apart(found: Count, checkpoint: Checkpoint, names: Mapping[str, str]) -> None:
    """Count multi-token-prediction layers by the headers of the shards that hold them, and of no others."""
    wanted = {name for name in names if counting.is_mtp(name, checkpoint.config)}
    if not wanted:
        return
    shards = [file for file in checkpoint.files if file.path in {names[name] for name in wanted}]
    for tensor in _headers(checkpoint, shards):
        if tensor.name in wanted:
            found.mtp += tensor.elements
            found.mtp_bytes += tensor.nbytes
            found.params[precision(tensor.dtype)] -= tensor.elements
            found.nbytes[tensor.dtype] -= tensor.nbytes


def _routed(names: Mapping[str, str], config: Mapping[str, Any]) -> int:
    """Parameters of routed experts by their names and the config's widths; 0 where it does not tell them."""
    experts, text = configs.experts(config), configs.text_config(config)
    inner = next(
        filter(None, (configs.integer(text, n) for n in ("moe_intermediate_size", "expert_dim", "intermediate_size"))),
        None,
    )
    width = configs.integer(text, "hidden_size")
    if not experts or not width or not inner or "moe_latent_size" in text:
        return 0
    body = (name for name in names if not counting.is_mtp(name, config))
    return counting.expert_matrices(body, experts) * width * inner


# ------------------------------------------------------------------ headers


def _headers(checkpoint: Checkpoint, files: Sequence[File]) -> list[Tensor]:
    tensors_in = Counter((checkpoint.places or {}).values())
    with ThreadPoolExecutor(max_workers=AT_ONCE) as pool:
        found = pool.map(lambda file: header(checkpoint.source, file, tensors_in[file.path]), files)
        return [tensor for tensors in found for tensor in tensors]


def header(source: Source, file: File, tensors: int = 0) -> list[Tensor]:
    """The tensors of one safetensors file, of about so many, so that one reading is enough.

    Raises Unsizeable model_malformed, and what reading raises.
    """
    first = min(max(_FIRST_BYTES, tensors * _USUAL_BYTES), _MOST_AT_FIRST)
    prefix = Prefix(lambda start, count: source.read(file.path, start, count), file.size, first=first)
    try:
        length = safetensors.header_length(bytes(prefix.upto(8)[:8]), file.size)
        return safetensors.read_header(bytes(prefix.upto(8 + length)), file.size)
    except Malformed as error:
        raise Unsizeable("model_malformed", repo=source.repo_id, path=file.path) from error


def _of_torch_files(checkpoint: Checkpoint) -> tuple[Count, tuple[str, ...]]:
    """Storages of .bin files; files of before PyTorch 1.6 are counted by their size and the config's dtype."""
    if configs.quantization(checkpoint.config):
        raise _unknown(checkpoint, ".bin")
    found = Count()
    notes: tuple[str, ...] = ()
    with ThreadPoolExecutor(max_workers=AT_ONCE) as pool:
        for file, counts in zip(
            checkpoint.files, pool.map(lambda f: _storages(checkpoint, f), checkpoint.files), strict=True
        ):
            if counts is None:
                notes = ("counted_by_size",)
                dtype = configs.dtype(checkpoint.config) or "F32"
                counts = {dtype: file.size * 8 // BITS[dtype]}
            for dtype, elements in counts.items():
                if dtype in _FLOATS:
                    found.params[precision(dtype)] += elements
                    found.nbytes[dtype] += elements * BITS[dtype] // 8
    return found, notes


def _storages(checkpoint: Checkpoint, file: File) -> Mapping[str, int] | None:
    """Elements by dtype, or None for a file that its pickle does not tell them of."""
    prefix = Prefix(
        lambda start, count: checkpoint.source.read(file.path, start, count), file.size, first=torchfile.FIRST_BYTES
    )
    try:
        return torchfile.by_dtype(torchfile.read_storages(prefix))
    except Malformed:
        return None


def _unknown(checkpoint: Checkpoint, what: str) -> Unsizeable:
    said = configs.quantization(checkpoint.config) or {}
    method = said.get("quant_method")
    return Unsizeable(
        "model_quantization_unknown",
        repo=checkpoint.source.repo_id,
        method=method[:40] if isinstance(method, str) else "",
        tensor=what[:200],
    )
