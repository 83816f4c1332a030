"""The rules of thumb: how much GPU memory a model needs, from its parameter count alone. Pure: no Django, no network.

Memory is in decimal gigabytes (10^9 bytes), and P is the parameter count in billions, so P parameters of 2 bytes
are P x 2 GB. All experts of a mixture-of-experts model stay in memory: P is the total, not the active count.

    serve-16, serve-8, serve-4   P x 2, 1, 0.5 for the weights, times 1.2 for the KV cache and activations of a
                                 moderate context and batch
    qlora                        P x 0.7: a 65B model fine-tuned on one 48 GB GPU (QLoRA, arXiv:2305.14314)
    lora                         P x 2 x 1.2: the 16-bit weights stay, the adapters and their states are small
    full                         P x 16: weights, gradients and Adam's states in mixed precision
                                 (ZeRO, arXiv:1910.02054, section 3.1)

Activations of a training run, which grow with batch and sequence, are not in.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final, Literal

Mode = Literal["serve-16", "serve-8", "serve-4", "qlora", "lora", "full"]

SERVING_MARGIN: Final = Decimal("1.2")
GB_PER_BILLION: Final[dict[Mode, Decimal]] = {
    "serve-16": 2 * SERVING_MARGIN,
    "serve-8": 1 * SERVING_MARGIN,
    "serve-4": Decimal("0.5") * SERVING_MARGIN,
    "qlora": Decimal("0.7"),
    "lora": 2 * SERVING_MARGIN,
    "full": Decimal(16),
}
"""GB of memory per billion parameters, in the order pages show the modes."""

MODES: Final[tuple[Mode, ...]] = tuple(GB_PER_BILLION)
SERVING: Final[tuple[Mode, ...]] = ("serve-16", "serve-8", "serve-4")
TUNING: Final[tuple[Mode, ...]] = ("qlora", "lora", "full")

_SPOKEN_SIZE = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,6})?)\s*([KMBT])", re.IGNORECASE)
_IN_BILLIONS = {"K": Decimal("1e-6"), "M": Decimal("1e-3"), "B": Decimal(1), "T": Decimal(1000)}


def requirements(params_billion: Decimal | int) -> dict[Mode, Decimal]:
    """GB needed in each mode, exact and in the order pages show them.

    >>> requirements(Decimal("753.3"))["serve-16"]
    Decimal('1807.92')

    Raises TypeError for a float and ValueError for a model of no or negative size.
    """
    if isinstance(params_billion, bool) or not isinstance(params_billion, Decimal | int):
        raise TypeError(f"parameters in billions are a Decimal or an int, not {type(params_billion).__name__}")
    billions = Decimal(params_billion)
    if not billions.is_finite() or billions <= 0:
        raise ValueError("a model has more than no parameters")
    return {mode: plain(billions * factor) for mode, factor in GB_PER_BILLION.items()}


def billions(params_total: int) -> Decimal:
    """A whole count of parameters in billions, exact: 8030261248 -> 8.030261248."""
    return plain(Decimal(params_total).scaleb(-9))


def parse_size(text: str) -> Decimal | None:
    """`70B`, `7.6b`, `135M`, `1.06T` in billions; None for anything else, such as a repository."""
    match = _SPOKEN_SIZE.fullmatch(text.strip())
    if match is None:
        return None
    size = plain(Decimal(match[1]) * _IN_BILLIONS[match[2].upper()])
    return size if size > 0 else None


def plain(value: Decimal) -> Decimal:
    """The same number without needless zeros: `1807.92`, `168`. Format it with `f` where an exponent may not show."""
    value = value.normalize()
    return value.quantize(Decimal(1)) if value == value.to_integral_value() else value
