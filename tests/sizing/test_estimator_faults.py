"""What other estimators of model memory were reported to get wrong about facts, each with its right value here.

Named by the public report. Those about caches and plans are tested beside the plan.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from django.test import override_settings

from sizing.facts import ModelFacts
from sizing.hub import Unsizeable, facts
from tests.fakes import checkpoints as made
from tests.fakes.checkpoints import LLAMA_8B, LLAMA_8B_PARAMS, Dense, Shapes
from tests.fakes.hub import FakeHub, running

REPO = "someone/Some-Model"
MIXTRAL = Dense(32, 4096, 32, 8, 14336, 32000, experts=8, expert_inner=14336, per_token=2)
QWEN_72B = Dense(80, 8192, 64, 8, 29568, 152064, qkv_bias=True)
QWEN_27B = Dense(64, 5120, 24, 4, 17408, 248320, head_dim=256)
GPTQ4 = {"quant_method": "gptq", "bits": 4, "group_size": 128}


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    memory = {"default": {"BACKEND": "django.core.cache.backends.dummy.DummyCache"}}
    with running() as hub, override_settings(HF_ENDPOINT=hub.address, CACHES=memory):
        yield hub


def sized(hub: FakeHub, config: dict[str, Any], shapes: Shapes, *, shards: int = 4, **more: Any) -> ModelFacts:
    more.setdefault("counts", made.elements(shapes))
    hub.add(REPO, made.document("config.json", config) | made.sharded(shapes, shards), **more)
    return facts(REPO)


def total(shapes: Shapes) -> int:
    return sum(made.elements(shapes).values())


def test_int32_of_awq_and_gptq_is_eight_weights(hub: FakeHub) -> None:
    """huggingface.js#1770: Llama-3.1-8B w4a16 shown as about 2B. llmfit#1045: then discounted again."""
    for config, shapes in (
        (LLAMA_8B.config(quantization_config=GPTQ4), made.gptq(LLAMA_8B)),
        (LLAMA_8B.config(quantization_config=GPTQ4 | {"quant_method": "awq"}), made.awq(LLAMA_8B)),
    ):
        found = sized(hub, config, shapes)
        assert found.params_total == LLAMA_8B_PARAMS
        assert found.weight_bytes == made.nbytes(shapes)
        assert 5.5e9 < found.weight_bytes < 5.9e9  # the published files are 5.7 GB


def test_packed_experts_described_in_a_nested_config(hub: FakeHub) -> None:
    """huggingface.js#2003: Kimi-K2.5 shown as about 170B of 1.06T, that is a sixth. Two of its layers."""
    model = Dense(2, 7168, 64, 64, 2048, 163840, head_dim=128, experts=384, expert_inner=2048, per_token=8)
    weights = {"num_bits": 4, "group_size": 32}
    how = {"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": weights}}}
    shapes = made.compressed_int(model)
    found = sized(hub, {"text_config": model.config(quantization_config=how)}, shapes)
    assert found.params_total == total(model.shapes())
    assert total(shapes) < found.params_total / 3


def test_dtypes_of_less_than_a_byte(hub: FakeHub) -> None:
    """huggingface.js#1673, hf-mem#57: F4, F6 and E8M0 were not known."""
    shapes: Shapes = {
        "a.weight": ("F4", (4096, 4096)),
        "a.weight_scale": ("F8_E8M0", (4096, 128)),
        "b.weight": ("F6_E2M3", (4096, 4096)),
        "c.weight": ("F6_E3M2", (4096, 4096)),
    }
    found = sized(hub, {"quantization_config": {"quant_method": "quark"}}, shapes, shards=1)
    assert found.params_total == 3 * 4096 * 4096
    assert found.weight_bytes == 4096 * 4096 // 2 + 4096 * 128 + 2 * 4096 * 4096 * 6 // 8


@pytest.mark.parametrize("bits", [2, 3, 4, 6, 8])
def test_mlx_is_the_same_size_at_each_width(bits: int, hub: FakeHub) -> None:
    """hub-docs#2704, huggingface.js#2415: one model shown with another size for each bit width."""
    config = LLAMA_8B.config(quantization={"group_size": 64, "bits": bits})
    assert sized(hub, config, made.mlx(LLAMA_8B, bits)).params_total == LLAMA_8B_PARAMS


def test_mlx_experts_in_one_tensor(hub: FakeHub) -> None:
    """hub-docs#2704: an MLX 8-bit mixture of 314.6B shown as 88.6B."""
    shapes: Shapes = {"model.norm.weight": ("BF16", (2048,))}
    for layer in range(4):
        at = f"model.layers.{layer}.mlp.switch_mlp."
        for name, outputs, inputs in (("gate", 768, 2048), ("up", 768, 2048), ("down", 2048, 768)):
            shapes[f"{at}{name}_proj.weight"] = ("U32", (128, outputs, inputs // 4))
            shapes[f"{at}{name}_proj.scales"] = ("BF16", (128, outputs, inputs // 64))
            shapes[f"{at}{name}_proj.biases"] = ("BF16", (128, outputs, inputs // 64))
    config = {"num_experts": 128, "num_experts_per_tok": 8, "quantization": {"group_size": 64, "bits": 8}}
    found = sized(hub, config, shapes, shards=1)
    assert found.params_total == 4 * 128 * 3 * 768 * 2048 + 2048
    assert found.params_active == 4 * 8 * 3 * 768 * 2048 + 2048


def test_counts_that_the_hub_expanded_already_are_not_expanded_again(hub: FakeHub) -> None:
    """oMLX#3489: Qwen3.8-27B-4bit sized at 108 GB; its files have about 15."""
    shapes = made.mlx(QWEN_27B)
    config = QWEN_27B.config(quantization={"group_size": 64, "bits": 4})
    found = sized(hub, config, shapes, counts={"U32": total(QWEN_27B.shapes()), "BF16": 10_000_000})
    assert found.params_total == total(QWEN_27B.shapes())
    assert found.weight_bytes == made.nbytes(shapes) < 16.5e9


@pytest.mark.parametrize("counts", [{}, {"BF16": 0}, {"BF16": 1}, {"F32": 16_400_000_000}, None])
def test_placeholder_totals_are_not_believed(counts: dict[str, int] | None, hub: FakeHub) -> None:
    """llmfit#1063: 0.0B, 16.4B and 101.6B for models of 30 to 235B."""
    assert sized(hub, LLAMA_8B.config(), LLAMA_8B.shapes(), counts=counts).params_total == LLAMA_8B_PARAMS


def test_all_experts_are_the_size(hub: FakeHub) -> None:
    """vllm-fit#27: Mixtral-8x7B read as about 13B, one MLP a layer assumed. llmfit#230: active counts for memory."""
    for shards in (1, 4):
        found = sized(hub, MIXTRAL.config(), MIXTRAL.shapes(), shards=shards)
        assert (found.params_total, found.weight_bytes) == (46_702_792_704, 2 * 46_702_792_704)
        assert found.params_active == pytest.approx(12.9e9, rel=0.01)


@pytest.mark.parametrize(
    ("model", "shared", "billions", "active"),
    [
        (
            Dense(24, 2048, 16, 16, 5632, 151936, qkv_bias=True, experts=60, expert_inner=1408, per_token=4),
            5632,
            14.3,
            2.7,
        ),
        (
            Dense(28, 3584, 28, 4, 18944, 151936, qkv_bias=True, experts=64, expert_inner=2560, per_token=8),
            20480,
            57.4,
            14.2,
        ),
    ],
    ids=["Qwen1.5-MoE-A2.7B", "Qwen2-57B-A14B"],
)
def test_a_name_with_the_active_size(model: Dense, shared: int, billions: float, active: float, hub: FakeHub) -> None:
    """inference#1642: labelled and sized by what is active; the right totals are 14B and 57B."""
    found = sized(hub, model.config(), model.shapes() | made.shared_experts(model, shared))
    assert found.params_total == pytest.approx(billions * 1e9, rel=0.01)
    assert found.params_active == pytest.approx(active * 1e9, rel=0.02)


def test_llama_4_scout_is_not_17b(hub: FakeHub) -> None:
    """A name that says 17B, "so 4 GB per GPU": the language model has about 108B, nested and fused."""
    found = sized(hub, *made.llama4_scout(), shards=8)
    assert found.params_total == pytest.approx(108e9, rel=0.01)
    assert (found.experts, found.experts_per_token, found.context) == (16, 1, 10485760)
    assert found.params_active == pytest.approx(17e9, rel=0.02)


def test_mxfp4_blocks_are_doubled_and_their_scales_dropped(hub: FakeHub) -> None:
    """unsloth-zoo#1041: nearly half."""
    config, shapes = made.gpt_oss(layers=36, experts=128)
    found = sized(hub, config, shapes, shards=15)
    assert found.params_total == 116_829_156_672
    assert found.weight_bytes == made.nbytes(shapes)


def test_a_single_file_has_no_index(hub: FakeHub) -> None:
    """matrixhub#739: 0.0 parameters for Qwen3-0.6B."""
    model = made.QWEN3_06B
    hub.add(
        REPO,
        made.document("config.json", model.config()) | {"model.safetensors": made.safetensors(model.shapes())},
    )
    assert facts(REPO).params_total == made.QWEN3_06B_PARAMS


@pytest.mark.parametrize("params", [630_167_424, 1_777_088_000])
@pytest.mark.parametrize("dtype", ["F32", "BF16"])
def test_a_count_is_not_a_file_size(params: int, dtype: str, hub: FakeHub) -> None:
    """aprender#2570, #625: 982.8M for 630.2M, 2.2B for 1.777B."""
    assert sized(hub, {}, {"a.weight": (dtype, (params // 128, 128))}, shards=1, counts=None).params_total == params


def test_an_empty_file_does_not_fit(hub: FakeHub) -> None:
    """aprender#625: an empty file "fits"."""
    hub.add(REPO, {"config.json": b"{}", "model.safetensors": b""})
    with pytest.raises(Unsizeable, match="model_malformed"):
        facts(REPO)


def test_a_tied_head_that_is_stored_is_one_with_the_embeddings(hub: FakeHub) -> None:
    """Qwen3-0.6B: 751.6M elements on the hub, 596,049,920 loaded. Megatron-DeepSpeed#99: both copies counted."""
    model = made.QWEN3_06B
    shapes = model.shapes() | {"lm_head.weight": ("BF16", (model.vocab, model.hidden))}
    assert total(shapes) == pytest.approx(751.6e6, rel=0.001)
    found = sized(hub, model.config(), shapes, shards=1)
    assert found.params_total == 596_049_920
    assert found.weight_bytes / 2**30 == pytest.approx(1.11, abs=0.005)


def test_a_quantised_checkpoint_padded_for_its_kernels(hub: FakeHub) -> None:
    """gpustack#645: Qwen2.5-72B-GPTQ says intermediate_size 29696 for 29568; and 175 GB claimed for 42 GB of files."""
    base = sized(hub, QWEN_72B.config(), QWEN_72B.shapes(), shards=37)
    assert base.params_total == 72_706_203_648
    padded = replace(QWEN_72B, inner=29696)
    found = sized(hub, padded.config(quantization_config=GPTQ4), made.gptq(padded), shards=11)
    assert found.params_total - base.params_total == 80 * 3 * 128 * 8192
    assert found.weight_bytes == pytest.approx(41.6e9, rel=0.01)


def test_parts_that_stay_in_16_bits_keep_their_bytes(hub: FakeHub) -> None:
    """gemma-4-31b NVFP4 expected at 21 GiB; recipes#678: parameters x 0.5 leaves out what is not quantised."""
    tower: Shapes = {f"vision_tower.encoder.layers.{n}.mlp.fc1.weight": ("BF16", (4304, 1152)) for n in range(27)}
    shapes = made.nvfp4(LLAMA_8B) | tower
    found = sized(hub, LLAMA_8B.config(quantization_config={"quant_method": "modelopt"}), shapes)
    assert found.weight_bytes == made.nbytes(shapes) > found.params_total // 2 * 1.3
    assert found.params_by_dtype["BF16"] == total(LLAMA_8B.rest()) + total(tower)


def test_bytes_are_elements_times_their_size(hub: FakeHub) -> None:
    """granite-switch#128: 3,675,312,640 x 2 bytes. diffusers#12172: bytes passed for elements."""
    found = sized(hub, {}, {"a.weight": ("BF16", (3_675_312_640 // 640, 640))}, shards=1)
    assert found.weight_bytes == 3_675_312_640 * 2


def gguf(kind: str, names: range) -> made.Sparse:
    tensors: Shapes = {f"blk.{n}.ffn_up.weight": (kind, (4096, 12288)) for n in names}
    return made.gguf({"general.architecture": "qwen35", "qwen35.block_count": 40}, tensors)


def test_quants_of_a_repository_are_not_summed(hub: FakeHub) -> None:
    """LocalAI#10707: a 9B model listed at 71.2 GB, the sum of its files."""
    files: made.Files = {f"m-{kind}.gguf": gguf(kind, range(40)) for kind in ("Q4_0", "Q5_0", "Q8_0", "F16")}
    hub.add(REPO, files)
    found = facts(REPO)
    assert found.weight_bytes == 40 * 4096 * 12288 * 18 // 32
    assert found.variants["m-F16.gguf"] == pytest.approx(40 * 4096 * 12288 * 2, rel=0.001)


def test_shards_of_one_quant_are_summed(hub: FakeHub) -> None:
    """Quartermaster#15, mesh-llm#377, kronk#462: an 80B mixture in 4 shards sized as a quarter."""
    parts = [range(n * 10, n * 10 + 10) for n in range(4)]
    hub.add(REPO, {f"m-Q8_0-{n + 1:05d}-of-00004.gguf": gguf("Q8_0", names) for n, names in enumerate(parts)})
    found = facts(REPO)
    assert found.params_total == 40 * 4096 * 12288
    assert found.weight_bytes == 40 * 4096 * 12288 * 34 // 32


def test_a_repository_of_a_predicting_head_alone_is_no_model(hub: FakeHub) -> None:
    """Rapid-MLX#3159: a 35B row "about 3 GB, fits", for a download that held only the MTP head."""
    with pytest.raises(Unsizeable, match="model_empty"):
        sized(hub, {}, {"mtp.layers.0.weight": ("BF16", (1024, 1024))}, shards=1)


@pytest.mark.parametrize("said", ["bfloat16", "torch.bfloat16", None])
def test_nested_configs_and_spellings(said: str | None, hub: FakeHub) -> None:
    """hf-mem#23, #26, #46, #54: nested text_config, unknown quant_method, spelling of dtypes."""
    inside = LLAMA_8B.config(torch_dtype=said)
    config = {"text_config": inside, "quantization_config": {"quant_method": "modelopt-of-tomorrow"}}
    found = sized(hub, config, made.fp8(LLAMA_8B))
    assert (found.params_total, found.context, found.stored_as) == (LLAMA_8B_PARAMS, 131072, "FP8")


def test_heads_of_each_layer_are_all_kept(hub: FakeHub) -> None:
    """gguf-parser-go#31: of LFM2's `head_count_kv` only the first was read, which is 0."""
    heads = [0, 0, 8, 0, 0, 8, 0, 0, 8, 0, 8, 0, 8, 0, 8, 0]
    metadata = {"general.architecture": "lfm2", "lfm2.attention.head_count_kv": heads}
    hub.add(REPO, {"LFM2-1.2B-Q4_0.gguf": made.gguf(metadata, {"a.weight": ("Q4_0", (1024, 1024))})})
    found = facts(REPO)
    assert found.gguf is not None
    assert found.gguf["lfm2.attention.head_count_kv"] == heads


def test_encoders_are_told_apart(hub: FakeHub) -> None:
    """gpustack#2412, #2462, #1047: a reranker and embedding models charged with a cache they may not make."""
    shapes: Shapes = {"a.weight": ("F16", (1024, 1024))}
    reranker = sized(
        hub, {"architectures": ["XLMRobertaForSequenceClassification"]}, shapes, told={"tags": ["reranker"]}
    )
    embedding = sized(hub, {"architectures": ["BertModel"]}, shapes, told={"pipeline_tag": "sentence-similarity"})
    assert (reranker.kind, embedding.kind) == ("reranker", "embedding")
