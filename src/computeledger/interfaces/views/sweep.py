"""The view of a sweep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from computeledger.interfaces.view import Table, View
from computeledger.interfaces.views.grounds import assumed_words
from computeledger.questions.answer import Answer
from computeledger.questions.wording import anchor_words, headline_words, short_model, words
from computeledger.units import format_count

#: What is asked, as it heads a column and as it is said in a title where all rows share it.
_ASKED = {
    "model": "model",
    "system": "system",
    "precision": "weights",
    "input_tokens": "in #",
    "output_tokens": "out #",
}
#: Characters of a model's name that leave no room for all columns beside it.
_LONG = 30
_FOUND = ("layout", "batch #", "TPOT #", "TTFT #", "tok/s per GPU #", "USD per Mtok #")


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
        tables=tuple(_tables(best)),
        grounds=(_effort(document), *_assumed(document)),
        overline="sweep",
    )


def _headline(best: Sequence[Mapping[str, Any]]) -> str:
    """The cheapest combination, where there are several to compare; a sweep is at the medians and has no interval."""
    first = min(best, key=lambda one: float(one["usd_per_mtok_output"]))
    rank = f", the cheapest of {len(best):,}" if len(best) > 1 else ""
    place = f"{_combination(first)}, {first['layout']} at batch {first['batch']:,}"
    cost = words(first["usd_per_mtok_output"], "USD")
    return headline_words(place, f"{cost} per million output tokens at the medians{rank}")


def _combination(one: Mapping[str, Any]) -> str:
    come, written = (words(one[f"{name}_tokens"], "") for name in ("input", "output"))
    return f"{short_model(one['model'])} on {one['system']}, {one['precision']}, {come} tokens in, {written} out"


def _tables(best: Sequence[Mapping[str, Any]]) -> list[Table]:
    """One table, or one of each model where models have several rows each; a title says what its rows share."""
    if not best:
        return []
    models = list(dict.fromkeys(one["model"] for one in best))
    is_one_each = len(models) == len(best) and max(len(_name(one)) for one in models) <= _LONG
    if len(models) == 1 or is_one_each:
        return [_table(best)]
    return [_table([one for one in best if one["model"] == model]) for model in models]


def _table(best: Sequence[Mapping[str, Any]]) -> Table:
    """Rows by what differs among them."""
    differs = [name for name in _ASKED if len({one[name] for one in best}) > 1]
    first = best[0]
    said = {
        "model": first["model"], "system": f"on {first['system']}", "precision": f"in {first['precision']}",
        "input_tokens": f"{words(first['input_tokens'], '')} tokens in",
        "output_tokens": f"{words(first['output_tokens'], '')} tokens out",
    }  # fmt: skip
    title = ", ".join(text for name, text in said.items() if name not in differs).replace(", on ", " on ", 1)
    rows = [[*(_asked(one, name) for name in differs), *_found(one)] for one in best]
    columns = (*(_ASKED[name] for name in differs), *_FOUND)
    if "model" in differs:
        title = title[:1].upper() + title[1:]
    return Table(title, columns, rows, "output_tokens_per_s_per_gpu")


def _asked(one: Mapping[str, Any], name: str) -> str:
    if name == "model":
        return _name(one[name])
    return words(one[name], "") if name.endswith("_tokens") else str(one[name])


def _name(model: str) -> str:
    return model.rpartition("/")[2]


def _found(one: Mapping[str, Any]) -> list[str]:
    times = [words(one[name], "s") for name in ("tpot_s", "ttft_s")]
    rate, cost = words(one["output_tokens_per_s_per_gpu"], ""), words(one["usd_per_mtok_output"], "USD")
    return [one["layout"], f"{one['batch']:,}", *times, rate, cost]


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
