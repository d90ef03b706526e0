"""What a training system can train: the compute-optimal dense model and mixture of experts of its FLOP."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from computeledger.arrays import Z_95, Num, Range, sample
from computeledger.economics.scaling.laws import tokens_per_param_at_optimum
from computeledger.errors import InputError
from computeledger.frontier.systems import TrainingSystem
from computeledger.frontier.text import absorbed_tokens_morris_2025, epochs, text_facts
from computeledger.physics.blackboard.ledgers import PRETRAINING_UTILIZATION_FRACTION, pretraining_flop
from computeledger.physics.blackboard.training import optimizer_steps
from computeledger.physics.critical_batch import critical_batch_tokens, exponent_beyond


@dataclass(frozen=True, slots=True)
class Trainable:
    """A run that fills the system's time."""

    flop: Num
    n_params_active: Num
    n_params_total: Num
    tokens: Num
    critical_batch_tokens: Num
    steps: Num
    step_s: Num
    epochs: Num
    dense_equivalent_flop: Num
    absorbs_fraction: Num


@dataclass(frozen=True, slots=True)
class Sparsity:
    """How a mixture of experts differs from a dense model; the default is the dense model."""

    total_over_active_ratio: float = 1.0
    tokens_ratio: float = 1.0
    compute_ratio: float = 1.0


#: Rounds of the fixed point of tokens and compute, which gains a factor of ten or more in each.
_ROUNDS = 20
#: Of the documents (assumption): 1:32 takes 6x to 7x less compute (training-systems C084), and about five times the
#: tokens per active parameter (C086: 4.98 at 1:20).
MIXTURE = Sparsity(total_over_active_ratio=32.0, tokens_ratio=5.0, compute_ratio=6.5)


def trainable(flop: Num, duration_s: float, sparsity: Sparsity | None = None) -> Trainable:
    """Compute-optimal model of a training budget: ``N = sqrt(C / (6 r))``, ``D = r N``.

    ``r`` is the tokens per parameter of the loss law at the optimum, times ``tokens_ratio``.

    Examples
    --------
    >>> run = trainable(5.76e23, 1e6)
    >>> f"{run.n_params_active:.3g} {run.tokens:.3g} {np.median(run.critical_batch_tokens):.2g}"
    '7.22e+10 1.33e+12 2.6e+07'
    >>> abs(pretraining_flop(run.n_params_active, run.tokens) / 5.76e23 - 1) < 1e-9
    True
    """
    moe = sparsity or Sparsity()
    ratio = tokens_per_param_at_optimum(flop) * moe.tokens_ratio
    active: Num = (flop / pretraining_flop(1.0, 1.0) / ratio) ** 0.5
    tokens = ratio * active
    batch = critical_batch_tokens(tokens, exponent_beyond(_scores(flop)))
    steps = optimizer_steps(tokens, batch)
    stock = sample({"stock": text_facts()["stock_tokens"].uncertain}, *_as_many(flop))["stock"]
    return Trainable(
        flop=flop,
        n_params_active=active,
        n_params_total=active * moe.total_over_active_ratio,
        tokens=tokens,
        critical_batch_tokens=batch,
        steps=steps,
        step_s=duration_s / steps,
        epochs=epochs(tokens, stock),
        dense_equivalent_flop=flop * moe.compute_ratio,
        absorbs_fraction=absorbed_tokens_morris_2025(active * moe.total_over_active_ratio) / stock,
    )


def optimal_tokens(n_params: float) -> float:
    """Tokens on which a dense model of a size is compute-optimal.

    Examples
    --------
    >>> tokens = optimal_tokens(72.2e9)
    >>> f"{tokens:.3g} {float(np.median(trainable(pretraining_flop(72.2e9, tokens), 1e6).n_params_active)):.3g}"
    '1.33e+12 7.22e+10'
    """
    tokens = n_params
    for _ in range(_ROUNDS):
        tokens = float(n_params * tokens_per_param_at_optimum(pretraining_flop(n_params, tokens)))
    return tokens


def _scores(flop: Num) -> Num:
    """Standard normal scores of the growth of the critical batch, one for each sample of the budget."""
    return sample({"growth of the critical batch": Range(-Z_95, Z_95)}, *_as_many(flop))["growth of the critical batch"]


def _as_many(flop: Num) -> tuple[int, ...]:
    """As many samples as the budget has; the usual number where it is exact."""
    return (np.size(flop),) if np.size(flop) > 1 else ()


def trains(
    system: TrainingSystem, duration_s: float, utilization_fraction: Num = PRETRAINING_UTILIZATION_FRACTION
) -> dict[str, Trainable]:
    """What a system trains in some time in bf16: a dense model and a mixture of experts.

    Examples
    --------
    >>> from computeledger.frontier.systems import described_system
    >>> from computeledger.units import MONTH_S
    >>> run = trains(described_system("100K chips of h100-sxm5-80gb"), 3 * MONTH_S)["dense"]
    >>> f"{run.flop:.3g}"
    '3.12e+26'
    """
    if duration_s <= 0:
        raise InputError(f"duration = {duration_s:g} s: a run takes more than 0")
    flop = system.flop("bf16", duration_s, utilization_fraction)
    return {
        "dense": trainable(flop, duration_s),
        "moe": trainable(flop, duration_s, MIXTURE),
    }
