"""What the chips of a system serve, and whether they do RL, from the calibrated serving and RL models."""

from __future__ import annotations

from dataclasses import dataclass, replace

from computeledger.arrays import Num, median
from computeledger.errors import DoesNotFitError
from computeledger.facts.architecture import Model
from computeledger.frontier.steps import training_machine
from computeledger.frontier.systems import Generation
from computeledger.physics.parallelism import Layout
from computeledger.physics.roofline import Precision, parse_precision
from computeledger.physics.transformer import n_params_total
from computeledger.workloads.rl.confidence import rl_class, rl_factors_of
from computeledger.workloads.rl.lengths import LONGEST_OVER_MEAN, lengths_of_mean
from computeledger.workloads.rl.scale_up import domain_use, longest_trace
from computeledger.workloads.rl.scenario import RLMachines
from computeledger.workloads.rl.search import rl_machine
from computeledger.workloads.rl.turns import Sampling
from computeledger.workloads.serving.estimate import ServingScenario
from computeledger.workloads.serving.search import SLOWEST_TPOT_S, ServingOption, layouts_that_fit, search_serving

#: Model that every system is also asked about (assumption: the best known large mixture of experts).
REFERENCE_MODEL = "deepseek-v3"
#: Lengths of a request (assumptions).
INPUT_TOKENS, OUTPUT_TOKENS = 1024.0, 1024.0
#: Mean rollout (assumption; the documents count 10K to 50K tokens).
ROLLOUT_TOKENS = 30_000.0


@dataclass(frozen=True, slots=True)
class Serves:
    """How the chips of one kind serve a model.

    Attributes
    ----------
    model, accelerator, layout, precision : str
        What, on which chips, and how; no layout where it cannot.
    output_tokens_per_s : float or ndarray
        Over all chips [token/s].
    tpot_s : float
        Of a user [s].
    problem : str
        Why it cannot; empty where it can.
    """

    model: str
    accelerator: str
    layout: str = ""
    precision: str = ""
    output_tokens_per_s: Num = 0.0
    tpot_s: float = float("nan")
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Reinforces:
    """How the chips of one kind do RL with a model.

    Attributes
    ----------
    model, accelerator, layout : str
        What, on which chips, and how a replica that fills the scale-up world is cut.
    fits_scale_up, is_efficient : bool
        Whether weights and one rollout lie within one scale-up domain; whether rollouts, not weights and launches,
        take most of a decode step there.
    world_hbm_bytes, weights_bytes : float
        HBM of that domain, and the weights in it [byte].
    largest_n_params : float
        Parameters whose weights fill half of it, the other half holding caches [-].
    rollouts_per_world : float
        That decode at once in it [-].
    longest_trace_tokens : float
        Mean rollout up to which it stays efficient [token].
    sampled_tokens_per_s : float or ndarray
        Over all chips, every world full [token/s].
    problem : str
        Why it does not fit; empty where it does.
    """

    model: str
    accelerator: str
    layout: str = ""
    fits_scale_up: bool = False
    is_efficient: bool = False
    world_hbm_bytes: float = 0.0
    weights_bytes: float = 0.0
    largest_n_params: float = 0.0
    rollouts_per_world: float = 0.0
    longest_trace_tokens: float = 0.0
    sampled_tokens_per_s: Num = 0.0
    problem: str = ""


def _precision(model: Model, generation: Generation) -> tuple[str, Precision]:
    name = "fp8" if generation.accelerator.native_precision("fp8") == "fp8" else "bf16"
    return name, parse_precision(name, moe=model.is_moe)


def _no_system(generation: Generation) -> str:
    return f"no shipped scale-up domain is made of {generation.accelerator.id}"


def serves(model: Model, generation: Generation) -> Serves:
    """Most tokens per second at a bearable speed, with the calibrated engine.

    Parameters
    ----------
    model : Model
        Served, in 8 bit where the chip has it.
    generation : Generation
        Chips of one kind.

    Returns
    -------
    Serves
        Or the reason why not.

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> from computeledger.frontier.systems import described_system
    >>> found = serves(load_model("deepseek-v3"), described_system("72 chips of gb200-gpu").generations[0])
    >>> found.precision, bool(found.output_tokens_per_s > 5e4)
    ('fp8', True)
    """
    chip = generation.accelerator.id
    if generation.system is None:
        return Serves(model.id, chip, problem=_no_system(generation))
    name, precision = _precision(model, generation)
    scenario = ServingScenario(model, Layout(), precision, INPUT_TOKENS, OUTPUT_TOKENS, 1.0)
    machine = training_machine(generation.system)
    try:
        options = search_serving(scenario, layouts_that_fit(scenario, machine), machine)
    except DoesNotFitError as error:
        return Serves(model.id, chip, problem=str(error))
    chips = median(generation.chips)
    held = [one for one in options if one.layout.n_gpus <= chips]
    bearable = [one for one in held if one.tpot_s <= SLOWEST_TPOT_S]
    if not bearable:
        if not held:
            least = min(int(one.layout.n_gpus) for one in options)
            return Serves(model.id, chip, problem=f"a replica takes {least} chips or more")
        fastest = min(one.tpot_s for one in held)
        return Serves(
            model.id, chip, problem=f"the fastest token takes {fastest:.2g} s, {SLOWEST_TPOT_S:g} s are asked for"
        )
    best: ServingOption = max(bearable, key=lambda one: one.output_tokens_per_s_per_gpu)
    rate = best.output_tokens_per_s_per_gpu * generation.chips
    return Serves(model.id, chip, str(best.layout), name, rate, best.tpot_s)


def reinforces(model: Model, generation: Generation) -> Reinforces:
    """Whether RL with a model fits the scale-up world of the chips, and how fast all of them sample.

    Parameters
    ----------
    model : Model
        Policy, in 8 bit where the chip has it.
    generation : Generation
        Chips of one kind.

    Returns
    -------
    Reinforces
        From the RL model, or the reason why not.

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> from computeledger.frontier.systems import described_system
    >>> chips = described_system("8K chips of gb200-gpu").generations[0]
    >>> found = reinforces(load_model("deepseek-v3"), chips)
    >>> found.fits_scale_up, found.is_efficient, round(found.world_hbm_bytes / 1e12, 1)
    (True, True, 13.4)
    """
    chip, system = generation.accelerator, generation.system
    if system is None:
        return Reinforces(model.id, chip.id, problem=_no_system(generation))
    _, precision = _precision(model, generation)
    one = rl_machine(training_machine(system))
    machines = RLMachines(one, one, rl_factors_of(rl_class(model, chip, ROLLOUT_TOKENS)))
    sampling = Sampling(lengths_of_mean(ROLLOUT_TOKENS, LONGEST_OVER_MEAN * ROLLOUT_TOKENS), INPUT_TOKENS)
    engine = ServingScenario(model, Layout(), precision, INPUT_TOKENS, ROLLOUT_TOKENS, 1.0)
    use = domain_use(engine, sampling, machines)
    bytes_per_param = use.weights_bytes / n_params_total(model)
    world = Reinforces(
        model=model.id,
        accelerator=chip.id,
        layout=use.layout,
        fits_scale_up=use.fits,
        is_efficient=use.is_efficient,
        world_hbm_bytes=use.hbm_bytes,
        weights_bytes=use.weights_bytes,
        largest_n_params=use.hbm_bytes / 2 / bytes_per_param,
        rollouts_per_world=use.n_rollouts,
        sampled_tokens_per_s=use.tokens_per_s_per_gpu * generation.chips,
    )
    if not use.fits:
        return replace(world, problem="one scale-up domain does not hold weights and a rollout")
    return replace(world, longest_trace_tokens=longest_trace(engine, sampling, machines))
