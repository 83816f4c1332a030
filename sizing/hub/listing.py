"""Which files of a repository are the model, of all that lie in it. Pure.

A repository may hold the same weights several times: safetensors and .bin, Mistral's `consolidated.*`, Meta's
`original/`, half-precision variants, exports to other runtimes, one GGUF file a quantisation. One is taken.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from sizing.facts import File, Format

_SHARD: Final = re.compile(r"^(?P<stem>.*?)[.-]?(?P<part>\d{5})-of-(?P<of>\d{5})\.(?P<kind>safetensors|bin|gguf)$")
_OTHER_WEIGHTS: Final = (".onnx", ".onnx_data", ".h5", ".msgpack", ".pt", ".pth", ".ckpt", ".tflite", ".ot", ".npz")
_NOT_THE_MODEL: Final = re.compile(r"^(?:adapter_|consolidated|training_args|optimizer|scheduler|rng_state)")
_SMALL: Final = 100_000_000
PREFERRED_QUANTS: Final = ("Q4_K_M", "Q4_1", "Q4_0", "Q5_K_M", "Q8_0", "Q6_K")
_QUANT: Final = re.compile(
    r"(?:^|[./_-])((?:UD-)?(?:I?Q\d_?(?:[KSMLX01]|XS|XXS|NL|XL|0_\d_\d)*(?:_[A-Z0-9]+)*|TQ\d_\d|BF16|F16|FP16|F32|MXFP4(?:_MOE)?))"
    r"(?=$|[./_-])",
    re.I,
)


def files(siblings: Any) -> tuple[File, ...]:
    """The hub's list, or none of it that is not a path with a size."""
    found = []
    for entry in siblings if isinstance(siblings, list) else ():
        if isinstance(entry, Mapping) and isinstance(path := entry.get("rfilename"), str):
            size, lfs = entry.get("size"), entry.get("lfs")
            digest = lfs.get("sha256") if isinstance(lfs, Mapping) else None
            sha256 = digest if isinstance(digest, str) else ""
            found.append(File(path, size if type(size) is int and size >= 0 else 0, sha256, format_of(path)))
    return tuple(found)


def format_of(path: str) -> Format:
    name = path.lower()
    if name.endswith(".gguf"):
        return "mmproj" if "mmproj" in name.rpartition("/")[2] else "gguf"
    if name.endswith(".safetensors"):
        return "safetensors"
    return "bin" if name.endswith(".bin") else "other"


def checkpoint(listed: Sequence[File], index: Iterable[str] | None) -> tuple[File, ...]:
    """The files with the weights: those of the index, else one file, else a whole set of shards. Empty: none."""
    by_path = {file.path: file for file in listed}
    if index is not None:
        return tuple(by_path[path] for path in sorted(set(index)) if path in by_path)
    for single in ("model.safetensors", "pytorch_model.bin"):
        if chosen := by_path.get(single):
            return (chosen,)
        kind = format_of(single)
        at_root = [f for f in listed if f.format == kind and "/" not in f.path and not _NOT_THE_MODEL.match(f.path)]
        if sets := _sets(at_root):
            return sets
        if kind == "safetensors" and at_root:
            return (max(at_root, key=lambda file: (file.size, file.path)),)
    return _sets_or_one([f for f in listed if f.path.startswith("consolidated") and f.format == "safetensors"])


def index_path(listed: Iterable[File]) -> str | None:
    """The shard index of the checkpoint that is taken: safetensors before .bin."""
    paths = {file.path for file in listed}
    if "model.safetensors" in paths:
        return None
    indices = [p for p in sorted(paths) if "/" not in p and p.endswith(".safetensors.index.json")]
    own = [p for p in indices if not p.startswith("consolidated")]
    if own:
        return "model.safetensors.index.json" if "model.safetensors.index.json" in own else own[0]
    if any(p.endswith(".safetensors") and "/" not in p and not _NOT_THE_MODEL.match(p) for p in paths):
        return None
    if "pytorch_model.bin" not in paths and "pytorch_model.bin.index.json" in paths:
        return "pytorch_model.bin.index.json"
    return None


def quants(listed: Iterable[File]) -> dict[str, tuple[File, ...]]:
    """GGUF variants by their first file's path, the shards of one together in order. mmproj files are no variant."""
    found: dict[str, list[File]] = {}
    for file in sorted((f for f in listed if f.format == "gguf"), key=lambda f: f.path):
        shard = _SHARD.match(file.path)
        key = f"{shard['stem']}|{shard['of']}" if shard else file.path
        found.setdefault(key, []).append(file)
    return {shards[0].path: tuple(shards) for shards in found.values()}


def chosen_quant(variants: Mapping[str, Sequence[File]], path: str = "") -> str | None:
    """The first file of the variant that holds `path`; else four bits where there are several, else the smallest."""
    if path:
        return next((first for first, shards in variants.items() if path in {f.path for f in shards}), None)
    return min(variants, key=lambda p: (_preference(p), sum(f.size for f in variants[p]), p), default=None)


def quant_name(path: str) -> str:
    """`Q4_K_M` of a GGUF file's path, folder included; empty where it tells none."""
    stem = re.sub(r"(?:-\d{5}-of-\d{5})?\.gguf$", "", path, flags=re.I)
    found = _QUANT.findall(stem)
    return found[-1].upper() if found else ""


def other_weights(paths: Iterable[str]) -> str:
    """What holds the weights of a repository without any GGUF file: `onnx`, `pth`, ...; empty where nothing does."""
    listed = [path.lower() for path in paths]
    if any(path.endswith(".gguf") for path in listed):
        return ""
    kinds = (kind for kind in _OTHER_WEIGHTS if any(path.endswith(kind) for path in listed))
    return next(kinds, "").removeprefix(".")


def is_complete(shards: Sequence[File]) -> bool:
    """Whether a split file has all its parts."""
    found = [_SHARD.match(file.path) for file in shards]
    parts = {int(match["part"]) for match in found if match}
    return not parts or all(match and int(match["of"]) == len(parts) for match in found)


def beside(listed: Iterable[File], weights: Sequence[File]) -> tuple[File, ...]:
    """The weights, with the small files at the root that an engine reads along with them."""
    taken = {file.path for file in weights}
    small = (
        file
        for file in listed
        if file.path not in taken
        and "/" not in file.path
        and file.size < _SMALL
        and file.format == "other"
        and not file.path.lower().endswith((*_OTHER_WEIGHTS, ".png", ".jpg", ".jpeg", ".gif", ".pdf", ".md"))
        and not file.path.startswith(".")
    )
    return (*weights, *small)


def _preference(path: str) -> int:
    name = quant_name(path)
    return PREFERRED_QUANTS.index(name) if name in PREFERRED_QUANTS else len(PREFERRED_QUANTS)


def _sets(found: Sequence[File]) -> tuple[File, ...]:
    """The largest set of shards; `model-00001-of-00004` and a variant of it are two."""
    sets: dict[tuple[str, str], list[File]] = {}
    for file in found:
        if shard := _SHARD.match(file.path):
            sets.setdefault((shard["stem"], shard["of"]), []).append(file)
    return tuple(max(sets.values(), key=lambda shards: sum(f.size for f in shards), default=[]))


def _sets_or_one(found: Sequence[File]) -> tuple[File, ...]:
    return _sets(found) or tuple(found[:1])
