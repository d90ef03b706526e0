"""Science: multiple choice, numbers with tolerance and units, short exact answers, chemical formulas."""

from __future__ import annotations

import functools
import math
import re
import tokenize
import unicodedata
from collections import Counter
from typing import Any

from computeledger.errors import InputError, nearest, shown
from rntp.verify.extract import answer_of
from rntp.verify.task import Task
from rntp.verify.verdict import FORMAT, Verdict, verdict

KINDS = ("choice", "numeric", "exact", "formula")
#: Relative error that is allowed where a task says nothing.
TOLERANCE = 1e-2
_QUANTITY = re.compile(
    r"(?<![\w.])([-+]?(?:\d{1,3}(?:,\d{3})+(?:\.\d*)?|\d+\.?\d*|\.\d+))"
    r"(?:\s*(?:[eE]\s*([-+]?\d+)|(?:\*|x|×|\\times|\\cdot|·)\s*10\s*(?:\^|\*\*)?\s*\{?\(?\s*([-+]?\d+)\s*\)?\}?))?"
)
_UNIT = re.compile(r"[A-Za-z_µμΩ°%Å·*/^()\d\s.+-]{0,60}")
#: Names with short powers, multiplied and divided: a power of a power could take a day.
_PLAIN_UNIT = re.compile(r"1?|(?:1[*/])?[A-Za-zµ_]+(?:\*\*-?\d{1,2})?(?:[*/][A-Za-zµ_]+(?:\*\*-?\d{1,2})?){0,9}")
#: What the parser of units raises on text that is none.
_STRANGE = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RecursionError,
    SyntaxError,
    TypeError,
    ValueError,
)
#: Characters of a short answer that are looked at.
_LONGEST = 2000
_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺", "0123456789-+")
_SUBSCRIPTS = str.maketrans("₀₁₂₃₄₅₆₇₈₉₊₋", "0123456789+-")


@functools.cache
def _registry() -> Any:
    import pint

    return pint.UnitRegistry(autoconvert_offset_to_baseunit=True, cache_folder=None)


def factor_of(unit: str, into: str) -> tuple[float, float] | None:
    """Find how to convert between two units.

    Examples
    --------
    >>> factor_of("km", "m")
    (1000.0, 0.0)
    >>> factor_of("km", "s") is None
    True
    """
    import pint

    registry = _registry()
    written = (_written(unit), _written(into))
    if not all(_PLAIN_UNIT.fullmatch(re.sub(r"[()\s]", "", text)) and "__" not in text for text in written):
        return None
    try:
        source, target = (registry.parse_units(text) for text in written)
        zero = registry.Quantity(0.0, source).to(target).magnitude
        one = registry.Quantity(1.0, source).to(target).magnitude
    except (pint.PintError, tokenize.TokenError, *_STRANGE):
        return None
    return float(one - zero), float(zero)


def _written(unit: str) -> str:
    """A unit as the registry reads it: powers marked, LaTeX taken off, blanks and dots as products."""
    text = re.sub(r"\\(?:text|mathrm|rm|operatorname)\s*\{([^{}]*)\}", r"\1", unit).translate(_SUPERSCRIPTS)
    text = re.sub(r"\\[,;: ]|~|\$|[{}]", " ", text).replace("\\cdot", "*").replace("·", "*").replace("⋅", "*")
    text = text.replace("°C", "degC").replace("°F", "degF").replace("°", "degree").replace("%", "percent")
    text = text.replace("Ω", "ohm").replace("μ", "µ").replace("Å", "angstrom")
    text = re.sub(r"(?<=[A-Za-zµ)])\s*\^?\s*(-?\d{1,2})(?!\d)", r"**\1", text.strip())
    return re.sub(r"(?<=[A-Za-zµ)\d])\s+(?=[A-Za-zµ(])", "*", text)


def read_quantity(text: str) -> tuple[float, str] | None:
    r"""Read the number that a text begins or ends with, and what follows it.

    Examples
    --------
    >>> read_quantity("3.0 \\times 10^8 m/s"), read_quantity("v = 1,250 km"), read_quantity("none")
    ((300000000.0, 'm/s'), (1250.0, 'km'), None)
    """
    plain = text.replace("−", "-").translate(_SUPERSCRIPTS).replace("\\,", " ").replace("$", " ")
    plain = plain.rpartition("=")[2] if "=" in plain else plain
    plain = re.sub(r"\\(?:text|mathrm|rm)\s*\{([^{}]*)\}", r" \1", plain).replace("\\approx", " ").replace("≈", " ")
    found = list(_QUANTITY.finditer(plain))
    if not found:
        return None
    first = found[0]
    power = first[2] or first[3] or "0"
    if len(power) > 4:
        return None
    value = float(first[1].replace(",", "")) * (10.0 ** int(power) if abs(int(power)) < 300 else math.inf)
    unit = _UNIT.match(plain[first.end() :].strip())
    return value, unit[0].strip().rstrip(".,").strip() if unit else ""


def same_number(expected: float, given: float, tolerance: float) -> bool:
    """Compare two numbers.

    Examples
    --------
    >>> same_number(100.0, 101.0, 0.01), same_number(100.0, 102.0, 0.01), same_number(0.0, 0.001, 0.01)
    (True, False, True)
    """
    slack = tolerance * (1 + 1e-12)
    return abs(given - expected) <= slack * (abs(expected) if expected else 1.0)


def formula_counts(formula: str) -> tuple[Counter[str], int] | None:
    """Count the atoms of a chemical formula, and its charge.

    Examples
    --------
    >>> formula_counts("Ca(OH)2") == formula_counts("CaO2H2"), formula_counts("SO_4^{2-}")[1], formula_counts("H2O1C0")
    (True, -2, None)
    """
    text = re.sub(r"\\(?:ce|text|mathrm|rm)\s*|[{}$_\s]", "", formula).translate(_SUBSCRIPTS).translate(_SUPERSCRIPTS)
    text = re.sub(r"\((?:aq|s|l|g)\)$", "", text)
    charge = 0
    if signed := re.search(r"(?:\^(\d{0,3})([+-])|(?<=[A-Za-z)\d])([+-]))$", text):
        charge = int(signed[1] or 1) * (1 if (signed[2] or signed[3]) == "+" else -1)
        text = text[: signed.start()]
    total: Counter[str] = Counter()
    for part in re.split(r"[·.*•]|\\cdot", text):
        head = re.match(r"(?:[1-9]\d{0,3})?", part)
        times = int(head[0] or 1) if head else 1
        counts = _group_counts(part[head.end() if head else 0 :])
        if counts is None:
            return None
        for element, count in counts.items():
            total[element] += count * times
    return (total, charge) if total else None


def _group_counts(text: str) -> Counter[str] | None:
    """Atoms of one part, brackets resolved."""
    stack: list[Counter[str]] = [Counter()]
    place = 0
    count_of = r"([1-9]\d{0,3})?"  # no atom stands there zero times
    for found in re.finditer(rf"([A-Z][a-z]?){count_of}|([(\[])|([)\]]){count_of}", text):
        if found.start() != place:
            return None
        place = found.end()
        if found[1]:
            stack[-1][found[1]] += int(found[2] or 1)
        elif found[3]:
            stack.append(Counter())
        elif len(stack) < 2:
            return None
        else:
            inner, times = stack.pop(), int(found[5] or 1)
            for element, count in inner.items():
                stack[-1][element] += count * times
    return stack[0] if place == len(text) and len(stack) == 1 else None


def kind_of(task: Task) -> str:
    """Find which kind of answer a task asks for.

    Examples
    --------
    >>> kind_of(Task("1", "science", {"answer": "9.81", "unit": "m/s^2"}))
    'numeric'
    >>> kind_of(Task("2", "science", {"answer": "B"}))
    'choice'
    """
    given = task.spec.get("kind")
    if given is not None:
        if given not in KINDS:
            raise InputError(f"task {shown(task.id)}: kind {shown(given)}: {nearest(str(given), KINDS)}")
        return str(given)
    answer = task.spec.get("answer")
    if isinstance(answer, int | float) or "unit" in task.spec or "tolerance" in task.spec:
        return "numeric"
    if "choices" in task.spec or re.fullmatch(r"\(?[A-J]\)?", str(answer).strip()):
        return "choice"
    return "numeric" if re.fullmatch(r"[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?", str(answer).strip()) else "exact"


def check_science(task: Task, completion: str) -> Verdict:
    """Check a completion against a science task.

    Examples
    --------
    >>> check_science(Task("1", "science", {"answer": "9.81", "unit": "m/s^2"}), "g = 981 cm/s^2").status
    'correct'
    """
    answer = task.spec.get("answer")
    if isinstance(answer, bool) or not isinstance(answer, str | int | float):
        raise InputError(f"task {shown(task.id)}: answer {shown(answer)}: a text or a number is needed")
    kind = kind_of(task)
    given = _chosen(completion, task) if kind == "choice" else (answer_of(completion) or "")[:_LONGEST] or None
    if given is None:
        return verdict(0.0, f"no answer of kind {kind} found", FORMAT)
    if kind == "numeric":
        return _check_numeric(task, str(answer), given)
    if kind == "choice":
        return verdict(float(given == _letter(str(answer), task)), f"chose {given}")
    if kind == "formula":
        ours, theirs = formula_counts(str(answer)), formula_counts(given)
        if ours is None:
            raise InputError(f"task {shown(task.id)}: answer {shown(answer)}: is no chemical formula")
        return (
            verdict(0.0, f"{given!r} is no formula", FORMAT)
            if theirs is None
            else verdict(float(ours == theirs), given)
        )
    return verdict(float(plain_text(str(answer)) == plain_text(given)), f"answered {given!r}")


def plain_text(text: str) -> str:
    """Reduce a short answer to what counts: letters, digits and signs, case and articles aside.

    Examples
    --------
    >>> plain_text("The  Mitochondrion."), plain_text("p-value")
    ('mitochondrion', 'p value')
    """
    text = unicodedata.normalize("NFKC", text).casefold()
    words = re.sub(r"[^\w+\-/.]|(?<!\d)[.\-]|[.](?!\d)|-(?!\d)", " ", text).split()
    return " ".join(word for word in words if word not in ("the", "a", "an"))


def _check_numeric(task: Task, answer: str, given: str) -> Verdict:
    tolerance = task.spec.get("tolerance", TOLERANCE)
    if isinstance(tolerance, bool) or not isinstance(tolerance, int | float) or not 0 <= tolerance < math.inf:
        raise InputError(f"task {shown(task.id)}: tolerance {shown(tolerance)}: a number from 0 is needed")
    expected, found = read_quantity(answer), read_quantity(given)
    if expected is None:
        raise InputError(f"task {shown(task.id)}: answer {shown(answer)}: a number is needed")
    if found is None:
        return verdict(0.0, f"no number in {given!r}", FORMAT)
    unit = str(task.spec.get("unit") or expected[1])
    value = found[0]
    if unit and found[1]:
        conversion = factor_of(found[1], unit)
        if conversion is None:
            return verdict(0.0, f"unit {found[1]!r} is not {unit!r}")
        value = value * conversion[0] + conversion[1]
    elif found[1].startswith("%"):
        value /= 100
    return verdict(float(same_number(expected[0], value, float(tolerance))), f"answered {value:g} {unit}".strip())


def _letter(text: str, task: Task) -> str | None:
    """The letter that an answer stands for: itself, or that of the choice with its words."""
    if found := re.match(r"^\W*([A-Ja-j])(?:\W|$)", text.strip()):
        return found[1].upper()
    choices = task.spec.get("choices")
    if isinstance(choices, list):
        for place, choice in enumerate(choices):
            if plain_text(str(choice)) == plain_text(text):
                return "ABCDEFGHIJ"[place : place + 1] or None
    return None


def _chosen(completion: str, task: Task) -> str | None:
    """The letter that a completion settles on."""
    answer = answer_of(completion)
    if answer is not None and (
        letter := _letter(re.sub(r"^(?:option|choice)\s+", "", answer, flags=re.IGNORECASE), task)
    ):
        return letter
    said = re.findall(r"(?:option|choice|answer)\W+(?:is\W+)?\(?([A-J])\b", completion)
    return said[-1] if said else None
