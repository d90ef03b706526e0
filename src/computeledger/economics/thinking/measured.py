"""Published success by model, thinking budget and samples: one row per figure, with its source and place."""

from __future__ import annotations

import csv
import functools
import math
from dataclasses import dataclass
from datetime import date
from importlib import resources

from computeledger.units import GIGA, MONTHS_PER_YEAR

#: Chance of a right answer without knowledge, where a benchmark has choices.
GUESS = {"gpqa-diamond": 0.25}
#: Kinds of a model's answers at their natural length whose level a law predicts: instruction-tuned without thinking,
#: fine-tuned on another model's thoughts, thinking after RL (or distilled from such a model's logits).
KINDS = ("instruct", "distilled", "thinking")
#: Benchmarks on which many sizes were published.
LEVEL_BENCHMARKS = ("math-500", "aime-2024", "aime-2025", "gpqa-diamond")
#: What is known of a model whose figure is predicted, where nothing is.
UNKNOWN = "nothing"
#: Sources of levels; where several publish one model on one benchmark, the first of them.
_LEVEL_SOURCES = ("qwen3-report", "deepseek-r1-report", "best-of-infinity")
#: Beginnings of names that one maker trained alike; any other model is a family of its own.
_FAMILIES = ("DeepSeek-R1-Distill", "DeepSeek", "Gemma-3", "Llama-3", "Llama-4", "Phi-4", "QwQ", "Qwen2.5", "Qwen3")


@dataclass(frozen=True, slots=True)
class Measured:
    """A published success.

    Attributes
    ----------
    source, locator : str
        Key of the source, and where in it.
    model, kind, benchmark : str
        Name as published; how it was trained and asked; the tasks.
    active, total : float
        Parameters multiplied per token, and stored [-]; nan where not published.
    budget_tokens : float
        Limit of an answer, or of all tries at a task together; 0 without thinking, infinite without a limit [token].
    mean_tokens : float
        Of an answer as measured [token]; nan where not published.
    samples : float
        Answers per task [-]; nan where they were drawn until one was right.
    selection : str
        ``single``, ``vote``, ``any`` (one is right), ``reward-model``, ``until-right`` (within the budget).
    success : float
        Share of tasks [-].
    """

    source: str
    locator: str
    model: str
    kind: str
    benchmark: str
    active: float
    total: float
    budget_tokens: float
    mean_tokens: float
    samples: float
    selection: str
    success: float


def _rows(file: str) -> list[dict[str, str]]:
    text = resources.files("computeledger.economics.thinking").joinpath(file).read_text("utf-8")
    return list(csv.DictReader(text.splitlines()))


@functools.cache
def measured() -> tuple[Measured, ...]:
    """All published rows.

    References
    ----------
    adaptthink; best-of-infinity; budgeted-maths-runs; deepseek-r1-report; epoch-benchmark-runs; gpt-oss-card;
    o1-mini-test-time; qwen3-report; s1-bench; short-m-at-k; test-time-scaling-1b-405b.

    Examples
    --------
    >>> len(measured()) > 500, all(0 <= row.success <= 1 for row in measured())
    (True, True)
    """
    return tuple(
        Measured(
            row["source"], row["locator"], row["model"], row["kind"], row["benchmark"],
            float(row["active"] or "nan") * GIGA, float(row["total"] or "nan") * GIGA,
            float(row["budget_tokens"] or math.inf), float(row["mean_tokens"] or "nan"),
            float(row["samples"] or "nan"), row["selection"], float(row["success"]),
        )
        for row in _rows("curves.csv")
    )  # fmt: skip


@functools.cache
def _trained() -> dict[str, tuple[float, float]]:
    """Pretraining tokens and year of release, by the beginning of a model's name."""
    found = {}
    for row in _rows("pretraining.csv"):
        released = date.fromisoformat(row["released"])
        found[row["model"]] = float(row["pretraining_tokens"]), released.year + (released.month - 1) / MONTHS_PER_YEAR
    return found


def _of(model: str) -> tuple[float, float] | None:
    known = [name for name in _trained() if model.startswith(name)]
    return _trained()[max(known, key=len)] if known else None


def pretraining_tokens(model: str) -> float | None:
    """Tokens that a model, or its base, was pretrained on; of the longest name in the table that begins its own.

    Examples
    --------
    >>> pretraining_tokens("Qwen3-8B"), pretraining_tokens("nobody's")
    (36000000000000.0, None)
    """
    known = _of(model)
    return known[0] if known else None


def released_year(model: str) -> float:
    """Year in which a model was released; of one that the table does not know, the newest in it (an assumption).

    Examples
    --------
    >>> round(released_year("Qwen2.5-7B"), 1) < round(released_year("Qwen3-8B"), 1) <= released_year("nobody's")
    True
    """
    known = _of(model)
    return known[1] if known else max(year for _, year in _trained().values())


def family_of(model: str) -> str:
    """Family that a model's name begins with.

    Examples
    --------
    >>> family_of("Qwen3-8B"), family_of("DeepSeek-R1-Distill-Qwen-7B"), family_of("LIMO-v2")
    ('Qwen3', 'DeepSeek-R1-Distill', 'LIMO-v2')
    """
    return next((name for name in _FAMILIES if model.startswith(name)), model)


@functools.cache
def level_rows() -> tuple[Measured, ...]:
    """Single answers at natural length of models whose sizes and pretraining tokens are known."""
    found: dict[tuple[str, str, str], Measured] = {}
    for row in sorted(
        (row for row in measured() if row.source in _LEVEL_SOURCES), key=lambda row: _LEVEL_SOURCES.index(row.source)
    ):
        if (
            row.selection == "single"
            and row.benchmark in LEVEL_BENCHMARKS
            and row.kind in KINDS
            and "policy" not in row.model
            and pretraining_tokens(row.model) is not None
        ):
            found.setdefault((row.model, row.kind, row.benchmark), row)
    return tuple(found.values())
