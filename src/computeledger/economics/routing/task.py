"""A routing question read from TOML: models, prices, chances, rates and correlations, each with its uncertainty."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from computeledger.arrays import Range, Uncertain, median, sample
from computeledger.economics.prices.sheets import KINDS, PriceSheet, Usage, bill, read_sheet, sheet_of
from computeledger.economics.routing.model import (
    FAILED_COST_RATIO,
    MODEL_CORRELATION,
    Fallback,
    RouteModel,
    RouteTask,
    Verifier,
    beta_quantile,
)
from computeledger.errors import InputError, nearest, shown
from computeledger.facts.reading import Document, read_file
from computeledger.sources import load_sources
from computeledger.units import TOKENS_PER_MTOK, parse_quantity

#: What is assumed of correlations where nothing is known: benchmarks of agents lie about here.
RETRY_RANGE, MODEL_RANGE = Range(0.5, 0.85, bounded=True), Range(0.4, 0.85, bounded=True)
#: Keys of a route's tables, each as its file has them.
MODEL_KEYS = (
    "name", "success", "input_tokens", "cached_tokens", "output_tokens", "price", "usd_per_attempt", "seconds",
    "retry_correlation", "retry_odds_ratio", "failed_cost_ratio", "tool_failure", "patch_tokens",
    "source",
)  # fmt: skip
_RATES = {"false_accept": 0.0, "false_reject": 0.0, "model_correlation": MODEL_CORRELATION, "person_success": 1.0}
TASK_KEYS = ("model_correlation", "latency_usd_per_hour", "min_success", "failure_usd", "max_tries", "max_depth",
              "title")  # fmt: skip
VERIFIER_KEYS, FALLBACK_KEYS = ("usd", "seconds", "false_accept", "false_reject"), ("usd", "seconds", "success")


@dataclass(frozen=True, slots=True)
class ModelQuestion:
    """A model as the question describes it."""

    name: str
    chances: Mapping[str, Uncertain | tuple[float, float]]
    attempt_usd: Uncertain
    attempt_s: Uncertain = 0.0
    retry_correlation_fraction: Uncertain = RETRY_RANGE
    failed_cost_ratio: Uncertain = FAILED_COST_RATIO
    retry_odds_ratio: Uncertain = 1.0
    tool_failure_fraction: Uncertain = 0.0
    usd_per_mtok: float = 0.0
    is_assumed: tuple[str, ...] = ()
    source: str = ""


@dataclass(frozen=True, slots=True)
class RouteCase:
    """Everything a routing question says."""

    models: tuple[ModelQuestion, ...]
    settings: RouteTask
    difficulty: Mapping[str, float] = field(default_factory=lambda: {"all": 1.0})
    least_success_fraction: float | None = None
    uncertain: Mapping[str, Uncertain] = field(default_factory=lambda: {"model_correlation": MODEL_RANGE})


def read_route(path: str | Path, sheets: Callable[[str], PriceSheet] | None = None) -> RouteCase:
    """Read a routing question from TOML.

    Examples
    --------
    >>> read_route("missing.toml")
    Traceback (most recent call last):
    computeledger.errors.InputError: missing.toml: no such file
    """
    return route_of(read_file(Path(path)), Path(path).parent, sheets)


def route_of(document: Document, folder: Path, sheets: Callable[[str], PriceSheet] | None = None) -> RouteCase:
    r"""Check a parsed routing question.

    Examples
    --------
    >>> from computeledger.facts.reading import parse_document
    >>> text = '[[model]]\nname = "a"\nsuccess = [37, 90]\nusd_per_attempt = 0.02'
    >>> route_of(parse_document("x.toml", text, False), Path()).models[0].chances
    {'all': (37, 90)}
    """
    table = document.table
    _keys(document, "", table, ("task", "verifier", "fallback", "difficulty", "model", "attempts"))
    task = _table(document, "task", TASK_KEYS)
    checks = _table(document, "verifier", VERIFIER_KEYS)
    uncertain = {
        name: _rate(document, f"verifier.{name}", checks.get(name, 0)) for name in ("false_accept", "false_reject")
    }
    uncertain["model_correlation"] = _rate(
        document, "task.model_correlation", task.get("model_correlation", MODEL_RANGE)
    )
    verifier = Verifier(
        _amount(document, "verifier.usd", checks.get("usd", 0)),
        _amount(document, "verifier.seconds", checks.get("seconds", 0)),
    )
    person = _table(document, "fallback", FALLBACK_KEYS)
    fallback = None
    if person:
        fallback = Fallback(
            _amount(document, "fallback.usd", person.get("usd", 0)),
            _amount(document, "fallback.seconds", person.get("seconds", 0)),
        )
        uncertain["person_success"] = _rate(document, "fallback.success", person.get("success", 1.0))
    difficulty = {
        name: _share(document, f"difficulty.{name}", value) for name, value in table.get("difficulty", {}).items()
    }
    if difficulty and abs(sum(difficulty.values()) - 1) > 1e-6:
        raise document.error("difficulty", f"the shares add up to {sum(difficulty.values()):g}, they must make 1")
    entries = table.get("model", [])
    if not isinstance(entries, list) or not entries:
        raise document.error("model", "at least one [[model]] is needed")
    shares = difficulty or {"all": 1.0}
    models = tuple(_model(document, place, one, (folder, sheets, shares)) for place, one in enumerate(entries))
    stand_in = RouteModel("any", 0.5, 0.0, 0.0)
    settings = RouteTask(
        (stand_in,), verifier, fallback,
        MODEL_CORRELATION,
        _amount(document, "task.latency_usd_per_hour", task.get("latency_usd_per_hour", 0)),
        _count(document, "task.max_tries", task.get("max_tries", 4), 8),
        _count(document, "task.max_depth", task.get("max_depth", 3), 4),
        _amount(document, "task.failure_usd", task.get("failure_usd", 0)),
    )  # fmt: skip
    least = _share(document, "task.min_success", task["min_success"]) if "min_success" in task else None
    return RouteCase(models, settings, shares, least, uncertain)


def _keys(document: Document, path: str, table: Mapping[str, Any], allowed: tuple[str, ...]) -> None:
    for key in table:
        if key not in allowed:
            raise document.error(f"{path}.{key}".strip("."), f"is unknown: {nearest(key, allowed)}")


def _table(document: Document, name: str, allowed: tuple[str, ...]) -> Mapping[str, Any]:
    table = document.table.get(name, {})
    if not isinstance(table, Mapping):
        raise document.error(name, "expected a table")
    _keys(document, name, table, allowed)
    return table


def _amount(document: Document, path: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or value < 0:
        raise document.error(path, f"{shown(value)}: expected a number that is not negative")
    return float(value)


def _share(document: Document, path: str, value: Any) -> float:
    number = _amount(document, path, value)
    if number > 1:
        raise document.error(path, f"{number:g}: a probability must lie in 0..1")
    return number


def _count(document: Document, path: str, value: Any, most: int) -> int:
    number = _amount(document, path, value)
    if number != int(number) or not 1 <= number <= most:
        raise document.error(path, f"{number:g}: expected a whole number from 1 to {most}")
    return int(number)


def _uncertain(document: Document, path: str, value: Any, dimension: str, unit: str) -> Uncertain:
    try:
        return parse_quantity(value, dimension, unit)
    except InputError as error:
        raise document.error(path, str(error)) from None


def _rate(document: Document, path: str, value: Any) -> Uncertain:
    """A probability: a number, a range, or counts as ``[happened, tried]`` with Jeffreys' 90 % interval."""
    if isinstance(value, Range):
        return value
    if isinstance(value, list):
        a, b = _counts(document, path, value)
        return _jeffreys(a, b)
    if isinstance(value, str):
        found = _uncertain(document, path, value, "fraction", "")
        if isinstance(found, Range):
            return found
        value = found
    return _share(document, path, value)


def _jeffreys(happened: float, tried: float) -> Range:
    """Interval of a rate from counts; no count makes it certain."""
    draws = np.random.default_rng(0).beta(happened + 0.5, tried - happened + 0.5, 4001)
    low, high = np.quantile(draws, [0.05, 0.95])
    return Range(float(low), float(high), bounded=True)


def _counts(document: Document, path: str, value: list[Any]) -> tuple[int, int]:
    whole = all(isinstance(v, int) and not isinstance(v, bool) and v >= 0 for v in value)
    if len(value) != 2 or not whole or value[0] > value[1]:
        raise document.error(path, f"{value}: expected [successes, attempts]")
    if value[1] == 0:
        raise document.error(path, "no attempt was counted: give a probability instead")
    return value[0], value[1]


def _chance(document: Document, path: str, value: Any) -> Uncertain | tuple[float, float]:
    return _counts(document, path, value) if isinstance(value, list) else _rate(document, path, value)


def _model(
    document: Document,
    place: int,
    table: Any,
    where: tuple[Path, Callable[[str], PriceSheet] | None, Mapping[str, float]],
) -> ModelQuestion:
    folder, sheets, shares = where
    if not isinstance(table, Mapping) or not isinstance(table.get("name"), str):
        raise document.error("model", f"[[model]] number {place + 1} has no name")
    name = table["name"]
    _keys(document, name, table, MODEL_KEYS)
    if "success" not in table:
        raise document.error(
            f"{name}.success", "is missing: a probability, [successes, attempts] or one per difficulty"
        )
    given = table["success"]
    chances = given if isinstance(given, Mapping) else dict.fromkeys(shares, given)
    if set(chances) != set(shares):
        raise document.error(f"{name}.success", f"names {', '.join(chances)}; [difficulty] names {', '.join(shares)}")
    read = {kind: _chance(document, f"{name}.success", value) for kind, value in chances.items()}
    broken = _rate(document, f"{name}.tool_failure", table.get("tool_failure", 0))
    if all(value == 0 for value in read.values()) or broken == 1:
        raise document.error(
            f"{name}.success", "0 for certain completes nothing: give what was counted, such as [0, 20]"
        )
    assumed = [
        f"{key} of {name} {default}"
        for key, default in (
            ("retry_correlation", "0.5..0.85"),
            ("failed_cost_ratio", f"{FAILED_COST_RATIO:g}"),
            ("seconds", "0"),
        )
        if key not in table
    ]
    usd, per_mtok = _attempt_usd(document, table, folder, sheets)
    return ModelQuestion(
        name, read, usd,
        _uncertain(document, f"{name}.seconds", table.get("seconds", 0), "s", "s"),
        _rate(document, f"{name}.retry_correlation", table.get("retry_correlation", RETRY_RANGE)),
        _factor(document, f"{name}.failed_cost_ratio", table.get("failed_cost_ratio", FAILED_COST_RATIO)),
        _factor(document, f"{name}.retry_odds_ratio", table.get("retry_odds_ratio", 1.0)),
        broken, per_mtok, tuple(assumed), _source(document, table),
    )  # fmt: skip


def _source(document: Document, table: Mapping[str, Any]) -> str:
    """Where a model's figures are from, the key of a source first: ``KEY, place``; empty where nothing is said."""
    given = table.get("source", "")
    if given != "" and (not isinstance(given, str) or given.partition(", ")[0] not in load_sources()):
        raise document.error(f"{table['name']}.source", f"{shown(given)}: no key of a source is called so")
    return str(given)


def _factor(document: Document, path: str, value: Any) -> Uncertain:
    """A ratio greater than 0, or a range of them."""
    if isinstance(value, str):
        found = _uncertain(document, path, value, "ratio", "")
        if isinstance(found, Range):
            return found
        value = found
    number = _amount(document, path, value)
    if number == 0:
        raise document.error(path, "must be greater than 0")
    return number


def _attempt_usd(
    document: Document, table: Mapping[str, Any], folder: Path, sheets: Callable[[str], PriceSheet] | None
) -> tuple[Uncertain, float]:
    """Cost of an attempt, stated or tokens times the price sheet with tiers by the median prompt; and of a token.

    The prompt holds its cached tokens, as a bill's does.
    """
    name = table["name"]
    if "usd_per_attempt" in table:
        return _uncertain(document, f"{name}.usd_per_attempt", table["usd_per_attempt"], "usd", "USD"), 0.0
    if "price" not in table or "input_tokens" not in table or "output_tokens" not in table:
        raise document.error(
            f"{name}.price", "needed are usd_per_attempt, or price with input_tokens and output_tokens"
        )
    sheet = _sheet(document, name, table["price"], folder, sheets)
    keys = ("input_tokens", "cached_tokens", "output_tokens", "patch_tokens")
    tokens = {key: _uncertain(document, f"{name}.{key}", table.get(key, 0), "tokens", "tokens") for key in keys}
    draws = sample(tokens, 256)
    prompt = draws["input_tokens"] + draws["patch_tokens"]
    cached, whole = float(median(draws["cached_tokens"])), float(median(prompt))
    if cached > whole:
        raise document.error(f"{name}.cached_tokens", f"{cached:,.0f} exceed the prompt of {whole:,.0f}")
    draws["cached_tokens"] = np.minimum(draws["cached_tokens"], prompt)
    usage = Usage(*(round(median(value)) for value in (prompt, draws["output_tokens"], draws["cached_tokens"])))
    per_mtok = float(bill(sheet, usage)["total"]) / max(usage.prompt_tokens + usage.output_tokens, 1) * TOKENS_PER_MTOK
    per = {kind: float(sheet.rates[kind].price(usage.prompt_tokens)) for kind in KINDS if kind in sheet.rates}
    if not any(isinstance(value, Range) for value in tokens.values()):
        return float(bill(sheet, usage)["total"]), per_mtok
    cost = (
        (prompt - draws["cached_tokens"]) * per["input"]
        + draws["output_tokens"] * per["output"]
        + draws["cached_tokens"] * per.get("cached_read", per["input"])
    ) / TOKENS_PER_MTOK
    low, high = np.quantile(cost, [0.05, 0.95])
    return Range(float(low), float(high)), per_mtok


def _sheet(
    document: Document, name: str, given: Any, folder: Path, sheets: Callable[[str], PriceSheet] | None
) -> PriceSheet:
    if isinstance(given, Mapping):
        return sheet_of(Document(document.name, document.text, {"name": name, "price": dict(given)}, False))
    if isinstance(given, str) and given.endswith(".toml"):
        return read_sheet(folder / given)
    if isinstance(given, str) and sheets is not None:
        return sheets(given)
    raise document.error(f"{name}.price", f"{shown(given)}: expected a table of prices, a .toml file or provider/model")


def route_task(question: RouteCase, kind: str, draw: np.random.Generator | None = None) -> RouteTask:
    """The task at the middle of what is uncertain, or at one draw of it.

    Chances from counts have Jeffreys' posterior, so that no success is no certainty of failure.

    Examples
    --------
    >>> one = ModelQuestion("a", {"all": (0, 20)}, 0.01)
    >>> task = route_task(RouteCase((one,), RouteTask((RouteModel("any", 0.5, 0, 0),))), "all")
    >>> 0 < task.models[0].success_fraction < 0.05
    True
    """

    def score() -> float:
        """Where in its interval the next number is taken."""
        return 0.0 if draw is None else float(draw.standard_normal())

    models = []
    for one in question.models:
        chance = _drawn_chance(one.chances[kind], draw) * (1 - at(one.tool_failure_fraction, score()))
        usd, s = at(one.attempt_usd, score()), at(one.attempt_s, score())
        ratio = at(one.failed_cost_ratio, score())
        # the mean over right and wrong attempts is what was given
        base = chance + (1 - chance) * ratio
        models.append(RouteModel(
            one.name, chance, usd / base, usd / base * ratio, s, s, at(one.retry_correlation_fraction, score()),
            at(one.retry_odds_ratio, score()),
        ))  # fmt: skip
    given, settings = question.uncertain, question.settings
    rates = {name: at(given.get(name, default), score()) for name, default in _RATES.items()}
    verifier, fallback = settings.verifier, settings.fallback
    return replace(
        settings, models=tuple(models), model_correlation_fraction=rates["model_correlation"],
        verifier=replace(verifier, false_accept_fraction=rates["false_accept"],
                         false_reject_fraction=rates["false_reject"]),
        fallback=None if fallback is None else replace(fallback, success_fraction=rates["person_success"]),
    )  # fmt: skip


def at(value: Uncertain, score: float) -> float:
    """A number, or a range's value at a normal score.

    Examples
    --------
    >>> at(Range(1.0, 4.0), 0.0)
    2.0
    """
    return float(value.quantile(score)) if isinstance(value, Range) else float(value)


def _drawn_chance(given: Uncertain | tuple[float, float], draw: np.random.Generator | None) -> float:
    if isinstance(given, tuple):
        a, b = given[0] + 0.5, given[1] - given[0] + 0.5
        return a / (a + b) if draw is None else float(beta_quantile(np.asarray(draw.standard_normal()), a, b))
    return at(given, 0.0 if draw is None else float(draw.standard_normal()))
