"""Keys of a plan: the fields of its phases' questions, and what only a plan has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from computeledger.arrays import Range, Uncertain
from computeledger.economics.income.months import SOLD
from computeledger.errors import InputError, QuantityError, shown
from computeledger.fields import (
    MOST_COUNT,
    SWITCH,
    TEXT,
    TEXTS,
    WHOLE,
    Asked,
    Field,
    Record,
    asked,
    fields_of,
    property_of,
    read_value,
    shared,
)
from computeledger.physics.calibration.efficiency import IDEAL, factor_dimension, median_of
from computeledger.physics.calibration.training import IDEAL_TRAINING, load_all_factors
from computeledger.units import DIMENSIONLESS, format_si
from computeledger.workloads.anchor import SEPARATOR
from computeledger.workloads.questions.pretrain import PretrainQuestion
from computeledger.workloads.questions.rl import RLQuestion
from computeledger.workloads.questions.serve import ServeQuestion

_PRICES = ("rent", "reserve", "own")


@dataclass(frozen=True, kw_only=True)
class MadeOf(Asked):
    """What every part of a plan may state."""

    model: str | None = shared(PretrainQuestion, "model", default=None, is_required=False)
    system: str | None = shared(PretrainQuestion, "system", default=None, is_required=False)
    price: Uncertain | None = shared(
        PretrainQuestion, "price", words=_PRICES,
        help="GPU-hour: a price, rent or reserve of the price edition, or own: what owning it costs.",
    )  # fmt: skip
    precision: str | None = shared(PretrainQuestion, "precision", default=None, help="Of weights and products.")


@dataclass(frozen=True, kw_only=True)
class PlanTop(MadeOf):
    """What stands at the top of a plan: defaults of its sections."""

    title: str | None = asked("text", "What the plan is about.")


@dataclass(frozen=True, kw_only=True)
class Timed(Asked):
    """GPU-time of a phase, where it is known."""

    gpu_hours: Uncertain | None = asked(
        "gpu_hours", "GPU-time of the phase, where it is known.", unit="GPU-hours", is_open=True
    )
    utilization: Uncertain | None = asked(
        "fraction", "FLOP over dense bf16 peak x GPU-time, where it is known.", is_open=True, slider=(0.05, 0.7)
    )
    skip: str | None = asked("text", "Why this plan has no such phase; stands alone.")


@dataclass(frozen=True, kw_only=True)
class PlannedPretraining(Timed):
    """What a plan's pretraining has beside its question."""

    price: Uncertain | None = shared(MadeOf, "price")
    tokens: Uncertain | str | None = shared(
        PretrainQuestion, "tokens", default=None, words=("balanced",), blank="",
        help="Tokens of the run, or balanced: what equals the inference ledger.",
    )  # fmt: skip
    goodput: Uncertain | None = asked(
        "fraction", "Share of the time in steps that count, failures and stops taken off.", is_open=True
    )


@dataclass(frozen=True, kw_only=True)
class PlannedRL(Timed):
    """What a plan's RL has beside its question; the last ones only the simulation reads."""

    price: Uncertain | None = shared(MadeOf, "price")
    tokens: Uncertain | str | None = asked(
        "tokens", "Sampled tokens of the run, instead of steps, or balanced: GPU-time equal to pretraining.",
        unit="tokens", is_open=True, words=("balanced",), slider=(1e11, 1e14),
    )  # fmt: skip
    beta_gpu_time: Uncertain | None = asked(
        "count", "RL's coefficient in GPU-time, where it was measured.", is_open=True
    )
    mode: str | None = asked("text", "Whether phases wait for one another.", choices=("synchronous", "asynchronous"))
    steps: Uncertain | None = shared(RLQuestion, "steps", default=None, blank="tokens are stated")
    training_precision: str | None = shared(
        RLQuestion, "training_precision", default=None, blank="that of precision, where products are trained in it"
    )
    steps_in_flight: int | None = asked(
        "whole", "Steps' worth of rollouts that decode at once when asynchronous without a stated lag.", least=1,
        blank="4",
    )  # fmt: skip
    weight_load: Uncertain | None = asked("s", "Time in which a replica loads new weights.", unit=None)
    step_overhead: Uncertain | None = asked("s", "Time of a training step beside its tokens.", unit=None)
    verifier_spread: Uncertain | None = asked(
        "ratio", "Standard deviation of the verifier's time over its mean.", blank="0"
    )
    verifier_failures: Uncertain | None = asked("fraction", "Share of verifications that are repeated.", blank="0")
    replica_failures: Uncertain | None = asked(
        "s", "Mean time between failures of a generation replica.", unit=None, is_open=True, blank="never"
    )
    replica_repair: Uncertain | None = asked("s", "Time until a failed replica is back.", unit=None, blank="0 s")
    remote_gpus: int | None = asked("whole", "GPUs of generation_gpus that stand at another site.", blank="0")
    remote_bandwidth: Uncertain | None = asked(
        "bytes_per_s", "Rate at which weights reach that site.", unit="GB/s", is_open=True
    )
    remote_latency: Uncertain | None = asked("s", "Delay of the line to it.", unit=None, blank="0 s")


@dataclass(frozen=True, kw_only=True)
class Traffic(Asked):
    """What a stream of inference carries."""

    tokens: Uncertain | None = asked(
        "tokens", "Tokens over the model's life, all kinds.", unit="tokens", is_open=True, slider=(1e11, 1e14)
    )
    rate: Uncertain | None = asked(
        "tokens_per_s", "Mean traffic, all kinds, instead of tokens.", unit="tokens/s", is_open=True,
        slider=(1e3, 2e9),
    )  # fmt: skip
    life: Uncertain | None = asked("s", "How long the traffic lasts.", unit=None, is_open=True)


@dataclass(frozen=True, kw_only=True)
class PlannedInference(Traffic, Timed):
    """What a plan's inference has beside its question."""

    price: Uncertain | None = shared(MadeOf, "price")
    occupancy: Uncertain | None = asked(
        "fraction", "Busy GPU-hours over GPU-hours paid.", is_open=True, blank="100%", slider=(0.05, 1.0)
    )


@dataclass(frozen=True, kw_only=True)
class Stream(Traffic):
    """A stream of its own, beside what its question says."""

    name: str | None = asked("text", "What the traffic is.")
    paid: bool = asked("switch", "Whether it is paid for; the answer tells the unpaid share.", True)
    sold: str | None = asked(
        "text", "How it is paid for, where it is.", choices=SOLD[:2], blank="tokens where [income] prices them"
    )


@dataclass(frozen=True, kw_only=True)
class Experiments(Asked):
    """Research runs beside the three phases."""

    system: str | None = shared(MadeOf, "system")
    price: Uncertain | None = shared(MadeOf, "price")
    gpu_hours: Uncertain | None = shared(Timed, "gpu_hours", help="GPU-time of research runs.", is_open=False)
    gpu_time_of_pretraining: Uncertain | None = asked("count", "The same as a multiple of the pretraining run.")
    clusters: Uncertain | None = asked("count", "Clusters it runs on.", is_open=True)


@dataclass(frozen=True, kw_only=True)
class Income(Asked):
    """What the inference ledger earns: prices, users, and how a market moves them."""

    input_price: Uncertain | None = asked(
        "usd_per_mtok", "Price of an input token, sold one by one, in the first month.", unit="USD/Mtok",
        slider=(0.01, 100.0),
    )  # fmt: skip
    cached_price: Uncertain | None = asked(
        "usd_per_mtok", "Price of an input token found in the cache.", unit="USD/Mtok", blank="input_price",
        slider=(0.001, 10.0),
    )  # fmt: skip
    output_price: Uncertain | None = asked(
        "usd_per_mtok", "Price of an output token.", unit="USD/Mtok", slider=(0.01, 100.0)
    )
    batch_share: Uncertain | None = asked("fraction", "Share of these tokens sold at the batch price.", blank="0")
    batch_discount: Uncertain | None = asked("fraction", "By which the batch price is lower.", blank="50%")
    subscription_price: Uncertain | None = asked("usd", "Of a paying user and month.", unit="USD", slider=(1.0, 500.0))
    paying_users: Uncertain | None = asked(
        "count", "Users who pay by month, at release; 0 at a launch that converts free ones.", slider=(1e3, 5e8)
    )
    free_users: Uncertain | None = asked("count", "Users who do not pay, at release.", is_open=True, slider=(1e3, 5e9))
    subscription_traffic: Uncertain | None = asked(
        "fraction", "Share of the traffic that subscribers send, where the inference is one stream.", is_open=True,
        blank="streams say it",
    )  # fmt: skip
    free_traffic: Uncertain | None = asked(
        "fraction", "Share of it that free users send.", is_open=True, blank="streams say it"
    )
    conversion: Uncertain | None = asked("fraction", "Share of free users who start to pay, by month.", blank="0")
    churn: Uncertain | None = asked("fraction", "Share of paying users lost, by month.", blank="0")
    growth: Uncertain | None = asked("growth", "Growth of users and of tokens sold one by one, by month.", blank="0")
    price_decline: Uncertain | None = asked(
        "fraction", "By which competitors' price of the same quality falls, by month.",
        most=0.99, blank="17..26%, as published",
    )  # fmt: skip
    follow: Uncertain | None = asked(
        "fraction", "Exponent with which the token price follows them: 0 keeps it, 1 keeps up.", blank="25..75%"
    )
    demand_elasticity: Uncertain | None = asked(
        "ratio", "Tokens sold fall as (own price over theirs) to minus this.", most=10.0, blank="0.5..1.5"
    )
    cost_decline: Uncertain | None = asked("fraction", "By which serving gets cheaper, by month.", blank="0")
    unserved: Uncertain | None = asked(
        "fraction", "Share of a further GPU-hour that demand turned away today would fill.", blank="0"
    )
    delay_elasticity: Uncertain | None = asked(
        "ratio", "Tokens sold fall as (time per output token) to minus this.", most=10.0, blank="0.05..0.3"
    )
    value_per_nat: Uncertain | None = asked(
        "ratio", "What a nat of loss takes off the logarithm of a token's price.", most=1000.0, blank="5..25"
    )
    rl_nats: Uncertain | None = asked(
        "ratio", "Loss, in nats a token, that twice the RL would take off.", most=10.0, blank="0.005..0.03"
    )
    discount_rate: Uncertain | None = asked("fraction", "Of the net present value, by year.", blank="10%")
    build_time: Uncertain | None = asked("s", "Between spending on training and release.", unit=None, blank="0 s")
    life: Uncertain | None = asked(
        "s", "How long it is sold, ten years at most.", unit=None, is_open=True, blank="that of the inference"
    )


@dataclass(frozen=True, kw_only=True)
class Kinds(Asked):
    """Tokens by kind over the model's life, or all of them as shares."""

    system_prompt: Uncertain | None = asked("tokens", "System prompts, not cached.", unit="tokens")
    user_input: Uncertain | None = asked("tokens", "What users write.", unit="tokens")
    tool_results: Uncertain | None = asked("tokens", "What tools return.", unit="tokens")
    cached: Uncertain | None = asked("tokens", "Prefix tokens found in the cache.", unit="tokens")
    output: Uncertain | None = asked("tokens", "Generated tokens.", unit="tokens")


#: The question of each phase.
QUESTIONS: Mapping[str, type[Record]] = {
    "pretraining": PretrainQuestion, "rl": RLQuestion, "inference": ServeQuestion,
}  # fmt: skip
#: Fields that are no keys of a plan: what an answer shows, RL's engine
#: (whose factors stand in [efficiency]), and what another key of the plan says.
NO_KEYS: Mapping[str, frozenset[str]] = {
    "pretraining": frozenset({
        "samples", "seed", "objective", "top", "scaling", "growing_batch", "emit", "lora_rank",
        "lora_targets", "interruptions_per_gpu_year", "checkpoint_pause", "checkpoint_interval", "restart",
        "stragglers", "stage", "unique_tokens", "step_jitter", "loss_fraction",
    }),
    "rl": frozenset({
        "samples", "seed", "search", "scale_up", "levers", "compare_to", "emit", "backend",
        "training_system",
        "rollout_p50_tokens",
        "rollout_lengths", "mfu", "pretraining_flop", "budget_flop", "text_tokens_per_position",
    }),
    "inference": frozenset({
        "samples", "seed", "profile", "rounds", "equal_lengths", "statistic", "mode",
        "requests_per_s", "kv_tiers", "cache_discount", "user_requests", "wanted_context", "emit", "e2e", "goodput",
        "arrival_spread", "corpus", "corpus_questions", "corpus_passes", "corpus_refresh",
    }),
}  # fmt: skip
#: Keys of the inference section that each stream may state for itself.
_OF_A_STREAM = ("model", "workload", "input_tokens", "cached_tokens", "output_tokens", "layout", "batch", "tpot")


#: Keys that a phase needs.
NEEDED: Mapping[str, tuple[str, ...]] = {
    "pretraining": ("tokens",),
    "rl": ("rollout_tokens", "prompt_tokens", "prompts_per_step", "group_size", "gpus"),
    "inference": ("input_tokens", "output_tokens"),
}


def section_keys(
    own: type[Record], question: type[Record] | None = None, no_keys: frozenset[str] = frozenset()
) -> dict[str, Field]:
    """Keys of a section: fields of its question, then what only a plan has.

    Examples
    --------
    >>> keys = section_keys(PlannedPretraining, PretrainQuestion)
    >>> keys["global_batch_tokens"].help, keys["goodput"].dimension
    ('Tokens per optimizer step.', 'fraction')
    """
    fields = {} if question is None else {k: one for k, one in fields_of(question).items() if k not in no_keys}
    return {name: replace(one, is_required=False) for name, one in (fields | fields_of(own)).items()}


TOP = section_keys(PlanTop)
KINDS = section_keys(Kinds)
SECTIONS: dict[str, dict[str, Field]] = {
    **{
        name: section_keys(own, QUESTIONS[name], NO_KEYS[name])
        for name, own in (("pretraining", PlannedPretraining), ("rl", PlannedRL), ("inference", PlannedInference))
    },
    "experiments": section_keys(Experiments),
    "income": section_keys(Income),
}
TRAFFIC = section_keys(Stream) | {name: SECTIONS["inference"][name] for name in _OF_A_STREAM}
#: Factors that may be zero though the physical limit has them at one: a prompt that is read elsewhere slows nothing.
_MAY_VANISH = ("prefill_interference",)
REQUIRED_SECTIONS = ("pretraining", "rl", "inference")


def efficiency_keys() -> dict[str, Field]:
    """Efficiency factors that a plan may override.

    Examples
    --------
    >>> efficiency_keys()["host_step_s"].dimension, efficiency_keys()["expert_imbalance"].dimension
    ('s', 'count')
    """
    return {
        name: Field(
            name, factor_dimension(name), factor.why, unit=None if name.endswith("_s") else "",
            is_open=name not in _MAY_VANISH and bool(_ideal(name)),
        )
        for name, factor in load_all_factors().items()
    }  # fmt: skip


def _ideal(name: str) -> object:
    """A factor at the physical limit."""
    return getattr(IDEAL if hasattr(IDEAL, name) else IDEAL_TRAINING, name)


def dimension_of_key(section: str, key: str) -> str:
    """Dimension of a quantity of a plan; of a count where no such key exists.

    Examples
    --------
    >>> dimension_of_key("rl", "rollout_tokens"), dimension_of_key("plan", "price")
    ('tokens', 'usd_per_hour')
    """
    keys = {**TOP, **KINDS, **TRAFFIC, **SECTIONS.get(section, {})}
    return keys[key].dimension if key in keys and keys[key].dimension != WHOLE else "count"


def example_of(one: Field) -> str:
    """A value of a key, as a plan writes it.

    Examples
    --------
    >>> example_of(SECTIONS["pretraining"]["tokens"]), example_of(SECTIONS["inference"]["tpot"])
    ('2B tokens', '0.005 s')
    """
    if one.dimension == TEXTS:
        return one.example
    if one.choices or one.dimension in (TEXT, SWITCH):
        return one.choices[0] if one.choices else "yes" if one.dimension == SWITCH else one.metavar or one.name
    value = (
        one.slider[0]
        if one.slider
        else float(one.default or one.least or (0.5 if one.dimension in ("fraction", "growth") else 1))
    )
    if one.dimension == "s":
        return f"{value:g} s"
    return f"{format_si(value).replace(' ', '')} {one.unit or ''}".strip()


def read_key(one: Field, given: Any, spelt: str) -> Uncertain | str:
    """Read the value of a key.

    Examples
    --------
    >>> read_key(SECTIONS["rl"]["rollout_tokens"], "4K..8K tokens", "rollout_tokens =")
    Range(low=4000.0, high=8000.0, bounded=False)
    """
    if isinstance(given, bool) and one.dimension != SWITCH:
        raise InputError(f"{spelt} {str(given).lower()}: expected a number, or a text in quotes")
    if one.dimension == TEXTS:
        return _texts(one, given, spelt)
    if one.dimension == TEXT and isinstance(given, str) and not given.strip():
        raise InputError(f"{spelt} {given!r}: expected a text such as {example_of(one)!r}")
    if one.dimension not in (TEXT, SWITCH):
        if not isinstance(given, (str, int, float)):
            raise QuantityError(f"{spelt} {given!r}: expected a quantity such as {example_of(one)!r}")
        if one.words and isinstance(given, str) and given.strip().isalpha() and given not in one.words:
            words = " or ".join(one.words)
            raise QuantityError(f"{spelt} {given!r}: expected a quantity such as {example_of(one)!r}, or {words}")
        is_count = isinstance(given, int) and one.dimension == "tokens"  # a whole number of tokens says enough
        given = given if isinstance(given, str) else repr(given)
        if one.dimension not in (*DIMENSIONLESS, WHOLE) and not is_count:
            one = replace(one, unit=None)  # a file's number says its unit
        if one.dimension == WHOLE and ".." in given:
            one = replace(one, dimension="count", unit="", most=min(one.most, MOST_COUNT), least=max(one.least, 1.0))
    value = read_value(one, given, spelt)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, (str, Range)) else median_of(value)  # a plan counts with mean lengths


def _texts(one: Field, given: Any, spelt: str) -> str:
    """Several texts, kept as one."""
    texts = [given] if isinstance(given, str) else given
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) and text.strip() for text in texts):
        raise InputError(f"{spelt} {shown(given)}: expected a text or a list of texts such as {example_of(one)!r}")
    return f"{SEPARATOR} ".join(texts)


def json_schema() -> dict[str, Any]:
    """Describe plans for editors.

    Examples
    --------
    >>> json_schema()["required"]
    ['pretraining', 'rl', 'inference']
    >>> json_schema()["properties"]["rl"]["properties"]["mode"]["enum"]
    ['synchronous', 'asynchronous']
    """
    sections: dict[str, Any] = {name: _object(keys) for name, keys in SECTIONS.items()}
    sections["inference"]["properties"] |= {
        "kinds": _object(KINDS),
        "traffic": {
            "type": "array",
            "items": {**_object(TRAFFIC), "properties": {**_properties(TRAFFIC), "kinds": _object(KINDS)}},
        },
    }
    sections["efficiency"] = _object(efficiency_keys())
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Compute Ledger plan",
        "type": "object",
        "additionalProperties": False,
        "required": list(REQUIRED_SECTIONS),
        "properties": {**_properties(TOP), **sections},
    }


def _object(keys: Mapping[str, Field]) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "properties": _properties(keys)}


def _properties(keys: Mapping[str, Field]) -> dict[str, Any]:
    out = {}
    for name, one in keys.items():
        found = property_of(one) | {"examples": [example_of(one)]}
        if one.dimension == SWITCH:
            found |= {
                "type": ["string", "boolean"],
                "enum": ["yes", "no", True, False],
                "default": "yes" if one.default else "no",
            }
        elif one.dimension == TEXTS:
            found["type"] = ["string", "array"]
        elif one.dimension != TEXT:
            is_bare = one.dimension in (*DIMENSIONLESS, WHOLE)
            bare = ["integer"] if one.dimension == "tokens" else ["number"] if is_bare else []
            found["type"] = ["string", *bare] if bare else "string"
        out[name] = found
        out |= {alias: {**found, "deprecated": True} for alias in one.aliases}
    return out
