"""Mathematics: equivalence of forms by math-verify, with the reference first, since the order changes its answer.

Runs in a child that a deadline may kill: nothing here watches the clock itself.
"""

from __future__ import annotations

import functools
import re
from typing import Any

from rntp.verify.extract import after_thoughts, last_boxed

_WHOLE = re.compile(r"-?(?:0|[1-9]\d{0,17})")
_EXPRESSION = re.compile(r"[\w\s.+\-*/^(),=<>\[\]{}!|]*")
_LONGEST = 10_000
#: Words that may stand in an expression beside single letters.
_WORDS = frozenset(
    [
        "sin",
        "cos",
        "tan",
        "cot",
        "sec",
        "csc",
        "asin",
        "acos",
        "atan",
        "acot",
        "asec",
        "acsc",
        "arcsin",
        "arccos",
        "arctan",
        "atan2",
        "sinh",
        "cosh",
        "tanh",
        "coth",
        "asinh",
        "acosh",
        "atanh",
        "exp",
        "log",
        "ln",
        "sqrt",
        "root",
        "cbrt",
        "Abs",
        "abs",
        "sign",
        "floor",
        "ceiling",
        "Max",
        "Min",
        "max",
        "min",
        "pi",
        "oo",
        "zoo",
        "nan",
        "Rational",
        "Integer",
        "Float",
        "factorial",
        "binomial",
        "gamma",
        "erf",
        "erfc",
        "erfi",
        "li",
        "Li",
        "Ei",
        "Si",
        "Ci",
        "True",
        "False",
        "and",
        "or",
        "not",
        "alpha",
        "beta",
        "theta",
        "phi",
        "psi",
        "omega",
        "delta",
        "epsilon",
        "lambda_",
        "mu",
        "nu",
        "rho",
        "sigma",
        "tau",
        "chi",
        "eta",
        "zeta",
        "kappa",
    ]
)


def whole_answer(answer: str, completion: str) -> bool | None:
    r"""Compare two plain whole numbers without any parsing.

    Examples
    --------
    >>> whole_answer("42", r"so \boxed{42}"), whole_answer("42", r"so \boxed{43}"), whole_answer("42", "42")
    (True, False, None)
    """
    body = after_thoughts(completion)
    if body.count("\\boxed") != 1 or not _WHOLE.fullmatch(answer):
        return None
    boxed = last_boxed(body)
    return None if boxed is None or not _WHOLE.fullmatch(boxed) else boxed == answer


def load() -> None:
    """Load math-verify, without its own alarms, and with a guard before the one parser that evaluates Python.

    Examples
    --------
    >>> load()
    """
    import logging

    from math_verify import parser

    logging.getLogger("math_verify").setLevel(logging.CRITICAL)
    if not hasattr(parser.parse_expr, "__wrapped__"):
        parser.parse_expr = guarded(parser.parse_expr)
        parse("1")  # the first call builds its expressions


def guarded(function: Any) -> Any:
    """Wrap a parser that evaluates Python, so that it sees arithmetic only.

    Examples
    --------
    >>> guarded(len)("1 + 1")
    5
    >>> guarded(len)("().__class__")
    Traceback (most recent call last):
    ValueError: no plain expression
    """

    @functools.wraps(function)
    def parse_plain(text: Any, *arguments: Any, **options: Any) -> Any:
        if isinstance(text, str) and not is_plain(text):
            raise ValueError("no plain expression")
        return function(text, *arguments, **options)

    return parse_plain


def is_plain(text: str) -> bool:
    """Tell whether a text is arithmetic and nothing that Python would run as more.

    Examples
    --------
    >>> is_plain("2*x**2 + sin(1.5)"), is_plain("x.y"), is_plain("exec(chr(49))"), is_plain("x__1")
    (True, False, False, False)
    """
    words = set(re.findall(r"[^\W\d]\w*", text))
    attribute = re.search(r"(?:[^\W\d]\w*|[)\]])\s*\.\s*[^\W\d]", text)
    return (
        attribute is None
        and len(text) <= _LONGEST
        and _EXPRESSION.fullmatch(text) is not None
        and all(word in _WORDS or re.fullmatch(r"[^\W\d_]_?\d*", word) for word in words)
    )


def parse(text: str) -> Any:
    """Parse the first or boxed expression of a text.

    Examples
    --------
    >>> parse("42")
    [42, '42']
    """
    from math_verify import parse as parse_answer

    return parse_answer(text, parsing_timeout=None)


@functools.lru_cache(maxsize=4096)
def _reference(answer: str) -> Any:
    """The reference, boxed where it stands bare, so that all of it is one expression."""
    marked = "$" in answer or "\\boxed" in answer or r"\(" in answer or r"\[" in answer
    found = parse(answer if marked else f"$\\boxed{{{answer}}}$")
    return found or parse(answer)


def compare(answer: str, completion: str, set_relations: bool = False) -> str:
    r"""Compare a completion with the reference.

    Examples
    --------
    >>> compare(r"\frac{1}{2}", "the answer is $0.5$"), compare("(1,2)", r"\boxed{[1,2]}"), compare("4", "who knows")
    ('correct', 'wrong', 'format')
    """
    from math_verify import verify

    if (whole := whole_answer(answer, completion)) is not None:
        return "correct" if whole else "wrong"
    gold = _reference(answer)
    if not gold:
        return "reference"
    target = parse(after_thoughts(completion))
    if not target:
        return "format"
    agreed = verify(gold, target, timeout_seconds=None, allow_set_relation_comp=set_relations)
    return "correct" if agreed else "wrong"
