"""The smallest, and the cheapest, GPU configuration that holds a number of gigabytes. Pure: no Django, no network.

A configuration is n x one suggested GPU on one machine, n in 1, 2, 4, 8. The smallest is the one with the least total
memory; ties go to fewer GPUs; every GPU with that memory per GPU is named, in catalogue order, the cheapest priced.

Two prices, and why (DESIGN section 4). `price` is what pages compare by: n x the lowest live price per GPU-hour of
that GPU, whatever the count of the offer that has it. `rent_price` is what renting costs now: the cheapest single
offer that holds n, priced whole; only it is ever quoted. `price` may be lower, since its offer may be split or larger.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final, Protocol

COUNTS: Final = (1, 2, 4, 8)


class Priced(Protocol):
    """A GPU and what it costs, USD: `price` per GPU-hour in whole cents, `rent_prices` per hour by n, whole.

    What `catalog.queries.market().suggested` holds.
    """

    @property
    def key(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def position(self) -> int: ...
    @property
    def memory_gb(self) -> Decimal: ...
    @property
    def price(self) -> Decimal | None: ...
    @property
    def rent_prices(self) -> Mapping[int, Decimal]: ...


@dataclass(frozen=True)
class Candidate:
    """The plainest `Priced`."""

    key: str
    name: str
    position: int
    memory_gb: Decimal
    price: Decimal | None = None
    rent_prices: Mapping[int, Decimal] = field(default_factory=dict)


@dataclass(frozen=True)
class Fit:
    """What one cell of a sizing table says.

    `count` is None when nothing holds `gb`: more than one machine of eight GPUs. `gpus` are all that have the memory,
    in catalogue order; `cheapest` is the one priced, the first where none has a price. `price` and `rent_price` are
    USD per hour for all `count` GPUs, None where there is no live offer.
    """

    gb: Decimal
    count: int | None = None
    gpus: tuple[Priced, ...] = ()
    cheapest: Priced | None = None

    @property
    def holds(self) -> bool:
        return self.count is not None

    @property
    def data_gb(self) -> str:
        """For `data-gb`: the plain exact decimal."""
        return f"{self.gb:f}"

    @property
    def data_gpus(self) -> str:
        """For `data-gpus`: every name, joined by `|`."""
        return "|".join(gpu.name for gpu in self.gpus)

    @property
    def data_price(self) -> str:
        """For `data-price`: two decimals, empty where there is none."""
        return "" if self.price is None else f"{self.price:.2f}"

    @property
    def data_rent_price(self) -> str:
        """For `data-rent-price`: two decimals, empty where there is none."""
        return "" if self.rent_price is None else f"{self.rent_price:.2f}"

    @property
    def price_per_gpu(self) -> Decimal | None:
        return self.cheapest.price if self.cheapest else None

    @property
    def price(self) -> Decimal | None:
        """The price shown: `count` x the lowest live price per GPU-hour."""
        if self.count is None or self.price_per_gpu is None:
            return None
        return self.count * self.price_per_gpu

    @property
    def rent_price(self) -> Decimal | None:
        """The price to rent now: the lowest over all named GPUs of one offer that holds `count`, whole."""
        return min((price for price, _gpu in self._rentable()), default=None)

    @property
    def rent_gpu(self) -> Priced | None:
        """The GPU that `rent_price` is of; where two cost the same, the earlier in the catalogue."""
        rentable = self._rentable()
        return min(rentable, key=lambda pair: (pair[0], _order(pair[1])))[1] if rentable else None

    @property
    def rent_differs(self) -> bool:
        """Whether a page must say the price to rent beside the price shown."""
        return self.rent_price is not None and self.rent_price != self.price

    def _rentable(self) -> list[tuple[Decimal, Priced]]:
        count = self.count
        return [(gpu.rent_prices[count], gpu) for gpu in self.gpus if count is not None and count in gpu.rent_prices]


@dataclass(frozen=True)
class Saving:
    """A configuration that holds the same and costs less than the smallest one, and how much less, USD per hour."""

    fit: Fit
    saving: Decimal


def smallest(gb: Decimal, gpus: Iterable[Priced]) -> Fit:
    """The smallest configuration that holds `gb`. `position`, not the order of `gpus`, is the catalogue's."""
    gpus = sorted(gpus, key=_order)
    totals = [(n * gpu.memory_gb, n, gpu.memory_gb) for gpu in gpus for n in COUNTS if n * gpu.memory_gb >= gb]
    if not totals:
        return Fit(gb)
    _total, count, memory_gb = min(totals)
    return _fit(gb, count, [gpu for gpu in gpus if gpu.memory_gb == memory_gb])


def cheapest(gb: Decimal, gpus: Iterable[Priced]) -> Fit:
    """The configuration that holds `gb` for the least price shown; of equal ones the smaller. Unpriced: `smallest`."""
    gpus = sorted(gpus, key=_order)
    priced = [
        (n * gpu.price, n * gpu.memory_gb, n, _order(gpu), gpu)
        for gpu in gpus
        for n in COUNTS
        if gpu.price is not None and n * gpu.memory_gb >= gb
    ]
    if not priced:
        return smallest(gb, gpus)
    _price, _total, count, _position, best = min(priced, key=lambda row: row[:4])
    return _fit(gb, count, [best])


def saving(gb: Decimal, gpus: Iterable[Priced]) -> Saving | None:
    """What the cheapest configuration saves over the smallest; None where it saves nothing or there is no price."""
    gpus = list(gpus)
    small, cheap = smallest(gb, gpus), cheapest(gb, gpus)
    if small.price is None or cheap.price is None or cheap.price >= small.price:
        return None
    return Saving(cheap, small.price - cheap.price)


def _fit(gb: Decimal, count: int, gpus: list[Priced]) -> Fit:
    priced = [(gpu.price, _order(gpu), gpu) for gpu in gpus if gpu.price is not None]
    best = min(priced, key=lambda row: row[:2])[2] if priced else gpus[0]
    return Fit(gb, count, tuple(gpus), best)


def _order(gpu: Priced) -> tuple[int, str]:
    return gpu.position, gpu.key
