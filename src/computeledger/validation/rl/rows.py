"""Rows of measured RL runs, brought to one configuration per run; what a row leaves out is said, never guessed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from computeledger.arrays import Num
from computeledger.errors import DoesNotFitError, InputError
from computeledger.facts.architecture import Model
from computeledger.facts.load import load_model, load_system, system_named_in
from computeledger.facts.schema import System
from computeledger.physics.calibration.efficiency import efficiency
from computeledger.physics.calibration.training import training_efficiency
from computeledger.physics.parallelism import Layout, check_layout
from computeledger.physics.roofline import Machine, Precision, parse_precision
from computeledger.units import HOUR_S, MINUTE_S
from computeledger.validation.compare import MOST_MEASURED
from computeledger.workloads.rl.lengths import LONGEST_OVER_MEAN, Lengths, lengths_of_mean
from computeledger.workloads.rl.scenario import Algorithm, RLMachines, RLScenario, Split
from computeledger.workloads.rl.search import TrainerQuestion, search_generation, search_trainer
from computeledger.workloads.rl.training import PACK_TOKENS, Trainer
from computeledger.workloads.rl.turns import Sampling
from computeledger.workloads.serving.estimate import LIVE_LIMIT, ServingScenario
from computeledger.workloads.serving.search import layouts_that_fit

NEEDED = (
    "source", "system", "model", "algorithm", "hardware", "n_gpus", "gpu_split", "rollout_len_tokens", "batch",
    "metric", "value", "unit",
)  # fmt: skip
#: Spellings of models, letters and digits only.
MODELS = {
    "deepseekv3": "deepseek-v3",
    "llama318b": "llama-3.1-8b",
    "llama3170b": "llama-3.1-70b",
    "llama31405b": "llama-3.1-405b",
    "qwen330b3a": "qwen3-30b-a3b",
    "qwen330ba3b": "qwen3-30b-a3b",
    "qwen3235b": "qwen3-235b-a22b",
    "qwen3235ba22b": "qwen3-235b-a22b",
    "qwen332b": "qwen3-32b",
    "qwen314b": "qwen3-14b",
    "qwen38b": "qwen3-8b",
    "qwen317b": "qwen3-1.7b",
    "qwen306b": "qwen3-0.6b",
    "qwen257b": "qwen2.5-7b",
    "qwen25math7b": "qwen2.5-math-7b",
    "qwen257binstructretoolsft": "qwen2.5-7b-instruct",
    "qwen2572b": "qwen2.5-72b",
}
#: What no row states (assumptions): tokens of a prompt, and how batches are split over prompts.
PROMPT_TOKENS, GROUP_SIZE = 150.0, 16.0
#: Engine whose serving constants generation takes.
ENGINE = "vllm"
#: Ratios of the two models that RL is made of: its own intervals stand in for theirs.
_RATIOS = ("training_known_ratio", "training_unseen_ratio", "training_expert_ratio", "training_chip_ratio")
#: Algorithms that sample until enough groups carry a signal.
_RESAMPLING = ("dapo", "dynamic sampling")
_UNIT_S = {"s": 1.0, "ms": 1e-3, "min": MINUTE_S, "hours": HOUR_S}
_NUMBER = r"(?<!\d)(\d[\d,]*\.?\d*)"


class SkippedRLRunError(InputError):
    """A row that a prediction cannot be made for, with the reason."""


@dataclass(frozen=True, slots=True)
class RLRun:
    """A measured configuration."""

    row: Mapping[str, str]
    scenario: RLScenario
    system: System
    step_s: float


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


def rl_runs(
    rows: Sequence[Mapping[str, str]], training_fraction: float | None = None
) -> tuple[list[RLRun], Counter[str]]:
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
        try:
            runs.append(_run({one["metric"]: one for one in members}, training_fraction))
        except SkippedRLRunError as reason:
            skipped[str(reason)] += 1
    return runs, skipped


def _run(metrics: Mapping[str, Mapping[str, str]], training_fraction: float | None) -> RLRun:
    row = next(iter(metrics.values()))
    if not {"step_time", "tokens_per_s_per_gpu"} & set(metrics):
        raise SkippedRLRunError("not the time of a step")
    if "memory, unverified" in " ".join(value or "" for value in row.values()):
        raise SkippedRLRunError("inputs from memory, not read at the source")
    model, system = _model(row), _system(row)
    mean = _mean_tokens(row)
    rounds = _rounds(row)
    rollouts, optimizer_steps = _batch(row)
    n_gpus = _whole(_text(row, "n_gpus"), "number of GPUs not stated")
    split = _split(row, n_gpus, training_fraction)
    bare = RLScenario(
        engine=ServingScenario(model, Layout(), _precision(row, model), PROMPT_TOKENS, mean, LIVE_LIMIT),
        sampling=Sampling(_lengths(row, mean), PROMPT_TOKENS, GROUP_SIZE),
        algorithm=Algorithm(rollouts / GROUP_SIZE, GROUP_SIZE, sampling_rounds=rounds, optimizer_steps=optimizer_steps),
        trainer=Trainer(Layout()),
        split=split,
    )
    scenario = _with_layouts(row, bare, system)
    mode = "synchronous" if split.max_lag == 0 else "asynchronous"
    kind = "moe" if model.is_moe else "dense"
    return RLRun({**row, "model_kind": kind, "mode": mode}, scenario, system, _step_s(metrics, scenario, mean))


def _step_s(metrics: Mapping[str, Mapping[str, str]], scenario: RLScenario, mean: float) -> float:
    stated = metrics.get("step_time")
    if stated is None:
        rate = _number(metrics["tokens_per_s_per_gpu"]["value"])
        tokens = scenario.algorithm.rollouts * (mean + PROMPT_TOKENS)
        return float(tokens / rate / scenario.split.n_gpus)
    if stated["unit"] not in _UNIT_S:
        raise SkippedRLRunError(f"unit {stated['unit']!r} of a step time not known")
    return _number(stated["value"]) * _UNIT_S[stated["unit"]]


def _text(row: Mapping[str, str], name: str) -> str:
    return (row.get(name) or "").strip()


def _number(text: str) -> float:
    try:
        value = float(text.replace(",", ""))
    except ValueError:
        raise SkippedRLRunError("a number that cannot be read") from None
    if not value > 0:
        raise SkippedRLRunError("a number that is not greater than 0")
    if value > MOST_MEASURED:
        raise SkippedRLRunError(f"a number beyond {MOST_MEASURED:g}")
    return value


def _whole(text: str, reason: str) -> int:
    if not re.fullmatch(r"\d[\d,]*(\.0)?", text):
        raise SkippedRLRunError(reason)
    return int(_number(text))


def _model(row: Mapping[str, str]) -> Model:
    plain = re.sub(r"[^a-z0-9]", "", _text(row, "model").lower())
    if plain in MODELS:
        return load_model(MODELS[plain])
    try:
        return load_model(_text(row, "model"))
    except InputError:
        raise SkippedRLRunError("model not known") from None


def _system(row: Mapping[str, str]) -> System:
    text = _text(row, "hardware")
    system = system_named_in(text)
    if system is None:
        raise SkippedRLRunError("hardware not known" if text else "hardware not stated")
    return load_system(system)


def _mean_tokens(row: Mapping[str, str]) -> float:
    """Generated tokens: what is stated counts the prompt."""
    text = _text(row, "rollout_len_tokens").replace(",", "")
    found = re.fullmatch(r"(?:mean |avg |average )?(\d+\.?\d*)", text)
    if found is None:
        raise SkippedRLRunError("mean generated length not stated")
    return max(_number(found[1]) - PROMPT_TOKENS, 1.0)


def _lengths(row: Mapping[str, str], mean: float) -> Lengths:
    stated = re.search(
        rf"(?:max seq|max_response|max)\s*{_NUMBER}", _text(row, "notes") + " " + _text(row, "algorithm")
    )
    longest = _number(stated[1]) - PROMPT_TOKENS if stated else LONGEST_OVER_MEAN * mean
    if longest < mean:
        raise SkippedRLRunError("longest generated length below the mean")
    return lengths_of_mean(mean, longest)


def _batch(row: Mapping[str, str]) -> tuple[float, float]:
    """Rollouts of a step, and optimiser steps."""
    text = _text(row, "batch")
    stated = re.search(rf"G-GBS={_NUMBER}", text)
    if stated is not None:
        step = re.search(rf"T-GBS={_NUMBER}", text)
        rollouts = _number(stated[1])
        return rollouts, max(rollouts / _number(step[1]), 1.0) if step else 1.0
    group = re.search(rf"{_NUMBER} prompts x n\s*=\s*{_NUMBER}(?:.*mini\s+{_NUMBER})?", text)
    if group is None:
        raise SkippedRLRunError("rollouts per step not stated")
    prompts, each = _number(group[1]), _number(group[2])
    return prompts * each, prompts / _number(group[3]) if group[3] else 1.0


def _split(row: Mapping[str, str], n_gpus: int, training_fraction: float | None) -> Split:
    text, algorithm = _text(row, "gpu_split"), _text(row, "algorithm").lower()
    lag = re.search(r"(\d+)-step off", algorithm)
    if "non-colocated" not in text and "colocated" in text:
        return Split(float(n_gpus), float(n_gpus))
    numbers = re.search(r"gen (\d+) / train (\d+)", text) or re.fullmatch(r"(\d+):(\d+)", text)
    if numbers is not None:
        generation, training = float(numbers[1]), float(numbers[2])
    elif training_fraction is not None and "non-colocated" in text:
        training = max(round(n_gpus * training_fraction), 1.0)
        generation = n_gpus - training
    else:
        raise SkippedRLRunError("GPU split not stated")
    waits = "on policy" in algorithm or "sync" in re.findall(r"[a-z]+", text + algorithm)
    return Split(generation, training, is_colocated=False, max_lag=int(lag[1]) if lag else 0 if waits else 1)


def _rounds(row: Mapping[str, str]) -> float:
    """Times that a batch is sampled: once, unless the algorithm samples until enough groups carry a signal."""
    stated = re.search(rf"{_NUMBER} (?:sampling |generation )?rounds", f"{_text(row, 'batch')} {_text(row, 'notes')}")
    if stated is not None:
        return _number(stated[1])
    if any(word in _text(row, "algorithm").lower() for word in _RESAMPLING):
        raise SkippedRLRunError("sampling rounds not stated")
    return 1.0


def _with_layouts(row: Mapping[str, str], bare: RLScenario, system: System) -> RLScenario:
    """The run on its layouts; one that the row does not state is searched."""
    text, precision = _text(row, "gpu_split"), bare.engine.precision
    generation, training = _degrees(text, "gen"), _degrees(text, "train")
    machine = central_machine(system)
    model, split = bare.engine.model, bare.split
    try:
        trainer = (
            _trainer(row, model, split.n_training, precision)
            if training
            else search_trainer(TrainerQuestion(model, precision, int(split.n_training)), bare, machine)
        )
        one = replace(bare, trainer=trainer)
        if generation:
            layout = _legal(Layout(tp=int(generation[0]), pp=int(generation[1])), model, split.n_generation)
        else:
            layouts = layouts_that_fit(replace(one.engine, batch=1.0), machine)
            layout = search_generation(one, layouts, RLMachines(machine, machine))
    except DoesNotFitError:
        raise SkippedRLRunError("does not fit, as modelled") from None
    return replace(one, engine=replace(one.engine, layout=layout))


def _degrees(text: str, name: str) -> list[float]:
    """Degrees of a layout as stated; none where they are not."""
    found = re.search(rf"{name} \[[A-Z,]+\]=\[([^\]]+)\]", text)
    if found is None:
        return []
    return [_number(part) if part.strip() not in {"n/a", ""} else 1.0 for part in found[1].split(",")]


def _trainer(row: Mapping[str, str], model: Model, n_gpus: Num, precision: Precision) -> Trainer:
    degrees = _degrees(_text(row, "gpu_split"), "train")
    # one table writes further entries before the last two, pipeline and virtual stages
    tp, cp, ep = (int(one) for one in degrees[:3])
    pp, virtual = int(degrees[-2]), degrees[-1]
    if min(tp, cp, ep, pp) < 1:
        raise SkippedRLRunError("parallel layout not stated")
    dp = int(n_gpus) // (tp * cp * pp)
    # where half of the GPUs are assumed to train, the stated experts may be spread over more than those
    layout = _legal(Layout(tp=tp, cp=cp, pp=pp, dp=max(dp, 1), ep=min(ep, tp * cp * max(dp, 1))), model, n_gpus)
    stated = re.search(rf"max seq {_NUMBER}", _text(row, "notes"))
    pack = _number(stated[1]) if stated else PACK_TOKENS
    return Trainer(layout, precision, pack_tokens=pack, virtual_stages=virtual)


def _legal(layout: Layout, model: Model, n_gpus: Num) -> Layout:
    try:
        check_layout(layout, model)
    except InputError:
        raise SkippedRLRunError("parallel layout does not fit the model") from None
    if layout.n_gpus > n_gpus:
        raise SkippedRLRunError("parallel layout larger than its GPUs")
    return layout


def _precision(row: Mapping[str, str], model: Model) -> Precision:
    found = re.search(r"precision (?:train\+gen )?(BF16|FP8|FP4)", _text(row, "notes"), re.IGNORECASE)
    moe = model.is_moe
    return parse_precision(found[1].lower() if found else "bf16", moe)
