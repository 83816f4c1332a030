"""What a deployment needs: which files, how many bytes, how much memory, how long until it is ready. Pure.

A plan is kept as JSON on the quote and the deployment; `Plan.of` reads it back.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from decimal import ROUND_CEILING, Decimal
from typing import Any, Final

from deploy.engines.base import ModelFacts
from sizing.memory import SERVING_MARGIN

DEFAULT_CONTEXT: Final = 4096
ASSUMED_MBIT: Final = 400
"""Download speed where the offer does not say one, Mbit/s."""
LOAD_BYTES_A_SECOND: Final = 1_000_000_000
SETUP_SECONDS: Final = {"fleet": 10}
OTHER_SETUP_SECONDS: Final = 90
ENGINE_SECONDS: Final = {"llamacpp": 10, "vllm": 150, "sglang": 120}

_QUANTIZATION: Final = re.compile(r"[.-](Q8_0|Q6_K|Q5_K_M|Q5_K_S|Q4_K_M|Q4_K_S|Q4_1|Q4_0|Q3_K_M|Q2_K)\.gguf$", re.I)
_PREFERRED: Final = ("Q4_K_M", "Q4_1", "Q4_0", "Q5_K_M", "Q8_0", "Q6_K")
_BYTES_OF: Final = {"BF16": 2, "FP16": 2, "F16": 2, "F32": 4, "FP32": 4, "FP8": 1, "INT8": 1}


@dataclass(frozen=True, slots=True)
class Plan:
    """`download_bytes` of `files` (paths in the repository; empty: all but other formats); memory in GB, as text."""

    files: tuple[str, ...]
    download_bytes: int
    memory_gb: str
    context: int
    parallel: int
    gguf: str = ""
    memory_there_gb: str = ""

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Plan:
        known = {name: data[name] for name in cls.__slots__ if name in data}
        return cls(**{**known, "files": tuple(known.get("files", ()))})

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"files": list(self.files)}

    def fits(self, memory_gb: Decimal) -> bool:
        return Decimal(self.memory_gb) <= memory_gb


def model_facts(files: Sequence[Mapping[str, Any]]) -> ModelFacts:
    """Which formats the repository holds; nothing known of its files: weights as nearly every repository has them."""
    paths = [str(file["path"]).lower() for file in files]
    has_gguf = any(path.endswith(".gguf") for path in paths)
    has_safetensors = any(path.endswith(".safetensors") for path in paths) or not paths
    return ModelFacts(has_safetensors=has_safetensors, has_gguf=has_gguf)


def make(
    *,
    engine: str,
    files: Sequence[Mapping[str, Any]],
    params_total: int,
    stored_as: str,
    longest_context: int | None,
    context: int | None,
) -> Plan:
    """The plan of one copy. `context` None: DEFAULT_CONTEXT, or the model's own where that is shorter.

    Memory is what the weights take, times the serving margin for the KV cache and activations.
    """
    wanted = context or min(DEFAULT_CONTEXT, longest_context or DEFAULT_CONTEXT)
    if engine == "llamacpp":
        chosen = _shards(choose_gguf(files), files)
        gguf = chosen[0]["path"] if chosen else ""
        weights = sum(int(file["size"]) for file in chosen)
        return Plan(tuple(f["path"] for f in chosen), weights, _gb(Decimal(weights)), wanted, 2, str(gguf))
    chosen = [file for file in files if not str(file["path"]).lower().endswith((".gguf", ".bin", ".pt", ".pth"))]
    weights = sum(int(f["size"]) for f in chosen if str(f["path"]).endswith(".safetensors"))
    if weights:
        total = sum(int(file["size"]) for file in chosen)
        return Plan(tuple(f["path"] for f in chosen), total, _gb(Decimal(weights)), wanted, 8)
    weights = params_total * _BYTES_OF.get(stored_as.upper(), 2)
    return Plan((), weights, _gb(Decimal(weights)), wanted, 8)


def choose_gguf(files: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The file to serve: four bits where there are several, else the smallest; of a split file, its first part."""
    ggufs = [f for f in files if str(f["path"]).lower().endswith(".gguf") and "mmproj" not in str(f["path"]).lower()]
    firsts = [f for f in ggufs if not (part := _part(f)) or part == 1]
    return min(firsts, key=lambda f: (_preference(str(f["path"])), int(f["size"]), str(f["path"])), default=None)


def stage_seconds(plan: Plan, *, engine: str, adaptor: str, mbit: int | None) -> dict[str, int]:
    """Seconds that each state on the way to running takes, as far as it can be told beforehand."""
    setup = SETUP_SECONDS.get(adaptor, OTHER_SETUP_SECONDS)
    return {
        "requested": 1,
        "renting": max(setup // 4, 1),
        "booting": max(setup // 4, 1),
        "checking": max(setup // 4, 1),
        "installing": max(setup // 4, 1),
        "downloading": 2 + plan.download_bytes * 8 // ((mbit or ASSUMED_MBIT) * 1_000_000),
        "loading": ENGINE_SECONDS.get(engine, 120) + plan.download_bytes // LOAD_BYTES_A_SECOND,
    }


def ready_seconds(plan: Plan, *, engine: str, adaptor: str, mbit: int | None) -> int:
    """Seconds from the request to the first answer."""
    return sum(stage_seconds(plan, engine=engine, adaptor=adaptor, mbit=mbit).values())


def _shards(first: Mapping[str, Any] | None, files: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    if first is None:
        return []
    match = re.search(r"-00001-of-(\d{5})\.gguf$", str(first["path"]))
    if match is None:
        return [first]
    stem = str(first["path"])[: match.start()]
    of = re.compile(re.escape(stem) + rf"-\d{{5}}-of-{match[1]}\.gguf")
    return sorted((f for f in files if of.fullmatch(str(f["path"]))), key=lambda f: str(f["path"]))


def _part(file: Mapping[str, Any]) -> int | None:
    match = re.search(r"-(\d{5})-of-\d{5}\.gguf$", str(file["path"]))
    return int(match[1]) if match else None


def _preference(path: str) -> int:
    match = _QUANTIZATION.search(path)
    name = match[1].upper() if match else ""
    return _PREFERRED.index(name) if name in _PREFERRED else len(_PREFERRED)


def _gb(weight_bytes: Decimal) -> str:
    exact = weight_bytes * SERVING_MARGIN / Decimal(10**9)
    return str(exact.quantize(Decimal("0.001"), rounding=ROUND_CEILING))
