"""A user's own measurements of serving: as they are written or from a benchmark's result, set beside the model."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from computeledger.arrays import Num, Uncertain
from computeledger.errors import ComputeLedgerError, InputError, shown
from computeledger.facts.architecture import Model
from computeledger.facts.load import load_model
from computeledger.facts.schema import PRECISION_BYTES, System
from computeledger.fields import fields_of
from computeledger.physics.calibration.anchors import load_anchor_calibration, of_pools
from computeledger.physics.calibration.efficiency import efficiency, median_of
from computeledger.physics.calibration.serving import DEFAULT_TUNING
from computeledger.physics.parallelism import Layout, check_layout, parse_layout
from computeledger.physics.roofline import Machine, Precision
from computeledger.physics.serving.limit import ratio_above_limit
from computeledger.physics.serving.memory import token_bytes_per_gpu, weights_bytes_per_gpu
from computeledger.physics.transformer import n_params_active
from computeledger.physics.weights import precision_of, weight_counts
from computeledger.units import format_si
from computeledger.workloads.anchor import FARTHEST_RATIO, AnchorKey, anchor_texts, file_and_keys, parse_anchor
from computeledger.workloads.anchor_fit import Lesson
from computeledger.workloads.engines import constants_of, precision_on
from computeledger.workloads.questions.serve import TWO_POOLS, ServeQuestion
from computeledger.workloads.serving.anchor_files import BenchmarkPoint, read_benchmarks
from computeledger.workloads.serving.anchor_fit import MeasuredRatio, learn
from computeledger.workloads.serving.estimate import ServingScenario, estimate_serving, ideal_serving
from computeledger.workloads.serving.intervals import Interval, model_family
from computeledger.workloads.serving.pools import DisaggregatedScenario, estimate_disaggregated
from computeledger.workloads.serving.reading import run_asked, settings_asked
from computeledger.workloads.serving.settings import AS_FITTED, EngineSettings

KEYS = {
    "batch": AnchorKey("count"),
    "isl": AnchorKey("tokens", "tokens"),
    "osl": AnchorKey("tokens", "tokens"),
    "tpot": AnchorKey("s"),
    "ttft": AnchorKey("s"),
    "rounds": AnchorKey("count"),
    "layout": AnchorKey(),
    "prefill": AnchorKey(),
    "decode": AnchorKey(),
    "model": AnchorKey(),
    "precision": AnchorKey(),
}
ANCHOR_EXAMPLE = fields_of(ServeQuestion)["anchor"].example
#: Factors of a machine that a measured time moves.
ANCHORED = {"serving_ratio": "tpot", "first_token_ratio": "ttft"}


@dataclass(frozen=True, slots=True)
class MeasuredPools:
    """Workers of two pools that were measured: how many of which layout."""

    n_prefill: float
    prefill: Layout
    n_decode: float
    decode: Layout


@dataclass(frozen=True, slots=True)
class ServingAnchor:
    """One measured point of a deployment; of two pools its batch is the requests in flight over both."""

    batch: float
    input_tokens: float
    output_tokens: float
    tpot_s: float | None = None
    ttft_s: float | None = None
    layout: Layout | None = None
    model_id: str = ""
    text: str = ""
    rounds: float = math.inf
    precision: str = ""
    engine: str = ""
    n_params: float = 0.0
    pools: MeasuredPools | None = None


@dataclass(frozen=True, slots=True)
class AskedDeployment:
    """What a question serves: anchors of anything else are refused."""

    model: Model
    system: System
    precision: Precision
    engine: str
    layout: str | None = None
    run: tuple[float | None, str] = (None, DEFAULT_TUNING)
    settings: EngineSettings = AS_FITTED
    prefill_layout: str | None = None
    is_split: bool = False

    def tpot_input(self, batch: float | None, input_tokens: float) -> float:
        """The input that tells a time per token apart: alone, those whose cache is small beside the weights are alike.

        Examples
        --------
        >>> from computeledger.facts.load import load_system
        >>> asked = AskedDeployment(load_model("llama-3.1-8b"), load_system("h100-nvl8"), Precision(), "vllm")
        >>> asked.tpot_input(1.0, 1.0) == asked.tpot_input(1.0, 512.0), asked.tpot_input(32.0, 512.0)
        (True, 512.0)
        """
        if batch != 1:  # prompts of others join the steps
            return input_tokens
        each = token_bytes_per_gpu(self.model, Layout(), PRECISION_BYTES[self.precision.kv])
        share = n_params_active(self.model) / sum(weight_counts(self.model).values())
        read = _SMALL_CACHE * share * _weights_bytes(self.model, self.precision)
        return max(input_tokens, read / float(each)) if each else input_tokens


#: Share of the weights of a step that a cache may be and still be small (assumption).
_SMALL_CACHE = 0.1


@dataclass(frozen=True, slots=True)
class Anchoring:
    """A user's measurements, and what they taught of each time."""

    anchors: tuple[ServingAnchor, ...]
    lessons: Mapping[str, Lesson]

    @property
    def ranges(self) -> dict[str, Uncertain]:
        """Real over predicted time by the efficiency factor that it is."""
        return {f"efficiency.{factor}": self.lessons[name].after for factor, name in ANCHORED.items()}

    @property
    def medians(self) -> dict[str, Num]:
        """Their medians."""
        return {name: median_of(one) for name, one in self.ranges.items()}


def anchoring_of(
    question: ServeQuestion, model: Model, system: System, interval: Interval | None, batch: float | None = None
) -> Anchoring | None:
    """Read a question's anchors and learn from them; the batch is the question's, or one that was found for it.

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> from computeledger.workloads.serving.intervals import interval_of
    >>> asked = {"model": "llama-3.1-8b", "system": "h100-nvl8", "layout": "tp1"}
    >>> question = ServeQuestion(**asked, anchor="batch=32,isl=1024,osl=1024,tpot=16ms")
    >>> where = load_model("llama-3.1-8b"), load_system("h100-nvl8")
    >>> found = anchoring_of(question, *where, interval_of("known deployment"))
    >>> found.lessons["tpot"].shift > 1.1, found.lessons["ttft"].shift
    (True, 1.0)
    """
    if not question.anchor:
        return None
    if interval is None:
        raise InputError("--anchor: the physical limit is no engine; an anchor needs one, such as vllm")
    anchors = read_anchors(question.anchor)
    precision = precision_on(question.engine, model, question.precision, question.kv_precision)
    run, settings = run_asked(question), settings_asked(question)
    is_split = question.modes == (TWO_POOLS,)
    deployed = model, system, precision, question.engine, question.layout, run, settings
    asked = AskedDeployment(*deployed, question.prefill_layout, is_split)
    ratios = anchor_ratios(anchors, asked)
    load, prompt = batch or question.batch, median_of(question.input_tokens)
    at = {"tpot": (load, asked.tpot_input(load, prompt)), "ttft": (load, prompt)}
    spreads = load_anchor_calibration().spreads
    spread = {name: spreads[of_pools(name) if is_split else name] for name in ratios}
    lessons = {name: learn(interval, name, ratios[name], at[name], spread[name]) for name in ratios}
    return Anchoring(tuple(anchors), lessons)


def read_anchors(texts: Iterable[str]) -> list[ServingAnchor]:
    """Read anchors: ``batch=32,isl=1024,osl=1024,tpot=21ms``, or a benchmark's result with keys that it lacks.

    Examples
    --------
    >>> [one.tpot_s for one in read_anchors(["batch=32, isl=1024, osl=512, tpot=21 ms; batch=1,isl=1,osl=9,tpot=5ms"])]
    [0.021, 0.005]
    """
    return [one for text in anchor_texts(texts) for one in _read(text)]


def _read(text: str) -> list[ServingAnchor]:
    path, rest = file_and_keys(text, ANCHOR_EXAMPLE)
    if not path:
        return [_anchor(parse_anchor(text, KEYS), BenchmarkPoint(), text)]
    said = parse_anchor(rest, KEYS) if rest else {}
    try:
        points = read_benchmarks(path)
    except InputError as error:
        raise InputError(f"--anchor {error}") from None
    return [_anchor(said, point, path) for point in points]


def _anchor(said: Mapping[str, float | str], point: BenchmarkPoint, text: str) -> ServingAnchor:
    """A point of what was written, over what the file says."""
    numbers = {**point.numbers, **{name: float(value) for name, value in said.items() if KEYS[name].dimension}}
    words = {**point.words, **{name: str(value) for name, value in said.items() if not KEYS[name].dimension}}
    lacks = [name for name in ("batch", "isl", "osl") if name not in numbers]
    lacks += [] if {"tpot", "ttft"} & set(numbers) else ["tpot or ttft"]
    if lacks:
        raise InputError(_missing(lacks, point, text))
    return ServingAnchor(
        numbers["batch"], numbers["isl"], numbers["osl"], numbers.get("tpot"), numbers.get("ttft"),
        parse_layout(words["layout"]) if "layout" in words else None, words.get("model", ""), text,
        max(numbers.get("rounds", math.inf), 1.0), words.get("precision", ""), words.get("engine", ""),
        numbers.get("n_params", 0.0), _pools(words, text),
    )  # fmt: skip


def _pools(words: Mapping[str, str], text: str) -> MeasuredPools | None:
    """Workers of both pools as they are written; none where one pool was measured."""
    given = [name for name in ("prefill", "decode") if name in words]
    if not given:
        return None
    said = f"anchor {shown(text)}"
    if len(given) < 2 or "layout" in words:
        raise InputError(f"{said}: two pools are both written, without layout=, as in prefill=2xtp4,decode=1xtp8")
    found = list[tuple[float, Layout]]()
    for name in given:
        count, cross, layout = words[name].rpartition("x")
        if cross and not count.isdecimal():
            raise InputError(f"{said}: {name}={words[name]}: a number of workers and their layout, as in 2xtp4")
        found.append((float(count or 1), parse_layout(layout)))
    if min(n for n, _ in found) < 1:
        raise InputError(f"{said}: at least one worker of each pool")
    (n_prefill, prefill), (n_decode, decode) = found
    return MeasuredPools(n_prefill, prefill, n_decode, decode)


def _missing(lacks: Sequence[str], point: BenchmarkPoint, text: str) -> str:
    if not point.kind:
        return f"anchor {shown(text)}: {', '.join(lacks)} missing, as in {ANCHOR_EXAMPLE}"
    keys = [point.keys.get(name, name) for name in lacks]
    behind = ",".join(f"{name.partition(' ')[0]}=..." for name in lacks)
    return (
        f"--anchor {text}: {', '.join(keys)} missing in this result of {point.kind}, or not above 0; "
        f"say it behind the file's name: {text},{behind}"
    )


def anchor_ratios(anchors: Sequence[ServingAnchor], asked: AskedDeployment) -> dict[str, list[MeasuredRatio]]:
    """Measured over predicted, of every anchor: at its own load, lengths and layout, by the question's model.

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> asked = AskedDeployment(load_model("llama-3.1-8b"), load_system("h100-nvl8"), Precision(), "ideal", "tp1")
    >>> found = anchor_ratios(read_anchors(["batch=1,isl=1024,osl=64,tpot=9ms"]), asked)
    >>> [round(one.ratio) for one in found["tpot"]], found["ttft"]
    ([2], [])
    """
    out: dict[str, list[MeasuredRatio]] = {"tpot": [], "ttft": []}
    constants = constants_of(asked.engine, asked.system.accelerator)
    central = {f"efficiency.{name}": 1.0 for name in ANCHORED}
    machine = Machine(asked.system, efficiency(constants, central, *asked.run))
    for one in anchors:
        _check_deployment(one, asked)
        batch, expected = _expected(one, asked, machine)
        for name, measured in (("tpot", one.tpot_s), ("ttft", one.ttft_s)):
            if measured is not None:
                predicted, least = expected[name]
                _check_time(one, name, measured, (predicted, least))
                ratio = float(ratio_above_limit(measured, predicted, least))
                length = one.input_tokens if name == "ttft" else asked.tpot_input(batch, one.input_tokens)
                out[name].append(MeasuredRatio(ratio, batch, length))
    return out


def _expected(
    one: ServingAnchor, asked: AskedDeployment, machine: Machine
) -> tuple[float, dict[str, tuple[float, float]]]:
    """Batch of a decoding replica, and by quantity what the model gives and the least that can be [s]."""
    point = _scenario(one, asked)
    if one.pools is None:
        found, limit = estimate_serving(point, machine), ideal_serving(point, machine)
        times = {name: (getattr(found, f"{name}_s"), getattr(limit, f"{name}_s")) for name in ANCHORED.values()}
        batch = one.batch
    else:
        pools = one.pools
        both = DisaggregatedScenario(point, pools.prefill, pools.n_prefill, pools.n_decode, one.batch)
        apart = estimate_disaggregated(both, machine)
        first_s = (apart.ttft_s, apart.ttft_s - apart.first.own_s + apart.first.own_limit_s)
        times = {"tpot": (apart.tpot_s, apart.decode.decode_limit_s), "ttft": first_s}
        batch = float(np.ravel(apart.decode_batch)[0])
    return batch, {
        name: (float(np.ravel(predicted_s)[0]), float(np.ravel(least_s)[0]))
        for name, (predicted_s, least_s) in times.items()
    }


def _scenario(one: ServingAnchor, asked: AskedDeployment) -> ServingScenario:
    """The anchor's point; its layout is its own, else the question's, else the only one there is."""
    if (one.pools is None) is asked.is_split:
        written = "prefill=2xtp4,decode=1xtp8, and batch= for the requests in flight over both"
        of_one = "of one pool: leave out prefill= and decode="
        said = f"of two pools: write their workers as {written}" if asked.is_split else of_one
        raise InputError(f"--anchor {shown(one.text)}: the question is {said}")
    if one.pools is not None:
        _check_layouts(one.pools, asked, one.text)
        one = replace(one, layout=one.pools.decode)
    layout = parse_layout(asked.layout) if asked.layout else one.layout
    if layout is None and asked.system.n_gpus != 1:
        raise InputError(
            f"--anchor {shown(one.text)}: state the layout it was measured on, with --layout or behind it as layout=tp8"
        )
    return ServingScenario(
        model=asked.model,
        layout=check_layout(one.layout or layout or Layout(), asked.model),
        precision=asked.precision,
        input_tokens=one.input_tokens,
        output_tokens=one.output_tokens,
        batch=min(one.batch, float(asked.settings.max_batch)),
        rounds=one.rounds,
        waiting=max(one.batch - float(asked.settings.max_batch), 0.0) if one.pools is None else 0.0,
        settings=asked.settings,
    )


def _check_layouts(pools: MeasuredPools, asked: AskedDeployment, text: str) -> None:
    """Of two pools a measurement is held for its own layouts alone: of others it has made predictions worse."""
    check_layout(pools.prefill, asked.model)
    given = [None if one is None else parse_layout(one) for one in (asked.prefill_layout, asked.layout)]
    if given != [pools.prefill, pools.decode]:
        raise InputError(
            f"--anchor {shown(text)}: a measurement of two pools says little of other layouts: state those measured, "
            f"--prefill-layout {pools.prefill} --layout {pools.decode}"
        )


def _check_deployment(anchor: ServingAnchor, asked: AskedDeployment) -> None:
    """Refuse what was measured of another model, in fewer bits, or with another engine."""
    given, model = f"--anchor {shown(anchor.text)}", asked.model
    if anchor.engine and anchor.engine != asked.engine:
        raise InputError(f"{given}: it measured {anchor.engine}, the question is {asked.engine}")
    width = anchor.precision
    try:
        served = load_model(anchor.model_id) if anchor.model_id else model
    except ComputeLedgerError:
        served = model  # an id of the user's own says nothing
    if model_family(served) != model_family(model):
        raise InputError(f"{given}: it measured {served.id}, the question is {model.id}")
    params = sum(weight_counts(model).values())
    if anchor.n_params and abs(anchor.n_params / params - 1) > _SAME_SIZE:
        measured = f"a model of {format_si(anchor.n_params)} parameters"
        raise InputError(f"{given}: it measured {measured}, the question is {model.id} with {format_si(params)}")
    if not (width or anchor.model_id):
        return
    measured_as, here = precision_of(served, width or None), asked.precision
    share = _weights_bytes(model, measured_as) / _weights_bytes(model, here)
    # an engine may narrow what a checkpoint stores; none widens it
    if share < 1 - _SAME_SIZE or (width and share > 1 + _SAME_SIZE):
        raise InputError(f"{given}: it measured {width or measured_as.name} weights, the question is {here.name}")


def _weights_bytes(model: Model, precision: Precision) -> float:
    return float(np.ravel(weights_bytes_per_gpu(model, Layout(), precision))[0])


def _check_time(anchor: ServingAnchor, name: str, measured_s: float, expected: tuple[float, float]) -> None:
    """A measurement that beats the limit, or is far from any engine, is of something else or in another unit."""
    predicted_s, least_s = expected
    given = f"--anchor {shown(anchor.text)}: {name} = {format_si(measured_s, 's')}"
    if measured_s < least_s * _LIMIT_SLACK:
        raise InputError(
            f"{given} is below the physical limit of that point, {format_si(least_s, 's')}: check the unit"
        )
    if measured_s > FARTHEST_RATIO * predicted_s:
        raise InputError(f"{given} is far above what the model gives, {format_si(predicted_s, 's')}: check the unit")


#: Sizes that differ by less are of one file: names round, and counts leave norms out.
_SAME_SIZE = 0.1
#: A limit is exact only as far as lengths and batch are.
_LIMIT_SLACK = 0.95
