"""Plans: a PLAN.toml read into checked quantities."""

from __future__ import annotations

import datetime
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from computeledger.arrays import Range, Uncertain
from computeledger.economics.plan.keys import (
    KINDS,
    NEEDED,
    QUESTIONS,
    REQUIRED_SECTIONS,
    SECTIONS,
    TOP,
    TRAFFIC,
    efficiency_keys,
    example_of,
    read_key,
)
from computeledger.errors import InputError, PlanError, QuantityError, check_kind, nearest, shown
from computeledger.facts.schema import FLOAT_PRECISIONS
from computeledger.fields import WHOLE, Field, Record, fields_of, python_spelling, question_from
from computeledger.files import MOST_TOML_BYTES, parse_toml, read_user_text
from computeledger.physics.calibration.efficiency import median_of
from computeledger.physics.training.batch import parse_recompute
from computeledger.simulation.serving.workload import read_workload

Value = Uncertain | str
#: The section that says what the model earns: no phase.
INCOME = "income"
#: Keys of an income that split one stream by who sends it, and how that part is paid for.
SHARED = {"subscription_traffic": "subscription", "free_traffic": "nothing"}
#: Steps' worth of rollouts that decode at once where an asynchronous run states no lag (assumption).
STEPS_IN_FLIGHT = 4.0


@dataclass(frozen=True, slots=True)
class Section:
    """A section of a plan with checked values."""

    name: str
    values: Mapping[str, Value]
    kinds: Section | None = None
    traffic: tuple[Section, ...] = ()

    def text(self, key: str) -> str | None:
        """A value that is a word.

        Examples
        --------
        >>> section = Section("rl", {"mode": "synchronous", "gpus": 8.0})
        >>> section.text("mode"), section.text("gpus")
        ('synchronous', None)
        """
        value = self.values.get(key)
        return value if isinstance(value, str) else None

    def parts(self) -> Iterator[Section]:
        """The section, its tokens by kind, and its streams with theirs.

        Examples
        --------
        >>> streams = (Section("inference.traffic1", {}, Section("inference.traffic1.kinds", {})),)
        >>> [part.name for part in Section("inference", {}, None, streams).parts()]
        ['inference', 'inference.traffic1', 'inference.traffic1.kinds']
        """
        yield self
        if self.kinds is not None:
            yield self.kinds
        for stream in self.traffic:
            yield from stream.parts()

    def __contains__(self, key: str) -> bool:
        return key in self.values

    def __hash__(self) -> int:
        return hash((self.name, frozenset(self.values.items()), self.kinds, self.traffic))


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
    income : Section or None
        Prices and users, where it says what the model earns.
    """

    name: str
    top: Section
    sections: Mapping[str, Section] = field(default_factory=dict)
    efficiency: Section = field(default_factory=lambda: Section("efficiency", {}))
    income: Section | None = None

    def value(self, section: Section, key: str) -> Value | None:
        """A section's value, or the plan's own where the section is silent.

        Parameters
        ----------
        section : Section
            Of this plan.
        key : str
            Of the section.

        Returns
        -------
        float, Range, str or None
            None where both are silent.

        Examples
        --------
        >>> plan = Plan("x", Section("plan", {"system": "h100-nvl8"}))
        >>> plan.value(Section("rl", {}), "system")
        'h100-nvl8'
        """
        return section.values.get(key, self.top.values.get(key))

    def uncertain(self) -> dict[str, Uncertain]:
        """Every quantity of the plan, for sampling.

        Returns
        -------
        dict of str to float or Range
            By dotted name, in SI.

        Examples
        --------
        >>> rl = Section("rl", {"gpus": 8.0, "layout": "tp8"})
        >>> Plan("x", Section("plan", {"price": 2.0}), {"rl": rl}).uncertain()
        {'plan.price': 2.0, 'rl.gpus': 8.0}
        """
        own = () if self.income is None else (self.income,)
        parts = [part for one in (self.top, self.efficiency, *self.sections.values(), *own) for part in one.parts()]
        return {
            f"{part.name}.{key}": value
            for part in parts
            for key, value in part.values.items()
            if not isinstance(value, str)
        }


def load_plan(path: str | Path) -> Plan:
    """Read and check a plan file.

    Parameters
    ----------
    path : str or Path
        A TOML file; paths of models and systems in it are its neighbours.

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
    check_kind(path, (str, os.PathLike), "the path of a plan")
    if not str(path):
        raise PlanError("the plan's file name is missing: it is empty")
    file = Path(path)
    try:
        text = read_user_text(file, MOST_TOML_BYTES)
        tables = parse_toml(text, str(path))
    except InputError as error:
        raise PlanError(str(error)) from None
    try:
        return read_plan(_beside(file.parent, tables), str(path))
    except PlanError as error:
        raise PlanError(f"{path}{_line_words(text, str(error))}: {error}") from None


def _line_words(text: str, message: str) -> str:
    """``:12`` where the message names a key that stands on one line of its section, else nothing."""
    named = re.match(r"(?:\[([\w.]+)[^\]]*\] )?(?:unknown key '(\w+)'|(\w+) = )", message)
    if named is None:
        return ""
    wanted, key, section = named[1] or "", named[2] or named[3], ""
    for number, line in enumerate(text.splitlines(), 1):
        if header := re.match(r"\s*\[+\s*([\w.]+)\s*\]+", line):
            section = header[1]
        elif section == wanted and re.match(rf"\s*[\"']?{re.escape(key)}[\"']?\s*=", line):
            return f":{number}"
    return ""


def _beside(folder: Path, table: Mapping[str, Any], section: str = "") -> dict[str, Any]:
    """The same tables with the models and systems that are files beside the plan as paths from here."""
    out: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, dict):
            out[key] = _beside(folder, value, f"{section}.{key}".lstrip("."))
        elif isinstance(value, list) and (key == "traffic" or all(isinstance(one, dict) for one in value)):
            out[key] = [_beside(folder, one, key) if isinstance(one, dict) else one for one in value]
        elif key == "anchor" and isinstance(value, (str, list)):
            texts = value if isinstance(value, list) else [value]
            out[key] = [_anchor_beside(folder, text) if isinstance(text, str) else text for text in texts]
        elif isinstance(value, (list, datetime.date, datetime.time)):
            label = f"[{section}] " if section else ""
            raise PlanError(f"{label}{key} = {shown(value)}: expected a number, or a text in quotes")
        elif key in ("model", "system", "workload") and isinstance(value, str) and _is_file(folder / value):
            out[key] = str(folder / value)
        else:
            out[key] = value
    return out


def _anchor_beside(folder: Path, text: str) -> str:
    """An anchor whose file lies beside the plan, with the file's path from here."""
    path, comma, rest = text.partition(",")
    return f"{folder / path.strip()}{comma}{rest}" if "=" not in path and _is_file(folder / path.strip()) else text


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # longer than a file name can be: an id then
        return False


def read_plan(tables: Mapping[str, Any], name: str = "plan") -> Plan:
    """Check parsed TOML.

    Parameters
    ----------
    tables : mapping
        As :func:`computeledger.files.parse_toml` gives it.
    name : str
        What to call the plan.

    Returns
    -------
    Plan
        With every quantity in SI.

    Raises
    ------
    PlanError
        In one line: section, key, what was given and what is allowed.

    Examples
    --------
    >>> plan = read_plan({"model": "llama-3.1-8b", "system": "h100-nvl8",
    ...                   "pretraining": {"tokens": "15T tokens", "utilization": "40%"},
    ...                   "rl": {"skip": "base model only"}, "inference": {"skip": "not served"}})
    >>> plan.sections["pretraining"].values
    {'tokens': 15000000000000.0, 'utilization': 0.4}
    >>> read_plan({"model": "deepseek-v3"})
    Traceback (most recent call last):
    computeledger.errors.PlanError: [pretraining] is missing; a phase that the plan leaves out says why: skip = "..."
    """
    if not isinstance(tables, Mapping):
        raise PlanError(f"read_plan takes the tables of a plan, not {shown(tables)}; load_plan reads a file")
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
    efficiency = Section("efficiency", _values("efficiency", sections.get("efficiency", {}), efficiency_keys()))
    income = read.pop(INCOME, None)
    plan = Plan(name, Section("plan", _values("plan", top, TOP)), read, efficiency, income)
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
    keys = {key: replace(one, dimension="fraction", unit="") for key, one in KINDS.items()} if shares else KINDS
    values = _values(name, table, keys)
    if all(value == 0 for key, value in values.items() if key != "cached"):
        raise PlanError(f"[{name}]: no tokens beside cached ones; give those that users write or the model generates")
    if shares:
        exact = [value for value in values.values() if isinstance(value, float)]
        if len(exact) != len(values) or abs(sum(exact) - 1) > 1e-6:
            raise PlanError(f"[{name}]: shares must be single numbers that add up to 100 %")
        return Section(name, {**values, "shares": "yes"})
    return Section(name, values)


def _values(section: str, table: Any, keys: Mapping[str, Field]) -> dict[str, Value]:
    label = "" if section == "plan" else section if section.startswith("[") else f"[{section}]"
    earlier = {alias: name for name, one in keys.items() for alias in one.aliases}
    out: dict[str, Value] = {}
    for key, given in table.items():
        name = earlier.get(key, key)
        if name not in keys:
            raise PlanError(f"{label} unknown key {key!r}: {nearest(key, keys)}".strip())
        if name in out:
            raise PlanError(f"{label} {key} = {shown(given)}: the same as {name}, which is given too".strip())
        try:
            out[name] = read_key(keys[name], given, f"{key} =")
        except InputError as error:
            raise PlanError(f"{label} {error}".strip()) from None
    return _with_means(label, out)


def _with_means(label: str, values: dict[str, Value]) -> dict[str, Value]:
    """The mean lengths of a workload that is named."""
    given, out = values.get("workload"), {name: value for name, value in values.items() if name != "workload"}
    if given is None:
        return out
    for name in ("input_tokens", "output_tokens"):
        if name in out:
            said = f"{label} {name}: the lengths are those of workload = {shown(given)}: leave out one"
            raise PlanError(said.strip())
    try:
        one = read_workload(str(given))
    except InputError as error:
        raise PlanError(f"{label} {python_spelling(str(error))}".strip()) from None
    return out | {"input_tokens": median_of(one.input_tokens), "output_tokens": median_of(one.output_tokens)}


def question_of(plan: Plan, section: Section, stream: Section | None = None) -> Record:
    """The question that a section asks: its fields as the section states them, the rest at their defaults.

    Examples
    --------
    >>> plan = Plan("x", Section("plan", {"model": "llama-3.1-8b", "system": "h100-nvl8", "precision": "fp8"}))
    >>> asked = question_of(plan, Section("rl", {"rollout_tokens": 4000.0, "mode": "asynchronous"}))
    >>> asked.max_lag, asked.precision, asked.training_precision, asked.prompts_per_step
    (4, 'fp8', 'fp8', 128.0)
    """
    kind = QUESTIONS[section.name]
    values = {**section.values, **({} if stream is None else stream.values)}
    made_of = {key: plan.value(stream or section, key) or plan.value(section, key) for key in _MADE_OF}
    values |= {key: value for key, value in made_of.items() if value is not None}
    if section.name == "rl":
        values |= _rl_fields(section, values)
    given: dict[str, Value] = {}
    for name, one in fields_of(kind).items():
        value = values.get(name)
        is_word = isinstance(value, str) and name in ("price", "tokens")  # rent, balanced: for the plan itself
        if value is not None and not is_word:
            given[name] = round(median_of(value)) if one.dimension == WHOLE and not isinstance(value, str) else value
    if "prefill_layout" in given:
        given["mode"] = "disaggregated"
    try:
        return question_from(kind, given)
    except InputError as error:
        raise in_plan(section.name, error) from None


def in_plan(section: str, error: InputError) -> InputError:
    """An error of a question as one of a plan's section, which spells fields as keys.

    Examples
    --------
    >>> print(in_plan("rl", InputError("--in-flight and --drained exclude one another")))
    [rl] in_flight and drained exclude one another
    """
    if type(error) not in (InputError, QuantityError):
        return error
    return PlanError(f"[{section}] {python_spelling(str(error))}")


_MADE_OF = ("model", "system", "precision")


def _rl_fields(section: Section, values: Mapping[str, Value]) -> dict[str, Value]:
    """Fields of an RL question that a plan may state in other words: its mode, and one precision for all."""
    out: dict[str, Value] = {}
    if section.text("in_flight") == "no":
        out |= {"in_flight": "no", "drained": "yes"}
    mode, stated = section.text("mode"), section.values.get("max_lag")
    lag = None if stated is None or isinstance(stated, str) else median_of(stated)
    if (mode == "synchronous" and lag) or (mode == "asynchronous" and lag == 0):
        raise PlanError(f'[rl] mode = "{mode}" and max_lag = {lag:g} contradict each other')
    if mode == "asynchronous" and lag is None:
        steps = section.values.get("steps_in_flight", STEPS_IN_FLIGHT)
        out["max_lag"] = 0.0 if isinstance(steps, str) else max(round(median_of(steps)), 1.0)
    if values.get("precision") in FLOAT_PRECISIONS and "training_precision" not in values:
        out["training_precision"] = values["precision"]
    return out


def _check(plan: Plan) -> None:
    """What no single key can tell: sections that say too little, or say a thing twice."""
    for name, section in plan.sections.items():
        if "skip" in section:
            if len(section.values) > 1 or section.kinds or section.traffic:
                raise PlanError(f"[{name}] skip stands alone: it says that there is no such phase")
            continue
        if name != "experiments":
            for key in ("model", "system"):
                if plan.value(section, key) is None:
                    raise PlanError(f"[{name}] {key} is missing: give it there or at the top of the plan")
        _CHECKS[name](section)
        if name in QUESTIONS:
            for stream in section.traffic or (None,):
                question_of(plan, section, stream)
    _check_references(plan)
    if plan.income is not None:
        _check_income(plan.income, plan.sections["inference"])
        _check_amounts(plan.income)


def _check_income(section: Section, inference: Section) -> None:
    """Prices and users that the streams of the inference need."""
    if "skip" in inference:
        raise PlanError("[income] needs an [inference] section: what is sold is served")
    by_token, by_month = ("output_price" in section, "subscription_price" in section)
    if by_token != ("input_price" in section):
        raise PlanError("[income] input_price and output_price go together: give both")
    if not by_token and not by_month:
        raise PlanError("[income] give input_price and output_price, or subscription_price")
    if by_month:
        _need(section, ("paying_users",))
    elif "paying_users" in section:
        raise PlanError("[income] subscription_price is missing, such as subscription_price = '20 USD'")
    streams = inference.traffic or (inference,)
    ways = {way_of_paying(one, section) for one in streams} | {SHARED[key] for key in SHARED if key in section}
    if (named := next((key for key in SHARED if key in section), "")) and inference.traffic:
        raise PlanError(
            f"[income] {named} and [[inference.traffic]] contradict each other: streams say how they are sold"
        )
    for way, is_priced, key in (("tokens", by_token, "output_price"), ("subscription", by_month, "subscription_price")):
        if is_priced != (way in ways):
            raise PlanError(
                f"[income] {key} and the streams contradict each other: "
                f'{"no stream is" if is_priced else "a stream is"} sold = "{way}"'
            )
    if "free_users" in section and "nothing" not in ways:
        raise PlanError(
            '[income] free_users have no traffic: give free_traffic, or an [[inference.traffic]] with paid = "no"'
        )
    if "conversion" in section:
        _need(section, ("free_users", "paying_users"))
    if "life" not in section and not all("life" in one for one in streams):
        raise PlanError("[income] life is missing: how long it is sold, such as life = '12 months'")


def _check_amounts(section: Section) -> None:
    if section.values.get("paying_users") == 0 and "conversion" not in section:
        raise PlanError("[income] paying_users = 0 needs free_users and conversion: who starts to pay")
    cached, fresh = (_ends(section.values.get(key)) for key in ("cached_price", "input_price"))
    if any(one > other for one, other in zip(cached, fresh, strict=False)):
        raise PlanError("[income] cached_price is above input_price: a token found in the cache costs at most as much")


def _ends(value: Value | None) -> tuple[float, ...]:
    """Low and high end of a number or a range."""
    return (value.low, value.high) if isinstance(value, Range) else (value,) * 2 if isinstance(value, float) else ()


def way_of_paying(stream: Section, income: Section) -> str:
    """How a stream is paid for: as it says, else token by token where these have a price.

    Examples
    --------
    >>> income = Section("income", {"subscription_price": 20.0})
    >>> way_of_paying(Section("inference", {}), income), way_of_paying(Section("x", {"paid": "no"}), income)
    ('subscription', 'nothing')
    """
    if stream.text("paid") == "no":
        return "nothing"
    return stream.text("sold") or ("tokens" if "output_price" in income else "subscription")


def _check_pretraining(section: Section) -> None:
    try:
        parse_recompute(section.text("recompute") or "none")
    except InputError as error:
        raise PlanError(f"[pretraining] {str(error).replace(' ', ' = ', 1)}") from None
    _need(section, NEEDED["pretraining"])
    _at_most_one(section, ("gpu_hours", "utilization"))
    _check_balanced(section)
    if not any(key in section for key in ("gpu_hours", "utilization", "gpus")):
        raise PlanError("[pretraining] gpus is missing (or gpu_hours, or utilization)")


def _check_rl(section: Section) -> None:
    _one_of(section, ("tokens", "steps"))
    _at_most_one(section, ("gpu_hours", "utilization", "beta_gpu_time"))
    _check_balanced(section)
    _need(section, NEEDED["rl"])


def _check_balanced(section: Section) -> None:
    if section.text("tokens") == "balanced" and "gpu_hours" in section:
        raise PlanError(f'[{section.name}] tokens = "balanced" and gpu_hours contradict each other: give one of them')


def _check_inference(section: Section) -> None:
    _at_most_one(section, ("gpu_hours", "utilization"))
    if section.traffic:
        whole = [key for key in ("tokens", "rate", "life") if key in section] + ["kinds"] * (section.kinds is not None)
        if whole:
            raise PlanError(f"[inference] {whole[0]} stands beside [[inference.traffic]]: give it in each stream")
        names = [stream.text("name") for stream in section.traffic if "name" in stream]
        for name in names:
            if names.count(name) > 1:
                raise PlanError(f"[inference.traffic] name = {name!r} is given twice")
    for stream in section.traffic or (section,):
        _check_stream(stream, section)


def _check_experiments(section: Section) -> None:
    _one_of(section, ("gpu_hours", "gpu_time_of_pretraining"))


_CHECKS = {
    "pretraining": _check_pretraining,
    "rl": _check_rl,
    "inference": _check_inference,
    "experiments": _check_experiments,
}


def _check_references(plan: Plan) -> None:
    """What rests on a section that is skipped."""
    pretraining, rl, inference = (plan.sections[name] for name in REQUIRED_SECTIONS)
    if "skip" in inference and pretraining.text("tokens") == "balanced":
        raise PlanError('[pretraining] tokens = "balanced" needs an [inference] section to balance with')
    if "skip" in pretraining and rl.text("tokens") == "balanced":
        raise PlanError('[rl] tokens = "balanced" needs a [pretraining] section to balance with')
    if "skip" in pretraining and "gpu_time_of_pretraining" in plan.sections.get("experiments", {}):
        raise PlanError("[experiments] gpu_time_of_pretraining needs a [pretraining] section; give gpu_hours instead")


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
    for key in NEEDED["inference"]:
        if key not in stream and key not in inference:
            raise PlanError(f"[{label}] {key} is missing: of a request, such as {key} = '1000 tokens'")


def _need(section: Section, keys: tuple[str, ...]) -> None:
    for key in keys:
        if key not in section:
            example = example_of(SECTIONS[section.name.split(".")[0]][key])
            raise PlanError(f"[{section.name}] {key} is missing, such as {key} = {example!r}")


def _one_of(section: Section, keys: tuple[str, ...]) -> None:
    if not any(key in section for key in keys):
        raise PlanError(f"[{section.name}] {' or '.join(keys)} is missing")
    _at_most_one(section, keys)


def _at_most_one(section: Section, keys: tuple[str, ...]) -> None:
    given = [key for key in keys if key in section]
    if len(given) > 1:
        raise PlanError(f"[{section.name}] {' and '.join(given)} contradict each other: give one of them")
