"""The contract of a source of offers: `read` says what can be rented, as the provider tells it, and changes nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any, Protocol


@dataclass(frozen=True)
class RawOffer:
    """One thing that can be rented, in the provider's own words.

    `external_id` is what renting it takes, unique within the provider. `raw_gpu` is matched whole against the aliases,
    with `memory_gb` per GPU where the provider says it; `gpu_id` is set only by a source that knows our own Gpu.
    `cost_per_gpu_hour` is what the provider charges us, USD, never a float. `machine_ref` names the machine, so that
    its GPUs are counted once however many offers it has; a source without machines leaves it empty and is not counted.
    """

    external_id: str
    raw_gpu: str
    gpu_count: int
    cost_per_gpu_hour: Decimal
    gpu_id: int | None = None
    memory_gb: Decimal | None = None
    machine_ref: str = ""
    fleet_host_id: int | None = None
    form_factor: str = ""
    disk_cost: Decimal = Decimal(0)
    traffic_cost: Decimal = Decimal(0)
    region: str = ""
    tier: str = ""
    reliability: Decimal | None = None
    driver: str = ""
    cuda: str = ""
    cpu: int | None = None
    ram: int | None = None
    disk: int | None = None
    net_down: int | None = None
    stock: str = ""
    rentable: bool = True
    raw: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Batch:
    """What a source saw at one time. Of a `complete` batch, what is not in it can no longer be rented."""

    seen_at: datetime
    offers: tuple[RawOffer, ...]
    complete: bool = True


class Source(Protocol):
    """A provider's offers.

    `read` returns quickly, raises `arrakis.errors.Unavailable` when the provider does not answer, and marks the batch
    incomplete when it answered in part. It never writes; `catalog.ingest.apply` does.
    """

    def read(self) -> Batch: ...
