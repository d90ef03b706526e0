"""How far a judge agrees with a truth that is known, and what its errors leave of the reward.

Intervals (95 %) are over tasks: the figure is taken again with each task left out (the jackknife), with Student's t. A
fraction that is 0 or 1 in every task has the bound that as many independent tasks would give.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from computeledger.errors import InputError
from rntp.intervals import LEAST_DOCUMENTS, Estimate, student_quantile
from rntp.judges.graded import PLAIN, Graded
from rntp.judges.items import Item, Judgement, ModelJudge

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
#: Chance that a bound of a fraction without spread is wrong.
_LEVEL = 0.05
#: Differences of score below this are ties.
_TIE = 1e-9


@dataclass(frozen=True, slots=True)
class Bar:
    """From where on an answer is right, and from where on a judge accepts one.

    Attributes
    ----------
    quality : float
        Least quality of an answer that is right [-].
    score : float
        Least score of an answer that the judge accepts [-].
    """

    quality: float = 1.0
    score: float = 0.5


@dataclass(frozen=True, slots=True)
class Judged:
    """Scores of a judge beside the truth; ``tasks`` are numbers that say which answers were given to the same task."""

    scores: Floats
    quality: Floats
    tasks: NDArray[np.int64]
    bar: Bar

    def where(self, rows: Flags) -> Judged:
        """Some of the answers."""
        return Judged(self.scores[rows], self.quality[rows], self.tasks[rows], self.bar)

    @property
    def is_right(self) -> Flags:
        """Which answers are right."""
        return np.asarray(self.quality >= self.bar.quality - _TIE)

    @property
    def is_accepted(self) -> Flags:
        """Which answers the judge accepts."""
        return np.asarray(self.scores >= self.bar.score - _TIE)


def _mean(values: Floats | Flags) -> float:
    return float(np.mean(values)) if len(values) else math.nan


def accuracy(judged: Judged) -> float:
    """Share of the answers on which judge and truth agree.

    Examples
    --------
    >>> some = Judged(np.array([0.9, 0.2, 0.7]), np.array([1.0, 0.0, 0.0]), np.array([0, 0, 1]), Bar())
    >>> round(accuracy(some), 3)
    0.667
    """
    return _mean(judged.is_right == judged.is_accepted)


def kappa(judged: Judged) -> float:
    """Cohen's kappa: agreement beyond what as many acceptances would reach by chance.

    Examples
    --------
    >>> some = Judged(np.array([0.9, 0.2, 0.7, 0.1]), np.array([1.0, 0.0, 0.0, 0.0]), np.arange(4), Bar())
    >>> round(kappa(some), 3)
    0.5
    """
    right, accepted = _mean(judged.is_right), _mean(judged.is_accepted)
    chance = right * accepted + (1 - right) * (1 - accepted)
    return (accuracy(judged) - chance) / (1 - chance) if chance < 1 else math.nan


def _better(high: Floats, low: Floats) -> Floats:
    """1 where the first scores higher, a half where both score alike."""
    off = high[:, None] - low[None, :]
    return np.asarray(np.where(np.abs(off) < _TIE, 0.5, off > 0), dtype=np.float64)


def auc(judged: Judged) -> float:
    """Chance that a right answer scores higher than a wrong one, ties by half.

    Examples
    --------
    >>> auc(Judged(np.array([0.9, 0.2, 0.9]), np.array([1.0, 0.0, 0.0]), np.arange(3), Bar()))
    0.75
    """
    right = judged.is_right
    if right.all() or not right.any():
        return math.nan
    return _mean(_better(judged.scores[right], judged.scores[~right]).ravel())


def same_task(judged: Judged) -> float:
    """Chance that of two answers to one task the better scores higher: what a group's advantages rest on.

    Examples
    --------
    >>> same_task(Judged(np.array([0.9, 0.2, 0.1]), np.array([1.0, 0.5, 0.0]), np.array([0, 0, 1]), Bar()))
    1.0
    """
    found = []
    for task in np.unique(judged.tasks):
        rows = judged.tasks == task
        score, quality = judged.scores[rows], judged.quality[rows]
        found.append(_better(score, score)[quality[:, None] > quality[None, :] + _TIE])
    return _mean(np.concatenate(found)) if found else math.nan


def false_positive(judged: Judged) -> float:
    """Share of the wrong answers that the judge accepts.

    Examples
    --------
    >>> false_positive(Judged(np.array([0.9, 0.2]), np.array([0.0, 0.0]), np.arange(2), Bar()))
    0.5
    """
    return _mean(judged.is_accepted[~judged.is_right])


def false_negative(judged: Judged) -> float:
    """Share of the right answers that the judge does not accept.

    Examples
    --------
    >>> false_negative(Judged(np.array([0.9, 0.2]), np.array([1.0, 1.0]), np.arange(2), Bar()))
    0.5
    """
    return _mean(~judged.is_accepted[judged.is_right])


def signal(judged: Judged) -> float:
    """Part of the true reward's difference that a reward of accepted answers keeps: 1 - FPR - FNR.

    Examples
    --------
    >>> signal(Judged(np.array([0.9, 0.2, 0.7, 0.1]), np.array([1.0, 1.0, 0.0, 0.0]), np.arange(4), Bar()))
    0.0
    """
    return 1.0 - false_positive(judged) - false_negative(judged)


def score_gap(judged: Judged) -> float:
    """What a right answer scores above a wrong one, on average: what the scores themselves keep.

    Examples
    --------
    >>> round(score_gap(Judged(np.array([0.9, 0.2]), np.array([1.0, 0.0]), np.arange(2), Bar())), 3)
    0.7
    """
    return _mean(judged.scores[judged.is_right]) - _mean(judged.scores[~judged.is_right])


Measure = Callable[[Judged], float]
#: name -> measure, and the least that it can be
MEASURES: Mapping[str, tuple[Measure, float]] = {
    "accuracy": (accuracy, 0.0), "kappa": (kappa, -1.0), "auc": (auc, 0.0), "same_task": (same_task, 0.0),
    "false_positive_fraction": (false_positive, 0.0), "false_negative_fraction": (false_negative, 0.0),
    "signal_fraction": (signal, -1.0), "score_gap": (score_gap, -1.0),
}  # fmt: skip
_FRACTIONS = ("accuracy", "false_positive_fraction", "false_negative_fraction")


def measured(name: str, judged: Judged) -> Estimate:
    """Take a measure, with its interval over tasks.

    Examples
    --------
    >>> scores, tasks = np.tile([0.9, 0.2], 20), np.repeat(np.arange(20), 2)
    >>> found = measured("false_positive_fraction", Judged(scores, np.tile([1.0, 0.0], 20), tasks, Bar()))
    >>> found.mean, found.low, round(found.high, 3)
    (0.0, 0.0, 0.139)
    """
    measure, least = MEASURES[name]
    value, tasks = measure(judged), np.unique(judged.tasks)
    count = len(tasks)
    without = np.array([measure(judged.where(judged.tasks != task)) for task in tasks])
    if math.isnan(value) or count < LEAST_DOCUMENTS or np.isnan(without).any():
        why = "right and wrong answers are needed" if math.isnan(value) else f"{count} tasks"
        return Estimate(value, -math.inf, math.inf, len(judged.scores), count, f"{why}: too few for an interval")
    error = math.sqrt((count - 1) / count * float(np.sum((without - without.mean()) ** 2)))
    reach = student_quantile(float(count - 1)) * error
    low, high = max(least, value - reach), min(1.0, value + reach)
    if name in _FRACTIONS and value in (0.0, 1.0):
        bound = 1 - _LEVEL ** (1 / count)
        low, high = (0.0, bound) if value == 0.0 else (1 - bound, 1.0)
    elif not error:
        return Estimate(value, -math.inf, math.inf, len(judged.scores), count, "no task differs from another")
    return Estimate(value, low, high, len(judged.scores), count)


@dataclass(frozen=True, slots=True)
class Cost:
    """What verdicts took: time by the clock and of this process, and of a GPU of this machine."""

    wall_s: float
    cpu_s: float
    gpu_s: float | None
    flop: float


def ask(judge: ModelJudge, answers: Sequence[Graded], device: torch.device) -> tuple[list[Judgement], Cost]:
    """Ask a judge about answers, and take the time.

    Examples
    --------
    >>> from rntp.judges.served import ServedJudge
    >>> from rntp.recipe import JudgeSpec
    >>> nobody = ServedJudge(JudgeSpec("http://127.0.0.1:9/v1", name="mine", retries=0))
    >>> ask(nobody, [Graded("a", "b", 1.0)], torch.device("cpu"))[0][0].is_failed
    True
    """
    items = [Item(one.task, one.answer, one.reference) for one in answers]
    judge.take_work()
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    found = judge.judgements(items)
    flop = judge.take_work().flop
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    wall_s, cpu_s = time.perf_counter() - wall_s, time.process_time() - cpu_s
    return found, Cost(wall_s, cpu_s, wall_s if device.type == "cuda" and flop else None, flop)


def agreement(answers: Sequence[Graded], found: Sequence[Judgement], cost: Cost, bar: Bar) -> dict[str, Any]:
    """Hold a judge's scores against the truth; answers without a verdict are counted and left out.

    Examples
    --------
    >>> answers = [Graded("a", "x", 1.0), Graded("a", "y", 0.0)]
    >>> out = agreement(answers, [Judgement(0.8), Judgement(None, "odd")], Cost(1.0, 0.5, None, 0.0), Bar())
    >>> out["no_verdicts"], out["agreement"]["accuracy"]["mean"], out["cost"]["cpu_s_per_verdict"]
    (1, 1.0, 0.25)
    """
    names = {task: number for number, task in enumerate(dict.fromkeys(one.task for one in answers))}
    kept = [place for place, one in enumerate(found) if one.score is not None]
    if not kept:
        raise InputError(f"the judge gave no verdict on any of {len(answers)} answers: {found[0].reason}")
    every = Judged(
        np.array([found[place].score for place in kept], dtype=float), np.array([answers[n].quality for n in kept]),
        np.array([names[answers[n].task] for n in kept]), bar,
    )  # fmt: skip
    variants = np.array([answers[place].variant for place in kept])
    plain = every.where(variants == PLAIN) if (variants == PLAIN).any() else every
    reasons = [one.reason for one in found if one.score is None]
    return {
        "answers": len(answers), "tasks": len(names), "quality_from": bar.quality, "score_from": bar.score,
        "no_verdicts": sum(one.score is None and not one.is_failed for one in found),
        "failures": sum(one.is_failed for one in found), "reasons": sorted(set(reasons))[:5],
        "agreement": {name: _written(measured(name, plain)) for name in MEASURES},
        "by_quality": _by_quality(plain), "by_variant": _by_variant(every, variants), "cost": _costs(found, cost),
    }  # fmt: skip


def _written(found: Estimate) -> dict[str, float | str | None]:
    """An estimate as it is written down; what is not defined is None."""
    written = found.document()
    return {**written, "mean": None if math.isnan(found.mean) else found.mean}


def _by_quality(judged: Judged) -> list[dict[str, float]]:
    """Scores of the answers of each quality, best first."""
    rows = [(level, np.isclose(judged.quality, level)) for level in sorted(set(judged.quality.tolist()), reverse=True)]
    return [
        {
            "quality": level, "answers": int(some.sum()), "mean_score": _mean(judged.scores[some]),
            "accepted_fraction": _mean(judged.is_accepted[some]),
        }
        for level, some in rows
    ]  # fmt: skip


def _by_variant(every: Judged, variants: NDArray[np.str_]) -> list[dict[str, Any]]:
    """What is otherwise than in plain answers of the same task and quality."""
    plain = {
        (int(task), round(float(quality), 6)): float(score)
        for task, quality, score, name in zip(every.tasks, every.quality, every.scores, variants, strict=True)
        if name == PLAIN
    }
    out = []
    for name in dict.fromkeys(variants.tolist()):
        some = every.where(variants == name)
        keys = [(int(task), round(float(q), 6)) for task, q in zip(some.tasks, some.quality, strict=True)]
        change = [s - plain[key] for key, s in zip(keys, some.scores.tolist(), strict=True) if key in plain]
        out.append({
            "variant": name, "answers": len(keys), "mean_quality": _mean(some.quality),
            "mean_score": _mean(some.scores), "accepted_fraction": _mean(some.is_accepted),
            "score_change": None if name == PLAIN or not change else _mean(np.array(change)),
        })  # fmt: skip
    return out


def _costs(found: Sequence[Judgement], cost: Cost) -> dict[str, float | None]:
    """What a verdict took on average; tokens where they are known."""
    count = len(found)
    read, written = (sum(getattr(one, name) for one in found) for name in ("read_tokens", "written_tokens"))
    return {
        "wall_s_per_verdict": cost.wall_s / count, "cpu_s_per_verdict": cost.cpu_s / count,
        "gpu_s_per_verdict": None if cost.gpu_s is None else cost.gpu_s / count,
        "flop_per_verdict": cost.flop / count if cost.flop else None,
        "read_tokens_per_verdict": read / count if read else None,
        "written_tokens_per_verdict": written / count if read else None,
    }  # fmt: skip
