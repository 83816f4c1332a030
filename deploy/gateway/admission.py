"""How much at once: requests in all, of one key, at one deployment; bytes in all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from deploy.gateway.errors import Refused
from deploy.gateway.routes import Key

REQUESTS_MOST: Final = 8_192
DEPLOYMENT_MOST: Final = 2_048
BODIES_MOST_BYTES: Final = 512 * 1024 * 1024


class Admission:
    def __init__(self) -> None:
        self.total = 0
        self.bytes = 0
        self._keys: Counter[str] = Counter()
        self._deployments: Counter[str] = Counter()

    @contextmanager
    def key(self, key: Key) -> Iterator[None]:
        """A place for one request of that key. Refused: overloaded, too_many_requests."""
        if self.total >= REQUESTS_MOST:
            raise Refused("overloaded")
        if self._keys[key.id] >= key.at_once:
            raise Refused("too_many_requests", most=key.at_once)
        self.total += 1
        self._keys[key.id] += 1
        try:
            yield
        finally:
            self.total -= 1
            _down(self._keys, key.id)

    @contextmanager
    def body(self) -> Iterator[Callable[[int], None]]:
        """Room for a body, taken as it arrives by calling what this gives. Refused: overloaded."""
        taken = 0

        def take(size: int) -> None:
            nonlocal taken
            if self.bytes + size > BODIES_MOST_BYTES:
                raise Refused("overloaded")
            taken += size
            self.bytes += size

        try:
            yield take
        finally:
            self.bytes -= taken

    @contextmanager
    def deployment(self, deployment: str) -> Iterator[None]:
        """A place at that deployment. Refused: overloaded."""
        if self._deployments[deployment] >= DEPLOYMENT_MOST:
            raise Refused("overloaded")
        self._deployments[deployment] += 1
        try:
            yield
        finally:
            _down(self._deployments, deployment)


def _down(counter: Counter[str], which: str) -> None:
    counter[which] -= 1
    if counter[which] <= 0:
        del counter[which]
