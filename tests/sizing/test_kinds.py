"""Each kind of checkpoint that people publish is counted right: `pytest -k kinds --collect-only` lists them.

Right values are those of the models' own configs; packed checkpoints of a model have the parameters of the model.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any

import pytest
from django.test import override_settings

from sizing.facts import ModelFacts
from sizing.hub import Unsizeable, facts, local_facts
from tests.fakes import checkpoints as made
from tests.fakes.checkpoints import LLAMA_8B, LLAMA_8B_PARAMS, Dense, Files, Shapes, Sparse
from tests.fakes.hub import FakeHub, running

REPO = "someone/Some-Model"


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    memory = {"default": {"BACKEND": "django.core.cache.backends.dummy.DummyCache"}}
    with running() as hub, override_settings(HF_ENDPOINT=hub.address, CACHES=memory):
        yield hub


def said(config: dict[str, Any]) -> Files:
    return made.document("config.json", config) | {"README.md": b"# A model", "tokenizer.json": b"{}"}


def sized(hub: FakeHub, config: dict[str, Any], shapes: Shapes, *, shards: int = 4, **more: Any) -> ModelFacts:
    """The facts of a checkpoint whose elements the hub counted as they lie there."""
    weights: Files = {"model.safetensors": made.safetensors(shapes)} if shards == 1 else made.sharded(shapes, shards)
    hub.add(REPO, said(config) | weights, counts=made.elements(shapes), **more)
    return facts(REPO)


# ------------------------------------------------------------------ packed weights


def quantized(method: str, **more: Any) -> dict[str, Any]:
    return LLAMA_8B.config(quantization_config={"quant_method": method} | more)


INT4 = {"num_bits": 4, "group_size": 32, "type": "int"}
PACKED = {
    "awq": (quantized("awq", bits=4, group_size=128), made.awq(LLAMA_8B), "INT4"),
    "gptq-4-bit": (quantized("gptq", bits=4, group_size=128), made.gptq(LLAMA_8B), "INT4"),
    "gptq-3-bit": (quantized("gptq", bits=3, group_size=128), made.gptq(LLAMA_8B, 3), "INT3"),
    "gptq-8-bit": (quantized("gptq", bits=8, group_size=128), made.gptq(LLAMA_8B, 8), "INT8"),
    "gptq-mixed-widths": (
        quantized("gptq", bits=4, dynamic={"+:.*mlp.*": {"bits": 4}, "+:.*self_attn.*": {"bits": 8}}),
        made.gptq(LLAMA_8B, {"mlp": 4, "self_attn": 8}),
        "INT4",
    ),
    "compressed-tensors-int4": (
        quantized("compressed-tensors", format="pack-quantized", config_groups={"group_0": {"weights": INT4}}),
        made.compressed_int(LLAMA_8B),
        "INT4",
    ),
    "compressed-tensors-nvfp4": (
        quantized("compressed-tensors", format="nvfp4-pack-quantized"),
        made.nvfp4(LLAMA_8B, compressed=True),
        "NVFP4",
    ),
    "modelopt-nvfp4": (quantized("modelopt", quant_algo="NVFP4"), made.nvfp4(LLAMA_8B), "NVFP4"),
    "nvfp4-without-a-word-in-the-config": (LLAMA_8B.config(), made.nvfp4(LLAMA_8B), "NVFP4"),
    "fp8-with-scales": (quantized("fp8", weight_block_size=[128, 128]), made.fp8(LLAMA_8B), "FP8"),
    "bitsandbytes-4-bit": (quantized("bitsandbytes", load_in_4bit=True), made.bitsandbytes4(LLAMA_8B), "NF4"),
    "bitsandbytes-8-bit": (quantized("bitsandbytes", load_in_8bit=True), made.bitsandbytes8(LLAMA_8B), "INT8"),
    "mlx-4-bit": (LLAMA_8B.config(quantization={"group_size": 64, "bits": 4}), made.mlx(LLAMA_8B), "INT4"),
    "mlx-8-bit": (LLAMA_8B.config(quantization={"group_size": 64, "bits": 8}), made.mlx(LLAMA_8B, 8), "INT8"),
}


@pytest.mark.parametrize("kind", PACKED)
def test_kinds_packed_weights_count_by_logical_elements(kind: str, hub: FakeHub) -> None:
    config, shapes, precision = PACKED[kind]
    found = sized(hub, config, shapes)
    assert (found.params_total, found.stored_as) == (LLAMA_8B_PARAMS, precision)
    assert found.weight_bytes == made.nbytes(shapes)
    assert sum(found.params_by_dtype.values()) == LLAMA_8B_PARAMS


def test_kinds_mxfp4_blocks(hub: FakeHub) -> None:
    config, shapes = made.gpt_oss(layers=24, experts=32)
    found = sized(hub, config, shapes, shards=3)
    assert (found.params_total, found.stored_as) == (20_914_757_184, "MXFP4")
    assert (found.experts, found.experts_per_token) == (32, 4)
    # Its card says 3.6B and leaves the input embeddings out; here they count, as in most cards.
    assert found.params_active == 4_187_440_704
    assert found.params_active - 201088 * 2880 == pytest.approx(3.6e9, rel=0.01)


def test_kinds_sub_byte_dtypes_of_the_format(hub: FakeHub) -> None:
    shapes: Shapes = LLAMA_8B.rest()
    for name, (outputs, inputs) in LLAMA_8B.linears().items():
        shapes[f"{name}.weight"] = ("F4", (outputs, inputs))
        shapes[f"{name}.weight_scale"] = ("F8_E8M0", (outputs, inputs // 32))
    assert sized(hub, LLAMA_8B.config(), shapes).params_total == LLAMA_8B_PARAMS


def test_kinds_packing_that_is_not_known_is_refused(hub: FakeHub) -> None:
    shapes: Shapes = LLAMA_8B.rest()
    for name, (outputs, inputs) in LLAMA_8B.linears().items():
        shapes[f"{name}.codes"] = ("I16", (outputs, inputs // 8, 1))
    with pytest.raises(Unsizeable) as caught:
        sized(hub, quantized("aqlm"), shapes)
    assert caught.value.code == "model_quantization_unknown"
    assert caught.value.params["method"] == "aqlm"


# ------------------------------------------------------------------ counted once


def test_kinds_tied_embeddings_stored_twice(hub: FakeHub) -> None:
    model = made.QWEN3_06B
    shapes = model.shapes() | {"lm_head.weight": ("BF16", (model.vocab, model.hidden))}
    assert sum(made.elements(shapes).values()) == 751_632_384  # what the hub shows
    for shards in (1, 2):
        found = sized(hub, model.config(), shapes, shards=shards)
        assert (found.params_total, found.weight_bytes) == (made.QWEN3_06B_PARAMS, made.QWEN3_06B_PARAMS * 2)


def test_kinds_tied_embeddings_stored_once(hub: FakeHub) -> None:
    model = made.QWEN25_05B
    for shards in (1, 2):
        assert sized(hub, model.config(), model.shapes(), shards=shards).params_total == made.QWEN25_05B_PARAMS


MTP = {
    "layers-behind-the-last": (f"model.layers.{LLAMA_8B.layers}.", {"num_nextn_predict_layers": 1}),
    "named-mtp": ("mtp.layers.0.", {}),
    "named-mtp-in-the-model": ("model.mtp_layers.0.", {"num_nextn_predict_layers": 1}),
}


@pytest.mark.parametrize("kind", MTP)
@pytest.mark.parametrize("dtype", ["BF16", "F8_E4M3"])
def test_kinds_mtp_layers_are_counted_apart(kind: str, dtype: str, hub: FakeHub) -> None:
    prefix, more = MTP[kind]
    layer: Shapes = {f"{prefix}eh_proj.weight": (dtype, (4096, 8192)), f"{prefix}norm.weight": ("BF16", (4096,))}
    body = LLAMA_8B.shapes() if dtype == "BF16" else made.fp8(LLAMA_8B)
    found = sized(hub, LLAMA_8B.config(**more), body | layer)
    assert (found.params_total, found.params_mtp) == (LLAMA_8B_PARAMS, 4096 * 8192 + 4096)
    assert found.bytes_mtp == made.nbytes(layer)
    assert found.weight_bytes == made.nbytes(body)


def test_kinds_stale_index_total(hub: FakeHub) -> None:
    shapes = LLAMA_8B.shapes()
    files = said(LLAMA_8B.config()) | made.sharded(shapes, 4, total_size=32_121_044_992)
    hub.add(REPO, files, counts=made.elements(shapes))
    assert facts(REPO).params_total == LLAMA_8B_PARAMS


def test_kinds_stale_counts_of_the_hub(hub: FakeHub) -> None:
    shapes = LLAMA_8B.shapes()
    hub.add(REPO, said(LLAMA_8B.config()) | made.sharded(shapes, 4), counts={"BF16": 6_000_000_000})
    found = facts(REPO)
    assert (found.params_total, found.weight_bytes) == (LLAMA_8B_PARAMS, LLAMA_8B_PARAMS * 2)


@pytest.mark.parametrize("shards", [1, 2, 8], ids=["single-file", "2-shards", "8-shards"])
@pytest.mark.parametrize("counted", [True, False], ids=["counted-by-the-hub", "never-counted"])
def test_kinds_single_file_and_sharded(shards: int, counted: bool, hub: FakeHub) -> None:
    shapes = LLAMA_8B.shapes()
    weights: Files = {"model.safetensors": made.safetensors(shapes)} if shards == 1 else made.sharded(shapes, shards)
    hub.add(REPO, said(LLAMA_8B.config()) | weights, counts=made.elements(shapes) if counted else None)
    found = facts(REPO)
    assert (found.params_total, found.stored_as, found.context) == (LLAMA_8B_PARAMS, "BF16", 131072)
    assert found.bytes_by_dtype == {"BF16": LLAMA_8B_PARAMS * 2}


DUPLICATES: dict[str, Files] = {
    "consolidated": {"consolidated.safetensors": made.safetensors(LLAMA_8B.shapes()), "params.json": b"{}"},
    "original-folder": {"original/consolidated.00.pth": Sparse(b"PK", 16_060_556_376)},
    "bin-beside-safetensors": {"pytorch_model.bin": made.torch_file([("BFloat16Storage", LLAMA_8B_PARAMS)])},
    "half-precision-variant": {"model.fp16.safetensors": made.safetensors(LLAMA_8B.shapes("F16"))},
    "other-runtimes": {"onnx/model.onnx_data": Sparse(b"", 10**10), "tf_model.h5": Sparse(b"", 10**10)},
    "gguf-beside-safetensors": {"model-Q4_K_M.gguf": Sparse(b"GGUF", 10**9)},
}


@pytest.mark.parametrize("kind", DUPLICATES)
@pytest.mark.parametrize("shards", [1, 4])
def test_kinds_duplicates_are_counted_once(kind: str, shards: int, hub: FakeHub) -> None:
    shapes = LLAMA_8B.shapes()
    weights: Files = {"model.safetensors": made.safetensors(shapes)} if shards == 1 else made.sharded(shapes, shards)
    hub.add(REPO, said(LLAMA_8B.config()) | weights | DUPLICATES[kind], counts=made.elements(shapes))
    found = facts(REPO)
    assert (found.params_total, found.weight_bytes) == (LLAMA_8B_PARAMS, LLAMA_8B_PARAMS * 2)
    assert not {file.path for file in found.files} & {path for path in DUPLICATES[kind] if path != "params.json"}


def test_kinds_consolidated_alone(hub: FakeHub) -> None:
    hub.add(REPO, {"params.json": b"{}", **{k: v for k, v in DUPLICATES["consolidated"].items() if "saf" in k}})
    assert facts(REPO).params_total == LLAMA_8B_PARAMS


# ------------------------------------------------------------------ .bin


def test_kinds_bin_only_single_file(hub: FakeHub) -> None:
    weights = made.torch_file([("HalfStorage", 1_000_000_000), ("HalfStorage", 418_270_720)])
    hub.add(REPO, said({"model_type": "phi", "torch_dtype": "float32"}) | {"pytorch_model.bin": weights})
    found = facts(REPO)
    assert (found.params_total, found.stored_as, found.weight_bytes) == (1_418_270_720, "FP16", 2_836_541_440)
    assert found.notes == ()


def test_kinds_bin_only_shards_and_a_shared_storage(hub: FakeHub) -> None:
    parts: Files = {
        "pytorch_model-00001-of-00002.bin": made.torch_file([("BFloat16Storage", 3_000_000_000)], shared=[0]),
        "pytorch_model-00002-of-00002.bin": made.torch_file([("BFloat16Storage", 1_000_000_000)]),
    }
    places = {"a": "pytorch_model-00001-of-00002.bin", "b": "pytorch_model-00002-of-00002.bin"}
    index = made.document("pytorch_model.bin.index.json", {"metadata": {}, "weight_map": places})
    hub.add(REPO, said({"model_type": "llama"}) | parts | index)
    assert facts(REPO).params_total == 4_000_000_000


def test_kinds_bin_of_before_zip_files_is_counted_by_size(hub: FakeHub) -> None:
    old: Files = {"pytorch_model.bin": Sparse(b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.", 2_000_000_000)}
    hub.add(REPO, said({"model_type": "gpt2", "torch_dtype": "float16"}) | old)
    found = facts(REPO)
    assert (found.params_total, found.notes) == (1_000_000_000, ("counted_by_size",))


# ------------------------------------------------------------------ GGUF

LLAMA_GGUF = {
    "general.architecture": "llama",
    "general.file_type": 15,
    "llama.block_count": 2,
    "llama.context_length": 8192,
    "llama.attention.head_count_kv": [2, 4],
    "tokenizer.ggml.tokens": [f"token{n}" for n in range(50_000)],
    "tokenizer.ggml.scores": list(range(50_000)),
}


def gguf_shapes(dtype: str) -> Shapes:
    return {
        "token_embd.weight": ("Q6_K", (4096, 32000)),
        "blk.0.attn_q.weight": (dtype, (4096, 4096)),
        "blk.1.ffn_down.weight": (dtype, (14336, 4096)),
        "output_norm.weight": ("F32", (4096,)),
        "rope_freqs.weight": ("F32", (64,)),
    }


GGUF_PARAMS = 4096 * (32000 + 4096 + 14336 + 1)


def test_kinds_gguf_with_many_quants(hub: FakeHub) -> None:
    quants = {"Q8_0": "Q8_0", "Q4_K_M": "Q4_K", "Q2_K": "Q2_K", "F16": "F16"}
    files = {f"some-model-{name}.gguf": made.gguf(LLAMA_GGUF, gguf_shapes(kind)) for name, kind in quants.items()}
    hub.add(REPO, {"README.md": b"#", **files})
    found = facts(REPO)
    assert (found.params_total, found.stored_as, found.context) == (GGUF_PARAMS, "Q4_K_M", 8192)
    assert found.params_by_dtype["Q4_K"] == 4096 * (4096 + 14336)
    assert found.bytes_by_dtype["Q4_K"] == 4096 * (4096 + 14336) * 144 // 256
    assert found.variants == {path: content.size for path, content in files.items()}
    assert [file.path for file in found.files] == ["some-model-Q4_K_M.gguf"]
    assert found.gguf is not None
    assert found.gguf["llama.attention.head_count_kv"] == [2, 4]
    assert not any(name.startswith("tokenizer.") for name in found.gguf)


def test_kinds_gguf_file_in_the_address(hub: FakeHub) -> None:
    files = {f"m-{name}.gguf": made.gguf(LLAMA_GGUF, gguf_shapes(name)) for name in ("Q8_0", "Q4_0")}
    hub.add(REPO, dict(files))
    found = facts(f"https://huggingface.co/{REPO}/blob/main/m-Q8_0.gguf?download=true")
    assert (found.stored_as, found.params_total) == ("Q8_0", GGUF_PARAMS)


def test_kinds_split_gguf(hub: FakeHub) -> None:
    shapes = gguf_shapes("Q4_K")
    names = list(shapes)
    parts = {
        f"UD-Q4_K_XL/m-UD-Q4_K_XL-{n + 1:05d}-of-00005.gguf": made.gguf(
            LLAMA_GGUF if n == 0 else {"split.no": n, "split.count": 5}, {name: shapes[name]}
        )
        for n, name in enumerate(names)
    }
    hub.add(REPO, {**parts, "m-Q8_0.gguf": made.gguf(LLAMA_GGUF, gguf_shapes("Q8_0"))})
    found = facts(f"https://hf.co/{REPO}/resolve/main/UD-Q4_K_XL/m-UD-Q4_K_XL-00001-of-00005.gguf")
    assert (found.params_total, found.stored_as, len(found.files)) == (GGUF_PARAMS, "UD-Q4_K_XL", 5)
    assert found.variants["UD-Q4_K_XL/m-UD-Q4_K_XL-00001-of-00005.gguf"] == sum(p.size for p in parts.values())


def test_kinds_split_gguf_with_a_part_missing_is_refused(hub: FakeHub) -> None:
    hub.add(REPO, {"m-Q4_K_M-00001-of-00002.gguf": made.gguf(LLAMA_GGUF, gguf_shapes("Q4_K"))})
    with pytest.raises(Unsizeable, match="model_malformed"):
        facts(REPO)


def test_kinds_gguf_with_mmproj(hub: FakeHub) -> None:
    model, eyes = made.gguf(LLAMA_GGUF, gguf_shapes("Q4_K")), made.gguf({"general.architecture": "clip"}, {})
    hub.add(REPO, {"m-Q4_K_M.gguf": model, "mmproj-m-f16.gguf": eyes})
    found = facts(REPO)
    assert (found.params_total, found.kind) == (GGUF_PARAMS, "multimodal")
    assert [(file.path, file.format) for file in found.files] == [
        ("m-Q4_K_M.gguf", "gguf"),
        ("mmproj-m-f16.gguf", "mmproj"),
    ]
    assert list(found.variants) == ["m-Q4_K_M.gguf"]


def test_kinds_gguf_experts_mtp_and_split_mla_projections(hub: FakeHub) -> None:
    metadata = {"general.architecture": "deepseek2", "deepseek2.block_count": 3, "deepseek2.nextn_predict_layers": 1}
    metadata |= {"deepseek2.expert_count": 64, "deepseek2.expert_used_count": 6}
    shapes: Shapes = {
        "token_embd.weight": ("F16", (1024, 1000)),
        "blk.0.attn_kv_b.weight": ("F16", (512, 4096)),
        "blk.0.attn_k_b.weight": ("F16", (512, 2048)),
        "blk.0.attn_v_b.weight": ("F16", (512, 2048)),
        "blk.1.ffn_up_exps.weight": ("Q4_K", (1024, 512, 64)),
        "blk.2.nextn.eh_proj.weight": ("F16", (2048, 1024)),
    }
    hub.add(REPO, {"m-Q4_K_M.gguf": made.gguf(metadata, shapes)})
    found = facts(REPO)
    assert found.params_total == 1024 * 1000 + 512 * 4096 + 1024 * 512 * 64
    assert found.params_active == 1024 * 1000 + 512 * 4096 + 1024 * 512 * 6
    assert found.params_mtp == 2048 * 1024
    assert found.bytes_by_dtype["F16"] == 2 * (1024 * 1000 + 512 * 8192)  # loaded all the same


# ------------------------------------------------------------------ what it is


def test_kinds_lora_adapter_is_sized_by_its_base(hub: FakeHub) -> None:
    shapes = LLAMA_8B.shapes()
    hub.add("meta/Base", said(LLAMA_8B.config()) | made.sharded(shapes, 4), counts=made.elements(shapes))
    lora: Shapes = {"base_model.model.layers.0.q_proj.lora_A.weight": ("F32", (16, 4096))}
    said_of_it = {"base_model_name_or_path": "meta/Base", "peft_type": "LORA", "r": 16}
    own = made.document("adapter_config.json", said_of_it)
    hub.add(REPO, own | {"adapter_model.safetensors": made.safetensors(lora), "tokenizer.json": b"{}"})
    found = facts(REPO)
    assert (found.kind, found.base_repo, found.repo_id) == ("adapter", "meta/Base", REPO)
    assert (found.params_total, found.params_adapter) == (LLAMA_8B_PARAMS, 16 * 4096)
    assert found.config["hidden_size"] == 4096


@pytest.mark.parametrize("base", ["/home/me/base", "../up", "", "file:///etc", "https://evil.example/a/b"])
def test_kinds_lora_adapter_of_a_base_that_is_nowhere(base: str, hub: FakeHub) -> None:
    own = made.document("adapter_config.json", {"base_model_name_or_path": base})
    hub.add(REPO, own | {"adapter_model.safetensors": made.safetensors({})})
    with pytest.raises(Unsizeable, match="adapter_base_unknown"):
        facts(REPO)
    assert all(REPO in path for path in hub.requests())


def test_kinds_nested_text_config_and_quantization(hub: FakeHub) -> None:
    """As Kimi-K2.5: int4 experts, and the words about it hidden in text_config."""
    model = Dense(2, 7168, 64, 64, 2048, 163840, head_dim=128, experts=384, expert_inner=2048, per_token=8)
    inside = model.config(
        quantization_config={"quant_method": "compressed-tensors", "config_groups": {"g": {"weights": INT4}}}
    )
    shapes = made.compressed_int(model)
    config = {"architectures": ["KimiK25ForConditionalGeneration"], "text_config": inside, "vision_config": {}}
    found = sized(hub, config, shapes)
    assert found.params_total == sum(prod(shape) for _dtype, shape in model.shapes().values())
    assert (found.kind, found.experts, found.experts_per_token) == ("multimodal", 384, 8)
    assert (found.context, found.stored_as) == (131072, "INT4")


def test_kinds_multimodal_towers_are_counted_with_the_model(hub: FakeHub) -> None:
    model = Dense(2, 2560, 8, 4, 10240, 262208, head_dim=256, tied=True, prefix="language_model.model.")
    tower: Shapes = {
        f"vision_tower.vision_model.encoder.layers.{n}.mlp.fc1.weight": ("BF16", (4304, 1152)) for n in range(27)
    }
    shapes = model.shapes() | tower
    inside = model.config(model_type="gemma3_text", num_nextn_predict_layers=1)
    del inside["tie_word_embeddings"]
    config = {"architectures": ["Gemma3ForConditionalGeneration"], "text_config": inside, "vision_config": {"a": 1}}
    found = sized(hub, config, shapes, told={"pipeline_tag": "image-text-to-text"})
    assert (found.params_total, found.params_mtp) == (sum(made.elements(shapes).values()), 0)
    assert found.kind == "multimodal"


@pytest.mark.parametrize("shards", [1, 4])
def test_kinds_mixture_of_experts(shards: int, hub: FakeHub) -> None:
    model = made.QWEN3_30B
    found = sized(hub, model.config(architectures=["Qwen3MoeForCausalLM"]), model.shapes(), shards=shards)
    assert (found.params_total, found.experts, found.experts_per_token) == (made.QWEN3_30B_PARAMS, 128, 8)
    assert found.params_active == made.QWEN3_30B_PARAMS - 48 * 120 * 3 * 2048 * 768  # 3.35B


def test_kinds_embedding_model(hub: FakeHub) -> None:
    shapes: Shapes = {
        "embeddings.word_embeddings.weight": ("F32", (30522, 1024)),
        "embeddings.position_ids": ("I64", (1, 512)),
    }
    config = {"architectures": ["BertModel"], "model_type": "bert", "max_position_embeddings": 512}
    hub.add(
        REPO,
        said(config) | {"model.safetensors": made.safetensors(shapes), "modules.json": b"[]"},
        told={"pipeline_tag": "feature-extraction", "tags": ["sentence-transformers"]},
    )
    found = facts(REPO)
    assert (found.kind, found.params_total, found.stored_as, found.context) == ("embedding", 30522 * 1024, "FP32", 512)


RERANKERS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "by-its-task": ({"architectures": ["Qwen3ForCausalLM"]}, {"pipeline_tag": "text-ranking"}),
    "by-its-tag": ({"architectures": ["XLMRobertaForSequenceClassification"]}, {"tags": ["cross-encoder"]}),
    "by-its-single-label": (
        {"architectures": ["BertForSequenceClassification"], "id2label": {"0": "LABEL_0"}},
        {"pipeline_tag": "text-classification", "tags": []},
    ),
}


@pytest.mark.parametrize("kind", RERANKERS)
def test_kinds_reranker_model(kind: str, hub: FakeHub) -> None:
    config, told = RERANKERS[kind]
    found = sized(hub, config, {"a.weight": ("F16", (1024, 1024))}, shards=1, told=told)
    assert (found.kind, found.params_total) == ("reranker", 1024 * 1024)


def test_kinds_diffusion_is_named_as_not_sized_yet(hub: FakeHub) -> None:
    part = made.safetensors({"a.weight": ("F16", (1024, 1024))})
    hub.add(REPO, {"model_index.json": b"{}", "unet/diffusion_pytorch_model.safetensors": part})
    with pytest.raises(Unsizeable) as caught:
        facts(REPO)
    assert (caught.value.code, caught.value.params["kind"]) == ("model_kind_not_sized", "diffusion")


# ------------------------------------------------------------------ on this machine


def written(folder: Path, files: Files) -> None:
    for path, content in files.items():
        with (folder / path).open("wb") as file:
            file.write(content if isinstance(content, bytes) else content.head)
            file.truncate(len(content) if isinstance(content, bytes) else content.size)


def test_kinds_local_folder(tmp_path: Path) -> None:
    model = made.QWEN25_05B
    written(tmp_path, said(model.config()) | made.sharded(model.shapes(), 2))
    found = local_facts(tmp_path)
    assert (found.params_total, found.revision) == (made.QWEN25_05B_PARAMS, "")


def test_kinds_local_gguf_file(tmp_path: Path) -> None:
    written(tmp_path, {"m-Q4_K_M.gguf": made.gguf(LLAMA_GGUF, gguf_shapes("Q4_K"))})
    found = local_facts(tmp_path / "m-Q4_K_M.gguf")
    assert (found.params_total, found.stored_as) == (GGUF_PARAMS, "Q4_K_M")
