"""Where an RL run stands: layouts of generators and trainer, and who has which GPUs, as stated or as searched.

``rl``, ``plan`` and ``simulate rl`` ask here, so that one run has one layout, one split and one trainer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from computeledger.arrays import median
from computeledger.bounds import AT_LEAST_ONE, POSITIVE, check_record
from computeledger.errors import DoesNotFitError, InputError, LayoutError, QuantityError
from computeledger.physics.parallelism import Layout
from computeledger.physics.roofline import Machine, Precision
from computeledger.physics.training.batch import RECOMPUTE
from computeledger.progress import counted
from computeledger.workloads.rl.scenario import RLMachines, RLScenario, Split
from computeledger.workloads.rl.search import (
    SplitOption,
    TrainerQuestion,
    generation_layouts,
    search_generation,
    search_split,
    search_trainer,
    trainer_fits,
    with_share,
    with_trainer,
)
from computeledger.workloads.rl.training import PACK_TOKENS, Pieces, Trainer

#: Parts of the GPUs that the trainer's cut of the model is searched on where the split is open.
_PARTS = (1, 2, 4)
#: Splits whose trainer is searched anew on just their GPUs.
_REFINED = 4


@dataclass(frozen=True, slots=True)
class Stated:
    """What a question states of where a run stands; the rest is searched.

    Attributes
    ----------
    n_gpus : int
        Of the run [-].
    n_generation, n_training : float or None
        GPUs that only generate, and that only train; one of them implies the other [-].
    max_lag : int
        Largest policy lag, 0 when synchronous [-].
    is_in_flight : bool or None
        Whether live rollouts go on with new weights; under a lag they do where nothing is said, as asynchronous
        frameworks have it.
    generation, trainer : Layout or None
        Of one replica and of the trainer; a trainer without ``dp`` fills its GPUs.
    precision : Precision
        Of the update.
    recompute : str or None
        What the update computes again.
    pack_tokens : float or None
        Tokens of a training microbatch [token].
    pieces : Pieces
        How the trainer forms microbatches, and whether its ranks share the weights.
    is_separate : bool
        Whether sides have GPUs of their own though nobody says how many, as some frameworks have it without a lag.
    is_wide : bool
        Whether ways to share the GPUs that the question leaves open are all tried: turns on shared GPUs as well.
    """

    n_gpus: int
    n_generation: float | None = None
    n_training: float | None = None
    max_lag: int = 0
    is_in_flight: bool | None = None
    generation: Layout | None = None
    trainer: Layout | None = None
    precision: Precision = field(default_factory=Precision)
    recompute: str | None = None
    pack_tokens: float | None = None
    pieces: Pieces = field(default_factory=Pieces)
    is_separate: bool = False
    is_wide: bool = False

    def __post_init__(self) -> None:
        check_record(
            self, n_gpus=AT_LEAST_ONE, n_generation=AT_LEAST_ONE, n_training=AT_LEAST_ONE,
            pack_tokens=POSITIVE,
        )  # fmt: skip

    @property
    def is_apart(self) -> bool:
        """Whether generators and trainer have GPUs of their own."""
        stated = self.n_training is not None or self.n_generation is not None
        return self.max_lag > 0 or stated or self.is_separate

    @property
    def split(self) -> Split:
        """Who has which GPUs; halves where a search is to tell."""
        in_flight = self.max_lag > 0 if self.is_in_flight is None else self.is_in_flight
        if not self.is_apart:
            return Split(float(self.n_gpus), float(self.n_gpus), True, self.max_lag, in_flight)
        training = self.n_training
        if training is None:
            training = self.n_gpus // 2 if self.n_generation is None else self.n_gpus - self.n_generation
        generation = self.n_gpus - training if self.n_generation is None else self.n_generation
        return Split(float(generation), float(training), False, self.max_lag, in_flight)


def place_run(run: RLScenario, stated: Stated, machines: RLMachines) -> tuple[RLScenario, list[SplitOption]]:
    """Find split, generation layout and trainer of a run.

    Parameters
    ----------
    run : RLScenario
        With single numbers; its split, trainer and generation layout are replaced.
    stated : Stated
        What holds.
    machines : RLMachines
        With single numbers as factors.

    Returns
    -------
    tuple of RLScenario and list of SplitOption
        The run, and the splits that a search found, cheapest token first.

    Raises
    ------
    DoesNotFitError
        Where nothing holds the model and a longest rollout.

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> from computeledger.workloads.rl.turns import Sampling
    >>> from computeledger.workloads.rl.lengths import lengths_of_mean
    >>> from computeledger.workloads.rl.scenario import Algorithm
    >>> from computeledger.workloads.serving.estimate import ServingScenario
    >>> machine = Machine(load_system("h100-nvl8"))
    >>> engine = ServingScenario(load_model("llama-3.1-8b"), Layout(), Precision(), 200.0, 1000.0, 256.0)
    >>> sampling = Sampling(lengths_of_mean(1000.0, 3000.0), 200.0)
    >>> run = RLScenario(engine, sampling, Algorithm(64, 16), Trainer(Layout()), Split(1.0, 1.0))
    >>> placed, _ = place_run(run, Stated(16, n_training=4), RLMachines(machine, machine))
    >>> placed.split.n_generation, placed.split.n_training, int(placed.trainer.layout.n_gpus)
    (12.0, 4.0, 4)
    """
    if stated.is_apart and stated.n_gpus < 2:
        raise InputError("1 GPU: a lag needs GPUs of its own for training")
    run = replace(run, split=stated.split)
    held = replace(
        run.engine,
        input_tokens=median(run.sampling.prompt_tokens),
        output_tokens=median(run.longest_sequence_tokens - run.sampling.prompt_tokens),
        batch=1.0,
    )
    is_open = stated.is_wide or (stated.is_apart and stated.n_training is None and stated.n_generation is None)
    at_hand = stated.n_gpus if is_open else int(run.split.n_generation)
    ways = (run, held, machines.generation, at_hand)
    layouts = [stated.generation] if stated.generation else generation_layouts(*ways)
    if is_open:
        return _searched(run, stated, layouts, machines)
    run = replace(run, trainer=_trainer(run, stated, int(run.split.n_training), machines.training))
    return replace(run, engine=run.on(search_generation(run, layouts, machines))), []


def _searched(
    run: RLScenario, stated: Stated, layouts: Sequence[Layout], machines: RLMachines
) -> tuple[RLScenario, list[SplitOption]]:
    """The cheapest split; the trainer's partition is searched on parts of the GPUs, then on those of the best splits.

    Parts that are no power of two are tried beside the largest one in them, whose degrees divide more models.
    """
    found: dict[tuple[float, bool], SplitOption] = {}
    refused: InputError | None = None
    parts = {max(stated.n_gpus // part, 1) for part in _PARTS}
    parts |= {2 ** (one.bit_length() - 1) for one in parts}
    for part in counted(sorted(parts, reverse=True), "cuts of the GPUs"):
        try:
            cut = replace(run, trainer=_trainer(run, stated, part, machines.training))
            ways = (cut, machines, stated.max_lag, layouts)
            options = search_split(*ways, is_wide=stated.is_wide, is_held=stated.trainer is None)
        except (DoesNotFitError, LayoutError, QuantityError) as error:
            refused = refused or error
            continue
        for option in options:
            key = (float(option.split.n_generation), option.split.is_colocated)
            if key not in found or option.gpu_s_per_token < found[key].gpu_s_per_token:
                found[key] = option
    if not found:
        raise refused or DoesNotFitError("no split of the GPUs fits")
    options = sorted(found.values(), key=lambda option: option.gpu_s_per_token)
    if stated.trainer is None:
        better = [_with_own_trainer(run, stated, option, machines) for option in options[:_REFINED]]
        options = sorted([*better, *options[_REFINED:]], key=lambda option: option.gpu_s_per_token)
    best = options[0]
    placed = replace(run, split=best.split, engine=run.on(best.layout), trainer=best.trainer)
    return placed, options


def _with_own_trainer(run: RLScenario, stated: Stated, option: SplitOption, machines: RLMachines) -> SplitOption:
    """A split with the trainer that is the fastest on just its GPUs, where that makes it cheaper."""
    try:
        trainer = _trainer(run, stated, int(option.split.n_training), machines.training)
    except (DoesNotFitError, LayoutError, QuantityError):
        return option
    there = replace(run, split=option.split, engine=run.on(option.layout), trainer=trainer)
    if run.host_unit and not bool(there.is_even):
        return option
    return min(option, with_trainer(option, there, machines), key=lambda one: one.gpu_s_per_token)


def _trainer(run: RLScenario, stated: Stated, n_gpus: int, machine: Machine) -> Trainer:
    """The trainer on some GPUs: its layout as stated, with as little recomputed as its memory allows, or searched."""
    question = TrainerQuestion(run.engine.model, stated.precision, n_gpus, stated.recompute, stated.pieces)
    if stated.trainer is None:
        return search_trainer(question, run, machine)
    if stated.trainer.n_gpus > n_gpus:
        raise LayoutError(f"training layout {stated.trainer} takes {int(stated.trainer.n_gpus):,} of {n_gpus:,} GPUs")
    pack = PACK_TOKENS if stated.pack_tokens is None else stated.pack_tokens
    modes = (stated.recompute,) if stated.recompute else RECOMPUTE
    for mode in modes:
        trainer = question.pieces.applied(Trainer(stated.trainer, stated.precision, pack, mode))
        trainer = with_share(trainer, float(n_gpus)) if stated.trainer.dp == 1 else trainer
        if bool(trainer_fits(replace(run, trainer=trainer), machine)):
            break
    return trainer
