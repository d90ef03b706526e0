"""Errors that say what was given, what is allowed, and the nearest valid choice.

::

    ComputeLedgerError
    ├── InputError              the caller's input is wrong; the command line exits with 2
    │   ├── UnknownIdError      an id or key that names nothing
    │   ├── QuantityError       a number, range or unit that cannot be read or is out of bounds
    │   ├── LayoutError         a parallel layout that cannot exist
    │   ├── ModelConfigError    a model configuration that is not understood
    │   ├── PlanError           a plan file that is incomplete or contradictory
    │   ├── EndpointError       a server that does not answer with metrics
    │   └── DoesNotFitError     a workload that needs more memory than there is
    └── FactError               a shipped fact, source or calibration is malformed
"""

from __future__ import annotations

import datetime
import difflib
from collections.abc import Iterable, Mapping, Sequence

#: Characters of a text that an error repeats, and digits of a whole number.
ECHO_CHARACTERS, ECHO_DIGITS = 80, 30
#: Most characters of a message: what was given may be a whole file.
MESSAGE_CHARACTERS = 1200
#: Share of two words' letters that agree in order, from which one may be a slip of the other ("nope" is no "openai").
_LIKENESS = 0.65


class ComputeLedgerError(Exception):
    """Root of every error this package raises on purpose."""


class InputError(ComputeLedgerError, ValueError):
    """The caller's input is wrong; the message is one line and names the value, a very long one shortened.

    Parameters
    ----------
    message : str
        What was given and what is allowed.
    """

    def __init__(self, message: str = "") -> None:
        line = " ".join(message.splitlines())
        super().__init__(line if len(line) <= MESSAGE_CHARACTERS else f"{line[:600]} ... {line[-400:]}")


class UnknownIdError(InputError):
    """An id or key that names nothing, with the nearest valid choices."""


class QuantityError(InputError):
    """A number, range or unit that cannot be read or lies outside its bounds."""


class LayoutError(InputError):
    """A parallel layout that cannot exist for the model or the system."""


class ModelConfigError(InputError):
    """A model configuration with a missing, contradictory or unknown field."""


class PlanError(InputError):
    """A plan file that is incomplete or contradictory."""


class EndpointError(InputError):
    """A server that does not answer with metrics; it may the next time."""


class DoesNotFitError(InputError):
    """A workload that needs more memory than the accelerators have."""


class FactError(ComputeLedgerError, ValueError):
    """A fact, source or calibration without what it must carry."""


def shown(given: object) -> str:
    """Say what was given in the words of a TOML or JSON file, a long text shortened.

    Examples
    --------
    >>> shown("8 GB"), shown(True), shown([1, 2]), shown(datetime.date(2026, 11, 1))
    ("'8 GB'", 'true', '[1, 2]', 'the date 2026-11-01')
    """
    if isinstance(given, str):
        return repr(given if len(given) <= ECHO_CHARACTERS else f"{given[:ECHO_CHARACTERS]}...")
    if given is None or isinstance(given, bool):
        return {None: "nothing", True: "true", False: "false"}[given]
    if isinstance(given, int) and abs(given) >= 10**ECHO_DIGITS:
        return f"a whole number of more than {ECHO_DIGITS} digits"
    if isinstance(given, (datetime.date, datetime.time)):
        return f"the {'time' if isinstance(given, datetime.time) else 'date'} {given}"
    if isinstance(given, (list, tuple)):
        return _shown_list(given)
    return "a table" if isinstance(given, Mapping) else str(given)


def _shown_list(given: Sequence[object]) -> str:
    """The first parts of a list, those that are lists themselves by their kind."""
    parts = ["a list" if isinstance(one, (list, tuple)) else shown(one) for one in given[:3]]
    said = f"[{', '.join((*parts, '...') if len(given) > len(parts) else parts)}]"
    return said if len(said) <= ECHO_CHARACTERS else f"{said[:ECHO_CHARACTERS]}...]"


def check_kind(given: object, kinds: type | tuple[type, ...], what: str) -> None:
    """Refuse a Python value of another kind in one line.

    Examples
    --------
    >>> check_kind(3, str, "a layout, such as 'tp8-ep8'")
    Traceback (most recent call last):
    computeledger.errors.InputError: 3: expected a layout, such as 'tp8-ep8'
    """
    if not isinstance(given, kinds):
        raise InputError(f"{shown(given)}: expected {what}")


#: What people mean by a word that is spelt like another choice, or like none.
_MEANT = {
    "gpu": "cuda", "--format": "--json", "--isl": "--input-tokens", "--prompt-tokens": "--input-tokens",
    "--osl": "--output-tokens", "--qps": "--requests-per-s", "--rate": "--requests-per-s", "--tp": "--layout",
    "--dtype": "--precision", "--quantization": "--precision", "life": "plan", "offers": "compare", "rollout": "rl",
    "training": "pretrain", "inference": "serve",
}  # fmt: skip


def close_choices(given: str, allowed: Iterable[str], limit: int = 3) -> list[str]:
    """The valid choices closest to a misspelt one, the closest first.

    Examples
    --------
    >>> close_choices("h100-nvl9", ["h100-nvl8", "gb200-nvl72"])
    ['h100-nvl8']
    """
    given, choices = given[:ECHO_CHARACTERS], sorted(set(allowed))
    if (meant := _MEANT.get(given.lower())) in choices:
        return [meant]
    lowered: dict[str, list[str]] = {}
    for choice in choices:
        bare = choice.lower().lstrip("-")  # every option begins alike
        lowered.setdefault(bare, []).append(choice)  # GBps and Gbps differ by a factor of eight
    word = given.lower().lstrip("-")
    close = difflib.get_close_matches(word, lowered, n=limit, cutoff=_LIKENESS)
    ratios = [difflib.SequenceMatcher(None, word, match).ratio() for match in close]
    kept = [match for match, ratio in zip(close, ratios, strict=True) if ratio > max(ratios) - 0.1]
    return [choice for match in kept for choice in lowered[match]]


#: Choices that a message names in full: all units of a time.
_MOST_LISTED = 24


def nearest(given: str, allowed: Iterable[str], limit: int = 3) -> str:
    """Name the valid choices closest to a misspelt one.

    Examples
    --------
    >>> nearest("h100-nvl9", ["h100-nvl8", "gb200-nvl72"])
    "did you mean 'h100-nvl8'?"
    """
    choices = sorted(set(allowed))
    if close := close_choices(given, choices, limit):
        return "did you mean " + " or ".join(repr(choice) for choice in close) + "?"
    named = choices if len(choices) <= _MOST_LISTED else choices[:12]
    shown = ", ".join(named) + (f" and {len(choices) - 12} more" if len(choices) > _MOST_LISTED else "")
    return f"allowed: {shown}" if choices else "nothing is allowed here"


def only_one(kind: str, given: str) -> UnknownIdError | None:
    """Build the error for a list of ids where one is asked for; None where one is given.

    Examples
    --------
    >>> str(only_one("system", "2xl40s,h100-nvl8")), only_one("system", "2xl40s")
    ("system '2xl40s,h100-nvl8': 2 of them, where one is asked for; `sweep --system A,B` takes several", None)
    """
    several = len([one for one in given.split(",") if one.strip()])
    told = f"{several} of them, where one is asked for; `sweep --{kind} A,B` takes several"
    return UnknownIdError(f"{kind} {shown(given)}: {told}") if several > 1 else None


def unknown_id(kind: str, given: str, allowed: Iterable[str]) -> UnknownIdError:
    """Build the error for an id that names nothing.

    Examples
    --------
    >>> str(unknown_id("system", "h100-nvl9", ["h100-nvl8"]))
    "unknown system 'h100-nvl9': did you mean 'h100-nvl8'?"
    """
    return UnknownIdError(f"unknown {kind} {shown(given)}: {nearest(given, allowed)}")
