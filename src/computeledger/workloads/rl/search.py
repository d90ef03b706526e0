"""Searching an RL run: the generation layout, and how GPUs are shared between generators and trainer."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from computeledger.arrays import Num, median
from computeledger.errors import DoesNotFitError
from computeledger.facts.architecture import Model
from computeledger.physics.calibration.rl import RLFactors
from computeledger.physics.parallelism import Layout, powers_of_two, serving_layouts, stack_layouts
from computeledger.physics.roofline import Machine, Precision
from computeledger.physics.training.batch import RECOMPUTE, Batch, with_adapters
from computeledger.physics.training.memory import TRAINING_HBM_FRACTION, training_memory
from computeledger.progress import counted, stage
from computeledger.units import format_count
from computeledger.workloads.pretraining.candidates import training_layouts
from computeledger.workloads.pretraining.estimate import PretrainingScenario, power_of_two
from computeledger.workloads.pretraining.search import ranked_pretraining
from computeledger.workloads.rl.estimate import RLResult, estimate_rl, passes_of
from computeledger.workloads.rl.generation import generate, in_order
from computeledger.workloads.rl.judge import verdicts_per_s
from computeledger.workloads.rl.scenario import RLMachines, RLScenario, Split, least_ranks, shares_apart
from computeledger.workloads.rl.training import PACK_TOKENS, Pieces, Trainer, train
from computeledger.workloads.serving.estimate import ServingScenario, largest_batch
from computeledger.workloads.serving.search import layouts_that_fit

Array = NDArray[np.float64]

#: A step may be so much longer than with all the environments, or the judges, that it could use (a choice).
KEEPS_PACE_RATIO = 1.02
#: Numbers of replicas of a judge that are tried, on layouts of at most so many GPUs.
_JUDGES, _MOST_OF_A_JUDGE = 49, 4096
#: Share of the verifiers' time that a sizing leaves free, so that verdicts do not queue (assumption).
VERIFIER_HEADROOM = 0.3


def rl_machine(machine: Machine) -> Machine:
    """Take a machine for RL: the ratios of the serving and training intervals give way to RL's own.

    Examples
    --------
    >>> from computeledger.facts.load import load_system
    >>> rl_machine(Machine(load_system("h100-nvl8"))).efficiency.serving_ratio
    1.0
    """
    ratios = dict.fromkeys(
        ("training_known_ratio", "training_unseen_ratio", "training_expert_ratio", "training_chip_ratio"), 1.0
    )
    return replace(
        machine,
        efficiency=replace(machine.efficiency, serving_ratio=1.0, first_token_ratio=1.0),
        training=replace(machine.training, **ratios),
    )


def generation_layouts(
    scenario: RLScenario, held: ServingScenario, machine: Machine, n_gpus: int | None = None
) -> list[Layout]:
    """Layouts of a replica that hold the model; stages, which some frameworks lack, only where nothing else does.

    Where a replica of whole scale-up domains is larger than the GPUs at hand, those that divide the GPUs are taken.
    """
    fitting = layouts_that_fit(held, machine)
    if n_gpus is not None and min(one.n_gpus for one in fitting) > n_gpus:
        fitting = layouts_that_fit(held, machine, n_gpus)
    whole = [one for one in fitting if scenario.has_stages or one.pp == 1]
    return whole or fitting


def with_judge(scenario: RLScenario, n_gpus: int, machines: RLMachines) -> RLScenario:
    """A run whose judge has the layout that judges most on its GPUs; ``n_gpus`` of the run where it has none."""
    judge = scenario.judge
    if judge is None:
        return scenario
    layouts, at_hand = _judge_layouts(scenario, n_gpus, machines), median(judge.own_gpus) or n_gpus
    engine = replace(judge.engine, layout=stack_layouts(layouts, trailing_axes=0))
    rate = verdicts_per_s(replace(judge, engine=engine), scenario.transcripts, machines.generation)
    best = int(np.argmax(np.broadcast_to(np.floor(at_hand / engine.layout.n_gpus) * rate, (len(layouts),))))
    return replace(scenario, judge=replace(judge, engine=replace(judge.engine, layout=layouts[best])))


def judge_layout_of(scenario: RLScenario, machines: RLMachines) -> RLScenario:
    """A placed run whose judge has the layout of the shortest step."""
    judge = scenario.judge
    if judge is None:
        return scenario
    layouts = _judge_layouts(scenario, int(scenario.split.n_generation), machines)
    engine = replace(judge.engine, layout=stack_layouts(layouts, trailing_axes=0))
    tried = replace(scenario, judge=replace(judge, engine=engine))
    steps_s = np.broadcast_to(estimate_rl(tried, machines).step_s, (len(layouts),))
    layout = layouts[int(np.argmin(steps_s))]
    return replace(scenario, judge=replace(judge, engine=replace(judge.engine, layout=layout)))


def _judge_layouts(scenario: RLScenario, n_gpus: int, machines: RLMachines) -> list[Layout]:
    """Layouts of a replica of the judge that hold it and a longest rollout on its GPUs."""
    judge = scenario.judge
    if judge is None:
        return []
    at_hand, domain = int(median(judge.own_gpus)) or n_gpus, int(machines.generation.system.n_gpus_scale_up.value)
    largest, written = powers_of_two(at_hand)[-1], median(judge.tokens) + 1.0
    held = replace(
        judge.engine, input_tokens=median(scenario.longest_sequence_tokens), output_tokens=written, batch=1.0
    )
    inside = powers_of_two(min(domain, largest))[-1]
    for size in (inside, *(one for one in powers_of_two(largest) if one > inside)):
        layouts = serving_layouts(held.model, size, domain)
        stacked = replace(held, layout=stack_layouts(layouts, trailing_axes=0))
        room = np.broadcast_to(largest_batch(stacked, machines.generation), (len(layouts),))
        if np.any(room >= 1):
            fitting = [one for one, count in zip(layouts, room.tolist(), strict=True) if count >= 1]
            return [one for one in fitting if one.pp == 1] or fitting
    raise DoesNotFitError(
        f"--judge {held.model.id}: {format_count(at_hand, 'GPU')} do not hold it and a rollout of "
        f"{held.input_tokens:,.0f} tokens"
    )


def search_generation(scenario: RLScenario, layouts: Sequence[Layout], machines: RLMachines) -> Layout:
    """Find the generation layout that has a step's rollouts soonest."""
    model, split = scenario.engine.model, scenario.split
    small = [layout for layout in layouts if layout.n_gpus <= split.n_generation]
    if scenario.host_unit:
        small = [layout for layout in small if split.n_generation % layout.n_gpus == 0] or small
    chip = machines.generation.system.accelerator.id
    if not small:
        smallest = int(min(layout.n_gpus for layout in layouts))
        held = format_count(float(split.n_generation), "GPU")
        raise DoesNotFitError(f"no replica of {model.id} fits on {held} that generate: it takes {smallest}")
    stacked = stack_layouts(small, trailing_axes=0)
    replicas = np.floor(split.n_generation / stacked.n_gpus)
    engine, rollouts = replace(scenario.engine, layout=stacked), scenario.algorithm.rollouts
    made_of = (machines.generation, machines.factors)
    if split.max_lag and split.is_in_flight:
        found = in_order(engine, scenario.sampling, (rollouts, split.max_lag, replicas), made_of, (0.0, 0.0, 0.0))
    else:
        found = generate(engine, scenario.sampling, (rollouts, replicas), made_of)
    wall_s = np.broadcast_to(found.wall_s, (len(small),))
    best = int(np.argmin(wall_s))
    if not np.isfinite(wall_s[best]):
        longest = float(np.max(scenario.longest_sequence_tokens))
        which = f"no layout of at most {int(split.n_generation)} x {chip}"
        which = f"a replica of {small[0]} on {chip} does not hold" if len(layouts) == 1 else f"{which} holds"
        raise DoesNotFitError(
            f"{model.id} in {engine.precision.written}: {which} its weights and one rollout of {longest:.0f} tokens"
        )
    return small[best]


@dataclass(frozen=True, slots=True)
class TrainerQuestion:
    """What a trainer's layout is searched for."""

    model: Model
    precision: Precision
    n_gpus: int
    recompute: str | None = None
    pieces: Pieces = field(default_factory=Pieces)
    pack_tokens: float | None = None


def search_trainer(question: TrainerQuestion, scenario: RLScenario, machine: Machine) -> Trainer:
    """Find the fastest layout of the model that holds one longest rollout.

    Weights that data-parallel ranks share need no tensor or pipeline parallelism where they fit so. Else every divisor
    of the GPUs is tried as a degree, and those of their largest power of two, whose data-parallel ranks fill the rest.
    """
    if question.pieces.is_sharded and (found_one := _sharded_trainer(question, scenario, machine)):
        return found_one
    longest = max(float(np.max(scenario.longest_sequence_tokens)), question.pack_tokens or 0.0)
    algorithm = scenario.algorithm
    each_step = float(np.max(algorithm.trained_rollouts * algorithm.trained_passes))
    each_step = max(each_step / float(np.max(algorithm.optimizer_steps * algorithm.updates_per_batch)), 1.0)
    sequences = each_step * float(np.max(scenario.sequence_tokens)) / longest
    found = _fitting_trainers(question, max(power_of_two(sequences), 1), longest, machine)
    if scenario.host_unit:
        shared = [replace(scenario, trainer=with_share(one, float(question.n_gpus))) for one in found]
        found = [one for one, run in zip(found, shared, strict=True) if _trains_evenly(run, question.n_gpus)] or found
    # what is fastest with full sequences need not be so with rollouts of every length
    ranks = np.array([float(one.layout.dp) for one in found])
    most = np.ceil(np.round(each_step / ranks, _DIGITS)) * ranks / each_step  # of the rank with most rollouts
    return found[int(np.argmin(most * _trained_s(question.model, found, scenario, machine)))]


def _trained_s(model: Model, trainers: Sequence[Trainer], scenario: RLScenario, machine: Machine) -> Array:
    """Wall time of each trainer's part of a step; those that differ in layout and packing alone are timed at once."""
    alike: dict[Trainer, list[int]] = {}
    for place, one in enumerate(trainers):
        alike.setdefault(replace(one, layout=Layout(), pack_tokens=PACK_TOKENS), []).append(place)
    passes, took_s = passes_of(scenario), np.empty(len(trainers))
    for kind, places in counted(list(alike.items()), "cuts of the model"):
        layouts = stack_layouts([trainers[place].layout for place in places])
        packed = np.array([[float(trainers[place].pack_tokens)] for place in places])
        one = replace(kind, layout=layouts, pack_tokens=packed)
        took_s[places] = np.max(train(model, one, passes, (machine, RLFactors())).wall_s, axis=-1)
    return took_s


def _fitting_trainers(question: TrainerQuestion, sequences: int, longest: float, machine: Machine) -> list[Trainer]:
    """The fastest trainers of each group of layouts; unequal stages only where no equal ones fit."""
    whole, found = replace(question.pieces, is_sharded=False), list[Trainer]()
    batch = Batch(longest, float(sequences))
    bare = PretrainingScenario(question.model, Layout(), question.precision, batch, lora=question.pieces.lora)
    for has_equal_stages in (True, False):
        for layouts, count in _layouts_by_ranks(question, sequences, machine, has_equal_stages):
            asked = replace(bare, batch=Batch(longest, float(count)))
            try:
                ranked = ranked_pretraining(asked, layouts, machine)
            except DoesNotFitError:
                continue
            options = (
                one
                for one in ranked
                if question.recompute in (None, one.recompute)
                and (question.pack_tokens is None or one.microbatch_sequences == 1)
            )
            for one in itertools.islice(options, _TRIED):
                made = Trainer(one.layout, question.precision, one.microbatch_sequences * longest, one.recompute)
                found.append(with_share(whole.applied(made), float(question.n_gpus)))
        if found:
            return found
    n_gpus, odd = question.n_gpus, _odd_part(question.n_gpus)
    every = training_layouts(question.model, n_gpus, int(machine.system.n_gpus_scale_up.value), longest_cp=_LONGEST_CP)
    batch = Batch(longest, float(odd * 2 ** math.ceil(math.log2(n_gpus))))
    ranked_pretraining(replace(bare, batch=batch), every, machine)
    raise DoesNotFitError(
        f"{question.model.id}: no layout of {format_count(n_gpus, 'GPU')} fits with "
        f"{format_count(sequences, 'sequence')} a step and recompute {question.recompute or 'of any kind'}"
    )


def _layouts_by_ranks(
    question: TrainerQuestion, sequences: int, machine: Machine, has_equal_stages: bool
) -> Iterator[tuple[list[Layout], int]]:
    """Layouts to rank together: a batch divides into those whose data-parallel degrees have the same odd part.

    Stages count as equal where the layers divide, and in powers of two.
    """
    n_gpus, domain = question.n_gpus, int(machine.system.n_gpus_scale_up.value)
    groups: dict[int, list[Layout]] = {}
    for size in sorted({n_gpus, 2 ** int(math.log2(n_gpus))}):
        for layout in training_layouts(question.model, size, domain, longest_cp=_LONGEST_CP):
            is_equal = _odd_part(int(layout.pp)) == 1 or question.model.n_layers % int(layout.pp) == 0
            if (
                is_equal == has_equal_stages and _odd_part(int(layout.cp)) == 1
            ):  # chunks of a sequence, padded, come in powers of two
                groups.setdefault(_odd_part(int(layout.dp)), []).append(layout)
    batches = {odd: odd * max(power_of_two(sequences / odd), 1) for odd in groups if odd <= sequences}
    held = {odd: [one for one in groups[odd] if one.dp <= batches[odd]] for odd in sorted(batches)}
    if has_equal_stages and not any(held.values()):
        said = f"{format_count(n_gpus, 'GPU')} trains on {format_count(sequences, 'sequence')} a step"
        raise DoesNotFitError(f"{question.model.id}: no layout of {said}")
    for odd, layouts in held.items():
        for size in sorted({int(one.n_gpus) for one in layouts}):
            yield [one for one in layouts if one.n_gpus == size], batches[odd]


#: Digits to which the rollouts of a rank are whole.
_DIGITS = 6


def _odd_part(count: int) -> int:
    return count // (count & -count)


def _trains_evenly(run: RLScenario, n_gpus: int) -> bool:
    """Whether a trainer uses all of its GPUs, and its ranks divide the rollouts of an optimizer step."""
    split = replace(run.split, n_training=float(n_gpus), n_generation=float(run.engine.layout.n_gpus))
    return bool(np.all(replace(run, split=split, host_unit=1).is_even))


#: Context-parallel degrees that a search tries, and options that it times with rollouts.
_LONGEST_CP, _TRIED = 8, 40


def _sharded_trainer(question: TrainerQuestion, scenario: RLScenario, machine: Machine) -> Trainer | None:
    """A trainer whose ranks share the weights: the least context parallelism, recomputation and microbatch that fit."""
    pieces, tokens = question.pieces, question.pack_tokens or PACK_TOKENS
    most = pieces.microbatch_sequences
    counts = [None] if most is None else [most / 2**halved for halved in range(int(math.log2(max(most, 1.0))) + 1)]
    modes = (question.recompute,) if question.recompute else RECOMPUTE
    for cp in (degree for degree in (1, 2, 4, _LONGEST_CP) if question.n_gpus % degree == 0):
        layout = Layout(cp=cp, dp=question.n_gpus // cp)
        for mode, count in itertools.product(modes, counts):
            cut = replace(pieces, microbatch_sequences=count)
            one = cut.applied(Trainer(layout, question.precision, tokens, mode))
            if bool(trainer_fits(replace(scenario, trainer=one), machine)):
                return one
    return None


def with_share(trainer: Trainer, n_gpus: Num) -> Trainer:
    """Give a trainer more or fewer data-parallel ranks.

    Examples
    --------
    >>> [float(with_share(Trainer(Layout(tp=2, dp=8, ep=ep)), 12.0).layout.dp) for ep in (1, 8)]
    [6.0, 4.0]
    """
    layout, unit = trainer.layout, least_ranks(trainer.layout)
    ranks = np.maximum(np.floor(n_gpus / (layout.tp * layout.pp * layout.cp * unit)), 1.0) * unit
    return replace(trainer, layout=replace(layout, dp=ranks))


@dataclass(frozen=True, slots=True)
class SplitOption:
    """A way to share the GPUs."""

    split: Split
    layout: Layout
    trainer: Trainer
    step_s: float
    gpu_s_per_token: float
    verifier_cores: float
    bound: str


def with_trainer(option: SplitOption, scenario: RLScenario, machines: RLMachines) -> SplitOption:
    """The same split and generation layout with the trainer of a scenario, timed anew."""
    result = estimate_rl(scenario, machines)
    step_s, token_s = float(np.asarray(result.step_s)), float(np.asarray(result.gpu_s_per_step / result.kept_tokens))
    cores, bound = float(np.asarray(cores_needed(result))), str(pace_bound(result).flat[0])
    return replace(option, trainer=scenario.trainer, step_s=step_s, gpu_s_per_token=token_s, verifier_cores=cores,
                   bound=bound)  # fmt: skip


def search_split(
    scenario: RLScenario,
    machines: RLMachines,
    max_lag: int,
    layouts: Sequence[Layout] | None = None,
    *,
    is_wide: bool = True,
    is_held: bool = True,
) -> list[SplitOption]:
    """Search how GPUs are shared, and the generation layout, for least GPU-time per kept token."""
    n_gpus = float(scenario.split.n_gpus)
    held = replace(scenario.engine, input_tokens=scenario.sampling.prompt_tokens)
    beside = scenario.longest_sequence_tokens - scenario.sampling.prompt_tokens
    held = replace(held, output_tokens=beside, batch=1.0)
    fitting = generation_layouts(scenario, held, machines.generation) if layouts is None else layouts
    small = [one for one in fitting if one.n_gpus <= n_gpus]
    found: list[SplitOption] = []
    if is_wide:
        stage("all GPUs in turns")
        found += _colocated(scenario, small, machines, is_held)
    stage("generators beside the trainer")
    found += _separate(replace(scenario, split=replace(scenario.split, max_lag=max_lag)), small, machines, is_held)
    if not found:
        raise DoesNotFitError(
            f"{scenario.engine.model.id} does not fit {format_count(n_gpus, 'GPU')} under RL, however shared"
        )
    return sorted(found, key=lambda one: one.gpu_s_per_token)


def _colocated(
    scenario: RLScenario, layouts: Sequence[Layout], machines: RLMachines, is_held: bool
) -> list[SplitOption]:
    n_gpus = scenario.split.n_gpus
    if not layouts:
        return []
    split = Split(n_gpus, n_gpus)
    engine = replace(scenario.engine, layout=stack_layouts(layouts, trailing_axes=0))
    one = replace(scenario, split=split, engine=engine, trainer=with_share(scenario.trainer, n_gpus))
    result = estimate_rl(one, machines)
    return _best(result, lambda _place: split, layouts, trainer_fits(one, machines.training) | (not is_held))


def _separate(
    scenario: RLScenario, layouts: Sequence[Layout], machines: RLMachines, is_held: bool
) -> list[SplitOption]:
    n_gpus = float(scenario.split.n_gpus)
    pairs, generation, training = shares_apart(n_gpus, scenario.trainer.layout, layouts)
    if not pairs:
        return []
    split = Split(generation, n_gpus - generation, False, scenario.split.max_lag, scenario.split.is_in_flight)
    engine = replace(scenario.engine, layout=stack_layouts([pair[0] for pair in pairs], trailing_axes=0))
    one = replace(scenario, split=split, engine=engine, trainer=with_share(scenario.trainer, training))
    result = estimate_rl(one, machines)
    shares = generation.tolist()

    def split_at(place: int) -> Split:
        return replace(split, n_generation=shares[place], n_training=n_gpus - shares[place])

    return _best(result, split_at, [pair[0] for pair in pairs], trainer_fits(one, machines.training) | (not is_held))


def trainer_bytes(scenario: RLScenario) -> Num:
    """Memory of one GPU of the trainer: its microbatch is full, and holds at least a longest rollout.

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> from computeledger.workloads.rl.turns import Sampling
    >>> from computeledger.workloads.rl.lengths import lengths_of_mean
    >>> from computeledger.workloads.rl.scenario import Algorithm
    >>> from computeledger.workloads.serving.estimate import ServingScenario, largest_batch
    >>> engine = ServingScenario(load_model("llama-3.1-8b"), Layout(), Precision(), 1.0, 1.0, 256.0)
    >>> runs = [RLScenario(engine, Sampling(lengths_of_mean(1e3, longest), 200.0), Algorithm(64, 16),
    ...                    Trainer(Layout(dp=8)), Split(8.0, 8.0)) for longest in (3e3, 6e3, 60e3)]
    >>> small, same, large = (float(trainer_bytes(run)) for run in runs)
    >>> small == same, large > same
    (True, True)
    """
    longest = scenario.longest_sequence_tokens
    trainer, tokens = scenario.trainer, np.maximum(longest, scenario.trainer.pack_tokens)
    if trainer.microbatch_sequences is not None:
        others = (trainer.microbatch_sequences - 1) * (longest if trainer.is_padded else scenario.sequence_tokens)
        tokens = longest + np.maximum(others, 0.0)
    whole = replace(trainer, pack_tokens=tokens, microbatch_sequences=None)
    batch = with_adapters(whole.batch(tokens, scenario.algorithm.trained_rollouts), scenario.engine.model, trainer.lora)
    return training_memory(scenario.engine.model, batch, trainer.layout).total_bytes


def trainer_fits(scenario: RLScenario, machine: Machine) -> NDArray[np.bool_]:
    """Say whether a run's trainer fits its GPUs: the one criterion of every search.

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> from computeledger.workloads.rl.turns import Sampling
    >>> from computeledger.workloads.rl.lengths import lengths_of_mean
    >>> from computeledger.workloads.rl.scenario import Algorithm
    >>> from computeledger.workloads.serving.estimate import ServingScenario, largest_batch
    >>> engine = ServingScenario(load_model("llama-3.1-70b"), Layout(), Precision(), 1.0, 1.0, 256.0)
    >>> sampling, layouts = Sampling(lengths_of_mean(1e3, 3e3), 200.0), (Layout(dp=8), Layout(tp=8, pp=4))
    >>> runs = [RLScenario(engine, sampling, Algorithm(64, 16), Trainer(one), Split(16.0, 16.0)) for one in layouts]
    >>> [bool(trainer_fits(run, Machine(load_system("h100-nvl8")))) for run in runs]
    [False, True]
    """
    usable = TRAINING_HBM_FRACTION * machine.system.accelerator.usable_bytes
    return np.asarray(trainer_bytes(scenario) <= usable)


def _best(
    result: RLResult, split_at: Callable[[int], Split], layouts: Sequence[Layout], trains: NDArray[np.bool_]
) -> list[SplitOption]:
    """The cheapest option of each number of generating GPUs."""
    n = len(layouts)
    cost = result.gpu_s_per_step / result.kept_tokens
    legal = np.broadcast_to(result.fits & trains, (n,))
    if result.scenario.host_unit and np.any(legal & result.scenario.is_even):
        legal = legal & result.scenario.is_even
    columns = [np.broadcast_to(np.asarray(one, float), (n,)) for one in (result.step_s, cost, cores_needed(result))]
    shares = np.broadcast_to(np.asarray(result.scenario.split.n_generation, float), (n,))
    bounds = np.broadcast_to(pace_bound(result), (n,))
    best: dict[float, int] = {}
    for place in np.flatnonzero(legal & np.isfinite(columns[1])).tolist():
        share = float(shares[place])
        if share not in best or columns[1][place] < columns[1][best[share]]:
            best[share] = place
    found = []
    for place in best.values():
        step_s, token_s, cores = (float(column[place]) for column in columns)
        split = split_at(place)
        trainer = with_share(result.scenario.trainer, float(split.n_training))
        found.append(SplitOption(split, layouts[place], trainer, step_s, token_s, cores, str(bounds[place])))
    return found


def cores_needed(result: RLResult) -> Num:
    """Verifier cores that keep pace with a step.

    ``cores = rollouts x CPU-s / (step x (1 - headroom))``
    """
    one = result.scenario
    work: Num = 0.0
    for domain in one.domains:
        work = work + domain.share_fraction * domain.cpu_s
    rollouts = one.algorithm.rollouts * one.algorithm.sampling_rounds
    return np.ceil(work * rollouts / (result.step_s * (1 - VERIFIER_HEADROOM)))


def pace_bound(result: RLResult) -> NDArray[np.str_]:
    """Name what sets the pace of a step."""
    judge_s = 0.0 if result.judging is None else result.judging.all_s
    parts = np.broadcast_arrays(result.generation.wall_s, result.training.wall_s, result.verification_s, judge_s)
    names = np.array(["generation", "training", "verification", "judge"])
    return np.asarray(names[np.argmax(np.stack(parts), axis=0)])


def judge_gpus_that_keep_pace(scenario: RLScenario, machines: RLMachines) -> float:
    """Fewest GPUs of its own with which a judge, on any layout, makes a step hardly longer than with any number.

    One number of the run: neither the GPUs that the judge is given nor its layout on them are asked.

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> from computeledger.workloads.rl.judge import Judge
    >>> from computeledger.workloads.rl.turns import Sampling
    >>> from computeledger.workloads.rl.lengths import lengths_of_mean
    >>> from computeledger.workloads.rl.scenario import Algorithm
    >>> engine = ServingScenario(load_model("llama-3.1-8b"), Layout(), Precision(), 1.0, 1.0, 256.0)
    >>> run = RLScenario(engine, Sampling(lengths_of_mean(1e3, 3e3), 200.0), Algorithm(64, 16), Trainer(Layout(dp=8)),
    ...                  Split(8.0, 8.0), judge=Judge(engine, 1.0, tokens=500.0))
    >>> one = Machine(load_system("h100-nvl8"))
    >>> 1 < judge_gpus_that_keep_pace(run, RLMachines(one, one)) < 16
    True
    """
    judge = scenario.judge
    if judge is None:
        return 0.0
    free = replace(scenario, judge=replace(judge, n_gpus=float(_MOST_OF_A_JUDGE)))
    layouts = _judge_layouts(free, _MOST_OF_A_JUDGE, machines)
    most = median(scenario.transcripts.rollouts * judge.calls)
    replicas = np.unique(np.ceil(np.geomspace(1.0, max(most, 1.0), _JUDGES)))
    every = [one for one in layouts for _ in replicas]
    n_gpus = np.outer([one.n_gpus for one in layouts], replicas).ravel()
    engine = replace(judge.engine, layout=stack_layouts(every, trailing_axes=0))
    tried = replace(scenario, judge=replace(judge, engine=engine, n_gpus=n_gpus))
    steps_s = np.broadcast_to(estimate_rl(tried, machines).step_s, n_gpus.shape)
    return float(np.min(n_gpus[steps_s <= KEEPS_PACE_RATIO * np.min(steps_s)]))


@dataclass(frozen=True, slots=True)
class MoreUnits:
    """What the fewest GPUs that a layout can take more would save; of verifiers, so many cores.

    Attributes
    ----------
    added : float
        GPUs, or cores [-].
    saved_fraction : float
        Of a step, by all of them together [-].
    """

    added: float
    saved_fraction: float

    @property
    def of_each_fraction(self) -> float:
        """Of a step, by each of them on average [-]."""
        return self.saved_fraction / self.added


#: Cores that verifiers are given more.
_MORE_CORES = 100.0


def next_gpu(scenario: RLScenario, machines: RLMachines) -> dict[str, MoreUnits]:
    """Say what a step saves with more GPUs of each kind: as few as a layout can use."""
    now = float(np.asarray(estimate_rl(scenario, machines).step_s))
    split, replica = scenario.split, float(scenario.engine.layout.n_gpus)
    cut = scenario.trainer.layout
    rank = float(cut.tp * cut.pp * cut.cp * least_ranks(cut))
    changes: dict[str, tuple[RLScenario, float]] = {}
    if split.is_colocated:
        added = float(np.lcm(int(replica), int(rank)))
        more = Split(split.n_generation + added, split.n_training + added)
        changes["both"] = (_grown(scenario, more, added), added)
    else:
        more = replace(split, n_generation=split.n_generation + replica)
        changes["generation"] = (_grown(scenario, more, 0.0), replica)
        more = replace(split, n_training=split.n_training + rank)
        changes["training"] = (_grown(scenario, more, rank), rank)
    if scenario.domains:
        domains = tuple(
            replace(one, n_cores=one.n_cores + _MORE_CORES * one.share_fraction) for one in scenario.domains
        )
        changes["verification"] = (replace(scenario, domains=domains), _MORE_CORES)
    if (judge := scenario.judge) is not None and judge.n_gpus is not None:
        unit = float(judge.engine.layout.n_gpus)
        changes["judge"] = (replace(scenario, judge=replace(judge, n_gpus=judge.n_gpus + unit)), unit)
    return {
        name: MoreUnits(added, 1 - float(np.asarray(estimate_rl(changed, machines).step_s)) / now)
        for name, (changed, added) in changes.items()
    }


def _grown(scenario: RLScenario, split: Split, added: float) -> RLScenario:
    """The run on another split, so many GPUs more in the trainer's layout: those beside it wait as before."""
    trainer = scenario.trainer
    return replace(scenario, split=split, trainer=with_share(trainer, float(trainer.layout.n_gpus) + added))
