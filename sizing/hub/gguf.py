"""The header of a GGUF file: metadata and tensors. Pure.

Layout: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md; block sizes: ggml-common.h, ggml.h.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from sizing.hub.prefix import Prefix
from sizing.hub.tensors import Malformed, Tensor

FIRST_BYTES: Final = 2 * 1024 * 1024
MOST_TENSORS: Final = 200_000
MOST_KEYS: Final = 10_000
_LONGEST_KEPT: Final = 4096
"""Elements of an array that are kept; a vocabulary is skipped, heads of each layer are not."""
_MOST_ELEMENTS: Final = 10**15

# id: (name, weights of one block, bytes of one block)
TYPES: Final[Mapping[int, tuple[str, int, int]]] = {
    0: ("F32", 1, 4),
    1: ("F16", 1, 2),
    2: ("Q4_0", 32, 18),
    3: ("Q4_1", 32, 20),
    6: ("Q5_0", 32, 22),
    7: ("Q5_1", 32, 24),
    8: ("Q8_0", 32, 34),
    9: ("Q8_1", 32, 36),
    10: ("Q2_K", 256, 84),
    11: ("Q3_K", 256, 110),
    12: ("Q4_K", 256, 144),
    13: ("Q5_K", 256, 176),
    14: ("Q6_K", 256, 210),
    15: ("Q8_K", 256, 292),
    16: ("IQ2_XXS", 256, 66),
    17: ("IQ2_XS", 256, 74),
    18: ("IQ3_XXS", 256, 98),
    19: ("IQ1_S", 256, 50),
    20: ("IQ4_NL", 32, 18),
    21: ("IQ3_S", 256, 110),
    22: ("IQ2_S", 256, 82),
    23: ("IQ4_XS", 256, 136),
    24: ("I8", 1, 1),
    25: ("I16", 1, 2),
    26: ("I32", 1, 4),
    27: ("I64", 1, 8),
    28: ("F64", 1, 8),
    29: ("IQ1_M", 256, 56),
    30: ("BF16", 1, 2),
    34: ("TQ1_0", 256, 54),
    35: ("TQ2_0", 256, 66),
    39: ("MXFP4", 32, 17),
    40: ("NVFP4", 64, 36),
}
_SCALARS: Final = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING: Final = 8
_ARRAY: Final = 9
# llama_ftype of llama.h: what a file calls itself.
FILE_TYPES: Final[Mapping[int, str]] = {
    0: "F32",
    1: "F16",
    2: "Q4_0",
    3: "Q4_1",
    7: "Q8_0",
    8: "Q5_0",
    9: "Q5_1",
    10: "Q2_K",
    11: "Q3_K_S",
    12: "Q3_K_M",
    13: "Q3_K_L",
    14: "Q4_K_S",
    15: "Q4_K_M",
    16: "Q5_K_S",
    17: "Q5_K_M",
    18: "Q6_K",
    19: "IQ2_XXS",
    20: "IQ2_XS",
    24: "IQ1_S",
    25: "IQ4_NL",
    30: "IQ4_XS",
    32: "BF16",
    38: "MXFP4",
}


@dataclass(frozen=True, slots=True)
class Header:
    metadata: Mapping[str, Any]
    tensors: tuple[Tensor, ...]

    @property
    def architecture(self) -> str:
        found = self.metadata.get("general.architecture")
        return found if isinstance(found, str) else ""

    def number(self, name: str) -> int | None:
        """A count of this architecture, such as `context_length`; the largest where each layer has its own."""
        value = self.metadata.get(f"{self.architecture}.{name}")
        if isinstance(value, list):
            value = max((each for each in value if type(each) is int), default=None)
        return value if type(value) is int and value > 0 else None

    @property
    def file_type(self) -> str:
        number = self.metadata.get("general.file_type")
        return FILE_TYPES.get(number, "") if type(number) is int else ""


def read_header(prefix: Prefix) -> Header:
    """Raises Malformed."""
    return _Parser(prefix).header()


class _Parser:
    def __init__(self, prefix: Prefix) -> None:
        self._prefix, self._at = prefix, 0

    def header(self) -> Header:
        if self._take(4) != b"GGUF":
            raise Malformed("no GGUF file")
        if self._scalar("I") not in {2, 3}:
            raise Malformed("a version of GGUF that is not read here")
        tensors, keys = self._scalar("Q"), self._scalar("Q")
        if tensors > MOST_TENSORS or keys > MOST_KEYS:
            raise Malformed("counts of a GGUF header")
        metadata = {}
        for _each in range(keys):
            name = self._string()
            value = self._value(self._scalar("I"), name)
            if value is not None:
                metadata[name] = value
        return Header(metadata, tuple(self._tensor() for _each in range(tensors)))

    def _tensor(self) -> Tensor:
        name = self._string()
        dimensions = self._scalar("I")
        if dimensions > 8:
            raise Malformed(name)
        shape = tuple(self._scalar("Q") for _each in range(dimensions))
        kind = TYPES.get(self._scalar("I"))
        self._scalar("Q")  # where its data begins
        if kind is None or any(each > _MOST_ELEMENTS for each in shape):
            raise Malformed(name)
        label, block, nbytes = kind
        tensor = Tensor(name, label, shape, 0)
        if tensor.elements > _MOST_ELEMENTS or tensor.elements % block:
            raise Malformed(name)
        return Tensor(name, label, shape, tensor.elements // block * nbytes)

    def _value(self, kind: int, name: str) -> Any:
        """None for what is skipped."""
        if kind == _STRING:
            return self._string()
        if kind != _ARRAY:
            return self._scalar(self._format(kind))
        inner, count = self._scalar("I"), self._scalar("Q")
        if inner == _STRING:
            return self._skip_strings(count)
        form = self._format(inner)
        if count > _LONGEST_KEPT or name.startswith("tokenizer."):
            self._skip(count * struct.calcsize("<" + form))
            return None
        return [self._scalar(form) for _each in range(count)]

    def _skip_strings(self, count: int) -> None:
        """A vocabulary's hundred thousands, so without a call for each."""
        at, content, length_at = self._at, self._prefix.content, struct.Struct("<Q").unpack_from
        for _each in range(count):
            if at + 8 > len(content):
                content = self._prefix.upto(at + 8)
            at += 8 + length_at(content, at)[0]
        self._at = at
        self._prefix.upto(at)

    def _format(self, kind: int) -> str:
        if kind not in _SCALARS:
            raise Malformed("a kind of value that GGUF does not have")
        return _SCALARS[kind]

    def _string(self) -> str:
        length = self._scalar("Q")
        if length > 1_000_000:
            raise Malformed("a string of a GGUF header")
        return self._take(length).decode("utf-8", "replace")

    def _scalar(self, form: str) -> Any:
        (value,) = struct.unpack("<" + form, self._take(struct.calcsize("<" + form)))
        return value

    def _take(self, count: int) -> bytes:
        start, self._at = self._at, self._at + count
        return bytes(self._prefix.upto(self._at)[start : self._at])

    def _skip(self, count: int) -> None:
        self._at += count
        self._prefix.upto(self._at)
