"""How many weights a stored tensor holds, and in what precision, by the tensors that stand beside it. Pure.

The layouts: AWQ and GPTQ (`qweight`, `qzeros`, `scales`, `g_idx`), compressed-tensors (`weight_packed`,
`weight_scale`, `weight_shape`), gpt-oss (`*_blocks`, `*_scales`), ModelOpt (`weight` in uint8 with `weight_scale`,
`weight_scale_2`), bitsandbytes (`weight.absmax`, `weight.quant_state...`, `SCB`), MLX (uint32 `weight`, `scales`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from sizing.hub.tensors import BITS, Tensor

_HELPERS: Final = re.compile(
    r"(?:^|[._])(?:scales?|scale_inv|scale_2|qscales?|qzeros|g_idx|perm|invperm|biases|zeros|zero_point|weight_shape|"
    r"weight_g_idx|weight_scale|weight_scale_inv|weight_scale_2|weight_zero_point|weight_global_scale|global_scale|"
    r"(?:input|output|activation|k|v|q|attn|prob)_(?:global_)?(?:scale|zero_point)(?:_inv|_ub)?|"
    r"k_proj\.(?:k|output)_scale|v_proj\.(?:v|output)_scale|weight_format|SCB|absmax|quant_map|nested_absmax|"
    r"nested_quant_map|quant_state\.\w+|weights?_scaling_factor(?:_2)?|activation_scaling_factor|pre_quant_scale)$"
)
_FLOATS: Final = frozenset({"F64", "F32", "F16", "BF16"})
_PLAIN_NAMES: Final = {"F16": "FP16", "F32": "FP32", "F64": "FP64", "F4": "FP4"}
_GROUP_OF_MLX: Final = 64


class UnknownPacking(ValueError):
    """Integers that no known layout explains."""


def precision(dtype: str) -> str:
    """`F8_E4M3` -> `FP8`, `I8` -> `INT8`, `BF16` -> `BF16`."""
    if dtype.startswith(("F8", "F6")):
        return f"FP{dtype[1]}"
    if dtype in {"I8", "U8", "I4", "U4"}:
        return f"INT{dtype[1]}"
    return _PLAIN_NAMES.get(dtype, dtype)


class Packing:
    """The layout of one quantised checkpoint: its tensors by name, and what its config says."""

    def __init__(self, tensors: Mapping[str, Tensor], quantization: Mapping[str, Any]) -> None:
        self._tensors = tensors
        self._said = quantization

    def is_helper(self, tensor: Tensor) -> bool:
        """Whether it serves another tensor's weights, and holds none itself."""
        return bool(_HELPERS.search(tensor.name)) and not tensor.name.endswith("_blocks")

    def weights(self, tensor: Tensor) -> tuple[int, str]:
        """How many, and in what precision. Raises UnknownPacking."""
        module, _, last = tensor.name.rpartition(".")
        if tensor.dtype in _FLOATS:
            return tensor.elements, precision(tensor.dtype)
        if last == "qweight" and tensor.dtype in {"I32", "U32"}:
            return self._integers(tensor, self._bits_of_qweight(tensor, module))
        if last == "weight_packed":
            return self._compressed(tensor, module)
        if last.endswith("_blocks") and tensor.dtype == "U8":
            return tensor.elements * 2, self._four_bits(tensor.name.removesuffix("_blocks") + "_scales")
        if tensor.dtype in {"U32", "I32"} and (scales := self._beside(module, "scales", last)):
            return self._integers(tensor, self._bits_of_mlx(tensor, scales, module))
        if tensor.dtype in {"U8", "I8"}:
            return self._bytes(tensor, module, last)
        if tensor.dtype.startswith("F"):
            return tensor.elements, precision(tensor.dtype)
        raise UnknownPacking(tensor.name)

    def _integers(self, tensor: Tensor, bits: int) -> tuple[int, str]:
        if not 1 <= bits <= 8:
            raise UnknownPacking(tensor.name)
        return tensor.elements * BITS[tensor.dtype] // bits, f"INT{bits}"

    def _bits_of_qweight(self, qweight: Tensor, module: str) -> int:
        """From the shapes where they tell (a checkpoint may mix widths), else from the config."""
        rows, columns = qweight.shape[-2:] if len(qweight.shape) >= 2 else (0, 0)
        scales, order = self._tensors.get(f"{module}.scales"), self._tensors.get(f"{module}.g_idx")
        if scales is not None and rows and columns:
            if _width(scales) > columns:  # AWQ packs the outputs
                return 32 * columns // _width(scales)
            if order is not None and order.elements:  # GPTQ packs the inputs
                return 32 * rows // order.elements
        return self._said_bits(qweight.name)

    def _compressed(self, packed: Tensor, module: str) -> tuple[int, str]:
        if packed.dtype == "U8":
            return packed.elements * 2, self._four_bits(f"{module}.weight_scale")
        if packed.dtype not in {"I32", "U32"}:
            raise UnknownPacking(packed.name)
        widths = {bits for group in self._groups() if type(bits := group.get("num_bits")) is int}
        if len(widths) == 1:
            return self._integers(packed, widths.pop())
        scale = self._tensors.get(f"{module}.weight_scale")
        sizes = {size for group in self._groups() if type(size := group.get("group_size")) is int and size > 0}
        if scale is not None and _width(scale) and len(sizes) == 1:
            return self._integers(packed, 32 * _width(packed) // (_width(scale) * sizes.pop()))
        raise UnknownPacking(packed.name)

    def _groups(self) -> list[Mapping[str, Any]]:
        groups = self._said.get("config_groups")
        listed = groups.values() if isinstance(groups, Mapping) else ()
        return [g["weights"] for g in listed if isinstance(g, Mapping) and isinstance(g.get("weights"), Mapping)]

    def _bits_of_mlx(self, weight: Tensor, scales: Tensor, module: str) -> int:
        own = self._said.get(module)
        place = own if isinstance(own, Mapping) else self._said
        size = place.get("group_size", _GROUP_OF_MLX)
        if type(size) is not int or size < 1 or not _width(scales):
            raise UnknownPacking(weight.name)
        return 32 * _width(weight) // (_width(scales) * size)

    def _bytes(self, tensor: Tensor, module: str, last: str) -> tuple[int, str]:
        """An 8-bit tensor: two 4-bit weights in each byte where its neighbours say so, else one."""
        if any(name.startswith(f"{tensor.name}.quant_state.") for name in self._states(tensor)):
            nf4 = any("nf4" in name for name in self._states(tensor))
            return tensor.elements * 2, "NF4" if nf4 else "FP4"
        scale = self._block_scale(tensor, module, last)
        if scale is not None and _width(tensor) // _width(scale) in {8, 16}:
            # A scale for 16 weights (NVFP4) or 32 (MXFP4), two of them to the byte.
            return tensor.elements * 2, self._four_bits(scale.name)
        if tensor.dtype == "I8" or f"{module}.SCB" in self._tensors:
            return tensor.elements, "INT8"
        raise UnknownPacking(tensor.name)

    def _block_scale(self, tensor: Tensor, module: str, last: str) -> Tensor | None:
        names = [f"{tensor.name}_scale", f"{tensor.name}_weight_scale"]
        if last == "weight":
            names.append(f"{module}.scale")
        for found in filter(None, map(self._tensors.get, names)):
            if found.dtype in {"F8_E4M3", "F8_E8M0", "U8"} and _width(found):
                return found
        return None

    def _states(self, tensor: Tensor) -> list[str]:
        names = (f"{tensor.name}.quant_state.bitsandbytes__{kind}" for kind in ("nf4", "fp4"))
        return [name for name in names if name in self._tensors]

    def _beside(self, module: str, name: str, last: str) -> Tensor | None:
        return self._tensors.get(f"{module}.{name}") if last == "weight" else None

    def _four_bits(self, scales: str) -> str:
        """Scales in E4M3 are NVFP4's, in E8M0 (or bytes) MXFP4's."""
        found = self._tensors.get(scales)
        return "NVFP4" if found is not None and found.dtype == "F8_E4M3" else "MXFP4"

    def _said_bits(self, name: str) -> int:
        for key in ("bits", "w_bit", "num_bits"):
            if type(bits := self._said.get(key)) is int:
                return bits
        raise UnknownPacking(name)


def _width(tensor: Tensor) -> int:
    """Its last dimension; 0 for a scalar."""
    return tensor.shape[-1] if tensor.shape else 0
