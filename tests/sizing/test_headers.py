"""Headers are what strangers wrote: whatever their bytes, they are read or refused, and nothing else happens."""

from __future__ import annotations

import contextlib
from typing import get_args

from hypothesis import given, settings
from hypothesis import strategies as st

from sizing.facts import Kind
from sizing.hub import config as configs
from sizing.hub import counting, gguf, ggufcount, safetensors, torchfile
from sizing.hub.kinds import kind_of
from sizing.hub.listing import chosen_quant, files, quant_name, quants
from sizing.hub.packing import UnknownPacking
from sizing.hub.prefix import Prefix
from sizing.hub.tensors import BITS, Malformed, Tensor
from tests.fakes import checkpoints as made
from tests.fakes.checkpoints import Sparse

GGUF = made.gguf(
    {
        "general.architecture": "llama",
        "llama.block_count": 2,
        "llama.rope.freq_base": 1.5,
        "a.b": [1, 2],
        "c": ["d", "e"],
    },
    {"token_embd.weight": ("Q4_K", (256, 4)), "blk.0.ffn_up_exps.weight": ("F16", (4, 4, 2))},
)
TORCH = made.torch_file([("HalfStorage", 1000), ("FloatStorage", 5)], shared=[0])
SAFETENSORS = made.safetensors(
    {"a.qweight": ("I32", (8, 8)), "a.scales": ("F16", (1, 64)), "b.weight": ("BF16", (2, 2))}
)


def prefix(content: Sparse) -> Prefix:
    return Prefix(content.read, content.size, first=64)


def spoilt(data: st.DataObject, content: Sparse) -> Sparse:
    """Some bytes of the head are others, or its end is missing."""
    head = bytearray(content.head)
    for _each in range(data.draw(st.integers(1, 4))):
        head[data.draw(st.integers(0, len(head) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(head)))
    return Sparse(bytes(head), content.size) if data.draw(st.booleans()) else Sparse(bytes(head[:cut]), cut)


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_a_spoilt_gguf(data: st.DataObject) -> None:
    with contextlib.suppress(Malformed):
        header = gguf.read_header(prefix(spoilt(data, GGUF)))
        assert ggufcount.count(header.tensors, header).total >= 0
        assert isinstance(header.file_type, str)


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_a_spoilt_safetensors_file(data: st.DataObject) -> None:
    content = spoilt(data, SAFETENSORS)
    with contextlib.suppress(Malformed, UnknownPacking):
        assert counting.count(safetensors.read_header(content.head, content.size), {}).total >= 0


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_a_spoilt_torch_file(data: st.DataObject) -> None:
    with contextlib.suppress(Malformed):
        assert all(tensor.elements >= 0 for tensor in torchfile.read_storages(prefix(spoilt(data, TORCH))))


NAMES = st.sampled_from(
    [
        *("weight", "qweight", "qzeros", "scales", "g_idx", "biases", "weight_packed", "weight_scale", "weight_shape"),
        *(
            "weight_scale_2",
            "weight.absmax",
            "weight.quant_state.bitsandbytes__nf4",
            "SCB",
            "x_blocks",
            "x_scales",
            "scale",
        ),
    ]
)
TENSORS = st.builds(
    lambda module, last, dtype, shape: Tensor(f"{module}.{last}", dtype, tuple(shape), 1),
    st.sampled_from(["a", "model.layers.0.mlp.experts.3", "lm_head", "mtp.0", "model.embed_tokens"]),
    NAMES,
    st.sampled_from(list(BITS)),
    st.lists(st.integers(0, 64), max_size=3),
)
KEYS = st.sampled_from(
    [
        *(
            "quantization_config",
            "quantization",
            "bits",
            "group_size",
            "config_groups",
            "weights",
            "num_bits",
            "a",
            "lm_head",
        ),
        *("text_config", "num_experts", "num_experts_per_tok", "num_hidden_layers", "num_nextn_predict_layers"),
        *("tie_word_embeddings", "torch_dtype", "max_position_embeddings", "ffn_config", "model_type"),
    ]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 40) | st.sampled_from(["bits", "gptq", "int"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(TENSORS, max_size=12), st.dictionaries(KEYS, VALUES, max_size=5))
@settings(max_examples=500, deadline=None)
def test_tensors_and_configs_of_any_kind_are_counted_or_refused(
    tensors: list[Tensor], config: dict[str, object]
) -> None:
    with contextlib.suppress(UnknownPacking):
        found = counting.count(tensors, config)
        assert min(found.params.values(), default=0) >= 0
        active = found.active(configs.experts(config), configs.experts_per_token(config))
        assert active is None or 0 <= active <= found.total
    configs.context(config)
    configs.dtype(config)
    told = {"pipeline_tag": config.get("a"), "tags": config.get("weights")}
    assert kind_of(told, config | {"architectures": config.get("lm_head")}, set()) in get_args(Kind)


@given(VALUES)
def test_a_list_of_files_of_any_kind(told: object) -> None:
    assert files(told) == ()


@given(st.lists(st.text(alphabet="abQ4_KM-.0125of/", max_size=30).map(lambda stem: f"{stem}.gguf"), max_size=6))
def test_file_names_of_any_kind(paths: list[str]) -> None:
    variants = quants(files([{"rfilename": path, "size": 1} for path in paths]))
    assert (chosen_quant(variants) is None) == (not paths)
    for path in paths:
        assert chosen_quant(variants, path) is not None
        assert isinstance(quant_name(path), str)
