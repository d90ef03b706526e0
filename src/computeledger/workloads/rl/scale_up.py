"""Does a model fit a scale-up domain under RL: how many rollouts decode at once, and what that makes of the chips."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from computeledger.errors import DoesNotFitError, LayoutError
from computeledger.facts.architecture import Model
from computeledger.physics.parallelism import Layout, stack_layouts
from computeledger.physics.serving.memory import weights_bytes_per_gpu
from computeledger.physics.transformer import n_params_active
from computeledger.workloads.rl.generation import places
from computeledger.workloads.rl.lengths import lengths_of_mean
from computeledger.workloads.rl.pace import decode_step_s
from computeledger.workloads.rl.scenario import RLMachines
from computeledger.workloads.rl.turns import Sampling
from computeledger.workloads.serving.estimate import ServingScenario
from computeledger.workloads.serving.search import layouts_that_fit

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
    n_chips : int
        Of the domain [-].
    layout : str
        Of the replicas that fill it; empty where nothing fits.
    hbm_bytes, weights_bytes : float
        Of the domain, and of one copy of the weights in it [byte].
    n_rollouts : float
        Rollouts that decode at once, in all replicas [-].
    tokens_per_s_per_gpu : float
        Generated [token/s].
    utilization_fraction : float
        ``2 N`` per token over dense bf16 peak [-].
    shared_fraction : float
        Share of a decode step that is there with one rollout without a cache as well: weights, launches [-].
    """

    system: str
    n_chips: int
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


def domain_use(engine: ServingScenario, sampling: Sampling, machines: RLMachines) -> DomainUse:
    """Fill one scale-up domain with replicas, as an RL run that has just these GPUs would: its layouts, its memory.

    Parameters
    ----------
    engine : ServingScenario
        Model, precision, share of the memory, speculative decoding; its layout and limit are set aside.
    sampling : Sampling
        With single numbers.
    machines : RLMachines
        With single numbers as factors; the generators' domain is filled.

    Returns
    -------
    DomainUse
        Of the layout with the most tokens per second.

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> from computeledger.physics.roofline import Machine, Precision
    >>> from computeledger.workloads.rl.lengths import lengths_of_mean
    >>> one = Machine(load_system("h200-nvl8"))
    >>> engine = ServingScenario(load_model("qwen3-32b"), Layout(), Precision(), 1.0, 1.0, 1.0)
    >>> use = domain_use(engine, Sampling(lengths_of_mean(16e3, 40e3), 500.0), RLMachines(one, one))
    >>> use.fits, use.n_chips
    (True, 8)
    """
    system, model = machines.generation.system, engine.model
    n_chips = int(system.n_gpus_scale_up.value)
    weights = float(weights_bytes_per_gpu(model, Layout(), engine.precision))
    nothing = DomainUse(system.id, n_chips, "", n_chips * system.accelerator.usable_bytes, weights, 0.0, 0.0, 0.0, 1.0)
    try:
        layouts = layouts_that_fit(engine, machines.generation, n_chips)
    except (LayoutError, DoesNotFitError):
        return nothing
    stacked = stack_layouts(layouts, trailing_axes=0)
    filled = replace(engine, layout=stacked, batch=NO_LIMIT)
    room = np.broadcast_to(places(filled, sampling, machines.generation), (len(layouts),))
    replicas = n_chips // np.asarray(stacked.n_gpus, int)
    context, made_of = sampling.mean_context_tokens, (machines.generation, machines.factors)
    live = np.maximum(room, 1.0)
    full_s = np.asarray(decode_step_s(filled, live, context, made_of))
    alone_s = np.asarray(decode_step_s(filled, np.ones_like(live), 1.0, made_of))
    rate = np.where(room >= 1, replicas * live / full_s / n_chips, 0.0)
    best = int(np.argmax(rate))
    if room[best] < 1:
        return nothing
    return replace(
        nothing,
        layout=str(layouts[best]),
        n_rollouts=float(replicas[best] * room[best]),
        tokens_per_s_per_gpu=float(rate[best]),
        utilization_fraction=float(2 * n_params_active(model) * rate[best] / machines.generation.bf16_flop_per_s),
        shared_fraction=float(np.broadcast_to(alone_s / full_s, room.shape)[best]),
    )


def longest_trace(engine: ServingScenario, sampling: Sampling, machines: RLMachines) -> float:
    """Longest mean rollout with which a domain still runs a model's RL efficiently.

    Parameters
    ----------
    engine : ServingScenario
        As :func:`domain_use` takes it.
    sampling : Sampling
        With single numbers: its prompt, its turns, and how much longer the longest rollout is than the mean one.
    machines : RLMachines
        With single numbers as factors.

    Returns
    -------
    float
        Of :data:`TRACES`, whatever the model's context; 0 where none is: short ones may be bound by launches [token].

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> from computeledger.physics.roofline import Machine, Precision
    >>> from computeledger.workloads.rl.lengths import lengths_of_mean
    >>> one = Machine(load_system("h200-nvl8"))
    >>> engine = ServingScenario(load_model("llama-3.1-405b"), Layout(), Precision(), 1.0, 1.0, 1.0)
    >>> longest_trace(engine, Sampling(lengths_of_mean(1e3, 3e3), 500.0), RLMachines(one, one)) < 16e3
    True
    """
    found, lengths = 0.0, sampling.lengths
    tail = float(np.max(lengths.longest_tokens / lengths.mean_tokens))
    for trace in TRACES.tolist():
        longer = replace(sampling, lengths=lengths_of_mean(trace, tail * trace))
        use = domain_use(engine, longer, machines)
        if not use.fits:
            break
        found = trace if use.is_efficient else found
    return found


def largest_model(
    models: Sequence[ServingScenario], sampling: Sampling, machines: RLMachines
) -> tuple[Model, DomainUse] | None:
    """Largest of some models that a domain runs RL with efficiently.

    Parameters
    ----------
    models : sequence of ServingScenario
        Engines to try, as :func:`domain_use` takes them.
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
    >>> from computeledger.workloads.rl.lengths import lengths_of_mean
    >>> one = Machine(load_system("h200-nvl8"))
    >>> largest_model([], Sampling(lengths_of_mean(16e3, 40e3), 500.0), RLMachines(one, one)) is None
    True
    """
    uses = [(engine.model, domain_use(engine, sampling, machines)) for engine in models]
    good = [pair for pair in uses if pair[1].is_efficient]
    return max(good, key=lambda pair: pair[1].weights_bytes) if good else None
