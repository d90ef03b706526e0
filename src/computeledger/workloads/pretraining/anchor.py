"""A user's own measurements of training: read, set beside the model, and applied to a run of another size."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from computeledger.arrays import Z_95, Num, Range, median
from computeledger.errors import ComputeLedgerError, InputError, nearest, shown
from computeledger.facts.architecture import Model, truncated
from computeledger.facts.load import load_model
from computeledger.fields import fields_of
from computeledger.physics.calibration.anchors import StepSpread, load_anchor_calibration
from computeledger.physics.calibration.efficiency import median_of
from computeledger.physics.parallelism import Layout, check_layout, filled, parse_layout
from computeledger.physics.roofline import Machine, parse_training_precision
from computeledger.physics.training.batch import RECOMPUTE, REVERSIBLE, SHARDING, Batch
from computeledger.physics.transformer import n_params_active
from computeledger.units import format_si
from computeledger.workloads.anchor import (
    FARTHEST_RATIO,
    AnchorKey,
    anchor_texts,
    file_and_keys,
    parse_anchor,
    spread_of,
)
from computeledger.workloads.anchor_fit import Lesson, Prior, Seen, learned
from computeledger.workloads.pretraining.estimate import (
    PretrainingResult,
    PretrainingScenario,
    batch_sequences,
    check_shared,
    estimate_pretraining,
    rescaled,
)
from computeledger.workloads.pretraining.step_logs import StepLog, log_of, read_step_log
from computeledger.workloads.questions.pretrain import PretrainQuestion

MEASURES = {
    "tokens_per_s_per_gpu": AnchorKey("count"), "step": AnchorKey("s"), "mfu": AnchorKey("fraction"),
}  # fmt: skip
KEYS = {
    **MEASURES,
    "gpus": AnchorKey("count"),
    "layout": AnchorKey(),
    "microbatch": AnchorKey("count"),
    "virtual_stages": AnchorKey("count"),
    "recompute": AnchorKey(),
    "precision": AnchorKey(),
    "sharding": AnchorKey(),
    "model": AnchorKey(),
    "layers": AnchorKey("count"),
    "sequence": AnchorKey("tokens", "tokens"),
    "global_batch": AnchorKey("tokens", "tokens"),
}
_EXAMPLE = fields_of(PretrainQuestion)["anchor"].example
#: Narrowest interval of an estimate that has none of its own, as a factor.
_NO_SPREAD = 1.000001

Said = Mapping[str, float | str]


@dataclass(frozen=True, slots=True)
class TrainingAnchor:
    """A measurement as it was given: what it says by key, and the log that it is from."""

    text: str
    said: Said
    log: StepLog | None = None


@dataclass(frozen=True, slots=True)
class MeasuredStep:
    """A measurement beside the model: its configuration, and the step there."""

    anchor: TrainingAnchor
    scenario: PretrainingScenario
    measured_s: float
    modelled_s: float
    is_same: bool

    @property
    def ratio(self) -> float:
        """Measured over modelled [-]."""
        return self.measured_s / self.modelled_s


@dataclass(frozen=True, slots=True)
class TrainingAnchoring:
    """A user's measurements, what they taught, and the factor by sample that the answer is multiplied with."""

    steps: tuple[MeasuredStep, ...]
    lesson: Lesson
    factor: Num = field(default=1.0, repr=False)


def anchored_result(
    texts: Sequence[str], scenario: PretrainingScenario, machine: Machine, spread: StepSpread | None = None
) -> tuple[PretrainingResult, TrainingAnchoring]:
    """Shift and narrow an estimate by measurements.

    Examples
    --------
    >>> from computeledger.facts.load import load_system
    >>> from computeledger.physics.calibration.training import training_efficiency
    >>> from computeledger.physics.roofline import Precision
    >>> machine = Machine(load_system("h100-nvl8"), training=training_efficiency())
    >>> asked = PretrainingScenario(load_model("llama-3.1-8b"), Layout(dp=64), Precision(), Batch(4096.0, 1024.0))
    >>> result, anchoring = anchored_result(["mfu=30%,layout=dp8"], asked, machine)
    >>> anchoring.lesson.ratios[0] > 1.3, bool(result.step_s > estimate_pretraining(asked, machine).step_s)
    (True, True)
    """
    target = estimate_pretraining(scenario, machine)
    steps = tuple(_beside(one, scenario, machine) for one in read_training_anchors(texts))
    lesson = _lesson(steps, scenario, target.step_s, spread or load_anchor_calibration().step)
    factor = _factor(np.asarray(target.step_s, float), lesson.after)
    least = estimate_pretraining(scenario, Machine(machine.system)).step_s
    return rescaled(target, factor, least), TrainingAnchoring(steps, lesson, factor)


def lesson_words(anchoring: TrainingAnchoring) -> str:
    """What measurements taught, in a line.

    Examples
    --------
    >>> lesson_words(TrainingAnchoring((), Lesson((1.2,), Range(0.7, 1.4), Range(1.0, 1.3), 0.8)))
    'measured over modelled 1.2 in 1 measurement, 80% of which carries over; interval 0.38 as wide'
    """
    lesson = anchoring.lesson
    count, width = len(lesson.ratios), log_width(lesson.after) / log_width(lesson.before)
    mean = math.exp(sum(map(math.log, lesson.ratios)) / count)
    return (
        f"measured over modelled {mean:.3g} in {count} measurement{'s' * (count > 1)}, {lesson.carried_fraction:.0%} "
        f"of which carries over; interval {width:.2g} as wide"
    )


def log_width(one: Range) -> float:
    """Width of an interval in logarithms.

    Examples
    --------
    >>> round(log_width(Range(0.5, 2.0)), 3)
    1.386
    """
    return math.log(one.high / one.low)


def read_training_anchors(texts: Sequence[str]) -> list[TrainingAnchor]:
    """Read anchors: keys, a line of a log, or a log's file with keys that it lacks.

    Examples
    --------
    >>> [one.said for one in read_training_anchors(["step=2.5s, gpus=8; mfu=40%"])]
    [{'step': 2.5, 'gpus': 8.0}, {'mfu': 0.4}]
    """
    return [_read(text) for text in anchor_texts(texts)]


def _read(text: str) -> TrainingAnchor:
    log = None if text.partition("=")[0].strip() in KEYS else log_of([text])
    if log is not None:
        named = re.findall(rf"\b({'|'.join(KEYS)})=([^,;\s]+)", text)
        written = ",".join(f"{key}={value}" for key, value in named)
        return _of_log(text, log, parse_anchor(written, KEYS) if written else {})
    path, rest = file_and_keys(text, _EXAMPLE)
    if not path:
        return TrainingAnchor(text, parse_anchor(text, KEYS))
    said = parse_anchor(rest, KEYS) if rest else {}
    try:
        log = read_step_log(path)
    except InputError as error:
        raise InputError(f"--anchor {error}") from None
    return _of_log(path, log, said)


def _of_log(text: str, log: StepLog, said: Said) -> TrainingAnchor:
    """What was written over what the log says."""
    own = dict(log.settings)
    out: dict[str, float | str] = {**log.words, **_layout_said(own)}
    out |= {key: own[key] for key in ("gpus", "sequence", "microbatch", "virtual_stages", "layers") if key in own}
    if "zero" in own:
        out["sharding"] = SHARDING[min(max(int(own["zero"]), 1), len(SHARDING)) - 1]
    out |= said
    if "sequences" in own and "global_batch" not in out and "sequence" in out:
        out["global_batch"] = own["sequences"] * float(out["sequence"])
    if not MEASURES.keys() & said.keys():
        out |= _measure(log, out)
    lacks = [] if {"gpus", "layout"} & out.keys() else ["layout"]
    if "global_batch" not in out and not {"tokens_per_s_per_gpu", "mfu"} & out.keys():
        lacks.append("sequence" if "sequences" in own else "global_batch")
    if lacks:
        behind = ",".join(f"{name}=..." for name in lacks)
        raise InputError(
            f"--anchor {shown(text)}: this log of {log.tool} does not state {' and '.join(lacks)}: say it behind, "
            f"as in {shown(text)},{behind}"
        )
    return TrainingAnchor(text, out, log)


def _measure(log: StepLog, out: Said) -> dict[str, float | str]:
    """The measure that needs least beside it."""
    for name in ("tokens_per_s_per_gpu", "step", "mfu"):
        if name in log.measures:
            return {name: log.measures[name]}
    rate = log.measures["samples_per_s"]
    if "global_batch" in out and "sequence" in out:
        return {"step": float(out["global_batch"]) / float(out["sequence"]) / rate}
    return {}


def _layout_said(own: Mapping[str, float]) -> dict[str, str]:
    """The layout, where a log states parts of it: data-parallel ranks are what is left of its GPUs."""
    parts = {name: int(own[name]) for name in ("tp", "pp", "cp", "ep") if name in own}
    if not parts and "zero" not in own:
        return {}
    gpus = own.get("gpus")
    inner = math.prod(size for name, size in parts.items() if name != "ep")
    if gpus is not None:
        parts["dp"] = max(int(gpus) // inner, 1)
    return {"layout": str(Layout(**parts))} if gpus is not None else {}


def _beside(one: TrainingAnchor, asked: PretrainingScenario, machine: Machine) -> MeasuredStep:
    """A measurement and the model's step at its configuration."""
    there = check_shared(_configuration(one, asked))
    model = estimate_pretraining(there, machine)
    measured_s, modelled_s = _step_s(one, model), median(model.step_s)
    limit_s = median(estimate_pretraining(there, Machine(machine.system)).step_s)
    if measured_s < limit_s:
        raise InputError(
            f"anchor: a step of {format_si(measured_s, 's')} on {there.layout} is faster than the physical limit of "
            f"{format_si(limit_s, 's')}: check gpus, layout and global_batch"
        )
    if measured_s > FARTHEST_RATIO * modelled_s:
        raise InputError(
            f"anchor: a step of {format_si(measured_s, 's')} on {there.layout} is far above what the model gives, "
            f"{format_si(modelled_s, 's')}: check the unit, gpus and global_batch"
        )
    return MeasuredStep(one, there, measured_s, modelled_s, _key(there) == _key(asked))


def _configuration(one: TrainingAnchor, asked: PretrainingScenario) -> PretrainingScenario:
    """What was measured: the question's own configuration, but for what the anchor says."""
    said = one.said
    model = _model(one, asked.model)
    layout = asked.layout
    gpus = int(float(said["gpus"])) if "gpus" in said else None
    if "layout" in said:
        layout = check_layout(filled(parse_layout(str(said["layout"])), gpus), model, gpus)
    elif gpus is not None and gpus != int(layout.n_gpus):
        raise InputError(f"anchor gpus={gpus}: give the layout that was measured as well")
    precision = asked.precision
    if "precision" in said and parse_training_precision(str(said["precision"]), model.is_moe).name != precision.name:
        precision = parse_training_precision(str(said["precision"]), model.is_moe)
    batch = _batch(said, asked.batch, layout, model)
    sites = asked.sites
    if sites is not None and layout.n_gpus <= asked.layout.n_gpus / sites.n:
        sites = None  # measured at one site
    return replace(asked, model=model, layout=layout, batch=batch, precision=precision, sites=sites)


def _batch(said: Said, batch: Batch, layout: Layout, model: Model) -> Batch:
    recompute = str(said.get("recompute", batch.recompute))
    if recompute != batch.recompute and recompute not in (*RECOMPUTE, REVERSIBLE):
        raise InputError(f"anchor recompute={recompute}: expected {', '.join((*RECOMPUTE, REVERSIBLE))}")
    sharding = said.get("sharding")
    if sharding is not None and sharding not in SHARDING:
        raise InputError(f"anchor sharding={sharding}: {nearest(str(sharding), SHARDING)}")
    sequence = float(said.get("sequence", median(batch.sequence_tokens)))
    held = median(batch.global_sequences * batch.sequence_tokens)
    return replace(
        batch,
        sequence_tokens=sequence,
        documents=batch.documents if sequence == median(batch.sequence_tokens) else None,
        global_sequences=float(batch_sequences(float(said.get("global_batch", held)), sequence)),
        microbatch_sequences=float(said.get("microbatch", batch.microbatch_sequences)),
        virtual_stages=float(said.get("virtual_stages", _pieces(batch, layout, model))),
        recompute=recompute,
        sharded_weights=batch.sharded_weights if sharding is None else sharding == "zero-3",
    )


def _model(one: TrainingAnchor, asked: Model) -> Model:
    """The model that was measured: the question's, its first layers, or another that the anchor names."""
    said, own = one.said, {} if one.log is None else one.log.settings
    given = f"--anchor {shown(one.text)}"
    model = load_model(str(said["model"])) if "model" in said and one.log is None else asked
    if one.log is not None and "model" in said:
        try:
            model = load_model(str(said["model"]))
        except ComputeLedgerError:
            model = asked  # a name of the user's own says nothing
        if _shape(model) != _shape(asked):
            raise InputError(f"{given}: it trained {model.id}, the question is {asked.id}")
    for name, size in (("hidden", model.hidden_size), ("experts", model.n_experts)):
        if name in own and own[name] != max(size, 1 if name == "experts" else 0):
            what = {"hidden": "width", "experts": "number of experts"}[name]
            raise InputError(f"{given}: it trained a {what} of {own[name]:.0f}, {model.id} has {size}")
    layers = int(float(said.get("layers", model.n_layers)))
    if layers > model.n_layers:
        raise InputError(f"{given}: it trained {layers} layers, {model.id} has {model.n_layers}")
    return model if layers == model.n_layers else truncated(model, layers)


def _shape(model: Model) -> tuple[int, int, int]:
    return model.hidden_size, model.n_layers, model.n_experts


def _pieces(batch: Batch, layout: Layout, model: Model) -> float:
    """Virtual stages of the question, where another layout or model can have them."""
    pieces = median(batch.virtual_stages)
    return pieces if int(layout.pp) > 1 and int(layout.pp) * pieces <= model.n_layers else 1.0


def _step_s(one: TrainingAnchor, model: PretrainingResult) -> float:
    given = [name for name in MEASURES if name in one.said]
    if len(given) != 1:
        raise InputError(f"anchor: give one of {', '.join(MEASURES)}, not {len(given)}")
    value = float(one.said[given[0]])
    if given[0] == "step":
        return value
    useful = model.scenario.batch.useful_fraction * median(model.scenario.global_batch_tokens)
    per_gpu = useful / median(model.scenario.layout.n_gpus)
    if given[0] == "mfu":
        value = value * model.peak_flop_per_s / median(model.flop_per_token)
    return per_gpu / value


def _key(one: PretrainingScenario) -> tuple[object, ...]:
    """What makes two scenarios one configuration."""
    names = ("microbatch_sequences", "global_sequences", "sequence_tokens", "virtual_stages")
    numbers = tuple(median(getattr(one.batch, name)) for name in names)
    kept = one.batch.recompute, one.batch.sharded_weights, one.precision.name
    return (*numbers, *kept, one.model.id, one.model.n_layers, str(one.layout))


@dataclass(frozen=True, slots=True)
class Place:
    """Where a configuration lies: by coordinate axis and place in doublings; its model; what makes it the same."""

    coordinates: Mapping[str, tuple[str, float]]
    model: str
    key: tuple[object, ...]
    is_moe: bool


def place_of(one: PretrainingScenario) -> Place:
    """Where a configuration lies.

    Examples
    --------
    >>> from computeledger.physics.roofline import Precision
    >>> asked = PretrainingScenario(load_model("llama-3.1-8b"), Layout(tp=4, dp=16), Precision(), Batch(4096.0, 64.0))
    >>> place_of(asked).coordinates["gpus"], place_of(asked).coordinates["tp"]
    (('gpus', 6.0), ('layout', 2.0))
    """
    layout, batch = one.layout, one.batch
    values = {
        ("gpus", "gpus"): layout.n_gpus,
        **{(name, "layout"): getattr(layout, name) for name in ("tp", "pp", "cp", "ep")},
        ("microbatch", "layout"): batch.microbatch_sequences,
        ("recompute", "layout"): 2.0 if batch.forward_again else 1.0,
        ("sequence", "sequence"): batch.sequence_tokens,
        ("size", "model"): n_params_active(one.model),
        ("experts", "experts"): 2.0 if one.model.is_moe else 1.0,
        ("precision", "precision"): {"bf16": 1.0, "fp8": 2.0, "fp4": 4.0}.get(one.precision.name, 1.0),
    }
    coordinates = {name: (axis, math.log2(median(value))) for (name, axis), value in values.items()}
    return Place(coordinates, one.model.id, _key(one), one.model.is_moe)


def _lesson(steps: Sequence[MeasuredStep], asked: PretrainingScenario, step_s: Num, spread: StepSpread) -> Lesson:
    """What the measurements say of the question's configuration."""
    places = [place_of(one.scenario) for one in steps]
    return step_lesson(interval_of_step(step_s), [one.ratio for one in steps], places, place_of(asked), spread)


def step_lesson(
    before: Range, ratios: Sequence[float], there: Sequence[Place], asked: Place, spread: StepSpread
) -> Lesson:
    """What measured steps of some configurations say of another.

    Each model and each configuration has a part of its own beside the slopes, which its repeats share.

    Examples
    --------
    >>> from computeledger.physics.roofline import Precision
    >>> llama, spread = load_model("llama-3.1-8b"), load_anchor_calibration().step
    >>> small, large = (place_of(PretrainingScenario(llama, Layout(dp=dp), Precision(), Batch(4096.0, 4096.0)))
    ...                 for dp in (8, 4096))
    >>> near, far = (step_lesson(Range(0.7, 1.4, mid=1.0), [1.2], [small], at, spread).after for at in (small, large))
    >>> 1.1 < near.mid <= 1.2, near.high / near.low < far.high / far.low < 2
    (True, True)
    """
    seen, prior = seen_steps(before, ratios, (there, asked), spread)
    return learned(before, ratios, seen, prior)


def seen_steps(
    before: Range, ratios: Sequence[float], at: tuple[Sequence[Place], Place], spread: StepSpread
) -> tuple[Seen, Prior]:
    """Measured configurations and the one that is asked about as rows, and what was known before.

    Examples
    --------
    >>> from computeledger.physics.roofline import Precision
    >>> asked = PretrainingScenario(load_model("llama-3.1-8b"), Layout(dp=8), Precision(), Batch(4096.0, 64.0))
    >>> where = place_of(asked)
    >>> seen, prior = seen_steps(Range(0.7, 1.4), [1.1], ([where], where), load_anchor_calibration().step)
    >>> bool((seen.rows[0] == seen.at).all()), len(prior.slopes) == len(seen.at) - 1
    (True, True)
    """
    there, asked = at
    level = log_width(before) / (2 * Z_95)
    places = [*there, asked]
    table = np.array([[at for _, at in one.coordinates.values()] for one in places])
    table -= np.mean(table[:-1], axis=0)
    models, keys = ([getattr(one, name) for one in places] for name in ("model", "key"))
    rows = np.column_stack([np.ones(len(places)), table, _own(models), _own(keys)])
    scatter, between = spread.of_kind(asked.is_moe)
    axes = (spread.per_doubling_sd[axis] for axis, _ in asked.coordinates.values())
    slopes = (*axes, *[between] * len(set(models)), *[scatter] * len(set(keys)))
    repeat = spread_of(asked.is_moe).repeat
    logs = np.log(np.asarray(ratios, float)) - math.log(median_of(before))
    return Seen(logs, rows[:-1], rows[-1]), Prior((level, spread.between_sd), slopes, repeat, spread.tails)


def _own(names: Sequence[object]) -> NDArray[np.float64]:
    """A column for each name, 1 where it stands."""
    return np.array([[float(one == name) for name in dict.fromkeys(names)] for one in names])


def interval_of_step(step_s: Num) -> Range:
    """Interval of an estimate about its own median.

    Examples
    --------
    >>> str(interval_of_step(np.array([1.0, 2.0, 4.0])))
    '0.55..1.9'
    """
    ends = np.quantile(np.asarray(step_s, float), (0.05, 0.1, 0.5, 0.9, 0.95))
    low, inner_low, middle, inner_high, high = (float(one) for one in ends)
    if high <= low * _NO_SPREAD:
        return Range(1 / _NO_SPREAD, _NO_SPREAD, mid=1.0)
    return Range(low / middle, high / middle, mid=1.0, inner=(inner_low / middle, inner_high / middle))


def _factor(step_s: NDArray[np.float64], after: Range) -> Num:
    """By sample, what a step is multiplied with to be spread as after the measurements; samples keep their order."""
    if step_s.size == 1:
        return median_of(after)
    score, n = NormalDist().inv_cdf, step_s.size
    scores = np.array([score((rank + 0.5) / n) for rank in range(n)])
    ranks = np.argsort(np.argsort(step_s.ravel(), kind="stable"), kind="stable").reshape(step_s.shape)
    return after.quantile(scores[ranks]) * float(np.median(step_s)) / step_s
