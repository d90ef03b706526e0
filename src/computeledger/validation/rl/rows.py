"""Rows of measured RL runs, brought to one configuration per run; what a row leaves out is said, never guessed."""

from __future__ import annotations

import csv
import functools
import io
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources

import numpy as np

from computeledger.arrays import Num
from computeledger.errors import DoesNotFitError, InputError
from computeledger.facts.architecture import Model
from computeledger.facts.load import load_model, load_system
from computeledger.facts.schema import System
from computeledger.physics.calibration.efficiency import efficiency
from computeledger.physics.calibration.training import training_efficiency
from computeledger.physics.parallelism import Layout, check_layout, parse_layout
from computeledger.physics.roofline import Machine
from computeledger.physics.transformer import n_params_total
from computeledger.units import KILO, MEGA
from computeledger.validation.rl.cells import (
    NUMBER,
    SkippedRLRunError,
    number_of,
    read_degrees,
    read_mechanism,
    read_model,
    read_precision,
    read_sides,
    read_system,
    seconds_of,
    text_of,
    whole_of,
)
from computeledger.workloads.rl.generation import engine_memory
from computeledger.workloads.rl.lengths import LONGEST_OVER_MEAN, Lengths, exact_lengths, lengths_of_mean
from computeledger.workloads.rl.scenario import Algorithm, RLMachines, RLScenario, Split
from computeledger.workloads.rl.search import TrainerQuestion, search_generation, search_trainer, with_share
from computeledger.workloads.rl.training import PACK_TOKENS, Pieces, Trainer
from computeledger.workloads.rl.turns import Sampling
from computeledger.workloads.rl_frameworks import named_rl_framework
from computeledger.workloads.serving.estimate import ServingScenario
from computeledger.workloads.serving.search import layouts_that_fit
from computeledger.workloads.serving.settings import LIVE_LIMIT

NEEDED = (
    "source", "system", "model", "algorithm", "hardware", "n_gpus", "gpu_split", "rollout_len_tokens", "batch",
    "metric", "value", "unit",
)  # fmt: skip
#: What no row states (assumptions): tokens of a prompt, and how batches are split over prompts.
PROMPT_TOKENS, GROUP_SIZE = 150.0, 16.0
#: Engine whose serving constants generation takes.
ENGINE = "vllm"
#: Ratios of the two models that RL is made of: its own intervals stand in for theirs.
_RATIOS = ("training_known_ratio", "training_unseen_ratio", "training_expert_ratio", "training_chip_ratio")
#: Algorithms that sample until enough groups carry a signal.
_RESAMPLING = ("dapo", "dynamic sampling")
#: Measured metrics, as tables and logs name them, by the quantity that answers them.
METRICS = {
    "step_time": "step_time",
    "tokens_per_s_per_gpu": "step_time",
    "gen_time": "generation_time",
    "generate_sequences_time": "generation_time",
    "gen_time_exposed": "exposed_generation_time",
    "wait_prev_gen": "exposed_generation_time",
    "logprob_time": "logprob_time",
    "old_log_prob_time": "logprob_time",
    "ref_log_prob_time": "reference_logprob_time",
    "update_actor_time": "update_time",
    "policy_training_time": "update_time",
    "refit_time": "weight_sync_time",
    "weight_sync_time": "weight_sync_time",
    "reward_time": "reward_time",
    "idle_time": "idle_time",
    "wait_time": "idle_time",
}
#: Times of several steps: how many is in the name, or follows from the batch.
_OF_STEPS = r"(?:time|training_hours)_(\d+)_steps"
_OF_AN_EPOCH = r"(?:avg_)?time_(?:\d+_prompts_)?1_epoch"


@dataclass(frozen=True, slots=True)
class RLRun:
    """A measured configuration.

    Attributes
    ----------
    row : mapping of str to str
        Its first row, with the framework and what kind of run it is.
    scenario : RLScenario
        What it asks.
    system : System
        Of all its GPUs.
    figures : tuple of tuple of str and float
        Metric as the table names it, quantity that answers it, and what was measured [s].
    """

    row: Mapping[str, str]
    scenario: RLScenario
    system: System
    figures: tuple[tuple[str, str, float], ...]

    @property
    def step_s(self) -> float:
        """Measured time of a step; not a number where only phases were measured [s]."""
        return next((value for _, name, value in self.figures if name == "step_time"), np.nan)


def central_machine(system: System) -> Machine:
    """One GPU of a system with serving and training at the middle of what is known.

    Examples
    --------
    >>> from computeledger.facts.load import load_system
    >>> central_machine(load_system("h100-nvl8")).efficiency.serving_ratio
    1.0
    """
    training = training_efficiency(draws={f"efficiency.{name}": 1.0 for name in _RATIOS})
    return Machine(system, efficiency(ENGINE, {"efficiency.serving_ratio": 1.0}), training)


def rl_runs(rows: Sequence[Mapping[str, str]]) -> tuple[list[RLRun], Counter[str]]:
    """Turn rows into configurations: the metrics of one run are one configuration.

    Examples
    --------
    >>> runs, skipped = rl_runs([{"model": "nobody", "metric": "step_time", "value": "9", "unit": "s"}])
    >>> len(runs), dict(skipped)
    (0, {'model not known': 1})
    """
    groups: dict[tuple[str, ...], list[Mapping[str, str]]] = {}
    for row in rows:
        key = tuple(value or "" for name, value in row.items() if name not in {"metric", "value", "unit"})
        groups.setdefault(key, []).append(row)
    runs: list[RLRun] = []
    skipped: Counter[str] = Counter()
    for members in groups.values():
        metrics = {one["metric"]: one for one in members}
        if "step_time" in metrics:
            metrics.pop("tokens_per_s_per_gpu", None)
        if known := {name: one for name, one in metrics.items() if _quantity(name)}:
            try:
                runs.append(_run(known))
            except SkippedRLRunError as reason:
                skipped[str(reason)] += len(known)
        if len(metrics) > len(known):
            skipped["not the time of a step"] += len(metrics) - len(known)
    return runs, skipped


def _quantity(metric: str) -> str | None:
    """What answers a metric; nothing where it is no time of a step."""
    if re.fullmatch(_OF_STEPS, metric) or re.fullmatch(_OF_AN_EPOCH, metric):
        return "step_time"
    return METRICS.get(metric)


def _run(metrics: Mapping[str, Mapping[str, str]]) -> RLRun:
    row = next(iter(metrics.values()))
    if "memory, unverified" in " ".join(value or "" for value in row.values()):
        raise SkippedRLRunError("inputs from memory, not read at the source")
    model, system = read_model(row), read_system(row)
    if "40GB" in text_of(row, "hardware") and system.accelerator.id.startswith("a100"):
        system = load_system("8xa100-sxm4-40gb")
    prompt = _prompt_tokens(row)
    mean = _mean_tokens(row, prompt)
    rounds = _rounds(row)
    recipe = recipe_of(row, model)
    batch = _batch(row, recipe)
    n_gpus = whole_of(text_of(row, "n_gpus"), "number of GPUs not stated")
    split, framework = _split(row, n_gpus, recipe), named_rl_framework(text_of(row, "system"))
    host = engine_memory(framework.shared_hbm_fraction if split.is_colocated else 0.0)
    most = framework.live_limit(framework.engine, system.accelerator) or LIVE_LIMIT
    bare = RLScenario(
        engine=ServingScenario(model, Layout(), read_precision(row, model), prompt, mean, most, host=host),
        sampling=Sampling(_lengths(row, mean, prompt), prompt, batch.group_size),
        algorithm=_algorithm(row, model, batch, rounds),
        trainer=Trainer(Layout()),
        split=split,
        weight_sync=read_mechanism(text_of(row, "system")) or framework.sync_of(split.is_colocated),
        is_one_program=framework.is_one_program,
        gpu_batch=framework.generation_batch or None,
    )
    scenario = _with_layouts(row, bare, system)
    told = {
        "model_kind": "moe" if model.is_moe else "dense",
        "mode": "synchronous" if split.max_lag == 0 else "asynchronous",
        "framework": framework.id,
    }
    figures = tuple((name, str(_quantity(name)), _step_s(one, scenario, batch.epoch_steps))
                    for name, one in metrics.items())  # fmt: skip
    return RLRun({**row, **told}, scenario, system, figures)


def _algorithm(row: Mapping[str, str], model: Model, batch: _Batch, rounds: float) -> Algorithm:
    """What a step trains on; passes as the row or its framework has them, a critic and a reward model where stated."""
    said = f"{text_of(row, 'notes')} {text_of(row, 'algorithm')}".lower()
    passes = named_rl_framework(text_of(row, "system")).logprob_passes
    judge = re.search(r"(\d+)M reward/critic", text_of(row, "model"))
    ratio = float(judge[1]) * MEGA / float(n_params_total(model)) if judge else 0.0
    return Algorithm(
        batch.rollouts / batch.group_size,
        batch.group_size,
        sampling_rounds=rounds,
        logprob_passes=1.0 if "policy logprobs" in said else passes,
        optimizer_steps=batch.optimizer_steps,
        critic_ratio=ratio,
        reward_ratio=ratio,
    )


def _step_s(row: Mapping[str, str], scenario: RLScenario, epoch_steps: float | None) -> float:
    """Seconds of a step or of one of its phases, from what the row measures."""
    metric = row["metric"]
    if metric == "tokens_per_s_per_gpu":
        tokens = scenario.algorithm.rollouts * scenario.sequence_tokens
        return float(tokens / number_of(row["value"]) / scenario.split.n_gpus)
    several = re.fullmatch(_OF_STEPS, metric)
    if several is not None:
        return seconds_of(row) / float(several[1])
    if re.fullmatch(_OF_AN_EPOCH, metric):
        if epoch_steps is None:
            raise SkippedRLRunError("steps of an epoch not stated")
        return seconds_of(row) / epoch_steps
    return seconds_of(row)


def _prompt_tokens(row: Mapping[str, str]) -> float:
    stated = re.search(r"prompts of (\d+) \+ \d+ generated", text_of(row, "batch"))
    return float(stated[1]) if stated else PROMPT_TOKENS


def _mean_tokens(row: Mapping[str, str], prompt_tokens: float) -> float:
    """Generated tokens; a stated mean of whole sequences counts the prompt."""
    text = text_of(row, "rollout_len_tokens").replace(",", "")
    found = re.fullmatch(r"(?:mean |avg |average )?(\d+\.?\d*)", text)
    if found is None:
        raise SkippedRLRunError("mean generated length not stated")
    said = f"{text_of(row, 'notes')} {text_of(row, 'note')}"
    generated = "generated tokens" in f"{said} {text_of(row, 'batch')}" or "response tokens" in said
    return max(number_of(found[1]) - (0.0 if generated else prompt_tokens), 1.0)


def _lengths(row: Mapping[str, str], mean: float, prompt_tokens: float) -> Lengths:
    said = f"{text_of(row, 'notes')} {text_of(row, 'algorithm')}"
    if "length fixed" in text_of(row, "note"):
        return exact_lengths(mean)
    stated = re.search(rf"(?:max seq(?:uence)?|max_response|max|cap)\s*{NUMBER}", said)
    longest = number_of(stated[1]) - prompt_tokens if stated else LONGEST_OVER_MEAN * mean
    if longest < mean:
        raise SkippedRLRunError("longest generated length below the mean")
    return lengths_of_mean(mean, longest)


@dataclass(frozen=True, slots=True)
class _Batch:
    """Rollouts of a step, in groups; optimizer steps; steps of an epoch where they follow."""

    rollouts: float
    group_size: float = GROUP_SIZE
    optimizer_steps: float = 1.0
    epoch_steps: float | None = None


def _batch(row: Mapping[str, str], recipe: Mapping[str, str]) -> _Batch:
    text = text_of(row, "batch")
    stated = re.search(rf"G-GBS={NUMBER}", text)
    if stated is not None:
        step = re.search(rf"T-GBS={NUMBER}", text)
        rollouts = number_of(stated[1])
        return _Batch(rollouts, optimizer_steps=max(rollouts / number_of(step[1]), 1.0) if step else 1.0)
    epoch = re.search(rf"{NUMBER}k prompts.*at most {NUMBER} pairs", text)
    if epoch is not None:
        pairs, looked_up = number_of(epoch[2]), recipe.get("epoch_rollouts")
        every = number_of(looked_up) if looked_up else number_of(epoch[1]) * KILO
        return _Batch(pairs, 1.0, epoch_steps=every / pairs)
    group = re.search(rf"{NUMBER} prompts x (?:n\s*=\s*)?{NUMBER}(?:.*mini\s+{NUMBER})?", text)
    if group is not None:
        prompts, each = number_of(group[1]), number_of(group[2])
        several = re.search(r"\((\d+) optimi[sz]er steps\)", text)
        steps = number_of(several[1]) if several else prompts / number_of(group[3]) if group[3] else 1.0
        return _Batch(prompts * each, GROUP_SIZE if group[3] or not several else each, steps)
    whole = re.search(rf"{NUMBER} rollouts", text)
    if whole is None:
        raise SkippedRLRunError("rollouts per step not stated")
    return _Batch(number_of(whole[1]))


def _split(row: Mapping[str, str], n_gpus: int, recipe: Mapping[str, str]) -> Split:
    text, algorithm = text_of(row, "gpu_split"), text_of(row, "algorithm").lower()
    lag = re.search(r"(\d+)-step off", algorithm)
    if "non-colocated" not in text and "colocated" in text:
        return Split(float(n_gpus), float(n_gpus))
    sides = read_sides(row, n_gpus)
    if sides is not None:
        generation, training = sides
    elif recipe.get("generation_fraction"):
        generation = float(round(n_gpus * number_of(recipe["generation_fraction"])))
        training = n_gpus - generation
    else:
        raise SkippedRLRunError("GPU split not stated")
    said = re.findall(r"[a-z]+", f"{text} {algorithm} {text_of(row, 'system')} {text_of(row, 'notes')}".lower())
    beside = "async" in said and "on policy" not in algorithm
    behind = int(lag[1]) if lag else int(beside)
    return Split(generation, training, is_colocated=False, max_lag=behind)


def _rounds(row: Mapping[str, str]) -> float:
    """Times that a batch is sampled: once, unless the algorithm samples until enough groups carry a signal."""
    said = f"{text_of(row, 'batch')} {text_of(row, 'notes')}"
    stated = re.search(rf"{NUMBER} (?:sampling |generation )?rounds", said)
    if stated is not None:
        return number_of(stated[1])
    if any(word in text_of(row, "algorithm").lower() for word in _RESAMPLING):
        raise SkippedRLRunError("sampling rounds not stated")
    return 1.0


def _with_layouts(row: Mapping[str, str], bare: RLScenario, system: System) -> RLScenario:
    """The run on its layouts; one that the row does not state is searched."""
    generation = read_degrees(text_of(row, "gpu_split"), "gen")
    machine = central_machine(system)
    model, split = bare.engine.model, bare.split
    try:
        one = replace(bare, trainer=_trainer(row, bare, machine))
        if generation:
            pp = generation[1] if len(generation) == 2 else generation[-2]
            layout = _legal(Layout(tp=int(generation[0]), pp=int(pp)), model, split.n_generation)
        else:
            layouts = layouts_that_fit(replace(one.engine, batch=1.0), machine)
            layout = search_generation(one, layouts, RLMachines(machine, machine))
    except DoesNotFitError:
        raise SkippedRLRunError("does not fit, as modelled") from None
    return replace(one, engine=one.on(layout))


def _trainer(row: Mapping[str, str], bare: RLScenario, machine: Machine) -> Trainer:
    """The trainer on the layout that a row or its recipe states, else on that of its framework."""
    model, precision, n_gpus = bare.engine.model, bare.engine.precision, int(bare.split.n_training)
    framework, recipe = named_rl_framework(text_of(row, "system")), recipe_of(row, model)
    said = f"{text_of(row, 'system')} {text_of(row, 'gpu_split')}"
    is_sharded = "FSDP" in said or (bool(framework.sharding) and "Megatron" not in said)
    micro = re.search(rf"micro-batch {NUMBER}", text_of(row, "notes"))
    each = number_of(micro[1]) if micro else framework.microbatch_sequences or None
    pieces = Pieces(each, not framework.packs, is_sharded, framework.gathers_once)
    recompute, pack = recipe.get("recompute") or framework.recompute or None, _pack_tokens(row)
    degrees = read_degrees(text_of(row, "gpu_split"), "train")
    if degrees and "FSDP" not in said:
        return pieces.applied(replace(_stated_trainer(row, degrees, bare), recompute=recompute or "full"))
    if recipe.get("layout"):
        layout = parse_layout(recipe["layout"])
        return pieces.applied(with_share(Trainer(layout, precision, pack, recompute or "full"), float(n_gpus)))
    question = TrainerQuestion(model, precision, n_gpus, recompute, pieces, pack if is_sharded else None)
    return search_trainer(question, bare, machine)


@functools.cache
def _recipes() -> tuple[Mapping[str, str], ...]:
    """What the recipes behind measured runs say of trainers, of the split of GPUs and of an epoch."""
    text = resources.files("computeledger.validation.rl").joinpath("recipes.csv").read_text("utf-8")
    return tuple(csv.DictReader(io.StringIO(text, newline=""), strict=True))


def recipe_of(row: Mapping[str, str], model: Model) -> Mapping[str, str]:
    """What the recipe behind a row says of its trainer, where that was looked up."""
    said = f"{text_of(row, 'system')} {text_of(row, 'gpu_split')}"
    for one in _recipes():
        is_of_row = text_of(row, "source").startswith(one["source"]) and one["trainer"] in said
        is_of_row = is_of_row and one["algorithm"] in text_of(row, "algorithm")
        if is_of_row and (not one["model"] or load_model(one["model"]).id == model.id):
            return one
    return {}


def _stated_trainer(row: Mapping[str, str], degrees: Sequence[float], bare: RLScenario) -> Trainer:
    model, n_gpus = bare.engine.model, bare.split.n_training
    # one table writes further entries before the last two, pipeline and virtual stages
    tp, cp, ep = (int(one) for one in degrees[:3])
    pp, virtual = int(degrees[-2]), degrees[-1]
    if min(tp, cp, ep, pp) < 1:
        raise SkippedRLRunError("parallel layout not stated")
    dp = int(n_gpus) // (tp * cp * pp)
    layout = _legal(Layout(tp=tp, cp=cp, pp=pp, dp=max(dp, 1), ep=min(ep, tp * cp * max(dp, 1))), model, n_gpus)
    return Trainer(layout, bare.engine.precision, pack_tokens=_pack_tokens(row), virtual_stages=virtual)


def _pack_tokens(row: Mapping[str, str]) -> float:
    """Packed length of a training sequence: the longest that the row states."""
    stated = re.search(rf"max(?: seq| sequence) {NUMBER}", text_of(row, "notes"))
    return number_of(stated[1]) if stated else PACK_TOKENS


def _legal(layout: Layout, model: Model, n_gpus: Num) -> Layout:
    try:
        check_layout(layout, model)
    except InputError:
        raise SkippedRLRunError("parallel layout does not fit the model") from None
    if layout.n_gpus > n_gpus:
        raise SkippedRLRunError("parallel layout larger than its GPUs")
    return layout
