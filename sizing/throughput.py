"""A roofline estimate of decoding, and the price of a million tokens by it. Pure.

Decoding reads the weights that work on the batch once a step, and the cache of each request: memory bandwidth is the
limit, not arithmetic (arXiv:2211.05102, section 2). 0.6 of the vendor's bandwidth is what kernels reach in practice; an
estimate, to be shown as one.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from sizing.architecture import Architecture
from sizing.facts import ModelFacts
from sizing.plan import Plan

REACHED: Final = 0.6
_MILLION: Final = 1_000_000


def tokens_per_second(
    facts: ModelFacts, architecture: Architecture, planned: Plan, *, concurrency: int, bandwidth_gb_s: int
) -> float:
    """Of all requests together. `bandwidth_gb_s` is one GPU's, in 10^9 bytes a second. Raises ValueError for none."""
    if concurrency < 1 or bandwidth_gb_s < 1:
        raise ValueError("decoding needs a request and some bandwidth")
    read = planned.weights * _working(facts, architecture, concurrency) + planned.cache + planned.state
    return concurrency * bandwidth_gb_s * 10**9 * REACHED / read if read else 0.0


def _working(facts: ModelFacts, architecture: Architecture, concurrency: int) -> float:
    """The part of the weights that a step reads: with more requests more experts are chosen by one of them."""
    active, experts, chosen = facts.params_active, architecture.experts, architecture.experts_per_token
    if not active or not experts or not chosen or active >= facts.params_total or chosen >= experts:
        return 1.0
    routed = (facts.params_total - active) / (1 - chosen / experts)
    touched = 1 - (1 - chosen / experts) ** concurrency
    return (facts.params_total - routed + routed * touched) / facts.params_total


def price_per_million(price_per_hour: Decimal, tokens_a_second: float) -> Decimal | None:
    """USD for a million decoded tokens, to the cent's hundredth; None where nothing is decoded."""
    tokens = int(tokens_a_second * 3600)
    if tokens <= 0:
        return None
    return (price_per_hour * _MILLION / tokens).quantize(Decimal("0.0001"))
