"""How long to wait before trying again. Pure."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(slots=True)
class Backoff:
    """Twice as long each time up to `most` seconds, spread over half of it so that many do not come at once."""

    first: float = 0.5
    most: float = 30.0
    _tries: int = 0

    def next(self) -> float:
        """Seconds to wait now."""
        full = min(self.most, self.first * 2 ** min(self._tries, 30))
        self._tries += 1
        return random.uniform(full / 2, full)  # noqa: S311  (spreads load, guards nothing)

    def reset(self) -> None:
        """It worked: begin again with the first."""
        self._tries = 0
