"""The header of a safetensors file. Pure.

Eight bytes hold its length, then JSON names each tensor with dtype, shape and offsets
(https://huggingface.co/docs/safetensors/index#format).
"""

from __future__ import annotations

import json
from math import prod
from typing import Any, Final

from sizing.hub.tensors import BITS, Malformed, Tensor

LONGEST_HEADER: Final = 32 * 1024 * 1024
MOST_ELEMENTS: Final = 10**15


def header_length(start: bytes, file_size: int) -> int:
    """Bytes of the JSON after the first eight. Raises Malformed."""
    length = int.from_bytes(start[:8], "little")
    if len(start) < 8 or not 2 <= length <= min(LONGEST_HEADER, file_size - 8):
        raise Malformed("length of the header")
    return length


def read_header(content: bytes, file_size: int) -> list[Tensor]:
    """The tensors, of a file's first bytes. Offsets must lie in the file and fit shape and dtype. Raises Malformed."""
    length = header_length(content, file_size)
    if len(content) < 8 + length:
        raise Malformed("a short header")
    try:
        listed = json.loads(content[8 : 8 + length])
    except (ValueError, RecursionError) as error:
        raise Malformed("a header that is no JSON") from error
    if not isinstance(listed, dict):
        raise Malformed("a header that is no object")
    room = file_size - 8 - length
    return [_tensor(name, entry, room) for name, entry in listed.items() if name != "__metadata__"]


def _tensor(name: str, entry: Any, room: int) -> Tensor:
    try:
        dtype, shape, (start, end) = str(entry["dtype"]), tuple(entry["shape"]), entry["data_offsets"]
        bits = BITS[dtype]
    except (KeyError, TypeError, ValueError) as error:
        raise Malformed(name) from error
    if not all(type(each) is int and 0 <= each <= MOST_ELEMENTS for each in (*shape, start, end)):
        raise Malformed(name)
    elements = prod(shape)
    if elements > MOST_ELEMENTS or not start <= end <= room or (elements * bits + 7) // 8 != end - start:
        raise Malformed(name)
    return Tensor(name, dtype, shape, end - start)
