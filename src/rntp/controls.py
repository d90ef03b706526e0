"""What a gain is held against: controls that explain it, drafting, pass@k and its crossover.

Pure functions over what :mod:`rntp.evaluate` measured. A gain counts when the lower end of its interval is above 0, and
above what every control reaches without thinking; else it is reported as none, with the controls that explain it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from computeledger.workloads.rl.coverage import pass_at_k
from rntp.intervals import Estimate, estimate

Floats = NDArray[np.float64]

#: Tokens in a row that count as a draft of the gold.
DRAFT_TOKENS = 3
#: Share of places with a draft from which on the gain is also asked for without them.
DRAFTED_FRACTION = 0.05


def swapped(documents: Sequence[str]) -> NDArray[np.int64]:
    """Give every place a place of another document, whose thought it gets.

    Examples
    --------
    >>> swapped(["a", "a", "b"]).tolist()
    [2, 2, 0]
    """
    n = len(documents)
    turns = [[(place + step) % n for step in range(1, n)] for place in range(n)]
    found = [next((t for t in turn if documents[t] != documents[p]), p) for p, turn in enumerate(turns)]
    return np.array(found, dtype=np.int64)


def drafted_fraction(thought: Sequence[int], gold: Sequence[int], context: Sequence[int]) -> float:
    """Share of the gold's runs of tokens that stand in the thought, of those that are not in the context anyway.

    Examples
    --------
    >>> drafted_fraction([9, 1, 2, 3, 8], [1, 2, 3, 4], [5, 6])
    0.5
    """
    new = _runs(gold) - _runs(context)
    return len(new & _runs(thought)) / len(new) if new else 0.0


def _runs(tokens: Sequence[int]) -> set[tuple[int, ...]]:
    return {tuple(tokens[start : start + DRAFT_TOKENS]) for start in range(len(tokens) - DRAFT_TOKENS + 1)}


@dataclass(frozen=True, slots=True)
class Measured:
    """Log-probability of the gold of each place, in nats, averaged over its thoughts."""

    documents: tuple[str, ...]
    thought: Floats
    none: Floats
    rivals: Mapping[str, Floats]
    scorers: Mapping[str, Floats]
    drafted: Floats
    repeats_gain: Floats | None = None
    repeats_documents: tuple[str, ...] = ()
    baseline: str = ""


def settle(measured: Measured) -> dict[str, Any]:
    """Hold a gain against its controls.

    Examples
    --------
    >>> some = np.linspace(0.9, 1.1, 20)
    >>> docs = tuple(map(str, range(20)))
    >>> out = settle(Measured(docs, some, 0 * some, {"empty-thought": some - 0.001}, {}, 0 * some))
    >>> out["explained_by"], round(out["gain"]["mean"], 6)
    ([], 1.0)
    >>> settle(Measured(docs, some, 0 * some, {"empty-thought": some}, {}, 0 * some))["reported_gain"]
    0.0
    """
    gain = measured.thought - measured.none
    whole = estimate(gain, measured.documents)
    controls: dict[str, dict[str, Any]] = {}
    for name, rival in measured.rivals.items():
        left = estimate(measured.thought - rival, measured.documents)
        controls[name] = _control("thought_minus_control", left, control_gain=float(np.mean(rival - measured.none)))
    for name, other in measured.scorers.items():
        controls[name] = _control("gain_under_scorer", estimate(other, measured.documents))
    controls["overlap"] = _overlap(measured, gain, whole)
    if measured.repeats_gain is not None:
        seen = estimate(measured.repeats_gain, measured.repeats_documents)
        memorised = seen.low > 0 and not whole.low > 0
        controls["repeats"] = {"gain_where_trained": seen.document(), "explains": memorised}
    explained = sorted(name for name, one in controls.items() if one["explains"])
    if whole.no_interval:  # nothing can be told, of the gain or of what a control leaves of it
        explained = []
    counts = whole.low > 0 and not explained
    return {
        "unit": "nats per continuation",
        "baseline": measured.baseline,
        "gain": whole.document(),
        "controls": controls,
        "explained_by": explained if whole.mean > 0 else [],
        "reported_gain": whole.mean if counts else 0.0,
        "why": _why(whole, explained),
    }


def _control(what: str, left: Estimate, **more: float) -> dict[str, Any]:
    """A control explains a gain where what it leaves cannot be told from 0."""
    return {what: left.document(), **more, "explains": not left.low > 0}


def _overlap(measured: Measured, gain: Floats, whole: Estimate) -> dict[str, Any]:
    has = measured.drafted > 0
    out = {"drafted_fraction": float(np.mean(measured.drafted)), "places_with_draft_fraction": float(np.mean(has))}
    if np.mean(has) < DRAFTED_FRACTION:
        return {**_control("gain_without_draft", whole, **out), "explains": False}
    if has.all():
        return {"gain_without_draft": None, **out, "explains": True}
    rest = [document for document, one in zip(measured.documents, has, strict=True) if not one]
    return _control("gain_without_draft", estimate(gain[~has], rest), **out)


def _why(whole: Estimate, explained: Sequence[str]) -> str:
    if whole.mean <= 0:
        return "thinking does not help here"
    if whole.no_interval:
        return whole.no_interval
    if whole.low <= 0:
        return "the gain cannot be told from chance at this number of documents"
    return f"explained by {', '.join(explained)}" if explained else "no control explains it"


def coverage(correct: NDArray[np.int64], n_samples: int) -> dict[int, float]:
    """Measure pass@k at powers of two, by the unbiased estimator.

    Examples
    --------
    >>> {k: round(value, 4) for k, value in coverage(np.array([0, 1, 4]), 4).items()}
    {1: 0.4167, 2: 0.5, 4: 0.6667}
    """
    sizes = sorted({*(2**power for power in range(n_samples.bit_length()) if 2**power <= n_samples), n_samples})
    return {k: float(np.mean([float(pass_at_k(n_samples, int(c), k)) for c in correct])) for k in sizes}


def crossover(base: Mapping[int, float], trained: Mapping[int, float]) -> int | None:
    """Find from how many samples on the model before RL solves as much as the trained one.

    Examples
    --------
    >>> crossover({1: 0.2, 2: 0.4, 4: 0.8}, {1: 0.5, 2: 0.6, 4: 0.7})
    4
    """
    sizes = sorted(set(base) & set(trained))
    ahead = [k for k in sizes if trained[k] > base[k]]
    later = [k for k in sizes if not ahead or k > ahead[-1]]
    return later[0] if later else None
