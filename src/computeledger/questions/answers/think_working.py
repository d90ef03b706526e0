"""The working of a way to a success: its tokens, its price and its published score, each with its source."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from computeledger.economics.thinking.budget import shipped_lengths
from computeledger.economics.thinking.choice import (
    ONE_BY_ONE,
    SINGLE,
    VERIFIED,
    VOTE,
    Level,
    Way,
    known_levels,
    length_sources,
)
from computeledger.questions.grounds import stated_figure as _figure
from computeledger.questions.grounds import stated_term as _term
from computeledger.sources import load_sources
from computeledger.units import format_si

_SERVED = "USD/Mtok"
#: Where the fitted limits and the likeness of answers come from: sources of the published figures.
_LIMITS, _ALIKE, _LEVELS = "budgeted-maths-runs", "best-of-infinity", "qwen3-report"
#: What several answers solve.
_SEVERAL = {
    VOTE: "share of tasks on which the right answer has the most of {n} votes, by the success of one answer, how alike "
    "two answers to a task are, and how much wrong ones differ",
    "": "share of tasks on which one of {n} answers is right and accepted, by the success of one answer, how alike two "
    "answers to a task are, and the wrong ones that pass",
}


@dataclass(frozen=True, slots=True)
class Tasks:
    """What the question says of tasks: benchmark, tokens of a task, and whether it gives the length of thoughts."""

    benchmark: str
    input_tokens: float
    is_length_given: bool


@dataclass(frozen=True, slots=True)
class Served:
    """What serves a way.

    Attributes
    ----------
    document : mapping
        What ``serve`` says of its layout and batch.
    layout, batch : str, int
        Of those.
    selector_usd, selector_s : float
        Cost and time of selecting [USD], [s].
    """

    document: Mapping[str, Any]
    layout: str
    batch: int
    selector_usd: float
    selector_s: float


def think_figures(way: Way, asked: Tasks, served: Served, totals: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Formulas and inputs of a way's success, tokens, cost and time; what is worked out before stands first.

    Parameters
    ----------
    way : Way
        Model, limit, samples and selection.
    asked : Tasks
        What the question says.
    served : Served
        Layout, batch and prices.
    totals : mapping
        Tokens, cost and time of a task, with ranges where they have them.

    Returns
    -------
    list of dict
        As ``--working`` lists them.
    """
    answer = way.answer_tokens
    figures = [*_success(way, asked), _figure("answer_tokens", answer, "tokens", *_length(way, asked))]
    tokens = _term("tokens of an answer", answer, "tokens")
    count = _answers(way)
    at = f"serve: {served.layout}, batch {served.batch:,}"
    prices = [
        _term(f"price of {kind}", served.document[f"usd_per_mtok_{kind}"], _SERVED, "figure", at)
        for kind in ("input", "output")
    ]
    inputs = _term("tokens of a task's text", asked.input_tokens, "tokens", "plan", "--input-tokens")
    other = [_term("selecting", served.selector_usd, "USD")] if served.selector_usd else []
    wait = [_term("selecting", served.selector_s, "s")] if served.selector_s else []
    also = " + selecting" if other else ""
    follow = (
        "answers x (first token + tokens of an answer x time per token)"
        if way.selection in ONE_BY_ONE
        else "first token + tokens of the longest answer x time per token"
    )
    longest = [_term("tokens of the longest answer", way.wait_tokens, "tokens")]
    written = [count, tokens] if way.selection in ONE_BY_ONE else longest
    pace = [
        _term(name, served.document[key], "s", "figure", at)
        for name, key in (("first token", "ttft_s"), ("time per token", "tpot_s"))
    ]
    return [
        *figures,
        _figure("tokens_per_task", totals["tokens_per_task"], "", f"answers x tokens of an answer{also}",
                [count, tokens]),
        _figure("usd_per_task", totals["usd_per_task"], "USD",
                "answers x (tokens of a task's text x price of input + tokens of an answer x price of output) / 1e6"
                + also,
                [count, inputs, tokens, *prices, *other]),
        _figure("seconds", totals["seconds"], "s", f"{follow}{also}", [*written, *pace, *wait]),
    ]  # fmt: skip


def _answers(way: Way) -> dict[str, Any]:
    """Answers to a task, and why so many."""
    why = {SINGLE: "one answer", VERIFIED: "mean tries until one is accepted"}.get(
        way.selection, "written side by side"
    )
    return _term("answers", way.answers, "", "figure" if way.selection == VERIFIED else "plan", why)


def _length(way: Way, asked: Tasks) -> tuple[str, list[dict[str, Any]]]:
    """How long an answer is."""
    natural = _natural(way, asked)
    if math.isinf(way.budget_tokens):
        return "mean length without a limit", [natural]
    law = shipped_lengths()
    spread = _term("spread of log lengths", law.all_spread, "", "calibration", f"{_LIMITS}, lengths under limits")
    return "mean of the lesser of an answer's length (log-normal) and the limit", [natural, _limit(way), spread]


def _natural(way: Way, asked: Tasks) -> dict[str, Any]:
    if asked.is_length_given:
        return _term("length without a limit", way.level.natural_tokens, "tokens", "plan", "--natural-tokens")
    sources, n = length_sources(way.level.kind, asked.benchmark)
    others = f" and {len(sources) - 1} more" if sources[1:] else ""
    ground = f"{sources[0]}, median of {n} published lengths{others and f', of it{others}'}"
    return _term("length without a limit", way.level.natural_tokens, "tokens", "fact", ground)


def _limit(way: Way) -> dict[str, Any]:
    return _term("limit", way.budget_tokens, "tokens", "plan", "one of those compared")


def _success(way: Way, asked: Tasks) -> list[dict[str, Any]]:
    """Share of tasks solved: of one answer, under its limit, and of several."""
    level, found = way.level, []
    key = level.basis.partition(", ")[0]
    score = (
        _term("published success of one answer", level.success, "fraction", "fact", level.basis)
        if key in load_sources()
        else _term("success of one answer", level.success, "fraction", "plan" if level.basis == "given" else
                   "calibration", f"{_LEVELS}, and others: {level.basis}")
    )  # fmt: skip
    formula, terms, one = score["name"], [score], level.success
    if way.budget_tokens < math.inf and level.kind != "instruct":
        done = shipped_lengths().finished_fraction(way.budget_tokens, level.natural_tokens)
        law = shipped_lengths()
        found.append(_figure(
            "finished_fraction", done, "fraction", "share of right answers (log-normal lengths) that end in the limit",
            [_natural(way, asked), _limit(way),
             _term("median right answer over mean length", math.exp(law.log_shorter), "", "calibration",
                   f"{_LIMITS}, success under limits"),
             _term("spread of log lengths of right answers", law.right_spread, "", "calibration",
                   f"{_LIMITS}, success under limits")],
        ))  # fmt: skip
        one = min(level.floor, level.success) + max(level.success - level.floor, 0.0) * done
        formula = "without thinking + (success of one answer - without thinking) x share that ends in the limit"
        terms = [score, _term("without thinking", level.floor, "fraction", *_floor(level, asked)),
                 _term("share that ends in the limit", done, "fraction")]  # fmt: skip
    if way.selection == SINGLE:
        return [*found, _figure("success", _range(way), "fraction", formula, terms)]
    if len(terms) > 1:
        found.append(_figure("success_of_one_answer", one, "fraction", formula, terms))
        terms = [_term("success of one answer", one, "fraction")]
    terms += [
        _term("correlation of two answers to a task", level.likeness.correlation, "", "calibration",
              f"{_ALIKE}, known of the model: {level.likeness.known}"),
        _term("diversity of wrong answers", level.wrong.diversity, "", "calibration", f"{_ALIKE}, fitted to votes"),
    ]  # fmt: skip
    several = _SEVERAL.get(way.selection, _SEVERAL[""]).format(n=format_si(way.samples))
    return [*found, _figure("success", _range(way), "fraction", several, terms)]


def _floor(level: Level, asked: Tasks) -> tuple[str, str]:
    """Where success without thinking was read, or that it is the law's."""
    known = [row for row, _ in known_levels(level.name, asked.benchmark) if row.kind == "instruct"]
    return ("fact", f"{known[0].source}, {known[0].locator}") if known else ("calibration", f"{_LEVELS}, law of levels")


def _range(way: Way) -> dict[str, Any]:
    return {"p05": way.low, "p50": way.success, "p95": way.high, "unit": ""}
