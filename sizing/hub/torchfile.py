"""Weights of a PyTorch .bin file, told from the pickle at its start without ever running it. Pure.

Since PyTorch 1.6 the file is a zip whose first entry, uncompressed, is `data.pkl`: it names each storage with its
class, key and length (torch/serialization.py, `persistent_id`). Tensors that share a storage are stored once.
"""

from __future__ import annotations

import pickletools
import struct
from collections import Counter
from typing import Any, Final

from sizing.hub.prefix import Prefix
from sizing.hub.tensors import Malformed, Tensor

FIRST_BYTES: Final = 256 * 1024
_LOCAL_HEADER: Final = struct.Struct("<4s5H3L2H")
_DTYPES: Final = {
    "FloatStorage": "F32",
    "HalfStorage": "F16",
    "BFloat16Storage": "BF16",
    "DoubleStorage": "F64",
    "CharStorage": "I8",
    "ByteStorage": "U8",
    "ShortStorage": "I16",
    "IntStorage": "I32",
    "LongStorage": "I64",
    "BoolStorage": "BOOL",
}
_SIZES: Final = {"F32": 4, "F16": 2, "BF16": 2, "F64": 8, "I8": 1, "U8": 1, "I16": 2, "I32": 4, "I64": 8, "BOOL": 1}
_NUMBERS: Final = frozenset({"BININT", "BININT1", "BININT2", "LONG1", "INT", "LONG"})


def read_storages(prefix: Prefix) -> list[Tensor]:
    """One tensor a storage, named by its key. Raises Malformed, for files of before 1.6 too."""
    size, start = _first_entry(prefix)
    content = bytes(prefix.upto(start + size)[start : start + size]) if size else _streamed(prefix, start)
    try:
        return _storages(content)
    except (ValueError, IndexError, UnicodeError, struct.error) as error:
        raise Malformed("data.pkl") from error


def _first_entry(prefix: Prefix) -> tuple[int, int]:
    """Size and place of data.pkl; the size is 0 where the archive was written as a stream and tells it later."""
    fields = _LOCAL_HEADER.unpack(bytes(prefix.upto(_LOCAL_HEADER.size)[: _LOCAL_HEADER.size]))
    magic, method, packed, name_length, extra_length = fields[0], fields[3], fields[7], fields[9], fields[10]
    start = _LOCAL_HEADER.size + name_length + extra_length
    name = bytes(prefix.upto(start)[_LOCAL_HEADER.size : _LOCAL_HEADER.size + name_length])
    if magic != b"PK\x03\x04" or method != 0 or not name.endswith(b"/data.pkl"):
        raise Malformed("no PyTorch file of 1.6 or later")
    return packed, start


def _streamed(prefix: Prefix, start: int) -> bytes:
    """All that one reading brings: a pickle tells by itself where it ends."""
    return bytes(prefix.upto(min(prefix.size, start + 16 * FIRST_BYTES))[start:])


def _storages(content: bytes) -> list[Tensor]:
    found: dict[str, Tensor] = {}
    recent: list[Any] = []
    memo: dict[int, Any] = {}
    argument: Any
    for opcode, argument, _place in pickletools.genops(content):
        if opcode.name in {"BINPUT", "LONG_BINPUT"}:
            memo[argument] = recent[-1] if recent else None
        elif opcode.name == "MEMOIZE":
            memo[len(memo)] = recent[-1] if recent else None
        elif opcode.name in {"BINGET", "LONG_BINGET"}:
            recent.append(memo.get(argument))
        elif opcode.name == "GLOBAL" or opcode.name in _NUMBERS or "UNICODE" in opcode.name:
            recent.append(argument)
        elif opcode.name == "TUPLE":
            recent.append(("tuple", tuple(recent[-4:])))
        elif opcode.name == "BINPERSID":
            tensor = _storage(recent)
            found[tensor.name] = tensor
        del recent[:-8]
    return list(found.values())


def _storage(recent: list[Any]) -> Tensor:
    """Of the last (class, key, location, length) before a persistent id."""
    last: tuple[Any, ...] = next((each[1] for each in reversed(recent) if isinstance(each, tuple)), ())
    if len(last) != 4:
        raise Malformed("a storage of data.pkl")
    kind, key, _location, length = last
    dtype = _DTYPES.get(str(kind).rpartition(" ")[2])
    if dtype is None or type(length) is not int or length < 0:
        raise Malformed("a storage of data.pkl")
    return Tensor(str(key), dtype, (length,), length * _SIZES[dtype])


def by_dtype(tensors: list[Tensor]) -> Counter[str]:
    """Elements of each dtype."""
    found: Counter[str] = Counter()
    for tensor in tensors:
        found[tensor.dtype] += tensor.elements
    return found
