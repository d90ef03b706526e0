"""A routing question read from TOML, or from a table of attempts: models, prices, chances with their uncertainty."""

from __future__ import annotations

import csv
import json
import math
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from computeledger.arrays import Range, Uncertain, median, sample
from computeledger.economics.prices import KINDS, PriceSheet, Usage, bill, read_sheet, sheet_of
from computeledger.economics.routing import (
    FAILED_COST_RATIO,
    MODEL_CORRELATION,
    RETRY_CORRELATION,
    Fallback,
    RouteModel,
    RouteTask,
    Verifier,
    normal_nodes,
    success_by_task,
)
from computeledger.errors import InputError, nearest, shown
from computeledger.facts.reading import Document, read_file
from computeledger.units import TOKENS_PER_MTOK, parse_quantity

_MODEL_KEYS = (
    "name", "success", "input_tokens", "cached_tokens", "output_tokens", "price", "usd_per_attempt", "seconds",
    "retry_correlation", "failed_cost_ratio", "tool_failure", "patch_tokens",
)  # fmt: skip
_TASK_KEYS = ("model_correlation", "latency_usd_per_hour", "min_success", "max_tries", "max_depth", "title")


@dataclass(frozen=True, slots=True)
class ModelQuestion:
    """A model as the question describes it.

    Attributes
    ----------
    name : str
        Of the model.
    chances : mapping of str to float or tuple of int
        By difficulty: a chance, or successes and attempts. ``all`` where difficulty is not told apart.
    attempt_usd : float or Range
        Cost of an attempt, over right and wrong ones [USD].
    attempt_s : float or Range
        Time of one [s].
    retry_correlation_fraction : float
        Of attempts at one task [-].
    failed_cost_ratio : float
        Cost of a failed over a solved attempt [-].
    is_assumed : tuple of str
        What the question left open.
    """

    name: str
    chances: Mapping[str, float | tuple[int, int]]
    attempt_usd: Uncertain
    attempt_s: Uncertain = 0.0
    retry_correlation_fraction: float = RETRY_CORRELATION
    failed_cost_ratio: float = FAILED_COST_RATIO
    is_assumed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RouteQuestion:
    """Everything a routing question says.

    Attributes
    ----------
    models : tuple of ModelQuestion
        To choose from.
    settings : RouteTask
        Verifier, fallback, correlation and limits; its models are replaced.
    difficulty : mapping of str to float
        Share of tasks of each difficulty [-].
    least_success_fraction : float
        Success that is needed [-].
    """

    models: tuple[ModelQuestion, ...]
    settings: RouteTask
    difficulty: Mapping[str, float] = field(default_factory=lambda: {"all": 1.0})
    least_success_fraction: float = 0.0


def read_route(path: str | Path, sheets: Callable[[str], PriceSheet] | None = None) -> RouteQuestion:
    """Read a routing question from TOML.

    Parameters
    ----------
    path : str or Path
        The file: ``[task]``, ``[verifier]``, ``[fallback]``, ``[difficulty]`` and ``[[model]]``.
    sheets : callable, optional
        Finds the price sheet of ``provider/model``.

    Returns
    -------
    RouteQuestion
        Checked.

    Examples
    --------
    >>> read_route("missing.toml")
    Traceback (most recent call last):
    computeledger.errors.InputError: missing.toml: no such file
    """
    return route_of(read_file(Path(path)), Path(path).parent, sheets)


def route_of(document: Document, folder: Path, sheets: Callable[[str], PriceSheet] | None = None) -> RouteQuestion:
    r"""Check a parsed routing question.

    Parameters
    ----------
    document : Document
        The parsed file.
    folder : Path
        Where the price sheets it names lie.
    sheets : callable, optional
        Finds the price sheet of ``provider/model``.

    Returns
    -------
    RouteQuestion
        Checked.

    Examples
    --------
    >>> from computeledger.facts.reading import parse_document
    >>> text = '[[model]]\nname = "a"\nsuccess = [37, 90]\nusd_per_attempt = 0.02'
    >>> route_of(parse_document("x.toml", text, False), Path()).models[0].chances
    {'all': (37, 90)}
    """
    table = document.table
    _keys(document, "", table, ("task", "verifier", "fallback", "difficulty", "model", "attempts"))
    task = _table(document, "task", _TASK_KEYS)
    checks = _table(document, "verifier", ("usd", "seconds", "false_accept", "false_reject"))
    verifier = Verifier(
        _amount(document, "verifier.usd", checks.get("usd", 0)),
        _amount(document, "verifier.seconds", checks.get("seconds", 0)),
        _share(document, "verifier.false_accept", checks.get("false_accept", 0)),
        _share(document, "verifier.false_reject", checks.get("false_reject", 0)),
    )  # fmt: skip
    person = _table(document, "fallback", ("usd", "seconds", "success"))
    fallback = None
    if person:
        fallback = Fallback(
            _amount(document, "fallback.usd", person.get("usd", 0)),
            _amount(document, "fallback.seconds", person.get("seconds", 0)),
            _share(document, "fallback.success", person.get("success", 1.0)),
        )  # fmt: skip
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
        _share(document, "task.model_correlation", task.get("model_correlation", MODEL_CORRELATION)),
        _amount(document, "task.latency_usd_per_hour", task.get("latency_usd_per_hour", 0)),
        _count(document, "task.max_tries", task.get("max_tries", 4), 8),
        _count(document, "task.max_depth", task.get("max_depth", 3), 4),
    )  # fmt: skip
    return RouteQuestion(models, settings, shares, _share(document, "task.min_success", task.get("min_success", 0)))


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


def _chance(document: Document, path: str, value: Any) -> float | tuple[int, int]:
    if isinstance(value, list):
        if (
            len(value) != 2
            or any(isinstance(v, bool) or not isinstance(v, int) or v < 0 for v in value)
            or value[0] > value[1]
        ):
            raise document.error(path, f"{value}: expected [successes, attempts]")
        if value[1] == 0:
            raise document.error(path, "no attempt was counted: give a probability instead")
        return value[0], value[1]
    return _share(document, path, value)


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
    _keys(document, name, table, _MODEL_KEYS)
    if "success" not in table:
        raise document.error(
            f"{name}.success", "is missing: a probability, [successes, attempts] or one per difficulty"
        )
    given = table["success"]
    chances = given if isinstance(given, Mapping) else dict.fromkeys(shares, given)
    if set(chances) != set(shares):
        raise document.error(f"{name}.success", f"names {', '.join(chances)}; [difficulty] names {', '.join(shares)}")
    read = {kind: _chance(document, f"{name}.success", value) for kind, value in chances.items()}
    broken = _share(document, f"{name}.tool_failure", table.get("tool_failure", 0))
    if broken:  # an attempt that breaks off is one that fails
        read = {kind: (value * (1 - broken) if isinstance(value, float) else value) for kind, value in read.items()}
    assumed = [
        f"{key} of {name} {default:g}"
        for key, default in (("retry_correlation", RETRY_CORRELATION), ("failed_cost_ratio", FAILED_COST_RATIO))
        if key not in table
    ]
    return ModelQuestion(
        name, read, _attempt_usd(document, table, folder, sheets),
        _uncertain(document, f"{name}.seconds", table.get("seconds", 0), "s", "s"),
        _share(document, f"{name}.retry_correlation", table.get("retry_correlation", RETRY_CORRELATION)),
        _amount(document, f"{name}.failed_cost_ratio", table.get("failed_cost_ratio", FAILED_COST_RATIO)),
        tuple(assumed),
    )  # fmt: skip


def _attempt_usd(
    document: Document, table: Mapping[str, Any], folder: Path, sheets: Callable[[str], PriceSheet] | None
) -> Uncertain:
    """Cost of an attempt: stated, or tokens times the price sheet, tiers by the median prompt."""
    name = table["name"]
    if "usd_per_attempt" in table:
        return _uncertain(document, f"{name}.usd_per_attempt", table["usd_per_attempt"], "usd", "USD")
    if "price" not in table or "input_tokens" not in table or "output_tokens" not in table:
        raise document.error(
            f"{name}.price", "needed are usd_per_attempt, or price with input_tokens and output_tokens"
        )
    sheet = _sheet(document, name, table["price"], folder, sheets)
    keys = ("input_tokens", "cached_tokens", "output_tokens", "patch_tokens")
    tokens = {key: _uncertain(document, f"{name}.{key}", table.get(key, 0), "tokens", "tokens") for key in keys}
    draws = sample(tokens, 256)
    prompt = draws["input_tokens"] + draws["patch_tokens"] + draws["cached_tokens"]
    usage = Usage(*(round(median(value)) for value in (prompt, draws["output_tokens"], draws["cached_tokens"])))
    per = {kind: float(sheet.rates[kind].price(usage.input_tokens)) for kind in KINDS if kind in sheet.rates}
    if not any(isinstance(value, Range) for value in tokens.values()):
        return float(bill(sheet, usage)["total"])
    cost = (
        (prompt - draws["cached_tokens"]) * per["input"] + draws["output_tokens"] * per["output"]
        + draws["cached_tokens"] * per.get("cached_read", per["input"])
    ) / TOKENS_PER_MTOK  # fmt: skip
    low, high = np.quantile(cost, [0.05, 0.95])
    return Range(float(low), float(high))


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


def route_task(question: RouteQuestion, kind: str, draw: np.random.Generator | None = None) -> RouteTask:
    """The task at the middle of what is uncertain, or at one draw of it.

    Chances from counts have Jeffreys' posterior, so that no success is no certainty of failure.

    Parameters
    ----------
    question : RouteQuestion
        As it was read.
    kind : str
        Difficulty.
    draw : numpy.random.Generator, optional
        Draws one value of everything uncertain.

    Returns
    -------
    RouteTask
        With numbers.

    Examples
    --------
    >>> one = ModelQuestion("a", {"all": (0, 20)}, 0.01)
    >>> task = route_task(RouteQuestion((one,), RouteTask((RouteModel("any", 0.5, 0, 0),))), "all")
    >>> 0 < task.models[0].success_fraction < 0.05
    True
    """
    models = []
    for one in question.models:
        chance = one.chances[kind]
        if isinstance(chance, tuple):
            a, b = chance[0] + 0.5, chance[1] - chance[0] + 0.5
            chance = a / (a + b) if draw is None else float(draw.beta(a, b))
        score = 0.0 if draw is None else float(draw.standard_normal())
        usd, s = (float(v.quantile(score)) if isinstance(v, Range) else v for v in (one.attempt_usd, one.attempt_s))
        # the mean over right and wrong attempts is what was given
        base = chance + (1 - chance) * one.failed_cost_ratio
        models.append(RouteModel(
            one.name, chance, usd / base, usd / base * one.failed_cost_ratio, s, s, one.retry_correlation_fraction
        ))  # fmt: skip
    settings = question.settings
    return RouteTask(
        tuple(models), settings.verifier, settings.fallback, settings.model_correlation_fraction,
        settings.usd_per_hour, settings.max_tries, settings.max_depth,
    )  # fmt: skip


def fit_attempts(path: str | Path) -> tuple[tuple[ModelQuestion, ...], float]:
    """Fit chances, correlations and costs to a table of attempts.

    Parameters
    ----------
    path : str or Path
        CSV or JSONL with ``model, task, success, cost`` and perhaps ``seconds``; one row per attempt.

    Returns
    -------
    tuple of tuple and float
        Models, and the correlation of the copula between them.

    Examples
    --------
    >>> fit_attempts("missing.csv")
    Traceback (most recent call last):
    computeledger.errors.InputError: missing.csv: no such file
    """
    rows = _attempts(Path(path))
    by_model: dict[str, dict[str, list[tuple[bool, float, float]]]] = defaultdict(lambda: defaultdict(list))
    for model, task, *rest in rows:
        by_model[model][task].append((bool(rest[0]), float(rest[1]), float(rest[2])))
    models = tuple(_fitted(name, tasks) for name, tasks in by_model.items())
    return models, _fitted_copula(by_model, {model.name: model for model in models})


def _attempts(file: Path) -> list[tuple[str, str, bool, float, float]]:
    if not file.is_file():
        raise InputError(f"{file.name}: no such file")
    text = file.read_text("utf-8")
    if file.suffix == ".jsonl":
        try:
            table = [json.loads(line) for line in text.splitlines() if line.strip()]
        except json.JSONDecodeError as error:
            raise InputError(f"{file.name}: not valid JSONL: {error.msg}") from None
    else:
        table = list(csv.DictReader(text.splitlines()))
    needed = ("model", "task", "success", "cost")
    if not table or any(column not in table[0] for column in needed):
        raise InputError(f"{file.name}: needed are the columns {', '.join(needed)}")
    out = []
    for line, row in enumerate(table, 2 if file.suffix != ".jsonl" else 1):
        word = str(row["success"]).strip().lower()
        if word not in ("0", "1", "true", "false", "1.0", "0.0"):
            raise InputError(f"{file.name}:{line}: success {shown(row['success'])}: expected true or false, 1 or 0")
        try:
            cost, seconds = float(row["cost"]), float(row.get("seconds") or 0.0)
        except (TypeError, ValueError):
            raise InputError(f"{file.name}:{line}: cost {shown(row['cost'])}: expected a number") from None
        if not (cost >= 0 and math.isfinite(cost)):
            raise InputError(f"{file.name}:{line}: cost {cost:g}: must not be negative")
        out.append((str(row["model"]), str(row["task"]), word in ("1", "true", "1.0"), cost, seconds))
    return out


def _fitted(name: str, tasks: Mapping[str, list[tuple[bool, float, float]]]) -> ModelQuestion:
    every = [attempt for attempts in tasks.values() for attempt in attempts]
    solved = sum(right for right, _, _ in every)
    pairs = [(sum(r for r, _, _ in a), len(a)) for a in tasks.values() if len(a) > 1]
    rho, assumed = RETRY_CORRELATION, [f"retry_correlation of {name} {RETRY_CORRELATION:g}"]
    share = solved / len(every)
    weight = sum(n * (n - 1) for _, n in pairs)
    if weight and 0 < share < 1:
        # two attempts at one task are both right with p^2 + rho p (1 - p)
        both = sum(k * (k - 1) for k, _ in pairs) / weight
        rho, assumed = float(np.clip((both - share**2) / (share * (1 - share)), 0.0, 0.99)), []
    costs = [np.mean([c for r, c, _ in every if r is right] or [0.0]) for right in (True, False)]
    ratio = float(costs[1] / costs[0]) if costs[0] > 0 and costs[1] > 0 else FAILED_COST_RATIO
    return ModelQuestion(
        name, {"all": (solved, len(every))}, float(np.mean([c for _, c, _ in every])),
        float(np.mean([s for _, _, s in every])), rho, ratio, tuple(assumed),
    )  # fmt: skip


def _fitted_copula(
    by_model: Mapping[str, Mapping[str, list[tuple[bool, float, float]]]], models: Mapping[str, ModelQuestion]
) -> float:
    """Correlation at which pairs of models are both right as often as they were."""
    names = list(by_model)
    seen: list[tuple[str, str, float, int]] = []
    for i, one in enumerate(names):
        for other in names[i + 1 :]:
            shared = by_model[one].keys() & by_model[other].keys()
            if shared:
                both = np.mean([by_model[one][t][0][0] and by_model[other][t][0][0] for t in shared])
                seen.append((one, other, float(both), len(shared)))
    if not seen:
        return MODEL_CORRELATION
    _, weight = normal_nodes()
    low, high = 0.0, 1.0
    for _ in range(14):
        middle = 0.5 * (low + high)
        given = {}
        for name in names:
            solved, n = models[name].chances["all"]  # type: ignore[misc]
            chance, own = success_by_task(solved / n, models[name].retry_correlation_fraction, middle)
            given[name] = chance @ own
        gap = sum(n * (both - float((given[a] * given[b]) @ weight)) for a, b, both, n in seen)
        low, high = (middle, high) if gap > 0 else (low, middle)
    return 0.5 * (low + high)
