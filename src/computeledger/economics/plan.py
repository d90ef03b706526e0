"""Plans: what a PLAN.toml may say, read into checked quantities.

The tables below are the schema: they check a file, word its errors, and become the JSON Schema for editors.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from computeledger.arrays import Uncertain
from computeledger.errors import InputError, PlanError, nearest
from computeledger.physics.efficiency import load_factors
from computeledger.units import DIMENSIONLESS, parse_quantity


@dataclass(frozen=True, slots=True)
class Key:
    """A key of a plan.

    Attributes
    ----------
    kind : str
        A dimension of :data:`computeledger.units.DIMENSIONS`, ``text``, or choices joined by ``|``.
    help : str
        What it means.
    example : str
        A value.
    words : tuple of str
        Words that may stand instead of a quantity.
    """

    kind: str
    help: str
    example: str
    words: tuple[str, ...] = ()


_MADE_OF = {
    "model": Key("text", "bundled model id, or path to a config.json", "deepseek-v3"),
    "system": Key("text", "bundled system id, or path to a system TOML", "h800-nvl8"),
    "price": Key("usd_per_hour", "price of a GPU-hour, or rent / reserve of the price edition", "$2/h",
                 words=("rent", "reserve")),
    "precision": Key("bf16|fp8|fp4", "precision of the weights and matrix products", "fp8"),
}  # fmt: skip
_TIMED = {
    "gpus": Key("count", "GPUs of the phase", "2048"),
    "gpu_hours": Key("gpu_hours", "GPU-time of the phase, where it is known", "2.664M GPU-hours"),
    "utilization": Key("fraction", "FLOP over dense bf16 peak x GPU-time, where it is known", "30%..40%"),
}
_OTHER = {"skip": Key("text", "why this plan has no such phase", "open weights, trained by others")}

TOP = {"title": Key("text", "what the plan is about", "DeepSeek-V3 as published"), **_MADE_OF}
SECTIONS: dict[str, dict[str, Key]] = {
    "pretraining": {
        **_MADE_OF, **_TIMED, **_OTHER,
        "tokens": Key("tokens", "tokens of the run, or balanced: what equals the inference ledger", "14.8T tokens",
                      words=("balanced",)),
        "layout": Key("text", "of the whole job; searched where it is left out", "tp1-pp16-dp128-ep64"),
        "sequence": Key("tokens", "length of a sequence", "4096 tokens"),
        "global_batch": Key("tokens", "tokens per optimiser step", "60M tokens"),
        "microbatch": Key("count", "sequences that pass a stage at once", "1 sequences"),
        "recompute": Key("none|selective|full", "activations computed again in backward", "selective"),
        "virtual_stages": Key("count", "interleaved chunks per pipeline stage", "2"),
    },
    "rl": {
        **_MADE_OF, **_TIMED, **_OTHER,
        "tokens": Key("tokens", "sampled tokens of the run, or balanced: GPU-time equal to pretraining", "1T tokens",
                      words=("balanced",)),
        "steps": Key("count", "optimiser steps, instead of tokens", "2000 steps"),
        "prompts_per_step": Key("count", "prompts of a step", "512"),
        "group_size": Key("count", "rollouts per prompt", "16"),
        "rollout": Key("tokens", "mean length of a rollout", "10K..20K tokens"),
        "prompt": Key("tokens", "mean length of a prompt", "500 tokens"),
        "longest_over_mean": Key("count", "longest rollout of a step over the mean", "2..4"),
        "layout": Key("text", "of one generation replica; searched where it is left out", "tp8-ep8"),
        "batch": Key("count", "rollouts decoding per replica", "256"),
        "training_layout": Key("text", "of the trainer; searched where it is left out", "tp1-pp16-dp128-ep64"),
        "sequence": Key("tokens", "packed length of a training sequence", "16K tokens"),
        "global_batch": Key("tokens", "tokens the trainer sees per optimiser step", "8M tokens"),
        "kept": Key("fraction", "share of rollouts that the update trains on", "0.5..1"),
        "logprob_passes": Key("count", "forward passes beside the update (old policy, reference)", "1"),
        "updates_per_batch": Key("count", "passes of the optimiser over the kept rollouts", "1"),
        "verifier_time": Key("s", "CPU time to verify a rollout", "0.5..2 s"),
        "verifier_cores": Key("count", "CPU cores that verify", "4096 cores"),
        "mode": Key("synchronous|asynchronous", "whether phases wait for one another", "asynchronous"),
        "steps_in_flight": Key("count", "steps' worth of rollouts that decode at once when asynchronous", "4"),
        "beta_gpu_time": Key("count", "RL's coefficient in GPU-time, where it was measured", "20..45"),
    },
    "inference": {
        **_MADE_OF, **_TIMED, **_OTHER,
        "tokens": Key("tokens", "tokens over the model's life, all kinds", "100T..600T tokens"),
        "rate": Key("tokens_per_s", "mean traffic, all kinds, instead of tokens", "10M..100M tokens/s"),
        "life": Key("s", "how long the traffic lasts", "1..3 months"),
        "input": Key("tokens", "new input tokens of a request", "2000 tokens"),
        "cached": Key("tokens", "cached prefix of a request", "2000 tokens"),
        "output": Key("tokens", "output tokens of a request", "1000 tokens"),
        "layout": Key("text", "of one replica; searched where it is left out", "tp8-ep8"),
        "batch": Key("count", "sequences decoding per replica, all attention-DP ranks together", "256"),
        "tpot": Key("s", "slowest acceptable time per output token, where the batch is searched", "50 ms"),
        "occupancy": Key("fraction", "busy GPU-hours over GPU-hours paid", "40%..80%"),
    },
    "experiments": {
        "system": _MADE_OF["system"], "price": _MADE_OF["price"],
        "gpu_hours": Key("gpu_hours", "GPU-time of research runs", "3M GPU-hours"),
        "gpu_time_of_pretraining": Key("count", "the same as a multiple of the pretraining run", "0.5..2"),
        "clusters": Key("count", "clusters it runs on", "40"),
    },
}  # fmt: skip
KINDS = {
    name: Key("tokens", f"{text} over the model's life, or all kinds as shares", "10T tokens")
    for name, text in {
        "system_prompt": "system prompts, not cached", "user_input": "what users write",
        "tool_results": "what tools return", "cached": "prefix tokens found in the cache", "output": "generated tokens",
    }.items()
}  # fmt: skip
TRAFFIC = {
    "name": Key("text", "what the traffic is", "free chat"),
    "paid": Key("yes|no", "whether it is paid for", "yes"),
    **{name: SECTIONS["inference"][name] for name in
       ("model", "tokens", "rate", "life", "input", "cached", "output", "layout", "batch", "tpot")},
}  # fmt: skip
REQUIRED_SECTIONS = ("pretraining", "rl", "inference")

Value = Uncertain | str


@dataclass(frozen=True, slots=True)
class Section:
    """A section of a plan with checked values.

    Attributes
    ----------
    name : str
        Dotted name, for messages and sample names.
    values : mapping of str to float, Range or str
        By key, in SI.
    kinds : Section or None
        Tokens by kind.
    traffic : tuple of Section
        Streams of an inference section.
    """

    name: str
    values: Mapping[str, Value]
    kinds: Section | None = None
    traffic: tuple[Section, ...] = ()

    def text(self, key: str) -> str | None:
        """A value that is a word, or None."""
        value = self.values.get(key)
        return value if isinstance(value, str) else None

    def __contains__(self, key: str) -> bool:
        return key in self.values


@dataclass(frozen=True, slots=True)
class Plan:
    """A checked plan.

    Attributes
    ----------
    name : str
        File it was read from.
    top : Section
        Title and defaults of the sections.
    sections : mapping of str to Section
        By name.
    efficiency : Section
        Efficiency factors that the plan overrides.
    """

    name: str
    top: Section
    sections: Mapping[str, Section] = field(default_factory=dict)
    efficiency: Section = field(default_factory=lambda: Section("efficiency", {}))

    def value(self, section: Section, key: str) -> Value | None:
        """A section's value, or the plan's own where the section is silent."""
        return section.values.get(key, self.top.values.get(key))

    def uncertain(self) -> dict[str, Uncertain]:
        """Every quantity of the plan by dotted name, for sampling."""
        out: dict[str, Uncertain] = {}
        for section in (self.top, self.efficiency, *self.sections.values()):
            for one in (section, *((section.kinds,) if section.kinds else ()), *section.traffic):
                for part in (one, *((one.kinds,) if one.kinds and one is not section else ())):
                    out |= {f"{part.name}.{key}": value for key, value in part.values.items()
                            if not isinstance(value, str)}  # fmt: skip
        return out


def load_plan(path: str | Path) -> Plan:
    """Read and check a plan file.

    Parameters
    ----------
    path : str or Path
        A TOML file.

    Returns
    -------
    Plan
        With every quantity in SI.

    Raises
    ------
    PlanError
        In one line: file, section, key, what was given and what is allowed.

    Examples
    --------
    >>> load_plan("nowhere.toml")
    Traceback (most recent call last):
    computeledger.errors.PlanError: nowhere.toml: no such file
    """
    file = Path(path)
    try:
        tables = tomllib.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        raise PlanError(f"{path}: no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise PlanError(f"{path}: cannot be read ({error.__class__.__name__})") from None
    except tomllib.TOMLDecodeError as error:
        raise PlanError(f"{path}: not valid TOML: {error}") from None
    try:
        return read_plan(tables, str(path))
    except PlanError as error:
        raise PlanError(f"{path}: {error}") from None


def read_plan(tables: Mapping[str, Any], name: str = "plan") -> Plan:
    """Check parsed TOML.

    Parameters
    ----------
    tables : mapping
        As :func:`tomllib.loads` gives it.
    name : str
        What to call the plan.

    Returns
    -------
    Plan
        With every quantity in SI.

    Examples
    --------
    >>> read_plan({"model": "deepseek-v3"})
    Traceback (most recent call last):
    computeledger.errors.PlanError: [pretraining] is missing; a phase that the plan leaves out says why: skip = "..."
    """
    top = {key: value for key, value in tables.items() if not isinstance(value, dict)}
    sections = {key: value for key, value in tables.items() if isinstance(value, dict)}
    allowed = [*SECTIONS, "efficiency"]
    for key in sections:
        if key not in allowed:
            raise PlanError(f"unknown section [{key}]: {nearest(key, allowed)}")
    for key in REQUIRED_SECTIONS:
        if key not in sections:
            raise PlanError(f'[{key}] is missing; a phase that the plan leaves out says why: skip = "..."')
    read = {key: _section(key, sections[key]) for key in SECTIONS if key in sections}
    factors = {key: Key("s" if key.endswith("_s") else "count", "", "") for key in load_factors()}
    efficiency = Section("efficiency", _values("efficiency", sections.get("efficiency", {}), factors))
    plan = Plan(name, Section("plan", _values("plan", top, TOP)), read, efficiency)
    _check(plan)
    return plan


def _section(name: str, table: Mapping[str, Any]) -> Section:
    plain = {key: value for key, value in table.items() if key not in ("kinds", "traffic") or name != "inference"}
    kinds, traffic = (table.get("kinds"), table.get("traffic", [])) if name == "inference" else (None, [])
    if not isinstance(traffic, list) or not all(isinstance(one, dict) for one in traffic):
        raise PlanError("[inference] traffic: write [[inference.traffic]] once per stream")
    streams = tuple(
        Section(
            f"inference.traffic{index}",
            _values(f"[inference.traffic] {index}", {k: v for k, v in one.items() if k != "kinds"}, TRAFFIC),
            _kinds(f"inference.traffic{index}.kinds", one.get("kinds")),
        )
        for index, one in enumerate(traffic, start=1)
    )
    return Section(name, _values(name, plain, SECTIONS[name]), _kinds("inference.kinds", kinds), streams)


def _kinds(name: str, table: Any) -> Section | None:
    if table is None:
        return None
    if not isinstance(table, dict) or not table:
        raise PlanError(f"[{name}]: give tokens or shares of {', '.join(KINDS)}")
    shares = all(not isinstance(value, str) or value.strip().endswith("%") for value in table.values())
    keys = {key: Key("fraction", "", "") for key in KINDS} if shares else KINDS
    values = _values(name, table, keys)
    if shares:
        exact = [value for value in values.values() if isinstance(value, float)]
        if len(exact) != len(values) or abs(sum(exact) - 1) > 1e-6:
            raise PlanError(f"[{name}]: shares must be single numbers that add up to 100 %")
        return Section(name, {**values, "shares": "yes"})
    return Section(name, values)


def _values(section: str, table: Any, keys: Mapping[str, Key]) -> dict[str, Value]:
    label = "" if section == "plan" else section if section.startswith("[") else f"[{section}]"
    out: dict[str, Value] = {}
    for key, given in table.items():
        if key not in keys:
            raise PlanError(f"{label} unknown key {key!r}: {nearest(key, keys)}".strip())
        try:
            out[key] = _value(given, keys[key])
        except InputError as error:
            raise PlanError(f"{label} {key} = {error}".strip()) from None
    return out


def _value(given: Any, key: Key) -> Value:
    if key.kind == "text":
        if not isinstance(given, str) or not given.strip():
            raise PlanError(f"{given!r}: expected a text such as {key.example!r}")
        return given
    if "|" in key.kind:
        choices = key.kind.split("|")
        if given not in choices:
            raise PlanError(f"{given!r}: {nearest(str(given), choices)} (allowed: {', '.join(choices)})")
        return str(given)
    if isinstance(given, str) and given in key.words:
        return given
    if not isinstance(given, (str, int, float)) or isinstance(given, bool):
        raise PlanError(f"{given!r}: expected a quantity such as {key.example!r}")
    if key.words and isinstance(given, str) and given.strip().isalpha():
        raise PlanError(f"{given!r}: expected a quantity such as {key.example!r}, or {' or '.join(key.words)}")
    return parse_quantity(given, key.kind)


def _check(plan: Plan) -> None:
    """What no single key can tell: sections that say too little, or say a thing twice."""
    for name, section in plan.sections.items():
        if "skip" in section:
            if len(section.values) > 1:
                raise PlanError(f"[{name}] skip stands alone: it says that there is no such phase")
            continue
        if name == "experiments":
            _one_of(section, ("gpu_hours", "gpu_time_of_pretraining"))
        else:
            for key in ("model", "system"):
                if plan.value(section, key) is None:
                    raise PlanError(f"[{name}] {key} is missing: give it there or at the top of the plan")
        if name == "pretraining":
            _need(section, ("tokens",))
            _at_most_one(section, ("gpu_hours", "utilization"))
            if not {"gpu_hours", "utilization", "gpus"} & set(section.values):
                raise PlanError("[pretraining] gpus is missing (or gpu_hours, or utilization)")
        if name == "rl":
            _one_of(section, ("tokens", "steps"))
            _at_most_one(section, ("gpu_hours", "utilization", "beta_gpu_time"))
            _need(section, ("rollout", "prompt", "prompts_per_step", "group_size", "gpus"))
    inference = plan.sections["inference"]
    if "skip" not in inference:
        _at_most_one(inference, ("gpu_hours", "utilization"))
        for stream in inference.traffic or (inference,):
            _check_stream(stream, inference)
    if "skip" in inference and plan.sections["pretraining"].text("tokens") == "balanced":
        raise PlanError('[pretraining] tokens = "balanced" needs an [inference] section to balance with')
    if "skip" in plan.sections["pretraining"] and plan.sections["rl"].text("tokens") == "balanced":
        raise PlanError('[rl] tokens = "balanced" needs a [pretraining] section to balance with')


def _check_stream(stream: Section, inference: Section) -> None:
    label = stream.name.replace("inference.traffic", "inference.traffic ")
    by_amount = stream.kinds is not None and stream.kinds.text("shares") is None
    if not by_amount:
        if "rate" in stream or "life" in stream:
            _need(stream, ("rate", "life"))
        given = [key for key in ("tokens", "rate") if key in stream]
        if len(given) != 1:
            raise PlanError(f"[{label}] give tokens, or rate and life, or [inference.kinds] in tokens")
    elif "tokens" in stream or "rate" in stream:
        raise PlanError(f"[{label}] tokens are given twice: whole and by kind")
    for key in ("input", "output"):
        if key not in stream and key not in inference:
            raise PlanError(f"[{label}] {key} is missing: tokens of a request, such as {key} = '1000 tokens'")


def _need(section: Section, keys: tuple[str, ...]) -> None:
    for key in keys:
        if key not in section:
            example = SECTIONS[section.name.split(".")[0]][key].example
            raise PlanError(f"[{section.name}] {key} is missing, such as {key} = {example!r}")


def _one_of(section: Section, keys: tuple[str, ...]) -> None:
    if not any(key in section for key in keys):
        raise PlanError(f"[{section.name}] {' or '.join(keys)} is missing")
    _at_most_one(section, keys)


def _at_most_one(section: Section, keys: tuple[str, ...]) -> None:
    given = [key for key in keys if key in section]
    if len(given) > 1:
        raise PlanError(f"[{section.name}] {' and '.join(given)} contradict each other: give one of them")


def json_schema() -> dict[str, Any]:
    """Describe plans for editors.

    Returns
    -------
    dict
        A JSON Schema (draft 2020-12) made from the same tables that check a plan.

    Examples
    --------
    >>> json_schema()["required"]
    ['pretraining', 'rl', 'inference']
    """
    sections: dict[str, Any] = {name: _object(keys) for name, keys in SECTIONS.items()}
    kinds = _object(KINDS)
    sections["inference"]["properties"] |= {
        "kinds": kinds,
        "traffic": {"type": "array", "items": {**_object(TRAFFIC), "properties": {**_properties(TRAFFIC), "kinds": kinds}}},
    }  # fmt: skip
    sections["efficiency"] = _object({key: Key("s" if key.endswith("_s") else "count", "", "") for key in load_factors()})
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Compute Ledger plan",
        "type": "object",
        "additionalProperties": False,
        "required": list(REQUIRED_SECTIONS),
        "properties": {**_properties(TOP), **sections},
    }


def _object(keys: Mapping[str, Key]) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "properties": _properties(keys)}


def _properties(keys: Mapping[str, Key]) -> dict[str, Any]:
    out = {}
    for name, key in keys.items():
        if "|" in key.kind:
            out[name] = {"enum": key.kind.split("|"), "description": key.help}
        else:
            kind: Any = ["string", "number"] if key.kind in DIMENSIONLESS else "string"
            out[name] = {"type": kind, "description": key.help, **({"examples": [key.example]} if key.example else {})}
    return out
