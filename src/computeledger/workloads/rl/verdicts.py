"""Verdicts on rollouts as a queue: a number of cores for each kind of task, and rollouts that end one by one."""

from __future__ import annotations

import numpy as np

from computeledger.arrays import Num
from computeledger.workloads.rl.generation import Generation
from computeledger.workloads.rl.lengths import single
from computeledger.workloads.rl.scenario import RLScenario


def verdict_times_s(scenario: RLScenario) -> tuple[Num, Num]:
    """Time all verdicts on all cores, kinds of tasks beside one another, and the longest one alone.

    Parameters
    ----------
    scenario : RLScenario
        Of the run.

    Returns
    -------
    tuple of float or ndarray
        Both [s].

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> from computeledger.physics.parallelism import Layout
    >>> from computeledger.physics.roofline import Precision
    >>> from computeledger.workloads.rl.lengths import exact_lengths
    >>> from computeledger.workloads.rl.scenario import Algorithm, Domain, Split
    >>> from computeledger.workloads.rl.training import Trainer
    >>> from computeledger.workloads.rl.turns import Sampling
    >>> from computeledger.workloads.serving.estimate import ServingScenario
    >>> engine = ServingScenario(load_model("llama-3.1-8b"), Layout(), Precision(), 1.0, 1.0, 256.0)
    >>> run = RLScenario(engine, Sampling(exact_lengths(1e3), 2e2), Algorithm(8, 8), Trainer(Layout()), Split(8, 8),
    ...                  (Domain(1.0, 2.0, 16.0),))
    >>> tuple(float(one) for one in verdict_times_s(run))
    (8.0, 2.0)
    """
    algorithm = scenario.algorithm
    rollouts = algorithm.rollouts * algorithm.sampling_rounds
    all_s: Num = 0.0
    last_s: Num = 0.0
    for one in scenario.domains:
        all_s = np.maximum(all_s, one.share_fraction * rollouts * one.cpu_s / one.n_cores)
        last_s = np.maximum(last_s, one.cpu_s)
    return all_s, last_s


def late_verdicts_s(scenario: RLScenario, made: Generation) -> Num:
    """Time from the last rollout's end to the last verdict of a synchronous step, rounds of sampling one by one.

    Of ``n`` verdicts on ``c`` cores in the order of arrival the last ends at ``max over j of a_j + (floor((n - j) / c)
    + 1) v``: exact where all take the same.

    Parameters
    ----------
    scenario : RLScenario
        Of the run.
    made : Generation
        Of its rollouts.

    Returns
    -------
    float or ndarray
        No less than a verdict [s].

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> from computeledger.physics.parallelism import Layout
    >>> from computeledger.physics.roofline import Precision
    >>> from computeledger.workloads.rl.lengths import exact_lengths
    >>> from computeledger.workloads.rl.scenario import Algorithm, Domain, Split
    >>> from computeledger.workloads.rl.training import Trainer
    >>> from computeledger.workloads.rl.turns import Sampling
    >>> from computeledger.workloads.serving.estimate import ServingScenario
    >>> engine = ServingScenario(load_model("llama-3.1-8b"), Layout(), Precision(), 1.0, 1.0, 256.0)
    >>> run = RLScenario(engine, Sampling(exact_lengths(1e3), 2e2), Algorithm(8, 8), Trainer(Layout()), Split(8, 8),
    ...                  (Domain(1.0, 2.0, 16.0),))
    >>> at = {"left_fraction": np.ones((1, 1)), "ended_s": np.full((1, 1), 10.0)}
    >>> made = Generation(10.0, 10.0, 0.0, 8.0, 256.0, 64e3, **at)
    >>> float(late_verdicts_s(run, made))
    8.0
    """
    rounds = scenario.algorithm.sampling_rounds
    wall_s: Num = made.wall_s / rounds
    late_s: Num = np.zeros(1)
    if scenario.algorithm.keeps_partial:
        all_s, last_s = verdict_times_s(scenario)
        return np.maximum(all_s - made.wall_s, last_s)
    for one in scenario.domains:
        left = one.share_fraction * scenario.algorithm.rollouts * made.left_fraction
        turns = np.floor(np.maximum(left - 1, 0.0) / one.n_cores) + 1
        ends_s = np.max(made.ended_s + turns * one.cpu_s, axis=0)
        late_s = np.maximum(late_s, np.maximum(ends_s - wall_s, one.cpu_s))
    return np.asarray(rounds * single(np.atleast_1d(late_s)))
