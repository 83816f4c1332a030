"""Bits that a weight takes in each precision, its scales included. Pure.

GGUF mixtures: bits per weight of whole files as llama.cpp measures them on Llama 3.1 8B (its `tools/quantize/README.md`
at 311c2c9); a model of another shape differs by some per cent, so the size of the file itself is used where it is
known. That table does not tell Q3_K_M. Block formats: ggml's `ggml-common.h`, bytes of a block over its weights.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Final, Literal

Precision = str
"""`published`, `16`, `8`, `4`, or the name of a GGUF quant such as `Q4_K_M`."""

GGUF: Final[dict[str, Fraction]] = {
    name: Fraction(bits)
    for name, bits in {
        "IQ1_S": "2.0042",
        "IQ1_M": "2.1460",
        "IQ2_XXS": "2.3824",
        "IQ2_XS": "2.5882",
        "IQ2_S": "2.7403",
        "IQ2_M": "2.9294",
        "IQ3_XXS": "3.2548",
        "IQ3_XS": "3.4977",
        "IQ3_S": "3.6606",
        "IQ3_M": "3.7628",
        "IQ4_XS": "4.4597",
        "IQ4_NL": "4.6818",
        "Q2_K_S": "2.9697",
        "Q2_K": "3.1593",
        "Q3_K_S": "3.6429",
        "Q3_K_L": "4.2979",
        "Q4_K_S": "4.6672",
        "Q4_K_M": "4.8944",
        "Q5_K_S": "5.5704",
        "Q5_K_M": "5.7036",
        "Q6_K": "6.5633",
        "Q8_0": "8.5008",
        "F16": "16.0005",
        "BF16": "16.0005",
    }.items()
}

CACHE: Final[dict[str, Fraction]] = {
    "f32": Fraction(4),
    "f16": Fraction(2),
    "bf16": Fraction(2),
    "fp8": Fraction(1),
    "q8_0": Fraction(34, 32),
    "q5_1": Fraction(24, 32),
    "q5_0": Fraction(22, 32),
    "q4_1": Fraction(20, 32),
    "q4_0": Fraction(18, 32),
    "iq4_nl": Fraction(18, 32),
}
"""Bytes of one cached number."""

_LINEAR: Final = {
    "16": Fraction(16),
    # One 32-bit scale for each block of 128 x 128 weights (DeepSeek-V3, arXiv:2412.19437, section 3.3.2).
    "8": 8 + Fraction(32, 128 * 128),
    # AWQ and GPTQ: for each group of 128 weights a 16-bit scale and a 4-bit zero point (arXiv:2306.00978).
    "4": 4 + Fraction(16 + 4, 128),
}


class UnknownPrecision(ValueError):
    """Neither a number of bits that we size nor a GGUF quant."""


def weight_bytes(params: int, kept: int, precision: Precision) -> int:
    """Bytes of `params` weights, of which `kept` (token table and output head) stay in 16 bits outside GGUF.

    Raises UnknownPrecision.
    """
    if bits := GGUF.get(precision.upper()):
        return round(params * bits / 8)
    if (linear := _LINEAR.get(precision)) is None:
        raise UnknownPrecision(precision)
    kept = min(kept, params)
    return round(((params - kept) * linear + kept * 16) / 8)


def cache_bytes(dtype: str) -> Fraction:
    """Bytes of one cached number: `auto` is 16 bits. Raises UnknownPrecision."""
    name = dtype.lower()
    if name in {"auto", "bfloat16", "float16", "half"}:
        return Fraction(2)
    if name.startswith("fp8"):
        return Fraction(1)
    if name not in CACHE:
        raise UnknownPrecision(dtype)
    return CACHE[name]


Engine = Literal["vllm", "sglang", "llamacpp", "transformers"]
