"""Cost -> price. Pure: no Django, no network.

Costs and prices are USD per GPU-hour. A price is rounded half up to cents before anything is multiplied by it, so that
n GPUs cost exactly n times what one is said to cost. Of the rules whose scope covers the offer, a fixed price wins over
a margin, then the rule with the most of its scope filled in; of two that fill in as much, the one for a GPU, then for a
provider, a count, a region. No two active rules share a scope (the database keeps that), so the order in which rules
are given never matters. Without a rule the price is the cost.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from typing import Final

CENT: Final = Decimal("0.01")


@dataclass(frozen=True)
class Scope:
    """What is priced: an offer of `gpu_count` GPUs, by the database ids of its GPU and provider."""

    gpu: int
    gpu_count: int
    provider: int
    region: str


@dataclass(frozen=True)
class Rule:
    """A PriceRule that is active now. A scope field that is None covers all; `fixed` excludes `percent` and `add`."""

    id: int
    gpu: int | None = None
    gpu_count: int | None = None
    provider: int | None = None
    region: str | None = None
    fixed: Decimal | None = None
    percent: Decimal | None = None
    add: Decimal | None = None
    floor: Decimal | None = None
    below_cost_ok: bool = False

    def covers(self, scope: Scope) -> bool:
        return (
            self.gpu in (None, scope.gpu)
            and self.gpu_count in (None, scope.gpu_count)
            and self.provider in (None, scope.provider)
            and self.region in (None, scope.region)
        )

    @property
    def rank(self) -> tuple[bool, int, bool, bool, bool, bool]:
        """Greater wins."""
        filled = (
            self.gpu is not None,
            self.provider is not None,
            self.gpu_count is not None,
            self.region is not None,
        )
        return (self.fixed is not None, sum(filled), *filled)


def cents(amount: Decimal) -> Decimal:
    """Rounded half up to whole cents."""
    return amount.quantize(CENT, rounding=ROUND_HALF_UP)


def price(cost: Decimal, scope: Scope, rules: Iterable[Rule]) -> Decimal:
    """The price per GPU-hour of an offer that costs `cost` per GPU-hour: whole cents, at least one."""
    rule = max((rule for rule in rules if rule.covers(scope)), key=lambda rule: rule.rank, default=None)
    return max(cents(cost if rule is None else _by_rule(cost, rule)), CENT)


def _by_rule(cost: Decimal, rule: Rule) -> Decimal:
    if rule.fixed is not None:
        asked = rule.fixed
    else:
        asked = cost * (1 + (rule.percent or Decimal(0)) / 100) + (rule.add or Decimal(0))
    if rule.floor is not None:
        asked = max(asked, rule.floor)
    return asked if rule.below_cost_ok else max(asked, cost)
