"""The smallest and the cheapest GPU configuration on which a plan holds, and why each other was dropped. Pure.

`sizing.fit` does this for a number of gigabytes by the vendor's; here each configuration is planned by the memory that
its machine reports.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from sizing.architecture import Architecture
from sizing.facts import ModelFacts
from sizing.plan import RANKS, Machine, Plan, Reason, Serving, plan

Dropped = Literal["larger", "dearer"] | Reason


@dataclass(frozen=True, slots=True)
class Gpu:
    """`memory_mib` as a machine reports it; `price` of one, USD per hour, None where there is no live offer."""

    key: str
    memory_mib: int
    position: int
    price: Decimal | None = None


@dataclass(frozen=True, slots=True)
class Configuration:
    gpu: Gpu
    count: int
    plan: Plan

    @property
    def memory_mib(self) -> int:
        return self.count * self.gpu.memory_mib

    @property
    def price(self) -> Decimal | None:
        return None if self.gpu.price is None else self.count * self.gpu.price


@dataclass(frozen=True, slots=True)
class Choice:
    """`dropped` tells of each that is neither: why it does not hold, else that it is dearer, or unpriced and larger."""

    smallest: Configuration | None
    cheapest: Configuration | None
    dropped: tuple[tuple[Configuration, Dropped], ...]

    @property
    def saving(self) -> Decimal | None:
        """USD per hour that the cheapest saves over the smallest; None where it saves nothing."""
        if self.smallest is None or self.cheapest is None:
            return None
        small, cheap = self.smallest.price, self.cheapest.price
        return small - cheap if small is not None and cheap is not None and cheap < small else None


def choose(facts: ModelFacts, architecture: Architecture, gpus: Iterable[Gpu], serving: Serving) -> Choice:
    """Among 1, 2, 4 and 8 of each GPU. Ties: fewer GPUs, then the catalogue's order. Raises UnknownPrecision."""
    planned = [
        Configuration(gpu, count, plan(facts, architecture, Machine(gpu.memory_mib, count), serving))
        for gpu in gpus
        for count in RANKS
    ]
    holding = [each for each in planned if each.plan.holds]
    small = min(holding, key=_size, default=None)
    priced = [each for each in holding if each.price is not None]
    cheap = min(priced, key=lambda each: (each.price or Decimal(0), *_size(each)), default=None)
    chosen = {id(small), id(cheap)}
    dropped = tuple((each, _why(each)) for each in planned if id(each) not in chosen)
    return Choice(small, cheap, dropped)


def _why(configuration: Configuration) -> Dropped:
    if configuration.plan.reason is not None:
        return configuration.plan.reason
    return "larger" if configuration.price is None else "dearer"


def _size(configuration: Configuration) -> tuple[int, int, int, str]:
    return configuration.memory_mib, configuration.count, configuration.gpu.position, configuration.gpu.key
