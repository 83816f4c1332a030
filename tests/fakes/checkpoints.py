"""Files of models as they are published, with all of their header and none of their weights.

A model of 400 GB is a few kilobytes here: `Sparse` holds what is read, and says how long the rest is.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from sizing.hub.gguf import TYPES
from sizing.hub.tensors import BITS

Shapes = dict[str, tuple[str, tuple[int, ...]]]
"""name -> (dtype, shape)"""


@dataclass(frozen=True)
class Sparse:
    """`head`, then zeros up to `size` bytes."""

    head: bytes
    size: int

    def read(self, start: int, count: int) -> bytes:
        count = max(min(count, self.size - start), 0)
        return self.head[start : start + count].ljust(count, b"\0")


Files = dict[str, bytes | Sparse]


def document(path: str, content: Any) -> Files:
    return {path: json.dumps(content).encode()}


def nbytes(shapes: Shapes) -> int:
    """What the tensors take, headers apart."""
    return sum((prod(shape) * BITS[dtype] + 7) // 8 for dtype, shape in shapes.values())


def safetensors(shapes: Shapes) -> Sparse:
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    at = 0
    for name, (dtype, shape) in shapes.items():
        end = at + nbytes({name: (dtype, shape)})
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, end]}
        at = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return Sparse(struct.pack("<Q", len(text)) + text, 8 + len(text) + at)


def sharded(shapes: Shapes, count: int, *, total_size: int | None = None) -> Files:
    """`count` shards and their index, whose total is true unless another is given."""
    names = list(shapes)
    files: Files = {}
    places: dict[str, str] = {}
    for part in range(count):
        path = f"model-{part + 1:05d}-of-{count:05d}.safetensors"
        own = names[part * len(names) // count : (part + 1) * len(names) // count]
        files[path] = safetensors({name: shapes[name] for name in own})
        places |= dict.fromkeys(own, path)
    index = {"metadata": {"total_size": total_size or nbytes(shapes)}, "weight_map": places}
    return files | {"model.safetensors.index.json": json.dumps(index).encode()}


def elements(shapes: Shapes) -> dict[str, int]:
    """By dtype, as the hub counts them: what is packed counts once."""
    found: dict[str, int] = {}
    for dtype, shape in shapes.values():
        found[dtype] = found.get(dtype, 0) + prod(shape)
    return found


def torch_file(storages: Sequence[tuple[str, int]], *, shared: Sequence[int] = ()) -> Sparse:
    """A .bin of PyTorch 1.6 or later. `storages` are (class, elements); those in `shared` are used by two tensors."""
    memo: dict[bytes, int] = {}

    def once(code: bytes) -> bytes:
        if code in memo:
            return b"h" + bytes([memo[code]])
        memo[code] = len(memo)
        return code + b"q" + bytes([memo[code]])

    def text(value: str) -> bytes:
        return once(b"X" + struct.pack("<I", len(value)) + value.encode())

    pickled = b"\x80\x02}("
    for number in [*range(len(storages)), *shared]:
        kind, count = storages[number]
        length = b"J" + struct.pack("<i", count) if count < 2**31 else b"\x8a\x05" + count.to_bytes(5, "little")
        pickled += text(f"tensor{number}") + once(b"ctorch._utils\n_rebuild_tensor_v2\n") + b"(("
        pickled += text("storage") + once(f"ctorch\n{kind}\n".encode()) + text(str(number)) + text("cpu") + length
        pickled += b"tQK\x00K\x01\x85K\x01\x85\x89}tR"
    pickled += b"u."
    name = b"archive/data.pkl"
    local = struct.pack("<4s5H3L2H", b"PK\x03\x04", 0, 0, 0, 0, 0, 0, len(pickled), len(pickled), len(name), 0)
    sizes = {"FloatStorage": 4, "HalfStorage": 2, "BFloat16Storage": 2}
    head = local + name + pickled
    return Sparse(head, len(head) + sum(sizes[kind] * count for kind, count in storages) + 5000)


def gguf(metadata: Mapping[str, Any], shapes: Shapes) -> Sparse:
    """Values: str, int, float, bool, or lists of str or int. dtypes are ggml's."""
    numbers = {name: (number, block, size) for number, (name, block, size) in TYPES.items()}
    head = b"GGUF" + struct.pack("<IQQ", 3, len(shapes), len(metadata))
    for name, value in metadata.items():
        head += _text(name) + _value(value)
    at = 0
    for name, (dtype, shape) in shapes.items():
        number, block, block_bytes = numbers[dtype]
        head += _text(name) + struct.pack("<I", len(shape)) + b"".join(struct.pack("<Q", n) for n in shape)
        head += struct.pack("<IQ", number, at)
        at += prod(shape) // block * block_bytes
    return Sparse(head, len(head) + at)


def _text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def _value(value: Any) -> bytes:
    if isinstance(value, str):
        return struct.pack("<I", 8) + _text(value)
    if isinstance(value, bool):
        return struct.pack("<I?", 7, value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    if value and isinstance(value[0], str):
        return struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(_text, value))
    return struct.pack("<IIQ", 9, 5, len(value)) + struct.pack(f"<{len(value)}i", *value)


# ------------------------------------------------------------------ architectures


@dataclass(frozen=True)
class Dense:
    """A llama-like decoder: what its config.json and its tensors are."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    inner: int
    vocab: int
    head_dim: int = 0
    tied: bool = False
    qk_norm: bool = False
    qkv_bias: bool = False
    experts: int = 0
    expert_inner: int = 0
    per_token: int = 0
    prefix: str = "model."
    context: int = 131072

    @property
    def dim(self) -> int:
        return self.head_dim or self.hidden // self.heads

    def config(self, **more: Any) -> dict[str, Any]:
        said: dict[str, Any] = {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "num_hidden_layers": self.layers,
            "hidden_size": self.hidden,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "head_dim": self.dim,
            "intermediate_size": self.inner,
            "vocab_size": self.vocab,
            "max_position_embeddings": self.context,
            "tie_word_embeddings": self.tied,
            "torch_dtype": "bfloat16",
        }
        if self.experts:
            said |= {"num_experts": self.experts, "num_experts_per_tok": self.per_token}
            said |= {"moe_intermediate_size": self.expert_inner}
        return said | more

    def linears(self) -> dict[str, tuple[int, int]]:
        """Every linear layer's (outputs, inputs) without the head: what quantisers pack."""
        found: dict[str, tuple[int, int]] = {}
        for layer in range(self.layers):
            at = f"{self.prefix}layers.{layer}."
            found |= {
                f"{at}self_attn.q_proj": (self.heads * self.dim, self.hidden),
                f"{at}self_attn.k_proj": (self.kv_heads * self.dim, self.hidden),
                f"{at}self_attn.v_proj": (self.kv_heads * self.dim, self.hidden),
                f"{at}self_attn.o_proj": (self.hidden, self.heads * self.dim),
            }
            blocks = [f"mlp.experts.{n}." for n in range(self.experts)] or ["mlp."]
            inner = self.expert_inner or self.inner
            for block in blocks:
                found[f"{at}{block}gate_proj"] = (inner, self.hidden)
                found[f"{at}{block}up_proj"] = (inner, self.hidden)
                found[f"{at}{block}down_proj"] = (self.hidden, inner)
        return found

    def rest(self, dtype: str = "BF16") -> Shapes:
        """What stays as it is when the linear layers are packed; a tied head is not stored."""
        found: Shapes = {f"{self.prefix}embed_tokens.weight": (dtype, (self.vocab, self.hidden))}
        for layer in range(self.layers):
            at = f"{self.prefix}layers.{layer}."
            for norm in ("input_layernorm", "post_attention_layernorm"):
                found[f"{at}{norm}.weight"] = (dtype, (self.hidden,))
            if self.qk_norm:
                found[f"{at}self_attn.q_norm.weight"] = (dtype, (self.dim,))
                found[f"{at}self_attn.k_norm.weight"] = (dtype, (self.dim,))
            if self.qkv_bias:
                for name, heads in (("q", self.heads), ("k", self.kv_heads), ("v", self.kv_heads)):
                    found[f"{at}self_attn.{name}_proj.bias"] = (dtype, (heads * self.dim,))
            if self.experts:
                found[f"{at}mlp.gate.weight"] = (dtype, (self.experts, self.hidden))
        found[f"{self.prefix}norm.weight"] = (dtype, (self.hidden,))
        if not self.tied:
            found["lm_head.weight"] = (dtype, (self.vocab, self.hidden))
        return found

    def shapes(self, dtype: str = "BF16") -> Shapes:
        return {f"{name}.weight": (dtype, shape) for name, shape in self.linears().items()} | self.rest(dtype)


# Shapes and totals of the models' own configs; the totals are computed from them and agree with published figures.
LLAMA_8B = Dense(32, 4096, 32, 8, 14336, 128256)
LLAMA_8B_PARAMS = 8_030_261_248
QWEN3_06B = Dense(28, 1024, 16, 8, 3072, 151936, head_dim=128, tied=True, qk_norm=True, context=40960)
QWEN3_06B_PARAMS = 596_049_920
QWEN3_30B = Dense(
    48, 2048, 32, 4, 6144, 151936, head_dim=128, qk_norm=True, experts=128, expert_inner=768, per_token=8, context=40960
)
QWEN3_30B_PARAMS = 30_532_122_624
QWEN25_05B = Dense(24, 896, 14, 2, 4864, 151936, tied=True, qkv_bias=True, context=32768)
QWEN25_05B_PARAMS = 494_032_768


def awq(model: Dense, bits: int = 4, group: int = 128) -> Shapes:
    found: Shapes = model.rest("F16")
    for name, (outputs, inputs) in model.linears().items():
        found[f"{name}.qweight"] = ("I32", (inputs, outputs * bits // 32))
        found[f"{name}.qzeros"] = ("I32", (inputs // group, outputs * bits // 32))
        found[f"{name}.scales"] = ("F16", (inputs // group, outputs))
    return found


def gptq(model: Dense, bits: Mapping[str, int] | int = 4, group: int = 128) -> Shapes:
    """`bits` by a part of the module's name, where widths are mixed."""
    found: Shapes = model.rest("F16")
    for name, (outputs, inputs) in model.linears().items():
        width = bits if isinstance(bits, int) else next(n for part, n in bits.items() if part in name)
        found[f"{name}.qweight"] = ("I32", (inputs * width // 32, outputs))
        found[f"{name}.qzeros"] = ("I32", (inputs // group, outputs * width // 32))
        found[f"{name}.scales"] = ("F16", (inputs // group, outputs))
        found[f"{name}.g_idx"] = ("I32", (inputs,))
    return found


def compressed_int(model: Dense, bits: int = 4, group: int = 32) -> Shapes:
    found: Shapes = model.rest()
    for name, (outputs, inputs) in model.linears().items():
        found[f"{name}.weight_packed"] = ("I32", (outputs, inputs * bits // 32))
        found[f"{name}.weight_scale"] = ("BF16", (outputs, inputs // group))
        found[f"{name}.weight_shape"] = ("I64", (2,))
    return found


def nvfp4(model: Dense, *, compressed: bool = False) -> Shapes:
    found: Shapes = model.rest()
    weight, whole = ("weight_packed", "weight_global_scale") if compressed else ("weight", "weight_scale_2")
    for name, (outputs, inputs) in model.linears().items():
        found[f"{name}.{weight}"] = ("U8", (outputs, inputs // 2))
        found[f"{name}.weight_scale"] = ("F8_E4M3", (outputs, inputs // 16))
        found[f"{name}.{whole}"] = ("F32", (1,))
        found[f"{name}.input_scale"] = ("F32", (1,))
    return found


def fp8(model: Dense, block: int = 128) -> Shapes:
    found: Shapes = model.rest()
    for name, (outputs, inputs) in model.linears().items():
        found[f"{name}.weight"] = ("F8_E4M3", (outputs, inputs))
        found[f"{name}.weight_scale_inv"] = ("F32", (-(-outputs // block), -(-inputs // block)))
    return found


def bitsandbytes4(model: Dense) -> Shapes:
    found: Shapes = model.rest()
    for name, (outputs, inputs) in model.linears().items():
        found[f"{name}.weight"] = ("U8", (outputs * inputs // 2, 1))
        found[f"{name}.weight.absmax"] = ("U8", (outputs * inputs // 64,))
        found[f"{name}.weight.nested_absmax"] = ("F32", (outputs * inputs // 64 // 256,))
        found[f"{name}.weight.quant_map"] = ("F32", (16,))
        found[f"{name}.weight.nested_quant_map"] = ("F32", (256,))
        found[f"{name}.weight.quant_state.bitsandbytes__nf4"] = ("U8", (85,))
    return found


def bitsandbytes8(model: Dense) -> Shapes:
    found: Shapes = model.rest("F16")
    for name, (outputs, inputs) in model.linears().items():
        found[f"{name}.weight"] = ("I8", (outputs, inputs))
        found[f"{name}.SCB"] = ("F32", (outputs,))
        found[f"{name}.weight_format"] = ("U8", ())
    return found


def mlx(model: Dense, bits: int = 4, group: int = 64) -> Shapes:
    """Embeddings and head are packed too."""
    modules = dict(model.linears())
    found: Shapes = {}
    for name, (dtype, shape) in model.rest().items():
        if len(shape) == 2:
            modules[name.removesuffix(".weight")] = (shape[0], shape[1])
        else:
            found[name] = (dtype, shape)
    for name, (outputs, inputs) in modules.items():
        found[f"{name}.weight"] = ("U32", (outputs, inputs * bits // 32))
        found[f"{name}.scales"] = ("BF16", (outputs, inputs // group))
        found[f"{name}.biases"] = ("BF16", (outputs, inputs // group))
    return found


def gpt_oss(*, layers: int, experts: int) -> tuple[dict[str, Any], Shapes]:
    """Config and tensors: experts of 2880 x 2880 in MXFP4, attention and embeddings in 16 bits."""
    shapes: Shapes = {
        "model.embed_tokens.weight": ("BF16", (201088, 2880)),
        "lm_head.weight": ("BF16", (201088, 2880)),
        "model.norm.weight": ("BF16", (2880,)),
    }
    for layer in range(layers):
        at = f"model.layers.{layer}."
        shapes |= {
            f"{at}mlp.experts.gate_up_proj_blocks": ("U8", (experts, 5760, 90, 16)),
            f"{at}mlp.experts.gate_up_proj_scales": ("U8", (experts, 5760, 90)),
            f"{at}mlp.experts.gate_up_proj_bias": ("BF16", (experts, 5760)),
            f"{at}mlp.experts.down_proj_blocks": ("U8", (experts, 2880, 90, 16)),
            f"{at}mlp.experts.down_proj_scales": ("U8", (experts, 2880, 90)),
            f"{at}mlp.experts.down_proj_bias": ("BF16", (experts, 2880)),
            f"{at}mlp.router.weight": ("BF16", (experts, 2880)),
            f"{at}mlp.router.bias": ("BF16", (experts,)),
            f"{at}input_layernorm.weight": ("BF16", (2880,)),
            f"{at}post_attention_layernorm.weight": ("BF16", (2880,)),
            f"{at}self_attn.sinks": ("BF16", (64,)),
            f"{at}self_attn.o_proj.weight": ("BF16", (2880, 4096)),
            f"{at}self_attn.o_proj.bias": ("BF16", (2880,)),
        }
        for name, width in (("q", 4096), ("k", 512), ("v", 512)):
            shapes[f"{at}self_attn.{name}_proj.weight"] = ("BF16", (width, 2880))
            shapes[f"{at}self_attn.{name}_proj.bias"] = ("BF16", (width,))
    config = {"architectures": ["GptOssForCausalLM"], "num_hidden_layers": layers, "num_local_experts": experts}
    return config | {"num_experts_per_tok": 4, "quantization_config": {"quant_method": "mxfp4"}}, shapes


def shared_experts(model: Dense, inner: int) -> Shapes:
    """Beside the routed ones, as in Qwen's first mixtures: always at work."""
    found: Shapes = {}
    for layer in range(model.layers):
        at = f"{model.prefix}layers.{layer}.mlp.shared_expert"
        found[f"{at}_gate.weight"] = ("BF16", (1, model.hidden))
        for name, shape in (
            ("gate", (inner, model.hidden)),
            ("up", (inner, model.hidden)),
            ("down", (model.hidden, inner)),
        ):
            found[f"{at}.{name}_proj.weight"] = ("BF16", shape)
    return found


def llama4_scout() -> tuple[dict[str, Any], Shapes]:
    """Fused experts, everything of the language model nested in text_config; without its eyes."""
    hidden, inner, layers = 5120, 8192, 48
    text = {"num_hidden_layers": layers, "hidden_size": hidden, "intermediate_size": inner, "vocab_size": 202048}
    text |= {"num_local_experts": 16, "num_experts_per_tok": 1, "max_position_embeddings": 10485760}
    shapes: Shapes = {
        "language_model.model.embed_tokens.weight": ("BF16", (202048, hidden)),
        "language_model.lm_head.weight": ("BF16", (202048, hidden)),
    }
    for layer in range(layers):
        at = f"language_model.model.layers.{layer}."
        shapes |= {
            f"{at}feed_forward.experts.gate_up_proj": ("BF16", (16, hidden, 2 * inner)),
            f"{at}feed_forward.experts.down_proj": ("BF16", (16, inner, hidden)),
            f"{at}feed_forward.router.weight": ("BF16", (16, hidden)),
            f"{at}self_attn.q_proj.weight": ("BF16", (5120, hidden)),
            f"{at}self_attn.k_proj.weight": ("BF16", (1024, hidden)),
            f"{at}self_attn.v_proj.weight": ("BF16", (1024, hidden)),
            f"{at}self_attn.o_proj.weight": ("BF16", (hidden, 5120)),
        }
        for name, shape in (("gate", (inner, hidden)), ("up", (inner, hidden)), ("down", (hidden, inner))):
            shapes[f"{at}feed_forward.shared_expert.{name}_proj.weight"] = ("BF16", shape)
    config = {"architectures": ["Llama4ForConditionalGeneration"], "text_config": text, "vision_config": {}}
    return config | {"tie_word_embeddings": False}, shapes
