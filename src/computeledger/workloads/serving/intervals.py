"""How sure a serving answer is: intervals of measured over predicted time, by how far the question is from the data.

They are split-conformal: from predictions of measurements that the fit had not seen, at the same distance.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from computeledger.arrays import Range
from computeledger.facts.architecture import Model
from computeledger.facts.schema import System
from computeledger.facts.shape_rule import shape_rule
from computeledger.physics.calibration.achieved import same_boards
from computeledger.physics.calibration.local import is_measured_kind, load_local, local_engines
from computeledger.physics.calibration.serving import DEFAULT_TUNING, calibrated_engines, load_calibration

KNOWN, NEW, POOLS, INCOMPLETE = "known deployment", "new pair or model", "disaggregated", "incomplete record"
SPREAD = "several scale-up domains"
CHIP = "chip never measured"
CHIP_POOLS, CHIP_SPREAD = f"{CHIP}, {POOLS}", f"{CHIP}, {SPREAD}"
ENGINE = "engine never fitted"
ENGINE_POOLS, ENGINE_SPREAD = f"{ENGINE}, {POOLS}", f"{ENGINE}, {SPREAD}"
USUAL = "as people usually run it"
BURST = "one burst"
USUAL_POOLS, USUAL_SPREAD = f"{USUAL}, {POOLS}", f"{USUAL}, {SPREAD}"
ALONE = "one request at a time"
KNOWN_ALONE, NEW_ALONE, USUAL_ALONE = f"{KNOWN}, {ALONE}", f"{NEW}, {ALONE}", f"{USUAL}, {ALONE}"
CHIP_ALONE, ENGINE_ALONE = f"{CHIP}, {ALONE}", f"{ENGINE}, {ALONE}"
#: Whose steps and whose first tokens stand for a request that is alone in flight: no queue is before its first token.
_ALONE = {
    KNOWN_ALONE: (KNOWN, USUAL_ALONE),
    NEW_ALONE: (NEW, USUAL_ALONE),
    USUAL_ALONE: (USUAL, USUAL_ALONE),
    CHIP_ALONE: (CHIP, CHIP_ALONE),
    ENGINE_ALONE: (ENGINE, CHIP_ALONE),
}
LOCAL, LOCAL_KIND = "local engine", "local engine, kind of chip never measured"
LOCAL_SEVERAL = "local engine, several requests"
#: Classes whose interval reaches as far as that of any of these.
_WIDEST = {
    SPREAD: (POOLS,),
    CHIP_POOLS: (CHIP, POOLS),
    CHIP_SPREAD: (CHIP, POOLS),
    USUAL_POOLS: (USUAL, POOLS),
    USUAL_SPREAD: (USUAL, POOLS),
    ENGINE_POOLS: (ENGINE, POOLS),
    ENGINE_SPREAD: (ENGINE, POOLS),
    LOCAL_SEVERAL: (LOCAL, LOCAL_KIND, ENGINE),
}

_SENTENCES = {
    BURST: "all requests start at once and few follow: how their lengths spread decides when the last ones end; the "
    "interval is that of other people's bursts",
    USUAL: "as people usually run this engine on a chip that was fitted: the interval is that of other people's "
    "measurements, each source left out in turn",
    USUAL_POOLS: "as people usually run this engine, and queues and hand-over of separate pools are less certain than "
    "a step",
    USUAL_SPREAD: "as people usually run this engine, and over several scale-up domains only separate pools were "
    "measured",
    KNOWN: "measurements of this architecture in this format on this system with this engine were fitted",
    NEW: "no measurement of this architecture in this format on this system with this engine was fitted: physics "
    "carries the answer",
    CHIP: "no recipe and at most a few other people measured this chip: its kernels and engines are taken to be like "
    "those of the fitted chips, and the interval is that of such chips, each source left out in turn",
    CHIP_POOLS: "no measurement on this chip was fitted, and queues and hand-over of separate pools are less certain "
    "than a step",
    CHIP_SPREAD: "no measurement on this chip was fitted, and over several scale-up domains only separate pools were "
    "measured",
    POOLS: "separate pools for prompts and output: queues and hand-over are less certain than a step",
    SPREAD: "over several scale-up domains only separate pools were measured: a step is as uncertain as theirs",
    ENGINE: "no constants of this engine were fitted: the mean of the fitted engines stands for it, and the interval "
    "is that of such engines, each source left out in turn",
    ENGINE_POOLS: "no measurement of this engine was fitted, and queues and hand-over of separate pools are less "
    "certain than a step",
    ENGINE_SPREAD: "no measurement of this engine was fitted, and over several scale-up domains only separate pools "
    "were measured",
    LOCAL: "this engine was measured on chips of this kind, one request at a time and without sampling and streaming",
    LOCAL_SEVERAL: "this engine was measured with one request at a time: several at once are extrapolated, and the "
    "interval is as wide as that of an engine never fitted",
    LOCAL_KIND: "this engine was not measured on chips of this kind: all kinds together stand for it, and the interval "
    "is that of kinds left out",
    INCOMPLETE: "the record does not state how many workers served: a typical deployment is assumed",
}
_SENTENCES |= {
    name: f"{_SENTENCES[of_steps]}; alone in flight, a first token waits for nobody, and has the interval of other "
    "people's requests that were alone"
    for name, (of_steps, _) in _ALONE.items()
}


@dataclass(frozen=True, slots=True)
class Interval:
    """Measured over predicted time of one class of questions.

    Attributes
    ----------
    name : str
        The class.
    sentence : str
        What puts a question into it.
    tpot, ttft : Range
        Ratio of measured over predicted time per output token, and to the first token [-].
    between_runs, within_run : mapping of str to float
        Standard deviation of the logarithm, by ``tpot`` and ``ttft``: what one run shares (engine version, flags), and
        what differs from point to point of it [-].
    n : int
        Measurements behind it [-].
    """

    name: str
    sentence: str
    tpot: Range
    ttft: Range
    between_runs: Mapping[str, float]
    within_run: Mapping[str, float]
    n: int


def model_family(model: Model) -> str:
    """Name models of one shape alike, whatever their training or format.

    Parameters
    ----------
    model : Model
        Any model.

    Returns
    -------
    str
        Mixer, widths, layers, vocabulary and experts in short.

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> model_family(load_model("deepseek-v3")) == model_family(load_model("deepseek-r1"))
    True
    """
    last = model.layers[-1].feed_forward
    experts = f" E{last.n_experts}/{last.n_experts_active}" if last.n_experts else ""
    return f"{model.layers[-1].attention.kind} D{model.hidden_size} L{model.n_layers} V{model.vocab_size}{experts}"


def deployment(model: Model, weights: str, system_id: str, backend: str) -> str:
    """Name a deployment as the calibration lists it.

    Parameters
    ----------
    model : Model
        What is served.
    weights : str
        Format of its narrowest weights.
    system_id, backend : str
        Where, and by which engine.

    Returns
    -------
    str
        Family, format, system and engine.

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> deployment(load_model("llama-3.1-8b"), "fp8", "h100-nvl8", "vllm")
    'gqa D4096 L32 V128256 fp8 h100-nvl8 vllm'
    """
    return f"{model_family(model)} {weights} {system_id} {backend}"


def is_measured_chip(system: System) -> bool:
    """Say whether serving was fitted on a system's chip or one of its kind, by the public recipes or by other sources.

    Parameters
    ----------
    system : System
        Any.

    Returns
    -------
    bool
        Whether its times carry less than the interval of a chip never measured.

    Examples
    --------
    >>> from computeledger.facts.load import load_system
    >>> is_measured_chip(load_system("h100-nvl8")), is_measured_chip(load_system("mi355x-8"))
    (True, False)
    """
    fit = load_calibration()
    return not (fit.chips | fit.usual_chips).isdisjoint(same_boards(system.accelerator))


def interval_class(
    model: Model, weights: str, system: System, backend: str, kind: str = "aggregated", tuning: str = DEFAULT_TUNING
) -> str:
    """Say how far a question is from what was measured.

    Parameters
    ----------
    model : Model
        What is served.
    weights : str
        Format of its narrowest weights.
    system : System
        Where.
    backend : str
        By which engine.
    kind : str
        ``aggregated``, ``alone`` for one request in flight, ``spread`` over several scale-up domains,
        ``disaggregated``, ``several`` requests at once on a local engine, ``burst`` of requests that all start at once,
        or ``incomplete`` for a record that lacks its worker counts.
    tuning : str
        ``usual``, or ``recipe`` for a deployment tuned like the public InferenceX recipes.

    Returns
    -------
    str
        Name of the class.

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> b200 = load_system("b200-nvl8")
    >>> interval_class(load_model("deepseek-r1"), "fp8", b200, "sglang")
    'as people usually run it'
    >>> interval_class(load_model("deepseek-r1"), "fp8", b200, "sglang", tuning="recipe")
    'known deployment'
    >>> interval_class(load_model("deepseek-r1"), "int4", b200, "sglang", tuning="recipe")
    'new pair or model'
    >>> interval_class(load_model("llama-3.1-8b"), "bf16", load_system("tpu-v6e-pod"), "vllm")
    'chip never measured'
    >>> interval_class(load_model("llama-3.1-8b"), "bf16", b200, "tgi")
    'engine never fitted'
    """
    if backend in local_engines():
        alone = LOCAL if is_measured_kind(backend, system.accelerator) else LOCAL_KIND
        return LOCAL_SEVERAL if kind == "several" else alone
    if kind == "burst":
        return BURST
    if kind == "alone":
        return f"{interval_class(model, weights, system, backend, tuning=tuning)}, {ALONE}"
    if backend not in calibrated_engines():
        return {"spread": ENGINE_SPREAD, "disaggregated": ENGINE_POOLS, "aggregated": ENGINE}.get(kind, INCOMPLETE)
    if not is_measured_chip(system):
        return {"spread": CHIP_SPREAD, "disaggregated": CHIP_POOLS, "aggregated": CHIP}.get(kind, INCOMPLETE)
    if tuning != "recipe" or load_calibration().chips.isdisjoint(same_boards(system.accelerator)):
        return {"spread": USUAL_SPREAD, "disaggregated": USUAL_POOLS, "aggregated": USUAL}.get(kind, INCOMPLETE)
    if kind != "aggregated":
        return {"spread": SPREAD, "disaggregated": POOLS}.get(kind, INCOMPLETE)
    measured = deployment(model, weights, system.measured_as or system.id, backend)
    return KNOWN if measured in load_calibration().deployments else NEW


@functools.cache
def interval_of(name: str) -> Interval:
    """Load the interval of a class.

    Parameters
    ----------
    name : str
        From :func:`interval_class`.

    Returns
    -------
    Interval
        Ratios of measured over predicted time.

    Examples
    --------
    >>> known, new = interval_of("known deployment"), interval_of("new pair or model")
    >>> new.tpot.high > known.tpot.high > 1
    True
    """
    fitted = {**load_calibration().intervals, **load_local().intervals}
    parts = {"tpot": _WIDEST.get(name, (name,)), "ttft": _WIDEST.get(name, (name,))}
    # no queue and no hand-over stands between the steps of one pool and the first token
    single = {SPREAD: NEW, USUAL_SPREAD: USUAL, CHIP_SPREAD: CHIP, ENGINE_SPREAD: ENGINE}
    parts["ttft"] = (single[name],) if name in single else parts["ttft"]
    if name in _ALONE:
        parts = {quantity: (one,) for quantity, one in zip(parts, _ALONE[name], strict=True)}
    entries = {quantity: [fitted[one] for one in names] for quantity, names in parts.items()}
    tpot, ttft = (_widest([one[quantity] for one in found]) for quantity, found in entries.items())
    between, within = (
        {quantity: max(float(one[f"{quantity}_{part}"]) for one in found) for quantity, found in entries.items()}
        for part in ("between_runs", "within_run")
    )
    return Interval(name, _SENTENCES[name], tpot, ttft, between, within, int(entries["tpot"][0]["n"]))


def interval_at(name: str, system: System) -> Interval:
    """Load the interval of a class on a chip: moved by what other people's steps on its maker's chips take.

    Parameters
    ----------
    name : str
        From :func:`interval_class`.
    system : System
        Where.

    Returns
    -------
    Interval
        That of the class, where the chip is of a fitted maker or nothing is known of its own.

    Examples
    --------
    >>> from computeledger.facts.load import load_system
    >>> found = interval_at("chip never measured", load_system("8xascend-910b"))
    >>> found.tpot.mid > interval_of("chip never measured").tpot.mid
    True
    """
    found, vendor, effects = interval_of(name), system.accelerator.vendor, load_calibration().makers
    if not name.startswith(CHIP) or vendor not in effects:
        return found
    effect = effects[vendor]["effect"]
    sentence = f"{found.sentence}; steps on chips of {vendor} take {effect:.2g} times as long in other people's hands"
    return replace(found, sentence=sentence, tpot=found.tpot.times(effect))


def interval_for(
    model: Model, weights: str, system: System, backend: str, kind: str = "aggregated", tuning: str = DEFAULT_TUNING
) -> Interval:
    """Load the interval of a question: that of its class, wider where a rule guessed the model's shape.

    Parameters
    ----------
    model : Model
        What is served.
    weights : str
        Format of its narrowest weights.
    system : System
        Where.
    backend : str
        By which engine.
    kind, tuning : str
        As :func:`interval_class` takes them.

    Returns
    -------
    Interval
        Ratios of measured over predicted time, the rule's own spread on open models added in quadrature.

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> where = ("fp8", load_system("h200-nvl8"), "vllm")
    >>> guessed, real = (interval_for(load_model(name), *where) for name in ("70B", "phi-4"))
    >>> guessed.name == real.name, guessed.tpot.high > real.tpot.high
    (True, True)
    """
    found = interval_at(interval_class(model, weights, system, backend, kind, tuning), system)
    if not model.guessed:
        return found
    spread = {name: shape_rule().spread_of(name, model) for name in ("tpot", "ttft")}
    between = {name: math.hypot(found.between_runs[name], spread[name]) for name in spread}
    ranges: dict[str, Range] = {name: getattr(found, name).widened(spread[name]) for name in spread}
    sentence = f"{found.sentence}; a rule gave the model's shape, whose spread on open models is in the interval"
    return replace(found, sentence=sentence, tpot=ranges["tpot"], ttft=ranges["ttft"], between_runs=between)


def _widest(quantiles: Sequence[Sequence[float]]) -> Range:
    """The first class's median, and ends as far out as any class has them."""
    low, inner_low, inner_high, high = (
        choose(one[place] for one in quantiles) for place, choose in ((0, min), (1, min), (3, max), (4, max))
    )
    return Range(low, high, mid=quantiles[0][2], inner=(inner_low, inner_high))
