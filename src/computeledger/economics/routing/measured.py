"""Models that were measured on one set of tasks: how often a try completes one, what it costs and how long it takes."""

from __future__ import annotations

import csv
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources

#: The tasks, and the agent that every model worked in.
MEASURED_TASKS, MEASURED_AGENT = "SWE-bench Verified", "OpenHands"
#: How alike these models fail at these tasks: the fit of ``route --attempts`` to their 5,000 attempts, a 90 % interval.
MEASURED_MODEL_CORRELATION = "0.85..0.98"
#: Cascades of two models in that agent, told from half of the tasks: how many of how many models, and the median error
#: of their success and of their cost on the other half (``route --attempts FILE --check``).
TOLD_CASCADES, TOLD_MODELS, TOLD_SUCCESS_ERROR, TOLD_COST_ERROR = 1056, 33, 0.030, 0.053


@dataclass(frozen=True, slots=True)
class MeasuredModel:
    """One attempt at each task by one model.

    Attributes
    ----------
    model : str
        Its name.
    solved, tasks : int
        Attempts that completed their task, of how many.
    attempt_usd : float
        Mean over all attempts, at the prices of the day of the run [USD].
    failed_cost_ratio : float
        Mean cost of a failed attempt over that of a solved one [-].
    attempt_s : float
        Mean time of an attempt [s].
    submitted : str
        Day on which the run was handed in.
    source : str
        Key of its source.
    locator : str
        Folder of the run there.
    """

    model: str
    solved: int
    tasks: int
    attempt_usd: float
    failed_cost_ratio: float
    attempt_s: float
    submitted: str
    source: str
    locator: str


@functools.cache
def measured_models() -> Mapping[str, MeasuredModel]:
    """Every measured model by its name, the cheapest attempt first.

    Examples
    --------
    >>> one = measured_models()["DeepSeek V4 Pro"]
    >>> one.solved, one.tasks, one.attempt_usd
    (366, 500, 0.0395)
    """
    text = resources.files("computeledger.economics.routing").joinpath("measured.csv").read_text("utf-8")
    return {
        row["model"]: MeasuredModel(
            row["model"], int(row["solved"]), int(row["tasks"]), float(row["usd_per_attempt"]),
            float(row["failed_cost_ratio"]), float(row["seconds"]), row["submitted"], row["source"], row["locator"],
        )
        for row in csv.DictReader(text.splitlines())
    }  # fmt: skip
