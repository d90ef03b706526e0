"""Errors that say what was given, what is allowed, and the nearest valid choice.

::

    ComputeLedgerError
    ├── InputError              the caller's input is wrong; the command line exits with 2
    │   ├── UnknownIdError      an id or key that names nothing
    │   ├── QuantityError       a number, range or unit that cannot be read or is out of bounds
    │   ├── LayoutError         a parallel layout that cannot exist
    │   ├── ModelConfigError    a model configuration that is not understood
    │   ├── PlanError           a plan file that is incomplete or contradictory
    │   └── DoesNotFitError     a workload that needs more memory than there is
    └── FactError               a shipped fact, source or calibration is malformed
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class ComputeLedgerError(Exception):
    """Root of every error this package raises on purpose."""


class InputError(ComputeLedgerError, ValueError):
    """The caller's input is wrong; the message is one line and names the value."""


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


class DoesNotFitError(InputError):
    """A workload that needs more memory than the accelerators have."""


class FactError(ComputeLedgerError, ValueError):
    """A fact, source or calibration without what it must carry."""


def nearest(given: str, allowed: Iterable[str], limit: int = 3) -> str:
    """Name the valid choices closest to a misspelt one.

    Parameters
    ----------
    given : str
        What the user wrote.
    allowed : iterable of str
        The valid choices.
    limit : int
        How many to name at most [-].

    Returns
    -------
    str
        ``"did you mean 'a' or 'b'?"``, or the valid choices when none is close.

    Examples
    --------
    >>> nearest("h100-nvl9", ["h100-nvl8", "gb200-nvl72"])
    "did you mean 'h100-nvl8'?"
    """
    choices = sorted(set(allowed))
    lowered = {choice.lower(): choice for choice in choices}
    close = difflib.get_close_matches(given.lower(), lowered, n=limit, cutoff=0.6)
    if close:
        ratios = [difflib.SequenceMatcher(None, given.lower(), match).ratio() for match in close]
        kept = [match for match, ratio in zip(close, ratios, strict=True) if ratio > max(ratios) - 0.1]
        return "did you mean " + " or ".join(repr(lowered[match]) for match in kept) + "?"
    shown = ", ".join(choices[:12]) + (", ..." if len(choices) > 12 else "")
    return f"allowed: {shown}" if choices else "nothing is allowed here"


def unknown_id(kind: str, given: str, allowed: Iterable[str]) -> UnknownIdError:
    """Build the error for an id that names nothing.

    Parameters
    ----------
    kind : str
        What the id should have named, such as ``"model"``.
    given : str
        What the user wrote.
    allowed : iterable of str
        The valid ids.

    Returns
    -------
    UnknownIdError
        Ready to be raised.

    Examples
    --------
    >>> str(unknown_id("system", "h100-nvl9", ["h100-nvl8"]))
    "unknown system 'h100-nvl9': did you mean 'h100-nvl8'?"
    """
    return UnknownIdError(f"unknown {kind} {given!r}: {nearest(given, allowed)}")
