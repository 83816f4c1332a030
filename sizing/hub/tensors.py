"""Tensors as a checkpoint's headers tell them. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Final

BITS: Final = {
    **dict.fromkeys(("F64", "I64", "U64", "C64"), 64),
    **dict.fromkeys(("F32", "I32", "U32"), 32),
    **dict.fromkeys(("F16", "BF16", "I16", "U16"), 16),
    **dict.fromkeys(("I8", "U8", "BOOL", "F8_E4M3", "F8_E5M2", "F8_E4M3FNUZ", "F8_E5M2FNUZ", "F8_E8M0"), 8),
    **dict.fromkeys(("F6_E2M3", "F6_E3M2"), 6),
    **dict.fromkeys(("F4", "I4", "U4"), 4),
}
"""Bits of one element as the safetensors format numbers them."""


class Malformed(ValueError):
    """A file is not what its name says."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """`dtype` as stored (safetensors' names, or ggml's); `nbytes` what it takes in the file."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    nbytes: int

    @property
    def elements(self) -> int:
        return prod(self.shape)
