"""Results of ``vllm bench serve``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from computeledger.actuals.readers.serving_benchmark import benchmark_entries
from computeledger.actuals.readers.tally import Hints, Tally
from computeledger.actuals.run_ledger import Entry

TOOL = "vLLM benchmark result"
MARK = b'"total_output_tokens"'


def entries(lines: Iterable[tuple[int, str]], hints: Hints, tally: Tally) -> Iterator[Entry]:
    """Read results, as :func:`benchmark_entries` does.

    Examples
    --------
    >>> text = '{"duration": 10, "total_input_tokens": 400, "total_output_tokens": 80, "output_throughput": 8.0}'
    >>> [(one.devices, one.duration_s) for one in entries([(1, text)], Hints(devices=8), Tally())]
    [(8, 10.0)]
    """
    yield from benchmark_entries(lines, hints, tally, "the vLLM result", "vllm")
