"""How a step's time is shared out over its parts, in samples: each has an interval; together they are the step."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from computeledger.arrays import Num, median
from computeledger.physics.calibration.rl import RLFactors
from computeledger.workloads.rl.generation import OUTSIDE
from computeledger.workloads.rl.scenario import Split

#: Part of a step -> the constant that it is longer or shorter by; scoring where nothing is said.
_RATIO_OF: Mapping[str, str] = {
    "generation": "rl_generation_ratio", "waiting for the longest rollouts": "rl_generation_ratio",
    "update": "rl_update_ratio", "weight sync": "rl_weight_sync_ratio", "once per step": "rl_once_ratio",
    "waiting for verifiers": "rl_once_ratio",
}  # fmt: skip
#: What one side waits for the other, and GPUs that wait for nothing: what other parts leave.
_WAITING = ("generators waiting", "trainer waiting for rollouts", OUTSIDE)
#: Parts of generators on GPUs of their own, and parts that both sides are in.
_OF_GENERATORS, _OF_BOTH = ("generation", "generators waiting"), ("weight sync", "once per step")


def part_ratios(modelled: Mapping[str, Num], split: Split, factors: RLFactors) -> dict[str, Num]:
    """Real over modelled time of each part of a step.

    The ratio of the step is that of its class. Parts differ on top of it, each by its own ratio, and give one another
    what they take: on each side of the GPUs ``part_i r_i (sum part) / (sum part r)``, brought back to its median. So a
    part that is most of a step has nearly the interval of the step, and a small one that of its own ratio.

    Parameters
    ----------
    modelled : mapping of str to float or ndarray
        GPU-time of a step by part, waiting included [s].
    split : Split
        Who has which GPUs.
    factors : RLFactors
        Ratios of the step and of its parts.

    Returns
    -------
    dict of str to float or ndarray
        By the same names [-].

    Examples
    --------
    >>> parts = {"generation": 60.0, "update": 30.0, "weight sync": 0.0, "once per step": 10.0}
    >>> found = part_ratios(parts, Split(8, 8), RLFactors(rl_generation_ratio=2.0, rl_step_ratio=1.1))
    >>> ratio, whole = found["generation"] / found["update"], sum(parts[name] * found[name] for name in parts)
    >>> round(float(ratio), 6), round(float(whole), 6)
    (2.0, 110.0)
    """
    # of a run that does not fit parts have no end: they keep the ratio of the others
    modelled = {name: np.where(np.isfinite(part), part, 0.0) for name, part in modelled.items()}
    own = {
        name: 1.0 if name in _WAITING else getattr(factors, _RATIO_OF.get(name, "rl_scoring_ratio"))
        for name in modelled
    }
    drawn, typical = (_given_back(modelled, split, ratios) for ratios in (own, {n: median(r) for n, r in own.items()}))
    # parts that vary are skewed: their medians are brought back to where the step's own ratio has them
    step = {name: part * factors.rl_step_ratio for name, part in modelled.items()}
    return {
        name: factors.rl_step_ratio * drawn[name] * _over(_median(part), _median(part * drawn[name] / typical[name]))
        for name, part in step.items()
    }


def fractions(parts: Mapping[str, Num], whole: Num) -> dict[str, Num]:
    """Share of each part in a whole.

    Parameters
    ----------
    parts : mapping of str to float or ndarray
        GPU-time by phase [s].
    whole : float or ndarray
        GPU-time of all of them [s].

    Returns
    -------
    dict of str to float or ndarray
        Their medians add up to 1 [-].

    Examples
    --------
    >>> fractions({"generation": 60.0, "update": 20.0}, 80.0)
    {'generation': 0.75, 'update': 0.25}
    """
    shares = {name: part / whole for name, part in parts.items()}
    together = sum(median(one) for one in shares.values())
    return {name: one / together for name, one in shares.items()}


def _median(part: Num) -> Num:
    """Over samples, the last axis."""
    return np.asarray(np.median(np.atleast_1d(part), axis=-1))


def _over(part: Num, other: Num) -> Num:
    """One over the other; 1 where there is none, or no step that a layout holds."""
    top, bottom = np.broadcast_arrays(np.asarray(part, float), np.asarray(other, float))
    return np.asarray(np.divide(top, bottom, out=np.ones(top.shape), where=np.isfinite(bottom) & (bottom > 0)))


def _given_back(modelled: Mapping[str, Num], split: Split, ratios: Mapping[str, Num]) -> dict[str, Num]:
    """Ratios of the parts, scaled on each side so that all take as long together as before."""
    if split.is_colocated:
        shared = _scale(modelled, ratios)
        return {name: ratio * shared for name, ratio in ratios.items()}
    share = split.n_generation / split.n_gpus
    generators = {name: part * (share if name in _OF_BOTH else 1.0) for name, part in modelled.items()
                  if name in (*_OF_GENERATORS, *_OF_BOTH)}  # fmt: skip
    trainer = {name: part * ((1 - share) if name in _OF_BOTH else 1.0) for name, part in modelled.items()
               if name not in _OF_GENERATORS}  # fmt: skip
    theirs, ours = _scale(generators, ratios), _scale(trainer, ratios)
    both = share * theirs + (1 - share) * ours
    return {
        name: ratio * (both if name in _OF_BOTH else theirs if name in _OF_GENERATORS else ours)
        for name, ratio in ratios.items()
    }


def _scale(parts: Mapping[str, Num], ratios: Mapping[str, Num]) -> Num:
    """What all parts of a side are scaled by."""
    whole = sum(parts.values(), start=0.0)
    return _over(whole, sum((part * ratios[name] for name, part in parts.items()), start=0.0))
