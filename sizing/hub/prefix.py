"""The first bytes of a file, read as far as they are needed and no further."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sizing.hub.tensors import Malformed

MOST_BYTES: Final = 64 * 1024 * 1024
_STEP: Final = 16 * 1024 * 1024

Read = Callable[[int, int], bytes]
"""(start, count) -> that part of the file, shorter at its end."""


class Prefix:
    """`read` is asked for `first` bytes, then for as many again, each time that more is needed."""

    def __init__(self, read: Read, size: int, *, first: int) -> None:
        self.size = size
        self.content = bytearray()
        self._read, self._first = read, first

    def upto(self, end: int) -> bytearray:
        """The content, at least to `end`. Raises Malformed where the file, or what is read of one, ends before."""
        if end > min(self.size, MOST_BYTES):
            raise Malformed("a file that ends in its header")
        while len(self.content) < end:
            have = len(self.content)
            count = min(max(end - have, have, self._first), _STEP, self.size - have)
            part = self._read(have, count)
            if not part:
                raise Malformed("a file that ends in its header")
            self.content += part
        return self.content
