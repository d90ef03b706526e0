"""Every reader, and which one a file is for: told by what is in it, never by its name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from computeledger.actuals.readers import (
    areal,
    megatron,
    nemo_rl,
    openrlhf,
    power,
    run_ledger_lines,
    skyrl,
    slime,
    step_logs,
    torchtitan,
    trainer_state,
    verl,
    vllm_metrics,
)
from computeledger.actuals.readers.accounts import ACCOUNTS, AccountReader
from computeledger.actuals.readers.serving_benchmark import benchmark_entries
from computeledger.actuals.readers.tally import Hints, Tally, lines_of, none_readable
from computeledger.actuals.readers.tracked import TRACKERS, TrackerReader
from computeledger.actuals.run_ledger import Entry
from computeledger.errors import InputError, shown
from computeledger.files import open_user_file

#: Piece of a file that is searched for marks at once; pieces overlap, so that none is cut through.
PIECE_BYTES, OVERLAP_BYTES = 1_000_000, 10_000
#: Beginning of a file that tells a tracker's or an account's.
HEAD_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Reader:
    """A tool's reader."""

    tool: str
    mark: bytes | re.Pattern[bytes]
    entries: Callable[[Iterable[tuple[int, str]], Hints, Tally], Iterator[Entry]]

    def read(self, path: Path, hints: Hints, tally: Tally) -> Iterator[Entry]:
        """Read a file."""
        return self.entries(lines_of(path, tally), hints, tally)


#: The first whose mark is found reads the file.
READERS: tuple[Reader, ...] = (
    *(
        Reader(one.TOOL, one.MARK, one.entries)
        for one in (run_ledger_lines, verl, nemo_rl, slime, skyrl, openrlhf, areal, megatron, torchtitan, trainer_state)
    ),
    *(Reader(f"{form.tool} log", mark, partial(step_logs.entries, form)) for form, mark in step_logs.TOOLS),
    *(
        Reader(f"{engine} benchmark result", mark, partial(benchmark_entries, engine))
        for engine, mark in (("SGLang", b'"total_output_tokens_retokenized"'), ("vLLM", b'"total_output_tokens"'))
    ),
    *(Reader(one.TOOL, one.MARK, one.entries) for one in (vllm_metrics, power)),
)


def reader_of(path: Path) -> Reader | TrackerReader | AccountReader:
    """Find a file's reader."""
    with open_user_file(path) as stream:
        piece = stream.read(PIECE_BYTES)
        if not piece:
            raise InputError(f"{shown(str(path))}: the file is empty")
        for tracker in TRACKERS:
            if tracker.mark in piece[:HEAD_BYTES]:
                return tracker
        for account in ACCOUNTS:
            if account.mark.search(piece[:HEAD_BYTES]):
                return account
        while True:
            for reader in READERS:
                if _has(piece, reader.mark):
                    return reader
            more = stream.read(PIECE_BYTES)
            if not more:
                break
            piece = piece[-OVERLAP_BYTES:] + more
    known: tuple[Reader | TrackerReader | AccountReader, ...] = (*READERS, *TRACKERS, *ACCOUNTS)
    tools = ", ".join(reader.tool for reader in known)
    raise InputError(f"{shown(str(path))}: of no tool that is known here; known: {tools}")


def _has(piece: bytes, mark: bytes | re.Pattern[bytes]) -> bool:
    return mark in piece if isinstance(mark, bytes) else mark.search(piece) is not None


def read_actuals(path: Path, hints: Hints, tally: Tally) -> Iterator[Entry]:
    """Read a file of any tool, entry by entry."""
    reader = reader_of(path)
    if isinstance(reader, AccountReader):
        raise InputError(f"{shown(str(path))}: {reader.tool} counts no tokens: give the run's own log beside it")
    is_empty = True
    try:
        for entry in reader.read(path, hints, tally):
            is_empty = False
            yield entry
    except InputError as error:
        raise InputError(f"{shown(str(path))}: {error}") from None
    if is_empty:
        raise InputError(f"{shown(str(path))}: {none_readable(reader.tool, tally)}")
