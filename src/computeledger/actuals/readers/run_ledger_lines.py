"""Our own run ledger, as ``rntp`` and anybody else writes it, line by line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from computeledger.actuals.readers.tally import Hints, Tally
from computeledger.actuals.run_ledger import Entry, entry_of
from computeledger.errors import InputError

TOOL = "run ledger"
MARK = b'"run-ledger/'


def entries(lines: Iterable[tuple[int, str]], hints: Hints, tally: Tally) -> Iterator[Entry]:
    """Read a ledger."""
    del hints
    for number, text in lines:
        if not text.strip():
            continue
        try:
            yield entry_of(text)
        except InputError as error:
            tally.damage(str(error), number)
