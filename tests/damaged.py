"""Damage to files: any bytes, and values of another type, size or depth than a reader expects."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from typing import Any

#: A larger file takes longer to damage than to read.
LARGEST_BYTES = 1_500_000

Damage = Callable[[bytes, random.Random], bytes]

NUMBERS = (
    b"9" * 5000, b"9" * 301, b"9" * 299, b"1e999", b"-1", b"0", b"-0.0", b"nan", b"inf", b"NaN", b"-Infinity",
    b"1e308", b"1e-320",    b"99999999999999999999", b"9223372036854775807", b"1e15", b"1000000007", b"0.5", b"1_000",
    b"0x" + b"f" * 400,
)  # fmt: skip
WORDS = (
    b"true", b"null", b'""', b"''", b'"x"', b"[]", b"{}", b"[[]]", b'{"a": 1}', b"{a = 1}", b"2026-11-01", b"07:32:00",
    b'"1..2"', b'"10%"', b'"1e999 tokens"', b'"../x"', b'"\\u0000"', b'"\\ud800"', b"[1, 'a', {}]", b"-1", b"1e400",
)  # fmt: skip
JSON_VALUES: tuple[Any, ...] = (
    None, True, 0, -1, 10**25, 10**299, 0.5, 1e308, float("nan"), float("inf"), "", "x", "\x00", "9" * 400, [], [[]],
    {}, {"a": {}}, ["x", 1, None], "x" * 140_000, -1.5,
)  # fmt: skip
RAW = (
    b"\x00",
    b"\xff\xfe",
    b"\xc3",
    b"\xed\xa0\x80",
    b"\xef\xbb\xbf",
    b"\r",
    b"\x1b[31m",
    b'"',
    b"'",
    b",",
    b"\n",
    b"=",
    b"#",
    b"\\",
)
_NUMBER, _VALUE = re.compile(rb"(?<![\w.])-?\d[\d.eE+-]*"), re.compile(rb"(?<==)[^\n=]+|(?<=:)[^\n:,}]+|(?<=,)[^\n,]*")


def _at(data: bytes, draw: random.Random) -> int:
    return draw.randrange(len(data) + 1)


def _span(data: bytes, draw: random.Random) -> tuple[int, int]:
    begin = _at(data, draw)
    return begin, min(len(data), begin + draw.choice((1, 3, 20, 200, 2000)))


def flipped(data: bytes, draw: random.Random) -> bytes:
    """A few bits are others."""
    out = bytearray(data)
    for _ in range(draw.choice((1, 2, 8, 40)) if out else 0):
        out[draw.randrange(len(out))] ^= 1 << draw.randrange(8)
    return bytes(out)


def cut(data: bytes, draw: random.Random) -> bytes:
    """The end is missing."""
    return data[: _at(data, draw)]


def without_a_span(data: bytes, draw: random.Random) -> bytes:
    """A piece is missing."""
    begin, end = _span(data, draw)
    return data[:begin] + data[end:]


def with_a_span_twice(data: bytes, draw: random.Random) -> bytes:
    """A piece stands more than once."""
    begin, end = _span(data, draw)
    return data[:end] + data[begin:end] * draw.choice((1, 2, 100)) + data[end:]


def with_other_bytes(data: bytes, draw: random.Random) -> bytes:
    """Bytes that are no text, quotation marks and separators in a place where none belong."""
    for _ in range(draw.choice((1, 3))):
        at = _at(data, draw)
        data = data[:at] + draw.choice(RAW) + data[at:]
    return data


def _replaced(pattern: re.Pattern[bytes], data: bytes, new: bytes, draw: random.Random) -> bytes:
    found = list(pattern.finditer(data))
    if not found:
        return data + new
    begin, end = draw.choice(found).span()
    return data[:begin] + new + data[end:]


def with_another_number(data: bytes, draw: random.Random) -> bytes:
    """A number is huge, negative, none, or of 5,000 digits."""
    return _replaced(_NUMBER, data, draw.choice(NUMBERS), draw)


def with_another_value(data: bytes, draw: random.Random) -> bytes:
    """A value of TOML, JSON or CSV is of another type."""
    return _replaced(_VALUE, data, b" " + draw.choice(WORDS), draw)


def with_deep_nesting(data: bytes, draw: random.Random) -> bytes:
    """Brackets or keys are nested a hundred to twenty thousand deep."""
    depth = draw.choice((100, 1000, 20_000))
    deep = draw.choice(
        (b"[" * depth, b'{"a":' * depth, b"{a=" * depth, b"a." * depth + b"a = 1\n", b"[" * depth + b"]" * depth)
    )
    if draw.random() < 0.5:
        return _replaced(_VALUE, data, deep, draw)
    return deep if draw.random() < 0.2 else deep + b"\n" + data


def with_a_long_field(data: bytes, draw: random.Random) -> bytes:
    """A field, or a line, is longer than any that a person writes."""
    field = draw.choice((b"x", b"7", b'"', b" ", b"1,", b"[],", "ä".encode())) * draw.choice((5000, 140_000, 400_000))
    at = _at(data, draw)
    return data[:at] + field + data[at:]


def in_other_clothes(data: bytes, draw: random.Random) -> bytes:
    """Another encoding, other ends of lines, or nothing at all."""
    text = data.decode("utf-8", "replace")
    return draw.choice(
        (
            b"", b"\n", b" \n \n", b"\xef\xbb\xbf" + data, b"\xef\xbb\xbf" * 2 + data, data.replace(b"\n", b"\r\n"),
            data.replace(b"\n", b"\r"), data.replace(b"\n", b""), text.encode("utf-16"), text.encode("utf-32"),
            b"\x00" * 5000, data + b"\n" + data, draw.randbytes(3000),
        )
    )  # fmt: skip


def with_lines_moved(data: bytes, draw: random.Random) -> bytes:
    """Lines are shuffled, repeated or missing."""
    lines = data.splitlines(keepends=True)
    return b"".join(draw.choices(lines, k=len(lines))) if lines else data


def with_another_node(data: bytes, draw: random.Random) -> bytes:
    """A value deep in a document of JSON, or in a line of JSONL, is another."""
    lines = data.splitlines()
    at = None
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        at = draw.randrange(len(lines)) if lines else None
        try:
            document = json.loads(lines[at]) if at is not None else None
        except (ValueError, RecursionError):
            document = None
    if not isinstance(document, dict | list) or not document:
        return with_another_value(data, draw)
    for _ in range(draw.choice((1, 1, 2))):
        if document:
            _change(document, draw)
    changed = json.dumps(document).encode("utf-8", "surrogatepass")
    if at is None:
        return changed
    return b"\n".join([*lines[:at], changed, *lines[at + 1 :]])


def _change(node: Any, draw: random.Random) -> None:
    while True:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        key = draw.choice(keys)
        if isinstance(node[key], dict | list) and node[key] and draw.random() < 0.75:
            node = node[key]
            continue
        if draw.random() < 0.2:
            del node[key]
        else:
            node[key] = draw.choice(JSON_VALUES)
        if not node and draw.random() < 0.9:
            return
        return


DAMAGES: tuple[Damage, ...] = (
    flipped, cut, without_a_span, with_a_span_twice, with_other_bytes, with_another_number, with_another_value,
    with_deep_nesting, with_a_long_field, in_other_clothes, with_lines_moved, with_another_node,
)  # fmt: skip


def damaged(data: bytes, draw: random.Random) -> bytes:
    """The same file, damaged once or twice."""
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        data = draw.choice(DAMAGES)(data, draw)[:LARGEST_BYTES]
    return data
