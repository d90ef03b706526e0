"""The view of a sweep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from computeledger.interfaces.view import Cell, Table, View
from computeledger.interfaces.views.grounds import assumed_words
from computeledger.questions.answer import Answer
from computeledger.questions.wording import anchor_words, words
from computeledger.units import format_count

_COLUMNS = ("model", "system", "weights", "input #", "output #", "layout", "batch #", "TPOT #", "TTFT #", "tok/s/GPU #",
            "USD/Mtok #")  # fmt: skip


def view(answer: Answer, working: bool) -> View:
    """The best option of each combination; a sweep has no working of its own."""
    document = answer.to_dict(working=working)
    best, none = document["best"], document["without_answer"]
    limit = words(document["slowest_tpot_s"], "s")
    title = f"Most output tokens per GPU at {limit} per output token or faster"
    return View(
        title=title,
        asked=(format_count(document["n_questions"], "combination"), "all inputs at their medians"),
        headline=_headline(best) if best else "No layout fits or is fast enough.",
        notes=(
            *([anchor_words(document["anchor"])] if "anchor" in document else []),
            *(f"{_combination(one)}: {one['why']}" for one in none),
        ),
        tables=(Table("", _COLUMNS, [_row(one) for one in best], "output_tokens_per_s_per_gpu"),) if best else (),
        grounds=(_effort(document), *_assumed(document)),
        overline="sweep",
    )


def _headline(best: Sequence[Mapping[str, Any]]) -> str:
    """The cheapest combination, where there are several to compare."""
    first = min(best, key=lambda one: float(one["usd_per_mtok_output"]))
    cost = words(first["usd_per_mtok_output"], "USD/Mtok")
    place = f"{_combination(first)}, {first['layout']} at batch {first['batch']}"
    return f"{'Cheapest output: ' if len(best) > 1 else ''}{place}: {cost}."


def _combination(one: Mapping[str, Any]) -> str:
    come, written = (words(one[f"{name}_tokens"], "") for name in ("input", "output"))
    return f"{one['model']} on {one['system']}, {one['precision']}, {come} tokens in, {written} out"


def _row(one: Mapping[str, Any]) -> list[str | Cell]:
    lengths = [words(one[f"{name}_tokens"], "") for name in ("input", "output")]
    times = [words(one[name], "s") for name in ("tpot_s", "ttft_s")]
    rate, cost = words(one["output_tokens_per_s_per_gpu"], ""), words(one["usd_per_mtok_output"], "USD")
    name = one["model"].rpartition("/")[2]
    return [name, one["system"], one["precision"], *lengths, one["layout"], f"{one['batch']:,}", *times, rate, cost]


def _assumed(document: Mapping[str, Any]) -> list[str]:
    """What is kept of memory, by engine where there are several."""
    assumed = document["assumptions"]
    engines = list(dict.fromkeys(one["engine"] for one in (*document["best"], *document["without_answer"])))
    if len(engines) == 1:
        return [f"engine {engines[0]}", *assumed_words(document)]
    return [f"{name}: {line}" for name in engines for line in assumed_words({"assumptions": assumed[name]})]


def _effort(document: Mapping[str, Any]) -> str:
    speed = f"{words(document['n_options'], '')} options in {words(document['wall_s'], 's')}, {document['executor']}"
    return f"{speed}; all in {document['parquet']}" if document["parquet"] else speed
