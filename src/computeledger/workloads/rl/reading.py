"""From an RL question to its run: lengths, verifiers, layouts, split; ``rl``, ``plan``, ``simulate rl`` read here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from computeledger.arrays import Num, Range, median
from computeledger.errors import DoesNotFitError, InputError, shown
from computeledger.facts.architecture import Lora, Model
from computeledger.facts.load import load_model, load_system
from computeledger.files import read_lengths
from computeledger.physics.adapters import check_lora
from computeledger.physics.calibration.efficiency import median_of
from computeledger.physics.calibration.rl import RLFactors
from computeledger.physics.calibration.weight_sync import load_sync_mechanism
from computeledger.physics.parallelism import Layout, check_layout, parse_layout
from computeledger.physics.roofline import Machine, parse_training_precision
from computeledger.physics.weights import precision_of
from computeledger.units import format_count, parse_quantity
from computeledger.workloads.anchor import SEPARATOR
from computeledger.workloads.questions.rl import RLQuestion
from computeledger.workloads.rl.confidence import KNOWN_RUN, NEW_RUN, rl_class, rl_factors_of
from computeledger.workloads.rl.generation import engine_memory
from computeledger.workloads.rl.judge import Judge
from computeledger.workloads.rl.launch_values import host_gpus
from computeledger.workloads.rl.lengths import (
    LENGTH_SPREAD,
    Lengths,
    default_longest,
    empirical_lengths,
    lengths_of_mean,
    lognormal_lengths,
    spread_of_lengths,
)
from computeledger.workloads.rl.placement import Stated, place_run
from computeledger.workloads.rl.scenario import (
    Algorithm,
    Domain,
    RLMachines,
    RLScenario,
    Split,
    TextReward,
    mixture_problem,
)
from computeledger.workloads.rl.search import SplitOption, judge_layout_of, rl_machine, with_judge
from computeledger.workloads.rl.training import Pieces, Trainer
from computeledger.workloads.rl.turns import Sampling, Turns
from computeledger.workloads.rl.weight_sync import check_sync
from computeledger.workloads.rl_frameworks import load_rl_framework
from computeledger.workloads.serving.estimate import ServingScenario
from computeledger.workloads.serving.settings import LIVE_LIMIT


@dataclass(frozen=True, slots=True)
class AskedRun:
    """The run that a question asks about."""

    model: Model
    confidence: str
    machines: RLMachines
    typical_machines: RLMachines
    scenario: RLScenario
    typical: RLScenario
    options: list[SplitOption]


@dataclass(frozen=True, slots=True)
class Numbers:
    """Numbers of a question, and the machine that goes with them."""

    values: Mapping[str, Num]
    machine: Machine


def read_run(question: RLQuestion, drawn: Numbers, typical: Numbers) -> AskedRun:
    """Make a question ready: lengths, verifiers, and layouts and split found where they are not given.

    Examples
    --------
    >>> question = RLQuestion(model="llama-3.1-8b", system="h100-nvl8", gpus=16, training_gpus=4, rollout_tokens=1000)
    >>> numbers = Numbers(question.numbers, Machine(load_system("h100-nvl8")))
    >>> run = read_run(question, numbers, numbers)
    >>> run.typical.split.n_generation, int(run.typical.trainer.layout.n_gpus)
    (12.0, 4)
    """
    question = question.settled
    model, chip = load_model(question.model), typical.machine.system.accelerator
    if question.lora is not None:
        check_lora(model, question.lora)
    lengths = _lengths(question, model, typical.values)
    confidence, factors = "physical limit", (RLFactors(), RLFactors())
    if question.backend != "ideal":
        confidence = rl_class(model, chip, median(lengths.mean_tokens), question.framework)
        has_turns = median(typical.values.get("turns", 1.0)) > 1
        if confidence == KNOWN_RUN and (has_turns or question.lora is not None or question.judge is not None):
            confidence = NEW_RUN  # no step with turns, adapters or a judge was ever fitted
        drawn_factors = rl_factors_of(confidence, drawn.values, question.framework)
        factors = drawn_factors, rl_factors_of(confidence, framework=question.framework)
    machines = _machines(question, drawn.machine, factors[0])
    typical_machines = _machines(question, typical.machine, factors[1])
    bare = _scenario(question, model, typical.values, lengths)
    _check_context(model, bare)
    stated = _stated(question, model, typical.machine)
    if question.weight_sync is None:
        own = load_rl_framework(question.framework).sync_of(not (stated.is_apart or stated.is_wide))
        bare = replace(bare, weight_sync=own)
    else:
        check_sync(question.weight_sync, not stated.is_apart)
    can_adapt = question.lora is None and load_rl_framework(question.framework).lora is not None
    judged = with_judge(bare, stated.n_gpus, typical_machines)
    placed, options = _placed(judged, stated, typical_machines, can_adapt)
    placed = judge_layout_of(placed, typical_machines)
    run = _scenario(question, model, drawn.values, _lengths(question, model, drawn.values))
    run = replace(
        run,
        engine=run.on(placed.engine.layout),
        split=placed.split,
        trainer=placed.trainer,
        weight_sync=placed.weight_sync,
        judge=_laid_out(run.judge, placed.judge),
    )
    return AskedRun(model, confidence, machines, typical_machines, run, placed, options)


#: How often the GPUs of a run that does not fit are doubled in search of one that does.
_MOST_DOUBLINGS = 6


def _placed(
    run: RLScenario, stated: Stated, machines: RLMachines, can_adapt: bool
) -> tuple[RLScenario, list[SplitOption]]:
    """A run on its GPUs; where they do not hold it, the error says how many would, layouts and split searched."""
    try:
        return place_run(run, stated, machines)
    except DoesNotFitError as error:
        adapters = _adapters_remedy(run, stated, machines) if can_adapt else ""
        raise DoesNotFitError(f"{error}; {_remedy(run, stated, machines)}{adapters}") from None


#: Rank of the adapters that are proposed where a whole model does not fit, as pretraining does.
_PROPOSED_RANK = 16


def _adapters_remedy(run: RLScenario, stated: Stated, machines: RLMachines) -> str:
    """Whether the run fits its GPUs where adapters alone are trained."""
    adapted = replace(stated, pieces=replace(stated.pieces, lora=Lora(_PROPOSED_RANK)))
    try:
        place_run(run, adapted, machines)
    except InputError:
        return ""
    return f", or here with adapters (--lora-rank {_PROPOSED_RANK})"


def _remedy(run: RLScenario, stated: Stated, machines: RLMachines) -> str:
    """The fewest GPUs, doubled from those given, that hold a run whose layouts and split are searched, and how."""
    free = replace(stated, n_generation=None, n_training=None, generation=None, trainer=None)
    for n in (stated.n_gpus * 2**doublings for doublings in range(_MOST_DOUBLINGS + 1)):
        sides = [_with_gpus(one, n) for one in (machines.generation, machines.training)]
        try:
            placed, _ = place_run(run, replace(free, n_gpus=n), RLMachines(sides[0], sides[1], machines.factors))
        except InputError:
            continue
        split = placed.split
        who = "in turns" if split.is_colocated else f"{split.n_generation:g} generate, {split.n_training:g} train"
        how = f"{who}, generation {placed.engine.layout}, trainer {placed.trainer.layout}"
        searched = "" if stated == free else "with layouts and split left to the search "
        return f"{searched}it would fit on {format_count(n, 'GPU')} ({how})"
    return f"nor does it fit {n:,} GPUs: shorter rollouts or a smaller model may"


def _with_gpus(machine: Machine, n: int) -> Machine:
    """A machine whose system counts so many GPUs, where its name counts them."""
    counted = machine.system.n_gpus is not None
    return replace(machine, system=replace(machine.system, n_gpus=n)) if counted else machine


def _machines(question: RLQuestion, machine: Machine, factors: RLFactors) -> RLMachines:
    one = Machine(machine.system) if question.backend == "ideal" else rl_machine(machine)
    other = question.training_system
    return RLMachines(one, replace(one, system=load_system(other)) if other else one, factors)


def _stated(question: RLQuestion, model: Model, machine: Machine) -> Stated:
    """What holds of layouts and split; the rest is searched."""
    generation, training = question.generation_gpus, question.training_gpus
    sides = generation + training if generation and training else None
    gpus = question.gpus or machine.system.n_gpus or sides or int(machine.system.n_gpus_scale_up.value)
    if (generation or 1) + (training or 1) > gpus and (generation or training):
        given = {"--generation-gpus": generation, "--training-gpus": training}
        said = " and ".join(f"{name} {n}" for name, n in given.items() if n)
        raise InputError(f"{said}: of {gpus:,} GPUs some must generate, and some train")
    if generation and not training:
        training = gpus - generation
    if training and not generation:
        generation = gpus - training
    layout, trainer = question.layout, question.training_layout
    sync = question.weight_sync
    takes_turns = sync is not None and load_sync_mechanism(sync).needs == "colocated"
    return Stated(
        n_gpus=gpus,
        n_generation=generation,
        n_training=training,
        max_lag=question.max_lag or 0,
        is_separate=load_rl_framework(question.framework).placement == "separate" and gpus > 1 and not takes_turns,
        is_in_flight=question.takes_weights_live,
        generation=check_layout(parse_layout(layout), model) if layout else None,
        trainer=check_layout(parse_layout(trainer), model) if trainer else None,
        precision=parse_training_precision(question.training_precision, model.is_moe),
        recompute=question.recompute,
        pack_tokens=None if question.sequence_tokens is None else median_of(question.sequence_tokens),
        pieces=Pieces(
            None if question.microbatch_sequences is None else float(question.microbatch_sequences),
            question.packing == "padded",
            question.sharding == "zero-3",
            load_rl_framework(question.framework).gathers_once,
            question.lora,
        ),
        is_wide=question.search,
    )


def _scenario(question: RLQuestion, model: Model, numbers: Mapping[str, Num], lengths: Lengths) -> RLScenario:
    """The run with given numbers, where it stands still open."""
    framework, chip = load_rl_framework(question.framework), load_system(question.system).accelerator
    engine = ServingScenario(
        model=replace(model, adapters=question.lora) if question.lora_sync == "adapters" else model,
        layout=Layout(),
        precision=precision_of(model, question.precision, question.kv_precision),
        input_tokens=numbers["prompt_tokens"],
        output_tokens=lengths.mean_tokens,
        batch=numbers.get("live_limit", framework.live_limit(str(question.backend), chip) or LIVE_LIMIT),
        draft_tokens=numbers["draft_tokens"],
        tokens_per_step=numbers["tokens_per_step"],
        host=engine_memory(question.memory_fraction or 0.0),
    )
    shares = not question.no_shared_prefix
    text = None
    if question.continuation_tokens is not None:
        trained = question.train_on_continuation
        text = TextReward(numbers["continuation_tokens"], trained, numbers["next_token_tokens"])
    return RLScenario(
        engine=engine,
        sampling=Sampling(
            lengths, numbers["prompt_tokens"], numbers["group_size"], shares, read_turns(question, numbers, lengths)
        ),
        algorithm=_algorithm(question, numbers, lengths),
        trainer=Trainer(Layout()),
        split=Split(1.0, 1.0),
        domains=_domains(question, numbers),
        text=text,
        weight_sync=question.weight_sync,
        is_one_program=framework.is_one_program,
        has_stages=framework.has_stages,
        gpu_batch=None if "live_limit" in numbers else framework.generation_batch or None,
        host_unit=_host_unit(question),
        judge=_judge(question, numbers),
    )


def _host_unit(question: RLQuestion) -> int:
    """GPUs of which sides apart take multiples where the run is written for a framework; 0 where it is not."""
    if question.emit is None:
        return 0
    domain = int(load_system(question.system).n_gpus_scale_up.value)
    return host_gpus(domain) if load_rl_framework(question.framework).whole_nodes else 1


def _judge(question: RLQuestion, numbers: Mapping[str, Num]) -> Judge | None:
    """The judge, where its layout stands still open."""
    if question.judge is None:
        return None
    model = load_model(question.judge)
    stored = precision_of(model, None, question.kv_precision)
    engine = ServingScenario(model, Layout(), stored, 1.0, 1.0, numbers.get("live_limit", LIVE_LIMIT))
    gpus = None if question.judge_gpus is None else float(question.judge_gpus)
    return Judge(engine, gpus, numbers["judge_tokens"], numbers["judge_calls"])


def _laid_out(judge: Judge | None, like: Judge | None) -> Judge | None:
    """A judge on the layout of another."""
    if judge is None or like is None:
        return None
    return replace(judge, engine=replace(judge.engine, layout=like.engine.layout))


def heard_tokens(question: RLQuestion, numbers: Mapping[str, Num], mean_tokens: Num, *, is_mean: bool = True) -> Num:
    """What an agent observes of the others per call: a message of each, and on average half of them before its first.

    Examples
    --------
    >>> asked = RLQuestion(model="llama-3.1-8b", system="h100-nvl8", rollout_tokens="2K", turns=6, agents=3)
    >>> round(heard_tokens(asked, asked.numbers, 2000.0, is_mean=False)), round(heard_tokens(asked, asked.numbers, 2e3))
    (667, 733)
    """
    if question.agents == 1:
        return 0.0
    turns = numbers["turns"]
    message = numbers.get("message_tokens", mean_tokens / turns)
    before = 0.5 / (turns - 1.0) if is_mean and not question.agents_at_once else 0.0
    return (question.agents - 1.0) * message * (1.0 + before)


def read_turns(question: RLQuestion, numbers: Mapping[str, Num], lengths: Lengths) -> Turns:
    """What happens between the tokens of an episode.

    Examples
    --------
    >>> from computeledger.workloads.rl.lengths import exact_lengths
    >>> asked = RLQuestion(model="llama-3.1-8b", system="h100-nvl8", rollout_tokens="2K", turns=11, tool_latency="5s")
    >>> round(float(read_turns(asked, asked.numbers, exact_lengths(2000.0)).wait_s_per_token), 4)
    0.025
    """
    spreads = question.spreads
    latency = spreads.get("tool_latency")
    return Turns(
        calls_per_token=np.maximum(numbers.get("turns", 1.0) - 1.0, 0.0) / lengths.mean_tokens,
        observed_tokens=numbers["observation_tokens"] + heard_tokens(question, numbers, lengths.mean_tokens),
        latency_s=numbers.get("tool_latency", 0.0),
        latency_deviation=0.0 if latency is None else latency.deviation,
        environments=numbers.get("environments", np.inf) * question.agents,
        failed_fraction=numbers["failed_fraction"],
        rereads=question.reread_cache,
        takers=1.0 if question.agents_at_once else float(question.agents),
    )


def _algorithm(question: RLQuestion, numbers: Mapping[str, Num], lengths: Lengths) -> Algorithm:
    algorithm = Algorithm(
        prompts_per_step=numbers["prompts_per_step"],
        group_size=numbers["group_size"],
        kept_fraction=numbers["kept_fraction"],
        sampling_rounds=numbers["sampling_rounds"],
        started_ratio=numbers["oversampling"],
        keeps_partial=question.partial_rollouts,
        logprob_passes=numbers["logprob_passes"],
        updates_per_batch=numbers["updates_per_batch"],
        optimizer_steps=numbers["optimizer_steps"],
        critic_ratio=numbers["critic_ratio"],
        reward_ratio=numbers["reward_ratio"],
        agents=float(question.agents),
        trained_agents=float(question.trained_agents or question.agents),
    )
    if "global_batch_tokens" not in numbers:
        return algorithm
    trained = algorithm.trained_rollouts * algorithm.kept_fraction * (numbers["prompt_tokens"] + lengths.mean_tokens)
    return replace(algorithm, optimizer_steps=np.maximum(np.rint(trained / numbers["global_batch_tokens"]), 1.0))


def _lengths(question: RLQuestion, model: Model, numbers: Mapping[str, Num]) -> Lengths:
    """Lengths of a step's rollouts, by their mean or median and tail, cut where they or the context end."""
    if question.rollout_lengths is not None:
        return empirical_lengths(read_lengths(question.rollout_lengths))
    room = (model.max_context_tokens or np.inf) - numbers["prompt_tokens"]
    if "turns" in numbers:
        return _lengths_by_turns(question, numbers, room)
    return _lengths_in(question, numbers, room)


def _lengths_in(question: RLQuestion, numbers: Mapping[str, Num], room: Num) -> Lengths:
    """Lengths by their mean or median, cut where a limit is stated, or where the room ends."""
    if "rollout_p50_tokens" in numbers:
        p50, p95 = numbers["rollout_p50_tokens"], numbers["rollout_p95_tokens"]
        longest = np.maximum(default_longest(room, p50, p95), p50)
        return lognormal_lengths(p50, p95, numbers.get("rollout_limit_tokens", longest))
    mean, spread = numbers["rollout_tokens"], LENGTH_SPREAD
    longest = default_longest(room, mean)
    if question.rollout_p95_tokens is not None and question.rollout_tokens is not None:
        ratio = median_of(question.rollout_p95_tokens) / median_of(question.rollout_tokens)
        if ratio < 1:
            raise InputError(f"--rollout-p95-tokens lies below the mean, --rollout-tokens {median(mean):g}")
        longest, spread = default_longest(room, mean, ratio * mean), spread_of_lengths(ratio, 0.95)
    elif "longest_over_mean" in numbers:
        longest = np.minimum(numbers["longest_over_mean"] * mean, room)
    longest = numbers.get("rollout_limit_tokens", np.maximum(longest, mean))
    return lengths_of_mean(mean, longest, spread)


def _lengths_by_turns(question: RLQuestion, numbers: Mapping[str, Num], room: Num) -> Lengths:
    """Lengths where an episode has turns: what it observes takes its share of the context."""
    turns, calls = question.spreads["turns"], np.maximum(numbers["turns"] - 1.0, 0.0)
    if "rollout_tokens" not in numbers:
        return _lengths_in(question, numbers, room)
    mean = numbers["rollout_tokens"]
    observed = numbers["observation_tokens"] + heard_tokens(question, numbers, mean)
    inside = room / (1 + calls * observed / mean)
    if "turn_limit" in numbers:
        # a turn is one call more: an episode of the most calls writes as many times the mean
        most = np.where(calls > 0, (numbers["turn_limit"] - 1) / np.where(calls > 0, calls, 1.0), np.inf)
        inside = np.minimum(inside, np.maximum(most, 1.0) * mean)
    if not turns.form:
        return _lengths_in(question, numbers, inside)
    longest = numbers.get("rollout_limit_tokens", np.maximum(default_longest(inside, mean), mean))
    return lengths_of_mean(mean, np.minimum(longest, np.maximum(inside, mean)), turns.sigma)


def _domains(question: RLQuestion, numbers: Mapping[str, Num]) -> tuple[Domain, ...]:
    if question.verifier:
        texts = [text.strip() for given in question.verifier for text in given.split(SEPARATOR)]
        domains = tuple(_parse_domain(text) for text in texts)
        if problem := mixture_problem(domains):
            raise InputError(f"--verifier: {problem}")
        return domains
    if not question.verifier_time:
        return ()
    return (Domain(1.0, numbers["verifier_time"], numbers["verifier_cores"]),)


def _check_context(model: Model, run: RLScenario) -> None:
    """Refuse rollouts beyond the model's context, or its judge's."""
    lengths, text = run.sampling.lengths, run.text
    with_text = 0.0 if text is None else median(lengths.mean_tokens) + median(text.gold_tokens)
    prompt = median(run.sampling.prompt_tokens)
    held = max(median(run.longest_sequence_tokens), prompt + with_text)
    if model.max_context_tokens and held > model.max_context_tokens:
        observed = held - prompt - median(lengths.longest_tokens)
        observes = text is None and observed >= 1
        also, fewer = ", with what its calls observe," * observes, ", fewer turns or --observation-tokens" * observes
        raise InputError(
            f"prompt and longest rollout{also} of {held:,.0f} tokens exceed the context of {model.id}: "
            f"{model.max_context_tokens:,}; state a smaller --rollout-limit-tokens{fewer}"
        )
    if (judge := run.judge) is not None and (most := judge.engine.model.max_context_tokens) is not None:
        read = median(run.longest_sequence_tokens) + median(judge.tokens)
        if read > most:
            raise InputError(
                f"--judge {judge.engine.model.id}: longest rollout and verdict of {read:,.0f} tokens exceed its "
                f"context of {most:,}"
            )


def _parse_domain(text: str) -> Domain:
    """Read one kind of verifier: ``30%:2s:512``."""
    parts = text.split(":")
    if len(parts) != 3:
        raise InputError(f"--verifier {shown(text)}: expected SHARE:TIME:CORES, such as 30%:2s:512")
    try:
        share, time_s, cores = (
            parse_quantity(part, dimension, unit)
            for part, dimension, unit in zip(parts, ("fraction", "s", "count"), ("", None, ""), strict=True)
        )
    except InputError as error:
        raise InputError(f"--verifier {error}") from None
    if isinstance(share, Range) or isinstance(time_s, Range) or isinstance(cores, Range):
        raise InputError(f"--verifier {shown(text)}: expected single numbers; ranges go to --verifier-time")
    if cores < 1 or cores % 1:
        raise InputError(f"--verifier {shown(text)}: at least 1 core is needed, and whole ones")
    return Domain(share, time_s, cores)
