"""Docstrings are part of the interface: they match the signature, give every number its unit, and show an example."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
import warnings
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
from numpydoc.docscrape import NumpyDocString

import computeledger
from computeledger.fields import Asked
from tests.gates import module_names, units

NUMBERS = {"float", "int", "Num", "Uncertain"}
#: denominators that say whose quantity it is: a docstring may write them, a name has them as scope
SCOPES = {"GPU", "layer", "parameter", "sequence", "step"}
#: modules of formulas and of what users call: their functions are held to the full rule; elsewhere one sentence is
#: enough; what ``import computeledger`` offers is held to the full rule wherever it lives
FULL = (
    "computeledger.arrays.",
    "computeledger.bounds.",
    "computeledger.units.",
    "computeledger.physics.",
    "computeledger.economics.hosting.",
    "computeledger.economics.scaling.",
    "computeledger.economics.prices.inversion.",
    "computeledger.economics.prices.markup.",
    "computeledger.economics.prices.physics.",
    "computeledger.economics.routing.model.",
    "computeledger.frontier.conditional.",
    "computeledger.frontier.decoding.",
    "computeledger.frontier.forecast.",
    "computeledger.frontier.growth.",
    "computeledger.frontier.needs.",
    "computeledger.frontier.steps.",
    "computeledger.frontier.systems.",
    "computeledger.frontier.trends.",
    "computeledger.simulation.serving.arrivals.",
    "computeledger.simulation.measures.",
    "computeledger.simulation.serving.steady.",
    "computeledger.workloads.anchor.",
    "computeledger.workloads.pretraining.estimate.",
    "computeledger.physics.adapters.",
    "computeledger.workloads.pretraining.pipeline.",
    "computeledger.workloads.pretraining.run.",
    "computeledger.workloads.pretraining.scaling.",
    "computeledger.workloads.pretraining.timeline.",
    "computeledger.workloads.rl.coverage.",
    "computeledger.workloads.rl.estimate.",
    "computeledger.workloads.rl.generation.",
    "computeledger.workloads.rl.lengths.",
    "computeledger.workloads.rl.levers.",
    "computeledger.workloads.rl.placement.",
    "computeledger.workloads.rl.returns.",
    "computeledger.workloads.rl.scale_up.",
    "computeledger.workloads.rl.training.",
    "computeledger.workloads.serving.burst.",
    "computeledger.workloads.serving.estimate.",
    "computeledger.workloads.serving.intervals.",
    "computeledger.workloads.serving.margins.",
    "computeledger.workloads.serving.pools.",
    "rntp.advantages.",
    "rntp.positions.",
    "rntp.reward.",
)  # fmt: skip  (one list of prefixes)
#: whole runs, fits and plans: to make one takes longer than an example is, and the function that answers it shows one
WHOLE = {"RLScenario", "RLResult", "RLRun", "RunCost", "Setting", "ServingFit", "RLFit", "Ledger", "Function"}
#: a number whose unit another field or the caller names
OWN_UNIT = re.compile(r"own (SI )?unit|``unit``")


def is_number(annotation: Any) -> bool:
    """Whether an annotation is a number or an array of numbers; one that may be text as well brings its own unit."""
    if annotation is inspect.Parameter.empty:
        return False
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    parts = [part.strip() for part in re.split(r"\|(?![^\[]*\])", text)]
    return "str" not in parts and any(
        part in NUMBERS or re.fullmatch(r"NDArray\[np\.(float|int)\w*\]", part) for part in parts
    )


def brackets(text: str) -> list[str]:
    """Units among the square brackets of a description."""
    return [found for found in re.findall(r"\[([^\[\]]+)\]", text) if units().is_unit(found)]


def unit_problems(names: list[str], text: str) -> Iterator[str]:
    """What is wrong with the units that a description gives to its names."""
    found = brackets(text)
    if not found and OWN_UNIT.search(text):
        return
    if not found:
        written = ", ".join(f"[{other}]" for other in re.findall(r"\[([^\[\]]+)\]", text))
        yield f"{', '.join(names)}: no unit in brackets" + (f" ({written} is none of the table's)" if written else "")
        return
    for place, name in enumerate(names):
        given = [found[place]] if len(found) == len(names) else found
        expected = units().ending(name.partition("_from_")[0])
        if expected is None:
            continue
        plain = {"/".join([unit.split("/")[0], *(u for u in unit.split("/")[1:] if u not in SCOPES)]) for unit in given}
        if expected not in {*plain, *given, *(unit.replace("1/", "request/") for unit in plain)}:
            yield f"{name}: the name says [{expected}], the docstring {', '.join(f'[{unit}]' for unit in given)}"


def name_problems(names: list[str], text: str) -> Iterator[str]:
    """Names that leave out the unit which their description gives."""
    found = brackets(text)
    for place, name in enumerate(names):
        unit = found[place] if len(found) == len(names) else found[0] if len(found) == 1 else "-"
        amount = unit.split("/")[0]
        # ``value`` is what a printing function takes, whatever it measures; a single letter stands in its formula
        # of "tokens_pretraining" the unit stands first, as in the contract's own names
        counted = unit == "token" and name.startswith("tokens_")
        free = name == "value" or len(name) == 1 or name in units().coefficients or counted
        if not free and amount != "-" and amount in units().amounts.values() and units().ending(name) is None:
            yield f"{name}: given in [{unit}], so the name ends in its unit"


def documented(section: Any) -> list[tuple[list[str], str, str]]:
    """Names, type and description of each entry of a section; one entry may document several names."""
    return [([name.strip() for name in row.name.split(",")], row.type, " ".join(row.desc)) for row in section]


def entries_problems(title: str, section: Any, expected: dict[str, Any]) -> Iterator[str]:
    """What is wrong with a section that documents one entry per name."""
    rows = documented(section)
    names = [name for row in rows for name in row[0]]
    # attributes may be grouped by what belongs together, parameters stand as they are passed
    if names != list(expected) and (title != "Attributes" or sorted(names) != sorted(expected)):
        yield f"{title} documents {names or 'nothing'}, the signature has {list(expected)}"
        return
    for group, kind, text in rows:
        if not kind:
            yield f"{title}: {', '.join(group)}: no type"
        if not text.strip():
            yield f"{title}: {', '.join(group)}: no description"
        # a whole number in a record is a count, and has no unit unless its name says so
        counts = [
            name for name in group if title == "Attributes" and re.fullmatch(r"int( \| None)?", str(expected[name]))
        ]
        numeric = [name for name in group if is_number(expected[name]) and (name not in counts or units().ending(name))]
        if numeric:
            yield from unit_problems(numeric, text)
            yield from name_problems(numeric, text)


def parsed(documentation: str) -> Any:
    """The sections of a docstring; a malformed one raises."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return NumpyDocString(documentation)


def parameters_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Annotation of every documented parameter, by name as numpydoc writes it."""
    signs: dict[Any, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    parameters = inspect.signature(function).parameters.values()
    return {signs.get(p.kind, "") + p.name: p.annotation for p in parameters if p.name not in ("self", "cls")}


def function_problems(function: Callable[..., Any], needs_example: bool) -> Iterator[str]:
    """What is wrong with the docstring of a function or method."""
    text = inspect.getdoc(function)
    if not text:
        yield "no docstring"
        return
    try:
        sections = parsed(text)
    except (UserWarning, ValueError) as error:
        yield f"not numpydoc: {str(error).splitlines()[0]}"
        return
    yield from entries_problems("Parameters", sections["Parameters"], parameters_of(function))
    yield from return_problems(function, sections)
    example = "\n".join(sections["Examples"])
    if needs_example and ">>> " not in example and not WHOLE & set(parameters_of(function).values()):
        yield "no Examples section with a doctest"
    if re.search(rf">>> (\w+\.)*{function.__name__}\.__name__", example):
        yield "an example that prints the function's name shows nothing"
    if "+SKIP" in example:
        yield "an example that is skipped shows nothing"


def plain_problems(function: Callable[..., Any]) -> Iterator[str]:
    """What is wrong with the docstring of a function that neither defines a formula nor a quantity."""
    if not inspect.getdoc(function):
        yield "no docstring"


def return_problems(function: Callable[..., Any], sections: Any) -> Iterator[str]:
    """What is wrong with the Returns section."""
    annotation = inspect.signature(function).return_annotation
    kind = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    if kind in ("None", "NoReturn"):
        return
    rows = documented(sections["Yields"] or sections["Returns"])
    if not rows:
        yield "no Returns section"
    elif is_number(annotation):
        yield from (
            f"Returns: {problem}" for problem in unit_problems([function.__name__], " ".join(r[2] for r in rows))
        )


def class_problems(kind: type) -> Iterator[tuple[str, str]]:
    """What is wrong with a class and its public members, each with the member's name."""
    text = kind.__dict__.get("__doc__")
    if not text or text.startswith(f"{kind.__name__}("):
        yield kind.__name__, "no docstring"
        return
    annotations = {
        name: note for base in reversed(kind.__mro__) for name, note in vars(base).get("__annotations__", {}).items()
    }
    if dataclasses.is_dataclass(kind):
        fields = [field.name for field in dataclasses.fields(kind) if not field.name.startswith("_")]
    else:
        fields = list(getattr(kind, "_fields", ()))
    if fields:
        section = parsed(inspect.getdoc(kind) or "")["Attributes"]
        expected = {name: annotations[name] for name in fields}
        yield from ((kind.__name__, problem) for problem in entries_problems("Attributes", section, expected))
    elif "__init__" in vars(kind):
        section = parsed(inspect.getdoc(kind) or "")["Parameters"]
        expected = parameters_of(vars(kind)["__init__"])
        yield from ((kind.__name__, problem) for problem in entries_problems("Parameters", section, expected))
    for name, member in vars(kind).items():
        if not name.startswith("_"):
            yield from ((f"{kind.__name__}.{name}", problem) for problem in member_problems(name, member))


def member_problems(name: str, member: Any) -> Iterator[str]:
    """What is wrong with a public method or property."""
    function = getattr(member, "fget", None) or getattr(member, "func", None)
    if function is None:
        method = getattr(member, "__func__", member)
        if inspect.isfunction(inspect.unwrap(method)):
            yield from function_problems(method, needs_example=False)
        return
    text = inspect.getdoc(function)
    if not text:
        yield "no docstring"
    elif is_number(inspect.signature(function).return_annotation):
        yield from unit_problems([name], text)


def is_offered(thing: type) -> bool:
    """Whether ``import computeledger`` offers a class whose fields need words."""
    is_named = thing.__name__ in computeledger.__all__ and getattr(computeledger, thing.__name__) is thing
    return is_named and not issubclass(thing, Asked)


def problems(module: ModuleType) -> Iterator[str]:
    """Everything that is wrong with a module's docstrings, one line each."""
    file = f"src/{module.__name__.replace('.', '/')}"
    plain = not f"{module.__name__}.".startswith(FULL)
    if not module.__doc__:
        yield f"{file}: no module docstring"
    for name, thing in vars(module).items():
        if name.startswith("_") or getattr(thing, "__module__", None) != module.__name__:
            continue
        # the fields of a question say themselves what they are
        if inspect.isclass(thing) and (plain or issubclass(thing, Asked)) and not is_offered(thing):
            yield from () if inspect.getdoc(thing) else (f"{file}:{name}: no docstring",)
        elif inspect.isclass(thing):
            yield from (f"{file}:{member}: {problem}" for member, problem in class_problems(thing))
        # a click command is no function: its documentation is --help
        elif inspect.isfunction(inspect.unwrap(thing)) if callable(thing) else False:
            full = not plain or f"computeledger.{computeledger._MODULES.get(name)}" == module.__name__
            found = function_problems(thing, needs_example=True) if full else plain_problems(thing)
            yield from (f"{file}:{name}: {problem}" for problem in found)


def undocumented(first: float) -> float:
    return first


@pytest.mark.parametrize(
    ("module", "name", "expected"),
    [
        ("computeledger.questions.answers.plan", "plan_document", "plan_document: Parameters documents nothing"),
        ("computeledger.questions.answers.plan", "phase_document", None),
        ("computeledger.physics.made", "phase_document", "phase_document: Parameters documents nothing"),
    ],
)
def test_interfaces_are_held_to_less_but_not_the_public_surface(module: str, name: str, expected: str | None) -> None:
    def summarised(value: float) -> float:
        """Render."""
        return value

    made = ModuleType(module, "A module.")
    summarised.__module__ = module
    setattr(made, name, summarised)
    found = list(problems(made))
    assert not found if expected is None else any(expected in text for text in found)


def test_interfaces_need_a_docstring() -> None:
    assert list(plain_problems(undocumented)) == ["no docstring"]


@pytest.mark.parametrize("name", [*module_names(), *module_names("rntp")])
def test_docstrings(name: str) -> None:
    found = list(problems(importlib.import_module(name)))
    assert not found, "\n".join(["", *found])


def named(first: float) -> float:
    """Give back.

    Parameters
    ----------
    first : float
        Any [-].

    Returns
    -------
    float
        The same [-].

    Examples
    --------
    >>> named.__name__
    'named'
    """
    return first


def test_an_example_shows_behaviour() -> None:
    assert list(function_problems(named, needs_example=True)) == [
        "an example that prints the function's name shows nothing"
    ]


def wrong_order(second: float, first_s: float) -> float:
    """Add.

    Parameters
    ----------
    first_s, second : float
        Terms [s].

    Returns
    -------
    float
        Sum [s].
    """
    return first_s + second


def wrong_units_s(length_s: float, size: float, duration: float) -> float:
    """Add.

    Parameters
    ----------
    length_s : float
        How long [byte].
    size : float
        How large [furlong].
    duration : float
        How long [s].

    Returns
    -------
    float
        Sum.

    Examples
    --------
    >>> wrong_units_s(1.0, 2.0, 3.0)
    6.0
    """
    return length_s + size + duration


def right_bytes_per_s(data_bytes: float, time_s: float, *rest: str) -> float:
    """Rate.

    Parameters
    ----------
    data_bytes, time_s : float
        Amount and time [byte], [s].
    *rest : str
        Names.

    Returns
    -------
    float
        Bytes per second [byte/s].

    Examples
    --------
    >>> right_bytes_per_s(4.0, 2.0)
    2.0
    """
    return data_bytes / time_s


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (wrong_order, ["Parameters documents ['first_s', 'second']", "no Examples"]),
        (
            wrong_units_s,
            [
                "length_s: the name says [s]",
                "size: no unit in brackets ([furlong]",
                "duration: given in [s]",
                "Returns: wrong_units_s: no",
            ],
        ),
        (right_bytes_per_s, []),
    ],
)
def test_the_gate_sees_what_is_wrong(function: Callable[..., Any], expected: list[str]) -> None:
    found = list(function_problems(function, needs_example=True))
    assert len(found) == len(expected)
    assert all(text.startswith(start) for text, start in zip(found, expected, strict=True))
