"""Bounds of a record's numbers: a scenario that cannot be is refused where it is made, with the field's name."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Protocol

import numpy as np

from computeledger.errors import InputError, QuantityError, shown


class _Record(Protocol):
    __dataclass_fields__: ClassVar[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Bound:
    """What a number may be.

    Attributes
    ----------
    least, most : float
        Smallest and largest value, in the number's own unit.
    is_open : bool
        Whether the smallest value itself is refused.
    is_endless : bool
        Whether infinity has a meaning.
    """

    least: float = 0.0
    most: float = math.inf
    is_open: bool = False
    is_endless: bool = False

    def holds(self, value: float) -> bool:
        """Whether a single number is inside; at the ends :meth:`problem` decides.

        Parameters
        ----------
        value : float
            In its own unit.

        Returns
        -------
        bool
            False for nan.

        Examples
        --------
        >>> FRACTION.holds(0.0), POSITIVE.holds(0.0), POSITIVE.holds(np.nan)
        (True, False, False)
        """
        return self.least < value < self.most or (value == self.least and not self.is_open)

    def problem(self, value: Any) -> str:
        """Say what is wrong with a number.

        Parameters
        ----------
        value : float or ndarray
            In its own unit.

        Returns
        -------
        str
            Empty where nothing is.

        Examples
        --------
        >>> POSITIVE.problem(0.0), POSITIVE.problem(np.array([1.0, np.nan])), POSITIVE.problem(2.0)
        ('0: must be greater than 0', 'nan: must be a number', '')
        """
        given = np.asarray(value, float)
        if not given.size:
            return "nothing: at least one number is needed"
        allowed = given > self.least if self.is_open else given >= self.least
        allowed &= given <= self.most
        if not self.is_endless:
            allowed &= np.isfinite(given)
        if allowed.all():
            return ""
        worst = float(given[~allowed].flat[0])
        if math.isnan(worst):
            return "nan: must be a number"
        if worst == math.inf and self.most == math.inf:
            return "inf: must be finite"
        if worst > self.most:
            return f"{worst:g}: must be at most {self.most:g}"
        if self.least == 0:
            return f"{worst:g}: must {'be greater than 0' if self.is_open else 'not be negative'}"
        return f"{worst:g}: must be {'greater than' if self.is_open else 'at least'} {self.least:g}"


NOT_NEGATIVE, POSITIVE, AT_LEAST_ONE, FRACTION = Bound(), Bound(is_open=True), Bound(1.0), Bound(most=1.0)


def check_record(record: _Record, **bounds: Bound) -> None:
    """Refuse a record whose fields are not what they are declared to be.

    Numbers are finite and not negative unless a bound says otherwise; other fields are of the class that their
    annotation names.

    Parameters
    ----------
    record : object
        A dataclass with annotations as text, in its ``__post_init__``.
    **bounds : Bound
        By field.

    Raises
    ------
    QuantityError
        A number out of its bounds, named by its field.
    InputError
        Anything that is not of the declared kind.

    Examples
    --------
    >>> @dataclass(frozen=True)
    ... class Question:
    ...     batch: Num
    >>> check_record(Question(-1), batch=POSITIVE)
    Traceback (most recent call last):
    computeledger.errors.QuantityError: batch -1: must be greater than 0
    >>> check_record(Question("many"))
    Traceback (most recent call last):
    computeledger.errors.InputError: batch: expected a number, not 'many'
    """
    for name, kinds in _declared(type(record)):
        value = getattr(record, name)
        bound = bounds.get(name, NOT_NEGATIVE)
        if type(value) in _SINGLE and kinds & _SINGLE[type(value)] and bound.holds(value):
            continue  # most numbers are single ones
        if isinstance(value, _ANY_NUMBER) and not isinstance(value, _TRUTHS):
            _check_number(name, value, kinds, bound)
        elif not (kinds & _classes(value) or ("Callable" in kinds and callable(value))):
            raise InputError(f"{name}: expected {_words(kinds)}, not {_given(value)}")


#: Names of the classes that a value of a class is of, for those that were met.
_MET: dict[type, frozenset[str]] = {bool: frozenset({"bool"})}


def _classes(value: object) -> frozenset[str]:
    """Names of the classes that a value is of, as annotations write them."""
    kind = type(value)
    if kind not in _MET:
        named = frozenset(one.__name__ for one in kind.__mro__)
        _MET[kind] = named | {"Mapping"} if isinstance(value, Mapping) else named
    return _MET[kind]


#: Annotations of numbers.
_REAL = frozenset({"Num", "float", "Array"})
_NUMBERS = _REAL | {"int"}
#: Annotations that a single number may have, by its class.
_SINGLE: dict[type, frozenset[str]] = {float: _REAL, int: _NUMBERS}
_ANY_NUMBER, _TRUTHS = (int, float, np.number, np.ndarray), (bool, np.bool_)


@functools.cache
def _declared(kind: type) -> tuple[tuple[str, frozenset[str]], ...]:
    """Names of a record's fields with the classes that their annotations name."""
    out = []
    for one in fields(kind):
        text = one.type if isinstance(one.type, str) else getattr(one.type, "__name__", str(one.type))
        names = [part.strip().partition("[")[0].rpartition(".")[2] for part in _parts(text)]
        out.append((one.name, frozenset("NoneType" if name == "None" else name for name in names)))
    return tuple(out)


def _parts(text: str) -> list[str]:
    """Alternatives of an annotation; a stroke inside brackets belongs to one of them."""
    out, depth = [""], 0
    for letter in text:
        depth += (letter == "[") - (letter == "]")
        if letter == "|" and depth == 0:
            out.append("")
        else:
            out[-1] += letter
    return out


def _check_number(name: str, value: Any, kinds: frozenset[str], bound: Bound) -> None:
    if not kinds & _NUMBERS:
        raise InputError(f"{name}: expected {_words(kinds)}, not {_given(value)}")
    if problem := bound.problem(value):
        raise QuantityError(f"{name} {problem}")
    if not kinds & _REAL and np.any(np.asarray(value) % 1):
        raise QuantityError(f"{name} {_given(value)}: must be a whole number")


_KINDS = {
    "str": "a text",
    "bool": "true or false",
    "tuple": "a tuple",
    "Layout": "a Layout, as parse_layout gives it",
    "Precision": "a Precision, as parse_precision gives it",
    "Model": "a Model, as load_model gives it",
    "System": "a System, as load_system gives it",
    "Mapping": "a mapping",
    "Callable": "a function",
    "NoneType": "None",
}


def _words(kinds: frozenset[str]) -> str:
    """The declared kinds as people say them."""
    if kinds & _NUMBERS:
        return "a whole number" if kinds & _NUMBERS == {"int"} else "a number"
    return " or ".join(_KINDS.get(kind, f"a {kind}") for kind in sorted(kinds, key=lambda kind: kind == "NoneType"))


def _given(value: object) -> str:
    return shown(value) if isinstance(value, (str, int, float, type(None))) else f"a {type(value).__name__}"
