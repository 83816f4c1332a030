"""The logged cases with the facts of their models, and whether those may be relied on."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

DATA = Path(__file__).parents[1] / "data"
FAMILIES = {
    "LlamaForCausalLM": "llama",
    "Qwen2ForCausalLM": "qwen2",
    "Qwen3ForCausalLM": "qwen3",
    "Qwen3-VL-8B": "qwen3",
    "Qwen3MoeForCausalLM": "qwen3_moe",
    "Mistral3ForConditionalGeneration": "mistral",
    "MixtralForCausalLM": "mixtral",
    "DeepseekV3ForCausalLM": "deepseek_v3",
    "DeepseekV3": "kimi_k2",
    "DeepseekV2ForCausalLM": "deepseek_v2",
    "Glm4ForCausalLM": "glm4",
    "Gemma3ForConditionalGeneration": "gemma3_text",
    "Gemma3ForCausalLM": "gemma3_text",
    "PhiForCausalLM": "phi",
    "MiniMaxM2ForCausalLM": "minimax_m2",
    "CohereForCausalLM": "cohere",
    "Cohere2ForCausalLM": "cohere2",
}
SHAPE = ("num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim", "hidden_size", "vocab_size")


@dataclass(frozen=True, slots=True)
class Case:
    """One logged start. `apart` says why it does not count; `params` 0 where they are not known for sure."""

    told: Mapping[str, Any]
    config: Mapping[str, Any]
    params: int
    family: str
    apart: str

    @property
    def id(self) -> str:
        return str(self.told["id"])

    @property
    def engine(self) -> str:
        return str(self.told["engine"]).split(" ", maxsplit=1)[0]

    @property
    def note(self) -> str:
        return str(self.told["note"])

    @property
    def measured(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.told["measured"]
        return found

    @property
    def ranks(self) -> int:
        return int(self.told.get("tp") or 1)


@cache
def _read(name: str) -> Any:
    return json.loads((DATA / name).read_text(encoding="utf-8"))


def cases() -> Iterator[Case]:
    lines = (DATA / "memory-cases.jsonl").read_text(encoding="utf-8").splitlines()
    yield from (_case(json.loads(line)) for line in lines)


def _case(told: dict[str, Any]) -> Case:
    key = _read("model-aliases.json").get(told["model_id"], told["model_id"])
    config, params = _known(key)
    family = str(told.get("arch") or config.get("model_type") or "unknown")
    why = ""
    if told["usable"] != "yes":
        why = f"marked: {told['usable']}"
    elif "arch_meta" not in told and not config and not (params and _is_plain(told)):
        why = "facts of the model are recalled, not sourced, or not known"
    return Case(told, config, params, family, why)


def _is_plain(told: Mapping[str, Any]) -> bool:
    """Whether the bytes of its weights follow from their number alone."""
    return told["quant"] in {"none", "Q2_K", "Q4_K_M"}


def _known(key: str) -> tuple[dict[str, Any], int]:
    """The config of a model where each field of its shape is sourced, and its parameters where sourced or computed."""
    entry = _read("model-facts.json")["models"].get(key, {"facts": {}})
    facts = entry["facts"]
    params = facts.get("params_total", {})
    is_sure = params.get("mark", "").startswith(("source", "computed")) and isinstance(params.get("value"), int)
    count = params["value"] if is_sure else 0
    if key in _read("model-configs.json"):
        return dict(_read("model-configs.json")[key]["config"]), count
    told = str(entry.get("architecture_class") or "").split(" ", maxsplit=1)[0]
    sourced = {name: fact["value"] for name, fact in facts.items() if fact["mark"] == "source"}
    is_latent = "kv_lora_rank" in sourced
    needed = [name for name in SHAPE if not (is_latent and name in {"num_key_value_heads", "head_dim"})]
    if told not in FAMILIES or not set(needed) <= sourced.keys() | {"vocab_size"}:
        return {}, count
    if "vocab_size" not in sourced:  # the cache does not depend on it, the weights may
        return {"model_type": FAMILIES[told], **sourced, "vocab_size": 1}, 0
    return {"model_type": FAMILIES[told], **sourced}, count
