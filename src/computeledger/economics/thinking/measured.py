"""Published success by model, thinking budget and samples: one row per figure, with its source and place."""

from __future__ import annotations

import csv
import functools
import math
from dataclasses import dataclass
from importlib import resources

from computeledger.units import GIGA

#: Chance of a right answer without knowledge, where a benchmark has choices.
GUESS = {"gpqa-diamond": 0.25}
#: Kinds of a model's answers at their natural length whose level a law predicts: instruction-tuned without thinking,
#: fine-tuned on another model's thoughts, thinking after RL (or distilled from such a model's logits).
KINDS = ("instruct", "distilled", "thinking")
#: Benchmarks on which many sizes were published.
LEVEL_BENCHMARKS = ("math-500", "aime-2024", "aime-2025", "gpqa-diamond")


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
    adaptthink; budgeted-maths-runs; deepseek-r1-report; epoch-benchmark-runs; gpt-oss-card; o1-mini-test-time;
    qwen3-report; s1-bench; short-m-at-k; test-time-scaling-1b-405b.

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
def _pretraining() -> dict[str, float]:
    return {row["model"]: float(row["pretraining_tokens"]) for row in _rows("pretraining.csv")}


def pretraining_tokens(model: str) -> float | None:
    """Tokens that a model, or its base, was pretrained on; of the longest name in the table that begins its own.

    Examples
    --------
    >>> pretraining_tokens("Qwen3-8B"), pretraining_tokens("nobody's")
    (36000000000000.0, None)
    """
    known = [name for name in _pretraining() if model.startswith(name)]
    return _pretraining()[max(known, key=len)] if known else None


def level_rows() -> tuple[Measured, ...]:
    """Single answers at natural length of models whose sizes and pretraining tokens are known."""
    return tuple(
        row
        for row in measured()
        if row.selection == "single"
        and row.benchmark in LEVEL_BENCHMARKS
        and row.kind in KINDS
        and row.source in ("qwen3-report", "deepseek-r1-report")
        and "policy" not in row.model
        and pretraining_tokens(row.model) is not None
    )
