"""Traces of real traffic: the CSV of Azure and of BurstGPT, the JSONL of Mooncake and of Qwen-Bailian with their prefix
blocks, and a plain CSV or JSONL of one's own.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import re
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from computeledger.errors import InputError, QuantityError, check_kind, nearest, shown
from computeledger.files import read_json_lines, read_table, read_user_lines
from computeledger.simulation.serving.turns import Turns
from computeledger.simulation.state import Counts, Times

#: Tokens of a prefix block in the Mooncake trace, in Qwen-Bailian's, and in one's own where prefixes have names.
MOONCAKE_BLOCK_TOKENS, BAILIAN_BLOCK_TOKENS, OWN_BLOCK_TOKENS = 512, 16, 64

#: Most requests of a trace, most blocks of their prefixes, and most tokens of one request.
MOST_TRACE_REQUESTS, MOST_PREFIX_BLOCKS, MOST_TOKENS = 5_000_000, 5_000_000, 500_000_000


class _Format(NamedTuple):
    """What a format calls arrival, input and output; its time per second, tokens of its blocks, and its own column."""

    arrival: str
    input: str
    output: str
    per_s: float = 1.0
    block_tokens: int = 0
    mark: str = ""
    may_fail: bool = False


_AZURE = _Format("TIMESTAMP", "ContextTokens", "GeneratedTokens")
_MOONCAKE = _Format("timestamp", "input_length", "output_length", 1000.0, MOONCAKE_BLOCK_TOKENS)
_BAILIAN = _Format("timestamp", "input_length", "output_length", 1.0, BAILIAN_BLOCK_TOKENS, "chat_id")
_BURST = _Format("Timestamp", "Request tokens", "Response tokens", may_fail=True)
_OWN = _Format("arrival", "input_tokens", "output_tokens")
#: A format with a column of its own comes before the one without.
_FORMATS = (_AZURE, _BAILIAN, _MOONCAKE, _BURST, _OWN)


@dataclass(frozen=True, slots=True)
class Trace:
    """Requests in order of arrival; those that failed, with nothing read or written, are counted and left out."""

    arrival_s: Times
    input_tokens: Counts
    output_tokens: Counts
    blocks: tuple[NDArray[np.int32], ...] | None = None
    block_tokens: int = 0
    n_failed: int = 0
    turns: Turns | None = None
    cached_tokens: Counts | None = None

    def faster(self, ratio: float) -> Trace:
        """The same requests at another pace."""
        return replace(self, arrival_s=self.arrival_s / ratio)

    def first(self, n: int) -> Trace:
        """The first requests."""
        blocks = None if self.blocks is None else self.blocks[:n]
        return Trace(self.arrival_s[:n], self.input_tokens[:n], self.output_tokens[:n], blocks, self.block_tokens)

    def repeated(self, n: int, requests_per_s: float) -> Trace:
        """Requests of these lengths, over and over, at an even rate."""
        at = np.arange(n) % len(self.arrival_s)
        return Trace((np.arange(n) + 1) / requests_per_s, self.unshared_tokens()[at], self.output_tokens[at])

    def again(self, at: Counts, requests_per_s: float) -> Trace:
        """Requests by place, counted on when the trace begins again, each as long after the one before as here.

        The pace is the one that gives the mean rate; nothing is kept of shared prefixes.
        """
        n = len(self.arrival_s)
        rounds, place = np.divmod(at, n)
        gap_s = self.arrival_s[-1] / max(n - 1, 1) if self.arrival_s[-1] > 0 else 1.0 / requests_per_s
        times = (rounds * n * gap_s + self.arrival_s[place] + gap_s) / (gap_s * requests_per_s)
        return Trace(times, self.input_tokens[place], self.output_tokens[place])

    def unshared_tokens(self) -> Counts:
        """Prompt tokens that no cache, however large, could have held."""
        if self.blocks is None:
            return self.input_tokens
        seen: set[int] = set()
        shared = np.zeros_like(self.input_tokens)
        for at, ids in enumerate(self.blocks):
            known = next((place for place, one in enumerate(ids) if int(one) not in seen), len(ids))
            shared[at] = known * self.block_tokens
            seen.update(int(one) for one in ids)
        return np.asarray(np.maximum(self.input_tokens - shared, 1), np.int64)

    @property
    def requests_per_s(self) -> float:
        """Mean rate of arrival; infinite where all arrive at once [1/s]."""
        span_s = float(self.arrival_s[-1] - self.arrival_s[0])
        return (len(self.arrival_s) - 1) / span_s if span_s > 0 else math.inf


def read_trace(path: str | Path) -> Trace:
    """Read a trace, whose format its first line tells.

    Azure: ``TIMESTAMP,ContextTokens,GeneratedTokens``. Mooncake, as AIPerf replays it: ``timestamp`` in ms,
    ``input_length``, ``output_length``, ``hash_ids`` of 512-token blocks. Qwen-Bailian: the same with ``chat_id``,
    times in s and 16-token blocks. BurstGPT: ``Timestamp`` in s, ``Request tokens``, ``Response tokens``. One's own,
    CSV or JSONL: ``arrival`` in s, ``input_tokens``, ``output_tokens``, and where prompts share a beginning ``prefix``
    (its name) with ``prefix_tokens``.

    Parameters
    ----------
    path : str or Path
        The file.

    Returns
    -------
    Trace
        In order of arrival, from 0 s on.

    Raises
    ------
    InputError
        A file that is none of these, a value that is missing, or arrivals out of order, with the line.

    Examples
    --------
    >>> read_trace("nowhere.csv")
    Traceback (most recent call last):
    computeledger.errors.InputError: nowhere.csv: no such file
    """
    check_kind(path, (str, os.PathLike), "the path of a trace")
    file = Path(path)
    records = _records(file)
    first = next(records, None)
    if first is None:
        raise InputError(f"{file}: holds no request; a trace has one per line")
    known = (one for one in _FORMATS if one.arrival in first[1] and (not one.mark or one.mark in first[1]))
    keys = next(known, None)
    if keys is None:
        hint = nearest(str(next(iter(first[1]), "")), [one.arrival for one in _FORMATS])
        named = shown(", ".join(first[1]))
        raise InputError(f"{file}: columns {named} are no trace; write arrival,input_tokens,output_tokens ({hint})")
    return _trace(str(file), keys, itertools.chain([first], records))


def _records(file: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    with contextlib.closing(read_user_lines(file)) as lines:
        first = next((line for _, line in lines if line.strip()), "")
    if not first.lstrip().startswith("{"):
        yield from read_table(file, most_rows=MOST_TRACE_REQUESTS)
        return
    for number, record in read_json_lines(file, MOST_TRACE_REQUESTS):
        if not isinstance(record, dict):
            raise InputError(f"{file}:{number}: expected a JSON object, not {shown(record)}")
        yield number, record


def _trace(name: str, keys: _Format, records: Iterator[tuple[int, Mapping[str, Any]]]) -> Trace:
    arrivals, counts, blocks, n_failed = array("d"), (array("q"), array("q")), _Blocks(keys), 0
    for number, record in records:
        where = f"{name}:{number}"
        arrival_s = _arrival_s(where, keys, record)
        if arrivals and arrival_s < arrivals[-1]:
            raise QuantityError(f"{where}: arrives before the line above; sort the trace by {keys.arrival}")
        if keys.may_fail and any(str(record.get(key)).strip() == "0" for key in (keys.input, keys.output)):
            n_failed += 1
            continue
        arrivals.append(arrival_s)
        for column, key in zip(counts, (keys.input, keys.output), strict=True):
            column.append(_count(where, key, record))
        blocks.add(where, record, counts[0][-1])
    if not arrivals:
        raise InputError(f"{name}: every request failed: none has tokens")
    at, tokens = np.array(arrivals), [np.array(column, np.int64) for column in counts]
    return Trace(at - at[0], tokens[0], tokens[1], blocks.found(), blocks.block_tokens, n_failed)


def _arrival_s(where: str, keys: _Format, record: Mapping[str, Any]) -> float:
    """Time of a request in its format."""
    key = keys.arrival
    given = record.get(key)
    if given in (None, ""):
        raise QuantityError(f"{where}: {key} is missing")
    try:
        if key == "TIMESTAMP":
            whole, _, part = re.sub(r"(?<=\d)\+00:?00$", "", str(given)).partition(".")
            return datetime.fromisoformat(f"{whole}+00:00").timestamp() + float(f"0.{part or 0}")
        value = float(given) if not isinstance(given, bool) else math.nan
    except (TypeError, ValueError):
        value = math.nan
    if not math.isfinite(value):
        raise QuantityError(f"{where}: {key} = {shown(given)} is not a time")
    return value / keys.per_s


def _count(where: str, key: str, record: Mapping[str, Any]) -> int:
    """Tokens of a request: a whole number, at least 1."""
    given = record.get(key)
    if given in (None, ""):
        raise QuantityError(f"{where}: {key} is missing")
    try:
        value = float(given) if not isinstance(given, bool) else math.nan
    except (TypeError, ValueError):
        value = math.nan
    if not 1 <= value <= MOST_TOKENS or value != int(value):
        allowed = f"a whole number of tokens from 1 to {MOST_TOKENS:,}"
        raise QuantityError(f"{where}: {key} = {shown(given)}: expected {allowed}")
    return int(value)


class _Blocks:
    """Prefix blocks of every prompt, numbered without gaps: only blocks that the prompt fills can be shared."""

    def __init__(self, keys: _Format) -> None:
        self._keys = keys
        self._numbers: dict[Any, int] = {}
        self._ids: list[NDArray[np.int32]] = []
        self._n_blocks = 0
        self.block_tokens = 0

    def add(self, where: str, record: Mapping[str, Any], input_tokens: int) -> None:
        """Take the blocks of the next prompt."""
        hashes, n_blocks = list[int](), 0
        hashed = self._keys.block_tokens
        if hashed and (self.block_tokens or not self._ids) and "hash_ids" in record:
            self.block_tokens = hashed
        if hashed and self.block_tokens:
            hashes = _hash_ids(where, record)[: input_tokens // hashed]
            n_blocks = len(hashes)
        elif self._keys is _OWN and record.get("prefix") not in (None, ""):
            self.block_tokens = OWN_BLOCK_TOKENS
            shared = _count(where, "prefix_tokens", record)
            if shared > input_tokens:
                raise QuantityError(f"{where}: prefix_tokens = {shared} exceed input_tokens = {input_tokens}")
            n_blocks = shared // OWN_BLOCK_TOKENS
        self._n_blocks += n_blocks
        if self._n_blocks > MOST_PREFIX_BLOCKS:
            raise InputError(f"{where}: more than {MOST_PREFIX_BLOCKS:,} blocks of prefixes in one trace")
        numbers, label = self._numbers, str(record.get("prefix"))
        ids: list[Any] = hashes or [(label, block) for block in range(n_blocks)]
        self._ids.append(np.array([numbers.setdefault(one, len(numbers)) for one in ids], np.int32))

    def found(self) -> tuple[NDArray[np.int32], ...] | None:
        """By prompt; None where nothing is known of prefixes."""
        return tuple(self._ids) if self.block_tokens else None


def _hash_ids(where: str, record: Mapping[str, Any]) -> list[int]:
    ids = record.get("hash_ids")
    if not isinstance(ids, list) or any(not isinstance(one, int) or one < 0 for one in ids):
        raise QuantityError(f"{where}: hash_ids must be a list of block numbers")
    return ids
