"""A deployment's own limits, read from its JSON: `usd` (a decimal string) and `stop_at` (ISO 8601 with an offset)."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from deploy import windows
from deploy.models import Deployment

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Limits:
    usd: Decimal | None = None
    stop_at: datetime | None = None

    @classmethod
    def of(cls, deployment: Deployment) -> Limits:
        """What cannot be read is logged and does not limit: one bad row must not stop everybody's metering."""
        try:
            return cls(_usd(deployment.limits), _stop_at(deployment.limits))
        except (ValueError, TypeError, InvalidOperation):
            logger.error("deployment %s has limits that cannot be read", deployment.pk)
            return cls()

    def seconds_left(self, price_per_hour: Decimal, spent: Decimal) -> int | None:
        """Whole seconds until `usd` is spent; None without that limit."""
        return None if self.usd is None else windows.affordable_seconds(price_per_hour, self.usd - spent)

    def seconds_to_stop(self, since: datetime) -> int:
        """How long a window from `since` may be so that little of it lies after `stop_at`; never under the shortest."""
        if self.stop_at is None:
            return windows.LONGEST_SECONDS
        return max(windows.seconds_between(since, self.stop_at), windows.SHORTEST_SECONDS)


def _usd(limits: dict[str, Any]) -> Decimal | None:
    if (value := limits.get("usd")) is None:
        return None
    usd = Decimal(str(value))
    if not usd.is_finite():
        raise ValueError("not an amount")
    return usd


def _stop_at(limits: dict[str, Any]) -> datetime | None:
    if (value := limits.get("stop_at")) is None:
        return None
    moment = datetime.fromisoformat(value)
    if moment.tzinfo is None:
        raise ValueError("a time without an offset")
    return moment
