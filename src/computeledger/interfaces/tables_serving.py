"""The answer of a sweep as a terminal table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from computeledger.interfaces.tables import console, new_table, note
from computeledger.questions.wording import show
from computeledger.units import format_si, format_usd


def print_sweep(document: Mapping[str, Any]) -> None:
    """Print the best option of each question of a sweep."""
    out = console()
    limit = show(document["slowest_tpot_s"], "s")
    title = f"Most tokens/s/GPU at {limit} per output token or faster (every input at its middle)"
    lengths = (">input", ">output")
    figures = (">TPOT", ">TTFT", ">tok/s/GPU", ">USD/Mtok")
    table = new_table(title, "model", "system", "weights", *lengths, "layout", ">batch", *figures)
    for one in document["best"]:
        asked = [format_si(one[f"{name}_tokens"]) for name in ("input", "output")]
        times = [show(one[name], "s") for name in ("tpot_s", "ttft_s")]
        rate, cost = format_si(one["output_tokens_per_s_per_gpu"]), format_usd(one["usd_per_mtok_output"])
        name = one["model"].rpartition("/")[2]
        table.add_row(
            name, one["system"], one["precision"], *asked, one["layout"], str(one["batch"]), *times, rate, cost
        )
    out.print(table)
    for one in document["without_answer"]:
        lengths_words = f"{format_si(one['input_tokens'])} in, {format_si(one['output_tokens'])} out"
        note(out, f"no layout fits or is fast enough: {one['model']} on {one['system']}, {lengths_words}")
    speed = f"{format_si(document['n_options'])} options in {show(document['wall_s'], 's')}, {document['executor']}"
    kept = f"; all in {document['parquet']}" if document["parquet"] else ""
    note(out, f"{speed}{kept}")
