"""Words and numbers as people read them: units, intervals, names of inputs and of steps."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from computeledger.facts.packed import is_packed, packed_name
from computeledger.physics.calibration.serving import DEFAULT_TUNING
from computeledger.physics.parallelism import parse_layout
from computeledger.units import DAY_S, HOUR_S, KILO, MINUTE_S, WH_J, YEAR_S, format_percent, format_si, format_usd

PHASE_NAMES = {"pretraining": "Pretraining", "rl": "RL", "inference": "Inference", "experiments": "Experiments"}

#: What each share of the peak counts, so that no two of them are taken for one.
UTILIZATION_WORDS = (
    "utilisation counts 6 N FLOP a trained and 2 N a forward token (attention and recomputation left out) over the "
    "dense bf16 peak and all GPU-time held"
)
MFU_WORDS = "MFU counts attention's FLOP too, recomputation left out, over the dense bf16 peak"

#: What a replica carries when a request with its cache there goes elsewhere, under routing by prefix.
FAR_MORE = "a quarter and four requests more than the least loaded"

_MONEY = {"USD": "", "USD/Mtok": "/Mtok", "USD/h": "/h", "USD/kWh": "/kWh", "USD/W": "/W", "USD/year": "/year"}
_SPELT = {
    "usd": "USD",
    "usd_per_hour": "USD/h",
    "usd_per_kwh": "USD/kWh",
    "usd_per_w": "USD/W",
    "usd_per_year": "USD/year",
    "kg_per_kwh": "kg/kWh",
    "flop_per_s": "FLOP/s",
    "w": "W",
    "bytes": "B",
    "bytes_per_s": "B/s",
    "tokens_per_s": "tokens/s",
}
_WRITTEN = {"gpu hours": "GPU-hours", "gpu time": "GPU-time", "gpus": "GPUs", "kv": "KV", "gemm": "GEMM", "mlp": "MLP",
            "tpot": "TPOT", "logprob": "log-prob", "utilization": "utilisation"}  # fmt: skip
#: Digits of a figure that has no interval; one that has an interval shows them too, unless the last of them counts less
#: than this share of half the interval's width.
DIGITS, _FINEST = 3, 1 / 20
#: A space that does not break a number from its unit.
_SPACE = "\u00a0"


def headroom(fraction: float | None) -> str:
    r"""How much more load keeps a promise that every smaller simulated load keeps.

    Examples
    --------
    >>> headroom(0.1), headroom(0.0)
    ('it holds up to 10\xa0% more load', 'more load breaks it')
    """
    if fraction is None:
        return "twice the load would not break it"
    if fraction < 0:
        return f"by the noise of simulations {percent(-fraction)} less load and more breaks it"
    if fraction == 0:
        return "more load breaks it"
    return f"it holds up to {percent(fraction)} more load"


def point(value: Any, key: str = "p50") -> float:
    """Median (or another quantile) of a document's quantity."""
    return float(value[key]) if isinstance(value, Mapping) else float(value)


def show(value: float, unit: str, digits: int = DIGITS) -> str:
    """One number with a unit people read."""
    if unit in _MONEY:
        return format_usd(value, digits) + _MONEY[unit]
    if unit == "fraction":
        return format_percent(value, digits)
    if unit == "J":
        return format_si(value / WH_J, "Wh", digits)
    if unit in ("kg", "kg/kWh"):
        return format_si(value * KILO, unit.removeprefix("k"), digits)
    if unit == "s" and float(f"{value:.{digits}g}") >= KILO:  # 999.6 s is no 1 ks
        return _long_time(value, digits)
    if unit == "days" and value >= KILO:
        return _long_time(value * DAY_S, digits)
    if unit in ("days", "months", "years", "x", "bits", "samples"):
        return f"{format_si(value, digits=digits)} {unit}"
    return format_si(value, "" if unit == "GPU-hours" else unit, digits)


def _long_time(value_s: float, digits: int) -> str:
    """Minutes, hours, days, or years where days would run into thousands."""
    for name, unit_s, least in (("years", YEAR_S, KILO * DAY_S), ("days", DAY_S, DAY_S), ("h", HOUR_S, HOUR_S)):
        if value_s >= least:
            return f"{format_si(value_s / unit_s, digits=digits)} {name}"
    return f"{format_si(value_s / MINUTE_S, digits=digits)} min"


def words(value: float, unit: str, digits: int = DIGITS) -> str:
    """A number as people read it, for every unit that a fact, a plan or a result may carry.

    Examples
    --------
    >>> words(2.0, "usd_per_hour"), words(15778800.0, "s").split(), words(0.05, "days").split()
    ('$2/h', ['183', 'days'], ['1.2', 'h'])
    >>> words(998.0, "s", 2).split()
    ['17', 'min']
    """
    if unit == "days" and 0 < value < 1:
        return words(value * DAY_S, "s", digits)
    if unit in ("GPU-hours", "gpu_hours"):
        text = f"{format_si(value, digits=digits)} GPU-hours"
    elif unit in ("", "-", "count", "params", "GPUs"):
        text = format_si(value, digits=digits)
    else:
        text = show(value, _SPELT.get(unit, unit), digits)
    return text.replace(" ", _SPACE)


def figure_words(value: Any, unit: str) -> str:
    """The median of a document's quantity, with the digits that its 90 % interval deserves.

    Examples
    --------
    >>> [figure_words({"p05": low, "p50": 3.482, "p95": high}, "USD") for low, high in ((2.0, 6.6), (3.4, 3.6))]
    ['$3.50', '$3.48']
    >>> time = {"p05": 760.0, "p50": 1140.0, "p95": 1560.0}
    >>> figure_words(time, "s").split(), interval_words(time, "s").split()
    (['19', 'min'], ['13', '–', '26', 'min'])
    """
    unit, per = _one_unit(value, unit)
    return _rounded(point(value) / per, (point(value, "p95") - point(value, "p05")) / per, unit)


def _one_unit(value: Any, unit: str) -> tuple[str, float]:
    """Minutes for a figure and its interval where some of them would be seconds and some minutes."""
    is_mixed = unit == "s" and MINUTE_S <= point(value, "p05") < KILO <= point(value, "p95") < HOUR_S * 10
    return ("min", MINUTE_S) if is_mixed else (unit, 1.0)


def _rounded(value: float, width: float, unit: str) -> str:
    """A number in three digits, or in two where the third counts less than a twentieth of half its interval."""
    text = words(value, unit)
    number = re.search(r"\d+(\.\d+)?", text)
    if not value or number is None or not (math.isfinite(width) and float(number[0])):
        return text
    printed = float(number[0])
    third = 10.0 ** (math.floor(math.log10(printed)) - 2)
    return text if third >= _FINEST * abs(width / 2 * printed / value) else words(value, unit, 2)


def span(low: float, high: float, unit: str) -> str:
    """A range as it was stated, with a unit that both ends share written once; empty where the printed ends are equal.

    Examples
    --------
    >>> span(4e9, 4.86e9, "W").split()
    ['4', '–', '4.86', 'GW']
    """
    return joined(words(low, unit), words(high, unit))


def place_words(document: Mapping[str, Any], phase: str) -> str:
    """Where a step of serving is counted: on one GPU, or on one of each pipeline stage that a pass goes through."""
    layout = document.get("pools", {}).get(phase, document)["layout"]
    return "through all stages, the busiest GPU of each" if parse_layout(layout).pp > 1 else "on the busiest GPU"


def width_words(widths: Iterable[str], multiplied_in: Mapping[str, str], file: str = "") -> str:
    """Precisions of a model, or the file that mixes them, and in what a chip multiplies those it has no units for.

    Examples
    --------
    >>> width_words(("bf16", "mxfp4"), {"mxfp4": "bf16"}), width_words(("int4", "int4"), {"int4": "bf16"})
    ('bf16/mxfp4 (mxfp4 multiplied in bf16)', 'int4 (multiplied in bf16)')
    """
    kinds = dict.fromkeys(widths)
    units = set(multiplied_in.values())
    if len(units) == 1 and kinds.keys() <= multiplied_in.keys():
        said = f"multiplied in {units.pop()}"
    else:
        said = ", ".join(f"{width} multiplied in {native}" for width, native in multiplied_in.items())
    return (file or "/".join(kinds)) + (f" ({said})" if said else "")


def engine_words(document: Mapping[str, Any]) -> str:
    """What runs the model."""
    engine, release = document["backend"], document.get("backend_release")
    if engine == "ideal":
        return "no engine, every peak reached"
    if release is None or release["month"] is None:
        return f"engine {engine}"
    of = f" {release['release']}" if release["release"] else ""
    named = "" if release["given"] in (None, release["release"], release["month"]) else f" for {release['given']}"
    return f"engine {engine}{of} ({release['month']}){named}"


def interval_class_words(sure: Mapping[str, Any], is_anchored: bool = False) -> str:
    """Whose interval an answer carries, or had before the reader's own measurements; the physical limit has none."""
    if is_anchored:
        return f"interval class {sure['class']} ({sure['n']:,} measurements): as it was before your own"
    if not sure["n"]:
        return f"{sure['class']}: {sure['why']}"
    why = re.sub(r": the interval is that of other people's measurements[^;]*", "", sure["why"])
    return f"interval from {sure['n']:,} measurements: {why}"


def accuracy_slice(alike: Mapping[str, Any]) -> dict[str, str]:
    """Measurements like a question as the fields of the question of their accuracy."""
    shared = dict(zip(("tuning", "engine", "accelerator"), alike["what"].split(), strict=False))
    return {"workload": alike["workload"], **shared, "load": alike["load"], "quantity": ",".join(alike["by"])}


def accuracy_command(alike: Mapping[str, Any]) -> str:
    """The command that lists measurements like a question."""
    given = {name: value for name, value in accuracy_slice(alike).items() if value not in ("serving", DEFAULT_TUNING)}
    return " ".join(["computeledger accuracy", *(f"--{name} {value}" for name, value in given.items())])


def burst_words(document: Mapping[str, Any]) -> str:
    """Times to first token of a run whose clients start at once, by statistic."""
    parts = [f"{name} {figure_words(one, 's')}" for name, one in document["ttft_statistics_s"].items()]
    rounds = document["rounds_per_burst"]
    start = "every round starts at once" if rounds == 1 else f"one start for {rounds:g} rounds"
    return f"time to first token, {start}: {', '.join(parts)}; above: {document['statistic']}"


def pools_words(document: Mapping[str, Any]) -> str:
    """What two pools reach where one answers."""
    one = document["two_pools"]
    rates = [format_si(rate) for rate in (one["output_tokens_per_s_per_gpu"], point(document[_RATE]))]
    return f"--mode disaggregated: {rates[0]} tokens/s/GPU instead of {rates[1]} ({one['layout']})"


_RATE = "output_tokens_per_s_per_gpu"


#: What measurements of one time alone teach: what they measured, and all that is made of the same steps.
_TEACHES = {
    ("tpot",): "a time per token teaches how fast steps are, so throughput and all costs follow, and the wait for a "
    "place; only a ttft= of yours moves the rest of the time to first token",
    ("ttft",): "a time to first token teaches that time alone; only a tpot= of yours moves throughput and costs",
}


#: Times beyond an interval's end from which a measurement is more likely another unit than another deployment
#: (assumption).
_FAR = 2.0


def anchor_words(anchor: Mapping[str, Any]) -> str:
    """What the user's own measurements said, how much of it the answer takes over, and the interval that is left."""
    parts = []
    for name in anchor["carried_fraction"]:
        said = ", ".join(f"{one:.3g}" for one in anchor["measured_over_predicted"][name])
        before, after = (
            f"{one['p50']:.3g} ({one['p05']:.3g} to {one['p95']:.3g})"
            for one in (anchor["interval_before"][name], anchor["interval_after"][name])
        )
        parts.append(
            f"measured {name.upper()} is {said} times what the model gives there; with it, the answer takes {after} "
            f"times what the model gives here, instead of {before}"
        )
        low, high = (anchor["interval_before"][name][key] for key in ("p05", "p95"))
        if any(not low / _FAR <= one <= _FAR * high for one in anchor["measured_over_predicted"][name]):
            parts.append(f"that is far beyond the 90 % interval of its class ({low:.3g} to {high:.3g}): check its unit")
        if anchor["widened_for_difference"][name] > 1:
            differ = anchor["differ_ratio"][name]
            parts.append(
                f"your measurements of {name.upper()} differ by a factor of {differ:.3g} from each other, more than "
                "those of one deployment do: the interval is wider for it"
            )
    if rule := _TEACHES.get(tuple(anchor["carried_fraction"])):
        parts.append(rule)
    count = anchor["n"]
    whose = "one measurement" if count == 1 else f"{count} measurements"
    width_before, width_after = (
        [anchor[when][name]["p95"] / anchor[when][name]["p05"] for name in anchor["carried_fraction"]]
        for when in ("interval_before", "interval_after")
    )
    is_narrower = all(after < _NARROWER * before for before, after in zip(width_before, width_after, strict=True))
    return f"shifted{' and narrowed' * is_narrower} by {whose} of your own: {'; '.join(parts)}"


#: Width of an interval over what it was, below which it counts as narrower.
_NARROWER = 0.99


#: A chance on whose other side a verdict at the median says that it is one.
_EVEN = 0.5
#: A time per token that nobody waits for: milliseconds were meant.
LOOSE_TPOT_S = 5.0


def choice_words(phases: Mapping[str, Any]) -> list[str]:
    """What each phase of a plan runs on, as chosen or as the plan states it."""
    return [
        f"{PHASE_NAMES[name]}, {'engine' if label == name else label}: {text}"
        for name, phase in phases.items()
        for label, text in phase["choices"].items()
    ]


def meets_words(name: str, one: Mapping[str, Any]) -> str:
    """Whether an answer is within a limit, and with what chance."""
    verdict = "meets" if one["meets"] else "does not meet"
    at_median = " at the median" if one["meets"] != (one["probability"] >= _EVEN) else ""
    limit, chance = show(one["limit_s"], "s"), format_percent(one["probability"])
    loose = name == "tpot" and one["limit_s"] >= LOOSE_TPOT_S
    unit = f" (a number alone is seconds; {one['limit_s']:g}ms is another limit)" if loose else ""
    return f"{name.upper()} {verdict} the limit of {limit}{at_median}; the chance that it does is {chance}{unit}"


def listed(parts: Sequence[str]) -> str:
    """Names as a sentence lists them.

    Examples
    --------
    >>> listed(["A", "B", "C"]), listed(["A"])
    ('A, B and C', 'A')
    """
    return " and ".join([*([", ".join(parts[:-1])] if parts[1:] else []), parts[-1]])


def joined(first: str, last: str) -> str:
    """Join the printed ends of an interval, a unit they share written once; empty where they are equal."""
    if first == last:
        return ""
    for mark in (_SPACE, " ") if _SPACE in first or " " in first else ("/",):
        if first.partition(mark)[2] and first.partition(mark)[2] == last.partition(mark)[2]:
            first = first.partition(mark)[0]
    return f"{first} – {last}"


def interval_words(value: Any, unit: str) -> str:
    """The 90 % interval of a document's quantity, empty where it is exact to the printed digits.

    Examples
    --------
    >>> interval_words({"p05": 1.026, "p50": 2.0, "p95": 3.0}, ""), interval_words(2.0, "")
    ('1 – 3', '')
    """
    unit, per = _one_unit(value, unit)
    low, high = point(value, "p05") / per, point(value, "p95") / per
    return joined(*(_rounded(end, high - low, unit) for end in (low, high)))


def with_interval_words(value: Any, unit: str) -> str:
    """The median of a document's quantity and its 90 % interval in brackets, their unit once.

    Examples
    --------
    >>> with_interval_words({"p05": 1e6, "p50": 2e6, "p95": 4e6}, "GPU-hours").replace(chr(160), " ")
    '2M GPU-hours (1M – 4M)'
    """
    median, ends = figure_words(value, unit), interval_words(value, unit)
    shared = _SPACE + median.partition(_SPACE)[2]
    return f"{median} ({ends.removesuffix(shared)})" if ends else median


def headline_words(subject: str, answer: str, value: Any = None, unit: str = "", *more: tuple[Any, str]) -> str:
    """One line that stands alone: what was asked about, the answer, and the 90 % interval of its first figure.

    Where ``more`` figures answer the question, their intervals follow, each with its unit.

    Examples
    --------
    >>> cost = {"p05": 2.0, "p50": 3.48, "p95": 6.58}
    >>> headline_words("DeepSeek-V3 on 8 H200", "$3.50 per million output tokens", cost, "USD").replace(chr(160), " ")
    'DeepSeek-V3 on 8 H200: $3.50 per million output tokens (90 %: $2 to $6.60)'
    >>> days = {"p05": 40.0, "p50": 58.0, "p95": 80.0}
    >>> headline_words("A run", "58 days and $3.50", days, "days", (cost, "USD")).replace(chr(160), " ")
    'A run: 58 days and $3.50 (90 %: 40 to 80 days, $2 to $6.60)'
    >>> headline_words("H200", "63 facts")
    'H200: 63 facts'
    """
    first = "" if value is None else ends_words(value, unit)
    others = [interval_words(other, its).replace(" – ", " to ") for other, its in more]
    ends = ", ".join(part for part in (first, *others) if part)
    return f"{subject}: {answer}{f' ({ends})' if ends else ''}"


def either_way_words(width: float) -> str:
    """How far off an answer may be, by how many times the high end of its interval is the low one.

    Examples
    --------
    >>> either_way_words(16.0)
    'a factor of about 4'
    """
    return f"a factor of about {math.sqrt(width):.2g}"


def trusted_to_words(value: Mapping[str, Any]) -> str:
    r"""How far a quantity may be off either way, by its 90 % interval: a factor, or a share where it is near.

    Examples
    --------
    >>> trusted_to_words({"p05": 2.0, "p50": 4.0, "p95": 8.0}), trusted_to_words({"p05": 1.0, "p50": 1.1, "p95": 1.21})
    ('a factor of 2', '±10\xa0%')
    """
    factor = math.sqrt(value["p95"] / value["p05"])
    return f"a factor of {factor:.2g}" if factor >= _FACTOR else f"±{words(factor - 1, 'fraction', 2)}"


#: Times from which on a factor is said: a share is not the same to both sides then.
_FACTOR = 1.2


def ends_words(value: Any, unit: str) -> str:
    """The 90 % interval of a document's quantity inside a sentence, empty where it is exact to the printed digits.

    Examples
    --------
    >>> ends_words({"p05": 1.0, "p50": 2.0, "p95": 3.0}, "x").replace(chr(160), " "), ends_words(2.0, "x")
    ('90 %: 1 to 3 x', '')
    """
    ends = interval_words(value, unit)
    return f"90{_SPACE}%: {ends.replace(' – ', ' to ')}" if ends else ""


def short_model(model: str) -> str:
    """Name of a model as people say it: without its publisher.

    Examples
    --------
    >>> [short_model(one) for one in ("deepseek-ai/DeepSeek-V3", "meta-llama/Meta-Llama-3.1-405B", "own/config.json")]
    ['DeepSeek-V3', 'Llama-3.1-405B', 'own/config.json']
    """
    name = model_words(model)
    return name if name.endswith(".json") else name.rpartition("/")[2].removeprefix("Meta-")


def chips_words(n: float, name: str) -> str:
    """How many of a chip, by its short name.

    Examples
    --------
    >>> chips_words(8, "H200"), chips_words(1, "H200"), chips_words(16384, "H100")
    ('8 H200', 'one H200', '16,384 H100')
    """
    return f"one {name}" if n == 1 else f"{n:,.0f} {name}"


def percent(share: Any, digits: int = 0) -> str:
    """The median of a share, with the digits that its interval deserves; a sentence may ask for fewer.

    Examples
    --------
    >>> percent(0.346).split(), percent(0.346, 2).split()
    (['34.6', '%'], ['35', '%'])
    """
    return words(point(share), "fraction", digits) if digits else figure_words(share, "fraction")


def input_words(name: str) -> str:
    """Name of an uncertain input in words.

    Examples
    --------
    >>> input_words("efficiency.gemm_fraction_fp8"), input_words("inference.traffic1.rate")
    ('Efficiency: GEMM fraction fp8', 'Inference, stream 1: rate')
    """
    section, *middle, key = name.split(".")
    if section in ("price", "power"):
        return f"{'Price of a GPU-hour' if section == 'price' else 'Facility power'}: {' '.join([*middle, key])}"
    head = {
        "plan": "Plan",
        "income": "Income",
        "efficiency": "Efficiency",
        "ownership": "Ownership",
        **PHASE_NAMES,
    }.get(section, section)
    for part in middle:
        head += f", {part.replace('traffic', 'stream ')}"
    text = key.replace("_", " ")
    for plain, written in _WRITTEN.items():
        text = re.sub(rf"\b{plain}\b", written, text)
    return f"{head}: {text}"


#: Inputs that a sentence calls by what they are.
_PHRASES = {
    "rl.longest_over_mean": "the longest rollout over the mean",
    "inference.life": "how long it is served",
}


def input_phrase(name: str) -> str:
    """Name of an uncertain input inside a sentence.

    Examples
    --------
    >>> input_phrase("inference.occupancy"), input_phrase("rl.rollout"), input_phrase("plan.price")
    ('inference occupancy', 'RL rollout', 'the price')
    """
    if name in _PHRASES:
        return _PHRASES[name]
    if ratio := re.fullmatch(r"efficiency\.(serving|training|rl)_(\w+_)?ratio", name):
        return f"real over modelled {ratio[1].replace('rl', 'RL')} time"
    head, _, key = input_words(name).partition(": ")
    if head in ("Plan", "Efficiency"):
        return f"the {key}"
    lower = head if head.startswith("RL") else head[0].lower() + head[1:]
    return f"the {lower} ({key})" if name.startswith(("price.", "power.")) else f"{lower} {key}"


def step_words(phase: str, step: str) -> str:
    """Name of a phase's step.

    Examples
    --------
    >>> step_words("rl", "rollout decode"), step_words("inference", "inference: decode")
    ('RL · rollout decode', 'Inference · decode')
    """
    return f"{PHASE_NAMES[phase]} · {step.removeprefix(f'{phase}: ')}"


def model_words(model: str) -> str:
    """Name of a model: its id, or what the user's own configuration goes by.

    Examples
    --------
    >>> model_words("deepseek-ai/DeepSeek-V3"), model_words("/home/me/plans/own-moe/config.json")
    ('deepseek-ai/DeepSeek-V3', 'own-moe/config.json')
    """
    if is_packed(model):
        return packed_name(model)
    return "/".join(PurePath(model).parts[-2:]) if model.endswith(".json") else model


def margins_words(margins: Mapping[str, Any]) -> str:
    """How far a winner is ahead, in one sentence."""
    others, close = margins["n_layouts_within_limits"] - 1, margins["n_not_distinguishable"]
    if not others:
        return "No other layout meets the limits."
    if not close:
        return f"Ahead of the {others} other layouts that meet the limits: none has 1 chance in 10 to be better."
    each = "each of these has more than 1 chance in 10 to be the better one"
    return f"Not distinguishable from {close} of the {others} other layouts that meet the limits: {each}."


def lora_words(lora: Mapping[str, Any]) -> str:
    """Adapters and what share of the parameters they train.

    Examples
    --------
    >>> adapted = {"rank": 16, "targets": "all", "n_params_trained": 41.9e6, "trainable_fraction": 0.0052}
    >>> lora_words(adapted | {"experts_frozen": False})
    'LoRA rank 16 (all layers): 0.52 % of parameters trained, 41.9M; the rest is frozen'
    """
    share, trained = format_percent(lora["trainable_fraction"]), format_si(lora["n_params_trained"])
    layers = f"{lora['targets']} layers" + (" but routed experts" if lora["experts_frozen"] else "")
    return f"LoRA rank {lora['rank']} ({layers}): {share} of parameters trained, {trained}; the rest is frozen"
