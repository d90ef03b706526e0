"""Traces of real traffic: the Azure CSV, the Mooncake JSONL with its prefix blocks, and a plain CSV or JSONL of
one's own.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from computeledger.errors import InputError, QuantityError, nearest, shown
from computeledger.simulation.state import Counts, Times

#: Tokens of a prefix block in the Mooncake trace, and in one's own where prefixes have names.
MOONCAKE_BLOCK_TOKENS, OWN_BLOCK_TOKENS = 512, 64
_MS_PER_S = 1000

#: Columns of each format: arrival, input, output.
_AZURE = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
_MOONCAKE = ("timestamp", "input_length", "output_length")
_OWN = ("arrival", "input_tokens", "output_tokens")


@dataclass(frozen=True, slots=True)
class Trace:
    """Requests in order of arrival.

    Attributes
    ----------
    arrival_s : ndarray of float
        From the first request on [s].
    input_tokens, output_tokens : ndarray of int
        Lengths [token].
    blocks : tuple of ndarray of int, or None
        Ids of each prompt's full prefix blocks; None where nothing is known of prefixes.
    block_tokens : int
        Tokens of a block [token].
    """

    arrival_s: Times
    input_tokens: Counts
    output_tokens: Counts
    blocks: tuple[NDArray[np.int32], ...] | None = None
    block_tokens: int = 0

    def faster(self, ratio: float) -> Trace:
        """The same requests at another pace.

        Parameters
        ----------
        ratio : float
            2 for twice the rate [-].

        Returns
        -------
        Trace
            With the arrivals moved together.
        """
        return replace(self, arrival_s=self.arrival_s / ratio)

    def first(self, n: int) -> Trace:
        """The first requests.

        Parameters
        ----------
        n : int
            How many [-].

        Returns
        -------
        Trace
            At most that many.
        """
        blocks = None if self.blocks is None else self.blocks[:n]
        return Trace(self.arrival_s[:n], self.input_tokens[:n], self.output_tokens[:n], blocks, self.block_tokens)

    def repeated(self, n: int, requests_per_s: float) -> Trace:
        """Requests of these lengths, over and over, at an even rate.

        Parameters
        ----------
        n : int
            How many [-].
        requests_per_s : float
            Their rate [1/s].

        Returns
        -------
        Trace
            Without prefixes: prompts have the tokens that they share with none before.
        """
        at = np.arange(n) % len(self.arrival_s)
        return Trace((np.arange(n) + 1) / requests_per_s, self.unshared_tokens()[at], self.output_tokens[at])

    def unshared_tokens(self) -> Counts:
        """Prompt tokens that no cache, however large, could have held.

        Returns
        -------
        ndarray of int
            By request; all of them where nothing is known of prefixes [token].
        """
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

    Azure: ``TIMESTAMP,ContextTokens,GeneratedTokens``. Mooncake: ``timestamp`` in ms, ``input_length``,
    ``output_length``, ``hash_ids`` of 512-token blocks. One's own, CSV or JSONL: ``arrival`` in s, ``input_tokens``,
    ``output_tokens``, and where prompts share a beginning ``prefix`` (its name) with ``prefix_tokens``.

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
    computeledger.errors.InputError: 'nowhere.csv': no such file
    """
    name = shown(str(path))
    try:
        with Path(path).open(encoding="utf-8-sig", newline="") as stream:
            lines = stream.read().splitlines()
    except FileNotFoundError:
        raise InputError(f"{name}: no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        words = "is not UTF-8 text" if isinstance(error, UnicodeDecodeError) else (error.strerror or "").lower()
        raise InputError(f"{name}: cannot be read ({words})") from None
    rows = [(number, line) for number, line in enumerate(lines, 1) if line.strip()]
    if not rows:
        raise InputError(f"{name}: is empty; a trace has one request per line")
    records = list(_json_rows(name, rows) if rows[0][1].lstrip().startswith("{") else _csv_rows(name, rows))
    return _trace(name, records)


def _json_rows(name: str, rows: list[tuple[int, str]]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for number, line in rows:
        try:
            record = json.loads(line)
        except ValueError:
            raise InputError(f"{name}:{number}: not a JSON object") from None
        if not isinstance(record, dict):
            raise InputError(f"{name}:{number}: expected a JSON object, not {shown(record)}")
        yield number, record


def _csv_rows(name: str, rows: list[tuple[int, str]]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    header = [cell.strip() for cell in next(csv.reader([rows[0][1]]))]
    for number, line in rows[1:]:
        cells = next(csv.reader([line]))
        if len(cells) != len(header):
            raise InputError(f"{name}:{number}: {len(cells)} columns, the header has {len(header)}")
        yield number, dict(zip(header, (cell.strip() for cell in cells), strict=True))
    if len(rows) == 1:
        raise InputError(f"{name}: has a header and no request")


def _trace(name: str, records: list[tuple[int, Mapping[str, Any]]]) -> Trace:
    first = records[0][1]
    keys = next((keys for keys in (_AZURE, _MOONCAKE, _OWN) if keys[0] in first), None)
    if keys is None:
        hint = nearest(str(next(iter(first), "")), [one[0] for one in (_AZURE, _MOONCAKE, _OWN)])
        raise InputError(
            f"{name}: columns {', '.join(first)} are no trace; write arrival,input_tokens,output_tokens ({hint})"
        )
    arrival_s, tokens = np.zeros(len(records)), np.zeros((2, len(records)), np.int64)
    for at, (number, record) in enumerate(records):
        where = f"{name}:{number}"
        arrival_s[at] = _arrival_s(where, keys[0], record)
        tokens[:, at] = [_count(where, key, record) for key in keys[1:]]
        if at and arrival_s[at] < arrival_s[at - 1]:
            raise QuantityError(f"{where}: arrives before the line above; sort the trace by {keys[0]}")
    blocks, size = _blocks(name, keys, records, tokens[0])
    return Trace(arrival_s - arrival_s[0], tokens[0], tokens[1], blocks, size)


def _arrival_s(where: str, key: str, record: Mapping[str, Any]) -> float:
    """Time of a request in its format."""
    given = record.get(key)
    if given in (None, ""):
        raise QuantityError(f"{where}: {key} is missing")
    try:
        if key == "TIMESTAMP":
            whole, _, part = str(given).partition(".")
            return datetime.fromisoformat(f"{whole}+00:00").timestamp() + float(f"0.{part or 0}")
        value = float(given) if not isinstance(given, bool) else math.nan
    except (TypeError, ValueError):
        value = math.nan
    if not math.isfinite(value):
        raise QuantityError(f"{where}: {key} = {shown(given)} is not a time")
    return value / _MS_PER_S if key == "timestamp" else value


def _count(where: str, key: str, record: Mapping[str, Any]) -> int:
    """Tokens of a request: a whole number, at least 1."""
    given = record.get(key)
    if given in (None, ""):
        raise QuantityError(f"{where}: {key} is missing")
    try:
        value = float(given) if not isinstance(given, bool) else math.nan
    except (TypeError, ValueError):
        value = math.nan
    if not math.isfinite(value) or value < 1 or value != int(value):
        raise QuantityError(f"{where}: {key} = {shown(given)}: expected a whole number of tokens, at least 1")
    return int(value)


def _blocks(
    name: str, keys: tuple[str, ...], records: list[tuple[int, Mapping[str, Any]]], input_tokens: Counts
) -> tuple[tuple[NDArray[np.int32], ...] | None, int]:
    """Prefix blocks of every prompt: only blocks that the prompt fills can be shared."""
    if keys is _MOONCAKE and "hash_ids" in records[0][1]:
        lists = []
        for at, (number, record) in enumerate(records):
            ids = record.get("hash_ids")
            if not isinstance(ids, list) or any(not isinstance(one, int) or one < 0 for one in ids):
                raise QuantityError(f"{name}:{number}: hash_ids must be a list of block numbers")
            lists.append(ids[: input_tokens[at] // MOONCAKE_BLOCK_TOKENS])
        return _dense(lists), MOONCAKE_BLOCK_TOKENS
    if keys is _OWN and any(record.get("prefix") not in (None, "") for _, record in records):
        return _dense(_named_prefixes(name, records, input_tokens)), OWN_BLOCK_TOKENS
    return None, 0


def _named_prefixes(
    name: str, records: list[tuple[int, Mapping[str, Any]]], input_tokens: Counts
) -> list[list[tuple[str, int]]]:
    """Blocks of prefixes that have a name; what is not said to be shared is not."""
    out: list[list[tuple[str, int]]] = []
    for at, (number, record) in enumerate(records):
        label = record.get("prefix")
        if label in (None, ""):
            out.append([])
            continue
        shared = _count(f"{name}:{number}", "prefix_tokens", record)
        if shared > input_tokens[at]:
            raise QuantityError(f"{name}:{number}: prefix_tokens = {shared} exceed input_tokens = {input_tokens[at]}")
        out.append([(str(label), block) for block in range(shared // OWN_BLOCK_TOKENS)])
    return out


def _dense(lists: list[list[Any]]) -> tuple[NDArray[np.int32], ...]:
    """The same blocks numbered without gaps."""
    numbers: dict[Any, int] = {}
    return tuple(np.array([numbers.setdefault(one, len(numbers)) for one in ids], np.int32) for ids in lists)
