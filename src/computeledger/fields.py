"""Fields of questions: each declared once, with its dimension, unit, default, bounds and help.

A question is a frozen record whose fields are made by :func:`asked`. From the declaration come what Python checks, the
options of the command, the controls of the app, the JSON Schema, the tables of the docs and the words of errors.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias, TypeVar

from computeledger.errors import InputError, QuantityError, nearest, shown

if TYPE_CHECKING:
    from computeledger.arrays import Range
    from computeledger.distributions import Spread

#: What a caller may give for a field: text as people write it, a number, a range, several texts.
Given: TypeAlias = "str | float | bool | Range | Promise | Spread | Sequence[str | float] | None"
#: Dimensions that are no quantity.
TEXT, SWITCH, WHOLE, TEXTS = "text", "switch", "whole", "texts"
#: Largest count of GPUs, replicas, requests or sequences that is searched or simulated.
MOST_COUNT = 10_000_000
#: Largest seed: one that 63 bits hold.
MOST_SEED = 2**63 - 1
#: Samples beyond these say nothing more of a 90 % interval.
MOST_SAMPLES = 1_000_000
#: Largest value of each dimension where a field declares none: a thousand times what the largest plan of this world
#: holds, or more; what is written beyond it is a slip.
MOST_OF: Mapping[str, float] = {
    "tokens": 1e17, "flop": 1e35, "flop_per_s": 1e29, "bytes": 1e23, "bytes_per_s": 1e20, "tokens_per_s": 1e14,
    "requests_per_s": 1e11, "s": 1e11, "years": 1e4, "gpu_hours": 1e14, "w": 1e14, "j": 1e26, "usd": 1e17,
    "usd_per_year": 1e17, "usd_per_hour": 1e8, "usd_per_kwh": 1e5, "usd_per_mtok": 1e8, "usd_per_w": 1e8,
    "usd_per_byte": 1e5, "kg_per_kwh": 1e2, "fraction": 1.0, "growth": 10.0, "ratio": 1e8, "count": 1e17,
    WHOLE: MOST_COUNT,
}  # fmt: skip
#: Name of the promise that a share of requests keeps all limits at once.
WITHIN_ALL = "within_all"
#: Percentiles of requests that a limit may be promised to.
LEAST_PERCENTILE, MOST_PERCENTILE = 50.0, 99.9
_QUANTILE = re.compile(
    r"\s*(?:p\s*([^:<≤\s]*)(?:\s*(?::|<=?|≤)|\s)|([^:<≤%\s]+)\s*%\s*(?::|<=?|≤)?)(.*)", re.DOTALL | re.IGNORECASE
)
_TRIES_QUANTILE = re.compile(r"[%:<≤]|p\s*\d|\d\w*\s+\d", re.IGNORECASE)
_OR_SHARE = "; or p95:1s for 95\u00a0% of the requests"
_AS_QUANTILE = "write p50 to p99.9, then the limit, such as p95:1s"
_ON, _OFF = ("on", "yes", "true", "1"), ("off", "no", "false", "0", "")


@dataclass(frozen=True, slots=True)
class Promise:
    """A limit that a stated share of requests keeps, as ``p95:2s`` is written.

    Examples
    --------
    >>> str(Promise(0.95, 2.0))
    'p95:2'
    """

    share_fraction: float
    limit: float

    def __str__(self) -> str:
        return f"p{100 * self.share_fraction:g}:{self.limit:g}"


class Record(Protocol):
    """A question: a dataclass whose fields are all declared by :func:`asked`."""

    __dataclass_fields__: ClassVar[dict[str, Any]]


_R = TypeVar("_R", bound=Record)


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a question.

    ``inverse`` is a dimension whose values may be given in place of its own: ``30 tokens/s`` for a time per token.
    """

    name: str
    dimension: str
    help: str
    default: Any = None
    is_required: bool = False
    unit: str | None = ""
    least: float = 0.0
    most: float = math.inf
    is_open: bool = False
    choices: tuple[str, ...] = ()
    metavar: str = ""
    blank: str = ""
    aliases: tuple[str, ...] = ()
    label: str = ""
    group: str = ""
    slider: tuple[float, float] | None = None
    is_list: bool = False
    is_single: bool = False
    is_whole: bool = False
    takes_number: bool = False
    takes_record: bool = False
    takes_quantile: bool = False
    takes_spread: bool = False
    inverse: str = ""
    words: tuple[str, ...] = ()
    example: str = ""

    @property
    def stream(self) -> str:
        """Name of its random stream: its first name, so that samples outlive a change of names."""
        return self.aliases[0] if self.aliases else self.name

    @property
    def largest(self) -> float:
        """Upper bound: its own, else that of its dimension."""
        return self.most if math.isfinite(self.most) else MOST_OF.get(self.dimension, math.inf)

    @property
    def option(self) -> str:
        """Its spelling on the command line."""
        return f"--{self.name.replace('_', '-')}"


def asked(dimension: str, help: str, default: Any = None, **declared: Any) -> Any:  # noqa: A002 (the field's own word)
    """Declare a field of a question.

    Examples
    --------
    >>> @dataclass(frozen=True, kw_only=True)
    ... class Question(Asked):
    ...     tpot: float | None = asked("s", "Slowest time per output token.", is_open=True)
    >>> Question(tpot="50ms").tpot, Question.__dataclass_fields__["tpot"].metadata["dimension"]
    (0.05, 's')
    """
    is_required = default is ...
    metadata = {"dimension": dimension, "help": help, "is_required": is_required, **declared}
    if is_required:
        return dataclasses.field(metadata=metadata)
    return dataclasses.field(default=default, metadata={**metadata, "default": default})


def shared(question: type[Record], name: str, **changed: Any) -> Any:
    """Declare a field that another question has too.

    Examples
    --------
    >>> from computeledger.workloads.questions.setup import OnSystem
    >>> @dataclass(frozen=True, kw_only=True)
    ... class Question(Asked):
    ...     gpus: int | None = shared(OnSystem, "gpus", blank="any")
    >>> Question(gpus="8").gpus, fields_of(Question)["gpus"].help == fields_of(OnSystem)["gpus"].help
    (8, True)
    """
    metadata = {**question.__dataclass_fields__[name].metadata, **changed}
    dimension, said = metadata.pop("dimension"), metadata.pop("help")
    default = ... if metadata.pop("is_required") else metadata.pop("default")
    return asked(dimension, said, default, **metadata)


@functools.cache
def fields_of(question: type[Record]) -> dict[str, Field]:
    """Fields of a question by name, in the order of their declaration.

    Examples
    --------
    >>> @dataclass(frozen=True, kw_only=True)
    ... class Question(Asked):
    ...     gpus: int | None = asked("whole", "GPUs at hand.")
    >>> fields_of(Question)["gpus"].option
    '--gpus'
    """
    return {one.name: Field(name=one.name, **one.metadata) for one in dataclasses.fields(question)}


class Asked:
    """Base of questions: every field is read and checked when the record is made."""

    def __post_init__(self) -> None:
        """Read texts, check bounds, then what the fields say together."""
        for name, one in fields_of(type(self)).items():  # type: ignore[arg-type]
            object.__setattr__(self, name, read_value(one, getattr(self, name), name))
        self.check()

    def check(self) -> None:
        """Refuse fields that contradict one another; messages spell fields as the command's options."""


def question_from(question: type[_R], given: Mapping[str, Given], spelt: Callable[[Field], str] | None = None) -> _R:
    """Make a question of what was given by name.

    Examples
    --------
    >>> @dataclass(frozen=True, kw_only=True)
    ... class Question(Asked):
    ...     gpus: int | None = asked("whole", "GPUs at hand.", least=1, aliases=("chips",))
    >>> question_from(Question, {"chips": "2K"}).gpus
    2000
    >>> question_from(Question, {"gpu": 8})
    Traceback (most recent call last):
    computeledger.errors.InputError: 'gpu': no field of Question; did you mean 'gpus'?
    """
    known, called = fields_of(question), getattr(question, "called", question.__name__)
    earlier = {alias: one.name for one in known.values() for alias in one.aliases}
    given = getattr(question, "expanded", lambda said: said)(given)
    values: dict[str, Any] = {}
    named: dict[str, Field] = {}  # as it was given: an error spells it so
    for key, value in given.items():
        name = earlier.get(key, key)
        if name not in known:
            raise InputError(f"{shown(key)}: no field of {called}; {nearest(key, known)}")
        if name in values:
            raise InputError(f"{shown(key)}: the same as {shown(name)}, which is given too")
        values[name] = value
        named[name] = known[name] if name == key else dataclasses.replace(known[name], name=key)
    name_of = spelt or (lambda one: one.name)
    missing = [one for one in known.values() if one.is_required and values.get(one.name) is None]
    for one in missing:
        values.pop(one.name, None)
    # a value that cannot be read is named before what is missing
    read = {name: read_value(known[name], value, name_of(named[name])) for name, value in values.items()}
    if missing:
        raise InputError("; ".join(f"{name_of(one)}: needed{_said_needed(one)}" for one in missing))
    return question(**read)


def _said_needed(one: Field) -> str:
    """What a field that is missing takes: an example, else its help."""
    said = f"such as {one.example!r}" if one.example else f"{one.help[:1].lower()}{one.help[1:].rstrip('.')}"
    return f", {said}"


def python_spelling(message: str) -> str:
    """An error's words with fields as Python and plans spell them, not as options.

    Examples
    --------
    >>> python_spelling("--rollout-p50-tokens: needs --rollout-p95-tokens beside it")
    'rollout_p50_tokens: needs rollout_p95_tokens beside it'
    >>> python_spelling("--profile 'x': no such file; `computeledger calibrate --write FOLDER` makes one")
    "profile 'x': no such file; `computeledger calibrate --write FOLDER` makes one"
    """
    parts = re.split(r"(`[^`]*`)", message)  # a command keeps its options
    return "".join(
        part if part[:1] == "`" else re.sub(r"--([a-z][a-z0-9-]*)", lambda found: found[1].replace("-", "_"), part)
        for part in parts
    )


def without_brackets(message: str) -> str:
    """An error's words for who gave tables as objects, which have no TOML brackets.

    Examples
    --------
    >>> without_brackets("at least one [[model]] is needed; [offer] 2: success is [successes, attempts]")
    'at least one model is needed; offer 2: success is [successes, attempts]'
    """
    return re.sub(r"\[\[([a-z_]+)\]\]|\[([a-z_]+)\]", lambda found: found[1] or found[2], message)


def read_value(one: Field, given: Given, spelt: str) -> Any:
    """Read and check the value of a field.

    Examples
    --------
    >>> gpus = Field("gpus", "whole", "GPUs at hand.", least=1)
    >>> read_value(gpus, "4K", "--gpus")
    4000
    >>> read_value(gpus, 0, "--gpus")
    Traceback (most recent call last):
    computeledger.errors.QuantityError: --gpus 0: expected one whole number, at least 1 and at most 10,000,000
    """
    if given is None:
        if one.is_required:
            raise InputError(f"{spelt}: needed{_said_needed(one)}")
        if one.default is None:
            return None
        given = one.default
    if one.is_list:
        return _list(one, given, spelt)
    if one.dimension == SWITCH:
        return _switch(given, spelt)
    if one.dimension == TEXT:
        return _text(one, given, spelt)
    if one.dimension == TEXTS:
        several = (given,) if isinstance(given, str) or hasattr(given, "__fspath__") else given
        if one.is_required and not tuple(several):  # type: ignore[arg-type]
            raise InputError(f"{spelt}: at least one is needed{_said_needed(one)}")
        return tuple(str(part) if hasattr(part, "__fspath__") else part for part in several)  # type: ignore[union-attr]
    if one.takes_spread and not isinstance(given, (bool, int, float)) and not hasattr(given, "quantile"):
        return _spread(one, given, spelt)
    return _number(one, given, spelt)


def _list(one: Field, given: Given, spelt: str) -> tuple[Any, ...]:
    """Several values: each read as one."""
    parts: list[Any] = [given]
    if isinstance(given, str):
        parts = [part.strip() for part in given.split(",") if part.strip()]
    elif isinstance(given, Sequence):
        parts = list(given)
    if not parts and (isinstance(given, str) or one.is_required or one.default):
        raise InputError(f"{spelt} {shown(given)}: at least one is needed")
    single = replace(one, is_list=False, is_required=False, is_single=True)
    values = tuple(read_value(single, part, spelt) for part in parts)
    if len(set(values)) < len(values):
        raise InputError(f"{spelt}: a value is given twice")
    return values


def _switch(given: Given, spelt: str) -> bool:
    if isinstance(given, bool):
        return given
    word = str(given).strip().lower()
    if word not in (*_ON, *_OFF):
        raise InputError(f"{spelt} {shown(given)}: 'yes' or 'no'")
    return word in _ON


def _text(one: Field, given: Given, spelt: str) -> Any:
    if not isinstance(given, str):
        if one.takes_number and isinstance(given, (int, float)) and not isinstance(given, bool):
            return f"{given:.17g}"
        if one.takes_record and dataclasses.is_dataclass(given):
            return given
        if hasattr(given, "__fspath__") or one.name == "layout":
            return str(given)
        raise InputError(f"{spelt} {shown(given)}: expected a text")
    if one.choices and given not in one.choices:
        raise InputError(f"{spelt} {shown(given)}: {nearest(given, one.choices)}")
    return given


def _number(one: Field, given: Given, spelt: str) -> Any:
    from computeledger.arrays import Range

    if one.takes_quantile and (isinstance(given, Promise) or _QUANTILE.match(str(given))):
        return _promise(one, given, spelt)
    if isinstance(given, bool) or not isinstance(given, (str, int, float, Range)):
        raise QuantityError(f"{spelt} {shown(given)}: expected a number")
    if isinstance(given, str) and given in one.words:
        return given
    value: float | Range = given  # type: ignore[assignment]
    if one.dimension == WHOLE and one.least > 1 and isinstance(given, str) and re.fullmatch(r"-\d+", given.strip()):
        value = float(given)  # not the sign is wrong: the message names both bounds
    elif isinstance(given, str):
        value = _parsed(one, given, spelt)
    if one.dimension == WHOLE:
        return _whole(one, value, spelt)
    if one.is_single and isinstance(value, Range):
        raise QuantityError(f"{spelt} {shown(given)}: expected one number, not a range")
    for end in (value.low, value.high) if isinstance(value, Range) else (value,):
        if problem := _problem(one, float(end)):
            raise QuantityError(
                f"{spelt} {end:g}: {problem}" if not isinstance(given, str) else f"{spelt} {shown(given)}: {problem}"
            )
    return value if isinstance(value, Range) else float(value)


def _parsed(one: Field, given: str, spelt: str) -> Any:
    """A number or a range from a text, which may be a rate where the field takes the inverse of one."""
    from computeledger.arrays import Range
    from computeledger.units import parse_quantity

    is_rate = bool(one.inverse) and given.rstrip().endswith("/s")
    dimension = "count" if one.dimension == WHOLE else one.inverse if is_rate else one.dimension
    try:
        value = parse_quantity(given, dimension, None if is_rate else one.unit)
    except InputError as error:
        if one.takes_quantile and _TRIES_QUANTILE.search(given):
            raise QuantityError(f"{spelt} {shown(given)}: {_AS_QUANTILE}") from None
        is_word = one.takes_quantile and not given.strip().lstrip("+-.")[:1].isdigit()
        raise QuantityError(f"{spelt} {error}{_OR_SHARE if is_word else ''}") from None
    if not is_rate:
        return value
    if isinstance(value, Range):
        return Range(1 / value.high, 1 / value.low, bounded=value.bounded)
    return 1 / value if value else math.inf


def _spread(one: Field, given: Any, spelt: str) -> Any:
    """Read a number, or a distribution over requests, which stays within the bounds of the field."""
    from computeledger.distributions import Spread, read_spread

    if isinstance(given, str) and ":" not in given:
        return _number(replace(one, takes_spread=False), given, spelt)
    if not isinstance(given, (str, Spread)):
        raise QuantityError(f"{spelt} {shown(given)}: expected a number or a distribution")
    found = read_spread(given, spelt, one.dimension) if isinstance(given, str) else given
    for end in (*found.ends, found.mean):
        if not isinstance(end, float) or (problem := _problem(one, end)):
            raise QuantityError(f"{spelt} {shown(str(found))}: {problem or 'expected one number, not a range'}")
    return found


def _promise(one: Field, given: Any, spelt: str) -> Promise:
    """Read a limit with the share of requests that keep it."""
    limit: float | str
    if isinstance(given, Promise):
        said, limit = f"{100 * given.share_fraction:.12g}", given.limit
    else:
        found = _QUANTILE.match(str(given))
        said, limit = ((found[1] or found[2] or "").removesuffix("%"), found[3].strip()) if found else ("", "")
    try:
        percentile = float(said)
    except ValueError:
        percentile = math.nan
    if not LEAST_PERCENTILE <= percentile <= MOST_PERCENTILE or limit == "":
        raise QuantityError(f"{spelt} {shown(str(given))}: {_AS_QUANTILE}")
    if _QUANTILE.search(str(limit)) or ":" in str(limit):
        raise QuantityError(f"{spelt} {shown(str(given))}: one percentile for each limit, such as p95:1s")
    single = replace(one, takes_quantile=False, is_single=True)
    try:
        return Promise(percentile / 100, _number(single, limit, f"{spelt} p{percentile:g}:"))
    except QuantityError as error:
        raise QuantityError(f"{error}, such as p95:1s") from None


def _whole(one: Field, value: Any, spelt: str) -> int:
    least = int(max(one.least, 0.0))
    if not isinstance(value, (int, float)) or value % 1 or not least <= value <= one.largest:
        words = f"{value:,.12g}" if isinstance(value, (int, float)) else str(value)
        most = f" and at most {one.largest:,.0f}" if math.isfinite(one.largest) else ""
        raise QuantityError(f"{spelt} {words}: expected one whole number, at least {least}{most}")
    return int(value)


def _problem(one: Field, value: float) -> str:
    """What is wrong with a number, in words; empty where nothing is."""
    if math.isnan(value):
        return "must be a number"
    if math.isinf(value) and one.most == math.inf:
        return "must be finite"
    if one.is_open and value <= one.least:
        return f"must be greater than {_limit(one, one.least)}"
    if one.is_whole and value % 1 and one.least <= value <= one.largest:
        return f"must be a whole number, such as {math.floor(value):,} or {math.ceil(value):,}"
    if value < one.least:
        return f"must be at least {_limit(one, one.least)}" if one.least else "must not be negative"
    return f"must be at most {_limit(one, one.largest)}" if value > one.largest else ""


def _limit(one: Field, value: float) -> str:
    """A bound as it is said: of a time with its unit."""
    return f"{value:g} s" if one.dimension == "s" else f"{value:g}"


def json_schema(question: type[Record]) -> dict[str, Any]:
    """JSON Schema of a question: for the app's API, for editors and for assistants.

    Examples
    --------
    >>> @dataclass(frozen=True, kw_only=True)
    ... class Question(Asked):
    ...     model: str = asked("text", "Model id.", ...)
    >>> json_schema(Question)["required"], json_schema(Question)["properties"]["model"]
    (['model'], {'description': 'Model id.', 'type': 'string'})
    """
    known = fields_of(question)
    return {
        "type": "object",
        "additionalProperties": False,
        "required": [name for name, one in known.items() if one.is_required],
        "properties": described(known),
    }


def described(known: Mapping[str, Field]) -> dict[str, Any]:
    """JSON Schema of each field, its unit in its description."""
    return {name: _with_unit(one, property_of(one)) for name, one in known.items()}


def _with_unit(one: Field, schema: dict[str, Any]) -> dict[str, Any]:
    """A property whose description says what a number without a unit is in."""
    said = said_unit(one)
    return {**schema, "description": f"{schema['description']} {said}"} if said else schema


def said_unit(one: Field) -> str:
    """What a number of a field is in, and how a text with a unit is written; empty for what has no unit.

    Examples
    --------
    >>> said_unit(Field("tpot", "s", "", unit=None))
    "A number is in s, text has its unit: '20 ms'."
    >>> said_unit(Field("memory", "bytes", "", unit="GB"))
    "A number is in bytes (B), text has its unit ('80 GB'), else it is in GB."
    """
    from computeledger.units import DIMENSIONLESS, DIMENSIONS, HINTS, si_spelling

    if one.dimension in ("fraction", "growth"):
        return f"A share: {HINTS[one.dimension]}."
    if one.dimension not in DIMENSIONS or one.dimension in DIMENSIONLESS:
        return ""
    factor = DIMENSIONS[one.dimension].get(one.unit or "", 1.0)
    example = HINTS[one.dimension].rpartition(" or ")[2]
    text = f" ({example}), else it is in {one.unit}" if factor != 1.0 else f": {example}"
    return f"A number is in {si_spelling(one.dimension)}, text has its unit{text}."


_JSON_TYPES = {SWITCH: "boolean", TEXT: "string", WHOLE: "integer"}


def said_default(one: Field) -> str:
    """What stands where a field is left out, for help and docs.

    Examples
    --------
    >>> [said_default(Field("n", "whole", "", 4, blank=blank)) for blank in ("", "as it was")]
    ['4', 'as it was']
    """
    values = one.default if one.is_list else (one.default,)
    default = one.blank or ",".join(f"{value:g}" if isinstance(value, float) else str(value) for value in values)
    return "" if default in ("None", "False", "()", "") else default


def property_of(one: Field) -> dict[str, Any]:
    """JSON Schema of one field.

    Examples
    --------
    >>> property_of(Field("gpus", "whole", "GPUs at hand.", least=1))
    {'description': 'GPUs at hand.', 'type': 'integer'}
    """
    if one.is_list:
        item = property_of(replace(one, is_list=False, default=None))
        found = {"description": item.pop("description"), "type": "array", "items": item}
        return {**found, "default": list(one.default)} if one.default else found
    kind: dict[str, Any] = {"type": _JSON_TYPES.get(one.dimension, ["number", "string"])}
    if one.takes_number:
        kind = {"type": ["number", "string"]}
    if one.dimension == TEXTS:
        kind = {"type": "array", "items": {"type": "string"}}
    if one.choices:
        kind["enum"] = list(one.choices)
    if one.dimension not in (*_JSON_TYPES, TEXTS):
        if one.is_whole:
            kind["multipleOf"] = 1
        bounds = {"exclusiveMinimum" if one.is_open else "minimum": one.least, "maximum": one.largest}
        kind |= {key: value for key, value in bounds.items() if math.isfinite(value)}
    if one.default is not None and one.default != ():
        kind["default"] = one.default
    return {"description": one.help, **kind}
