"""Public evaluations of models, the price sheets they are joined to, and how much an input weighs in one price."""

from __future__ import annotations

import csv
import functools
from dataclasses import dataclass
from importlib import resources

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Places = NDArray[np.intp]

#: Benchmarks with the share of answers that a guess gets right: four choices in GPQA, none elsewhere [-].
GUESS_FRACTION = {
    "gpqa-diamond": 0.25, "math-level-5": 0.0, "otis-mock-aime": 0.0, "frontiermath": 0.0, "frontiermath-tier-4": 0.0,
    "swe-bench-verified": 0.0, "aider-polyglot": 0.0,
}  # fmt: skip
#: The benchmark whose log-odds are the scale of ability.
ANCHOR = "gpqa-diamond"


@dataclass(frozen=True, slots=True)
class EvaluatedModel:
    """A version of a model, with what is known of it beside its scores."""

    version: str
    model: str
    released: str
    reasons: bool
    open_model: str


@dataclass(frozen=True, slots=True)
class EvaluatedPrice:
    """List prices of a version at its launch, or the last that a price source has [USD/Mtok]."""

    version: str
    when: str
    usd_per_mtok_input: float
    usd_per_mtok_output: float
    basis: str
    source: str
    locator: str

    def blended(self, inputs_per_output: float) -> float:
        """One price of a million tokens, of which so many are read for each that is written [USD/Mtok].

        Examples
        --------
        >>> EvaluatedPrice("x", "last", 2.0, 10.0, "list", "", "").blended(3.0)
        4.0
        """
        paid = inputs_per_output * self.usd_per_mtok_input + self.usd_per_mtok_output
        return paid / (inputs_per_output + 1.0)


@dataclass(frozen=True, slots=True)
class Results:
    """Scores, one row a run: whose, on what, and the standard error that the run has by its number of questions."""

    names: tuple[str, ...]
    benchmarks: tuple[str, ...]
    who: Places
    which: Places
    score: Floats
    error: Floats

    def where(self, mask: NDArray[np.bool_]) -> Results:
        """Rows that a mask keeps; models and benchmarks keep their places."""
        rows = (getattr(self, name)[mask] for name in ("who", "which", "score", "error"))
        return Results(self.names, self.benchmarks, *rows)


def _rows(file: str) -> list[dict[str, str]]:
    text = resources.files("computeledger.economics.quality").joinpath(file).read_text("utf-8")
    return list(csv.DictReader(text.splitlines()))


def name_of(version: str, effort: str) -> str:
    """A version as it was run: with its effort of reasoning, or the tokens it may think, where they were set.

    Examples
    --------
    >>> name_of("o3-2025-04-16", "high"), name_of("gpt-4-0613", "")
    ('o3-2025-04-16 (high)', 'gpt-4-0613')
    """
    return f"{version} ({effort})" if effort else version


@functools.cache
def evaluated_models() -> dict[str, EvaluatedModel]:
    """Versions that were evaluated, by name.

    References
    ----------
    epoch-benchmark-runs.

    Examples
    --------
    >>> evaluated_models()["gpt-4-0314"].released
    '2023-03-14'
    """
    return {
        row["version"]: EvaluatedModel(
            row["version"], row["model"], row["released"], row["reasons"] == "yes", row["open_model"]
        )
        for row in _rows("evaluated_models.csv")
    }


@functools.cache
def evaluated_prices(when: str = "last") -> dict[str, EvaluatedPrice]:
    """Prices by version: at ``launch``, or the ``last`` that are known. Versions that no source prices are left out.

    References
    ----------
    genai-prices; litellm-prices; litellm-editions.

    Examples
    --------
    >>> first, last = (evaluated_prices(when)["o3-2025-04-16"].usd_per_mtok_input for when in ("launch", "last"))
    >>> first, last
    (10.0, 2.0)
    """
    return {
        row["version"]: EvaluatedPrice(
            row["version"], row["when"], float(row["usd_in"]), float(row["usd_out"]),
            row["basis"], row["source"], row["locator"],
        )
        for row in _rows("evaluated_prices.csv")
        if row["when"] == when
    }  # fmt: skip


def unpriced() -> tuple[str, ...]:
    """Versions that were evaluated and that no price source names: listed, and not guessed.

    Examples
    --------
    >>> "gemini-2.5-deep-think-2025-08-01-webapp" in unpriced()
    True
    """
    return tuple(sorted(set(evaluated_models()) - set(evaluated_prices("last"))))


@functools.cache
def version_of() -> dict[str, tuple[str, str]]:
    """Version and effort by the name a result has.

    Examples
    --------
    >>> version_of()["o3-2025-04-16 (high)"]
    ('o3-2025-04-16', 'high')
    """
    return {name_of(row["version"], row["effort"]): (row["version"], row["effort"]) for row in _rows("evaluations.csv")}


@functools.cache
def evaluations() -> Results:
    """Every shipped run: Epoch AI's own of six benchmarks, and those of Aider's polyglot.

    References
    ----------
    epoch-benchmark-runs.

    Examples
    --------
    >>> found = evaluations()
    >>> len(found.score) > 500 and set(found.benchmarks) == set(GUESS_FRACTION)
    True
    """
    rows = _rows("evaluations.csv")
    names = tuple(dict.fromkeys(name_of(row["version"], row["effort"]) for row in rows))
    benchmarks = tuple(GUESS_FRACTION)
    places = {name: place for place, name in enumerate(names)}
    return Results(
        names,
        benchmarks,
        np.array([places[name_of(row["version"], row["effort"])] for row in rows]),
        np.array([benchmarks.index(row["benchmark"]) for row in rows]),
        np.array([float(row["score"]) for row in rows]),
        np.array([float(row["standard_error"] or 0.0) for row in rows]),
    )
