"""Answer ``computeledger simulate rl``: the RL section of a plan, rollout by rollout."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np

from computeledger.economics.plan.read import Plan, load_plan
from computeledger.economics.plan.rl_clock import PlannedRun, planned_run, with_lag
from computeledger.fields import Given
from computeledger.questions.answer import Answer, from_python
from computeledger.questions.answers.simulation.document import rl_document
from computeledger.questions.executors import open_executor
from computeledger.questions.simulate import SimulateRLQuestion
from computeledger.simulation.rl import clock
from computeledger.simulation.rl.clock import RLClockResult


@dataclass(frozen=True, eq=False, slots=True)
class Lagged:
    """The same run at another largest policy lag."""

    policy_lag_steps: int
    run: PlannedRun
    result: RLClockResult


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class SimulateRLAnswer(Answer):
    """A simulated RL run."""

    question: SimulateRLQuestion
    plan: Plan
    run: PlannedRun
    result: RLClockResult
    lags: tuple[Lagged, ...]

    @property
    def step_s(self) -> float:
        """Mean time of a step, the filling of the pipeline included [s]."""
        return self.result.step_s

    @property
    def steady_step_s(self) -> float:
        """Mean time of a step once the pipeline is full [s]."""
        return self.result.steady_step_s

    def records(self) -> Mapping[str, Any]:
        """Every rollout, as columns."""
        return self.result.records()

    def contents(self, *, working: bool = False) -> dict[str, Any]:
        """As ``computeledger simulate rl --json`` prints it; a simulation has no working."""
        del working
        lags = [
            {
                "max_lag": one.policy_lag_steps,
                "step_s": one.result.step_s,
                "mean_staleness": float(np.mean(one.result.staleness_steps)),
                "phases": rl_document(one.result, one.run)["phases"],
            }
            for one in self.lags
        ]
        document = rl_document(self.result, self.run)
        return document | {"plan": self.plan.name, "seed": self.question.seed, "lags": lags}


def simulate_rl(
    plan: str | PathLike[str] | Plan | SimulateRLQuestion | None = None, /, **given: Given
) -> SimulateRLAnswer:
    """The RL section of a plan, rollout by rollout: step time, what waits for what, staleness.

    Parameters
    ----------
    plan : str, path, Plan or SimulateRLQuestion
        A plan file, a plan as read, or a question made before.
    **given : str, float or sequence
        Fields of :class:`~computeledger.questions.simulate.SimulateRLQuestion`, such as ``steps`` and ``lags``.

    Returns
    -------
    SimulateRLAnswer
        At the medians of the plan's ranges; a scenario of one's own is simulated by
        :func:`computeledger.simulation.rl.clock.simulate_rl`.

    Raises
    ------
    InputError
        For bad input, and a plan without an RL section.

    Examples
    --------
    >>> top = {"model": "llama-3.1-8b", "system": "h100-nvl8", "price": "$2/h"}
    >>> section = {"gpus": 8, "steps": 10, "prompts_per_step": 16, "group_size": 4, "rollout_tokens": "1K tokens",
    ...            "prompt_tokens": "200 tokens"}
    >>> from computeledger.economics.plan.read import read_plan
    >>> skip = {"skip": "not asked"}
    >>> plan = read_plan({**top, "rl": section, "pretraining": skip, "inference": skip})
    >>> answer = simulate_rl(plan, steps=3, lags=[0, 1])
    >>> [bool(one.result.staleness_steps.max() <= one.policy_lag_steps) for one in answer.lags]
    [True, True]
    """
    if isinstance(plan, SimulateRLQuestion):
        return from_python(SimulateRLQuestion, answer_simulate_rl, plan, given)
    if plan is not None:
        given = {"plan": plan, **given}  # type: ignore[dict-item]
    return from_python(SimulateRLQuestion, answer_simulate_rl, None, given)


def answer_simulate_rl(question: SimulateRLQuestion) -> SimulateRLAnswer:
    """Answer ``computeledger simulate rl``."""
    plan = load_plan(question.plan) if isinstance(question.plan, str) else question.plan
    seed, steps = question.seed, question.steps
    run = planned_run(plan, steps, seed)
    result = clock.simulate_rl(run.scenario, run.rollouts, seed)
    lags = sorted(question.lags)
    found: list[Lagged] = []
    if lags:
        most = planned_run(with_lag(plan, lags[-1]), steps, seed)
        runs = [planned_run(with_lag(plan, lag, most), steps, seed) for lag in lags]
        with open_executor(question.workers, question.cluster) as pool:
            jobs = [(one, seed) for one in runs]
            done = [_simulate(job) for job in jobs] if pool is None else list(pool.map(_simulate, jobs))
        found = [Lagged(*one) for one in zip(lags, runs, done, strict=True)]
    return SimulateRLAnswer(question, plan, run, result, tuple(found))


def _simulate(job: tuple[PlannedRun, int]) -> RLClockResult:
    """One run; a function of the module, so that other processes find it."""
    run, seed = job
    return clock.simulate_rl(run.scenario, run.rollouts, seed)
