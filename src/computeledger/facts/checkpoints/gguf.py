"""Headers of GGUF files: metadata and tensors, never their values. The layout is that of ``llama-cpp-gguf``."""

from __future__ import annotations

import math
import re
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from computeledger.errors import ModelConfigError
from computeledger.facts.formats import FORMATS
from computeledger.facts.huggingface.fields import MAX_LAYERS
from computeledger.files import open_user_file
from computeledger.units import MIB

#: Most bytes of a header (a vocabulary of 300,000 words takes 10 MB), of a text in it, and most entries.
MOST_HEADER_BYTES, MOST_TEXT_BYTES, MOST_ENTRIES = int(32 * MIB), int(4 * MIB), 100_000
#: Most texts in lists: vocabularies and their merges have fewer than a million.
_MOST_TEXTS = 1_500_000
#: Most dimensions of a tensor, and most values of one.
_MOST_DIMENSIONS, _MOST_VALUES = 4, 2**52
_VERSIONS = (2, 3)

Value = int | float | bool | str | tuple[int, ...] | None

#: Kinds of metadata: how each number is packed.
_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_WHOLE, _TEXT, _ARRAY = (0, 1, 2, 3, 4, 5, 10, 11), 8, 9
#: Types of tensors: the name of the format, and what the file calls it where that differs.
_TYPES = {
    0: "f32", 1: "bf16", 2: "q4_0", 3: "q4_1", 6: "q5_0", 7: "q5_1", 8: "q8_0", 10: "q2_k", 11: "q3_k", 12: "q4_k",
    13: "q5_k", 14: "q6_k", 16: "iq2_xxs", 17: "iq2_xs", 18: "iq3_xxs", 19: "iq1_s", 20: "iq4_nl", 21: "iq3_s",
    22: "iq2_s", 23: "iq4_xs", 26: "f32", 29: "iq1_m", 30: "bf16", 34: "tq1_0", 35: "tq2_0", 39: "mxfp4-a16",
    40: "fp4-a16",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor of a checkpoint: its name, format and bytes, and whether it is a vector."""

    name: str
    format: str
    bytes: float
    is_vector: bool
    columns: int = 0
    shape: tuple[int, ...] = ()


class _Header:
    """Reads a header front to back and stops at its bounds."""

    def __init__(self, stream: BinaryIO, name: str) -> None:
        self._stream, self._name, self._at, self._texts = stream, name, 0, 0

    def error(self, what: str) -> ModelConfigError:
        return ModelConfigError(f"{self._name}: byte {self._at}: {what}")

    def take(self, n: int) -> bytes:
        if self._at + n > MOST_HEADER_BYTES:
            raise self.error(f"the header is longer than {MOST_HEADER_BYTES // MIB:.0f} MiB")
        got = self._stream.read(n)
        if len(got) < n:
            raise self.error("the header ends early: the file is cut off")
        self._at += n
        return got

    def number(self, code: str) -> int | float | bool:
        packed = struct.Struct("<" + code)
        value: int | float | bool = packed.unpack(self.take(packed.size))[0]
        return value

    def count(self, what: str, code: str = "Q", most: int = MOST_ENTRIES) -> int:
        n = int(self.number(code))
        if n > most:
            raise self.error(f"{n} {what}; at most {most} are read")
        return n

    def text(self) -> str:
        return self.take(self.count("characters", most=MOST_TEXT_BYTES)).decode("utf-8", "replace")

    def value(self) -> Value:
        kind = self.count("kinds of values", "I", most=2**31)
        if kind == _ARRAY:
            return self._array()
        return self._plain(kind)

    def _plain(self, kind: int) -> Value:
        if kind == _TEXT:
            return self.text()
        if kind not in _NUMBERS:
            raise self.error(f"{kind} is no kind of value")
        return self.number(_NUMBERS[kind])

    def _array(self) -> Value:
        """The value of an array whose entries are all alike; a short one of whole numbers; None of any other."""
        kind = self.count("kinds of values", "I", most=2**31)
        n = self.count("entries of an array", most=MOST_HEADER_BYTES)
        if kind == _TEXT:
            self._texts += n
            if self._texts > _MOST_TEXTS:
                raise self.error(f"more than {_MOST_TEXTS} texts in lists")
            for _ in range(n):
                self.take(self.count("characters", most=MOST_TEXT_BYTES))
            return None
        if kind not in _NUMBERS:
            raise self.error(f"arrays of kind {kind} are not read")
        size = struct.calcsize("<" + _NUMBERS[kind])
        raw = self.take(n * size)
        first = raw[:size]
        if n and n <= MOST_ENTRIES and raw == first * n:
            value: Value = struct.unpack("<" + _NUMBERS[kind], first)[0]
            return value
        if kind in _WHOLE and n <= MAX_LAYERS:
            numbers: tuple[int, ...] = struct.unpack(f"<{n}{_NUMBERS[kind]}", raw)
            return numbers
        return None


def read_header(path: Path) -> tuple[dict[str, Value], list[Tensor]]:
    """Metadata and tensors of one file; a list that is long or not of whole numbers is None."""
    with open_user_file(path) as stream:
        header = _Header(stream, str(path))
        if header.take(4) != b"GGUF":
            raise ModelConfigError(f"{path}: not a GGUF file: it does not begin with GGUF")
        version = int(header.number("I"))
        if version not in _VERSIONS:
            swapped = int.from_bytes(version.to_bytes(4, "little"), "big")
            why = "big-endian files are not read" if swapped in _VERSIONS else f"version {version}; 2 and 3 are read"
            raise ModelConfigError(f"{path}: {why}")
        n_tensors, n_values = header.count("tensors"), header.count("keys")
        metadata: dict[str, Value] = {}
        for _ in range(n_values):
            key = header.text()
            metadata[key] = header.value()
        return metadata, [_tensor(header) for _ in range(n_tensors)]


def _tensor(header: _Header) -> Tensor:
    name = header.text()
    shape = [int(header.number("Q")) for _ in range(header.count("dimensions", "I", most=_MOST_DIMENSIONS))]
    kind = int(header.number("I"))
    header.number("Q")
    values = math.prod(shape)
    if kind not in _TYPES:
        raise header.error(f"{name[:80]!r}: ggml type {kind} is not known")
    one = FORMATS[_TYPES[kind]]
    if not shape or not 0 < values <= _MOST_VALUES or shape[0] % one.block_values:
        raise header.error(f"{name[:80]!r}: a shape of {shape} does not go with {one.name}")
    rows = shape[1] if len(shape) > 1 else 0
    return Tensor(name, one.name, values * one.bits / 8, sum(n > 1 for n in shape) < 2, rows)


_SPLIT = re.compile(r"-(\d{5})-of-(\d{5})\.gguf$")


def read_gguf(path: Path) -> tuple[dict[str, Value], list[Tensor]]:
    """Metadata of a file, and the tensors of all its parts."""
    found = _SPLIT.search(path.name)
    if found is None:
        return read_header(path)
    parts = [
        path.with_name(f"{path.name[: found.start()]}-{i + 1:05d}-of-{found[2]}.gguf") for i in range(int(found[2]))
    ]
    metadata: dict[str, Value] = {}
    tensors: list[Tensor] = []
    for part in parts:
        more, own = read_header(part)
        metadata, tensors = more | metadata, tensors + own
    return metadata, tensors
