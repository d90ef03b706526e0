"""Does a model fit a scale-up domain under RL: how many rollouts decode at once, and what that makes of the chips."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from computeledger.errors import DoesNotFitError, LayoutError
from computeledger.facts.architecture import Model
from computeledger.physics.parallelism import Layout, serving_layouts, stack_layouts
from computeledger.physics.roofline import Precision
from computeledger.physics.serving.memory import weights_bytes_per_gpu
from computeledger.physics.transformer import n_params_active
from computeledger.workloads.rl.generation import places
from computeledger.workloads.rl.lengths import LONGEST_OVER_MEAN, lengths_of_mean
from computeledger.workloads.rl.pace import decode_step_s
from computeledger.workloads.rl.scenario import RLMachines
from computeledger.workloads.rl.turns import Sampling
from computeledger.workloads.serving.estimate import ServingScenario

#: A domain runs RL efficiently where no more than this share of a decode step is reading weights and launching: more
#: memory would then at best halve the GPU-time of a token (a definition).
EFFICIENT_SHARED_FRACTION = 0.5
#: Mean lengths that are tried for the longest trace [token].
TRACES = 2.0 ** np.arange(10, 21)


@dataclass(frozen=True, slots=True)
class DomainUse:
    """A model in one scale-up domain at one length of rollouts.

    Attributes
    ----------
    system : str
        The domain.
    layout : str
        Of the replica that fills it; empty where nothing fits.
    hbm_bytes, weights_bytes : float
        Of the domain, and of one copy of the weights in it [byte].
    n_rollouts : float
        Rollouts that decode at once [-].
    tokens_per_s_per_gpu : float
        Generated [token/s].
    utilization_fraction : float
        ``2 N`` per token over dense bf16 peak [-].
    shared_fraction : float
        Share of a decode step that is there with one rollout without a cache as well: weights, launches [-].
    """

    system: str
    layout: str
    hbm_bytes: float
    weights_bytes: float
    n_rollouts: float
    tokens_per_s_per_gpu: float
    utilization_fraction: float
    shared_fraction: float

    @property
    def fits(self) -> bool:
        """Whether weights and one longest rollout fit."""
        return self.n_rollouts >= 1

    @property
    def is_efficient(self) -> bool:
        """Whether rollouts, not weights and launches, take most of a step."""
        return self.fits and self.shared_fraction <= EFFICIENT_SHARED_FRACTION


#: Rollouts that an engine decodes at once where nothing limits it but memory.
NO_LIMIT = 1_000_000.0


def domain_use(
    model: Model, precision: Precision, sampling: Sampling, machines: RLMachines, live_limit: float = NO_LIMIT
) -> DomainUse:
    """Fill one scale-up domain with rollouts.

    Parameters
    ----------
    model : Model
        The policy.
    precision : Precision
        Of generation.
    sampling : Sampling
        With single numbers.
    machines : RLMachines
        With single numbers as factors; the generators' domain is filled.
    live_limit : float
        Rollouts that an engine decodes at once at most [-].

    Returns
    -------
    DomainUse
        Of the layout with the most tokens per second.

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> from computeledger.physics.roofline import Machine
    >>> one = Machine(load_system("h200-nvl8"))
    >>> sampling = Sampling(lengths_of_mean(16e3, 40e3), 500.0)
    >>> domain_use(load_model("qwen3-32b"), Precision(), sampling, RLMachines(one, one)).fits
    True
    """
    system = machines.generation.system
    n_gpus = int(system.n_gpus_scale_up.value)
    hbm = n_gpus * system.accelerator.usable_bytes
    weights = float(weights_bytes_per_gpu(model, Layout(), precision))
    nothing = DomainUse(system.id, "", hbm, weights, 0.0, 0.0, 0.0, 1.0)
    sizes = {n_gpus, 2 ** int(np.log2(n_gpus))}
    try:
        layouts = [one for size in sizes for one in serving_layouts(model, size, n_gpus)]
    except (LayoutError, DoesNotFitError):
        return nothing
    largest = [one for one in layouts if one.n_gpus >= max(float(two.n_gpus) for two in layouts)]
    stacked = stack_layouts(largest, trailing_axes=0)
    engine = ServingScenario(model, stacked, precision, sampling.prompt_tokens, 1.0, live_limit)
    room = np.broadcast_to(places(engine, sampling, machines.generation), (len(largest),))
    context = sampling.mean_context_tokens
    made_of = (machines.generation, machines.factors)
    live = np.maximum(room, 1.0)
    full_s = decode_step_s(engine, live, context, made_of)
    alone_s = decode_step_s(engine, np.ones_like(live), 1.0, made_of)
    rate = np.where(room >= 1, live / full_s / stacked.n_gpus, 0.0)
    best = int(np.argmax(rate))
    if room[best] < 1:
        return nothing
    peak = machines.generation.bf16_flop_per_s
    return DomainUse(
        system=system.id,
        layout=str(largest[best]),
        hbm_bytes=hbm,
        weights_bytes=weights,
        n_rollouts=float(room[best]),
        tokens_per_s_per_gpu=float(rate[best]),
        utilization_fraction=float(2 * n_params_active(model) * rate[best] / peak),
        shared_fraction=float(np.ravel(alone_s / full_s)[best]),
    )


def longest_trace(model: Model, precision: Precision, machines: RLMachines, prompt_tokens: float = 500.0) -> float:
    """Longest mean rollout with which a domain still runs a model's RL efficiently.

    Parameters
    ----------
    model : Model
        The policy.
    precision : Precision
        Of generation.
    machines : RLMachines
        With single numbers as factors.
    prompt_tokens : float
        Of each rollout [token].

    Returns
    -------
    float
        Of :data:`TRACES`, whatever the model's context; 0 where not even the shortest is [token].

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> from computeledger.physics.roofline import Machine
    >>> one = Machine(load_system("h200-nvl8"))
    >>> longest_trace(load_model("llama-3.1-405b"), Precision(), RLMachines(one, one)) < 16e3
    True
    """
    found = 0.0
    for trace in TRACES.tolist():
        sampling = Sampling(lengths_of_mean(trace, LONGEST_OVER_MEAN * trace), prompt_tokens)
        if not domain_use(model, precision, sampling, machines).is_efficient:
            break
        found = trace
    return found


def largest_model(
    models: Sequence[tuple[Model, Precision]], sampling: Sampling, machines: RLMachines
) -> tuple[Model, DomainUse] | None:
    """Largest of some models that a domain runs RL with efficiently.

    Parameters
    ----------
    models : sequence of tuple of Model and Precision
        To try.
    sampling : Sampling
        With single numbers.
    machines : RLMachines
        With single numbers as factors.

    Returns
    -------
    tuple of Model and DomainUse, or None
        None where it runs none of them efficiently.

    Examples
    --------
    >>> from computeledger.facts.load import load_system
    >>> from computeledger.physics.roofline import Machine
    >>> one = Machine(load_system("h200-nvl8"))
    >>> largest_model([], Sampling(lengths_of_mean(16e3, 40e3), 500.0), RLMachines(one, one)) is None
    True
    """
    uses = [(model, domain_use(model, precision, sampling, machines)) for model, precision in models]
    good = [pair for pair in uses if pair[1].is_efficient]
    return max(good, key=lambda pair: pair[1].weights_bytes) if good else None
