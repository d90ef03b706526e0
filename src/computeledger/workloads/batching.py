"""What prefills add to the decode steps beside them: prompts that share a step, and ranks that wait for the busiest."""

from __future__ import annotations

import math

import numpy as np

from computeledger.arrays import Num
from computeledger.physics.efficiency import IDEAL
from computeledger.physics.memory import CHUNK_TOKENS
from computeledger.physics.operations import Step, prefill
from computeledger.physics.roofline import Machine, total_s
from computeledger.workloads.serving import ServingScenario

#: Operations that the ranks of a stage share: tokens of one rank's prompt spread over all of them.
SHARED = ("routed experts", "all-to-all")


def expected_busiest(mean: Num, n_ranks: Num) -> Num:
    """Prompts on the busiest of several ranks when each receives a Poisson number.

    ``E[max] = sum over k >= 0 of 1 - F(k)^n``

    Parameters
    ----------
    mean : float or ndarray
        Prompts per rank and step [-].
    n_ranks : float or ndarray
        Ranks that wait for one another [-].

    Returns
    -------
    float or ndarray
        At least the mean; the mean itself for one rank [-].

    Examples
    --------
    >>> round(float(expected_busiest(0.1875, 1)), 4), round(float(expected_busiest(0.1875, 8)), 2)
    (0.1875, 0.9)
    """
    mean, n = np.asarray(mean, float), np.asarray(n_ranks, float)
    below: Num = np.zeros(np.broadcast(mean, n).shape)
    total = np.zeros_like(below)
    logs = np.log(np.maximum(mean, np.finfo(float).tiny))
    largest = float(np.max(mean))
    for k in range(int(largest + 10 * math.sqrt(largest) + 20)):
        below = below + np.exp(k * logs - mean - math.lgamma(k + 1))
        total = total + 1 - np.minimum(below, 1.0) ** n
    return total


def interference_s(scenario: ServingScenario, machine: Machine, balanced: bool = False) -> Num:
    """Time that other requests' prefills add to each decode step.

    A rank receives ``a = B / (O ranks)`` prompts per step. Prompts that arrive together share one pass, so launches are
    paid once per pass. Work that only the prompt's own rank can do makes the others wait: it is paid for the busiest
    rank. Work that all ranks share is paid for the mean.

    Parameters
    ----------
    scenario : ServingScenario
        In steady state.
    machine : Machine
        One GPU, its links, and what they reach.
    balanced : bool
        Whether the scheduler holds prompts back until every rank has one.

    Returns
    -------
    float or ndarray
        To be added to the time of a decode step [s].

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> from computeledger.physics.parallelism import Layout
    >>> from computeledger.physics.roofline import Precision
    >>> machine = Machine(load_system("h100-nvl8"))
    >>> alone = ServingScenario(load_model("deepseek-v3"), Layout(tp=8), Precision("fp8", "fp8", "fp8"), 1024.0, 1024.0,
    ...                         256.0)
    >>> bool(0.005 < interference_s(alone, machine) < 0.05)
    True
    """
    layout, eff = scenario.layout, machine.efficiency
    ranks = layout.dp * layout.pp
    arrivals = scenario.batch / (scenario.output_tokens * ranks)
    together = np.clip(arrivals, 1.0, np.maximum(CHUNK_TOKENS / np.maximum(scenario.input_tokens, 1.0), 1.0))
    step = Step(ranks * together, scenario.cached_tokens, scenario.input_tokens, decode=False)
    operations = prefill(scenario.model, step, layout, scenario.precision, machine)
    shared = total_s(one for one in operations if one.name in SHARED)
    own = total_s(operations) - shared
    waits: Num = arrivals
    if not (balanced or eff is IDEAL):
        waits = np.where(np.asarray(layout.dp) > 1, expected_busiest(arrivals, layout.dp), arrivals)
    busy: Num = eff.serving_ratio * eff.prefill_interference * (arrivals * shared + waits * own) / together
    return busy
