"""How a result shows itself in a notebook: it asks for the drawing that was registered, and knows none itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_drawings: dict[str, Callable[..., Any]] = {}


class Displayed:
    """A result that Jupyter, marimo and IPython show as a table; printed and compared like any other record.

    Examples
    --------
    >>> class Speed(Displayed): ...
    >>> Speed()._repr_html_() is None  # no table is registered for it: the notebook prints it as it is
    True
    """

    __slots__ = ()

    def _repr_html_(self) -> str | None:
        """Asked for by Jupyter and marimo."""
        return _drawings["html"](self) or None

    def _repr_mimebundle_(self, **_kinds: Any) -> dict[str, str]:
        """Asked for by IPython, whose own text of a record would hold every sample."""
        kinds = {"text/plain": _drawings["text"](self), "text/html": _drawings["html"](self)}
        return {kind: text for kind, text in kinds.items() if text}


def display_with(**drawings: Callable[..., Any]) -> None:
    """Register what draws results.

    Examples
    --------
    >>> import computeledger  # registers the package's own, which are loaded when the first is used
    >>> sorted(_drawings)
    ['html', 'page', 'text', 'view']
    """
    _drawings.update(drawings)


def drawing(kind: str) -> Callable[..., Any]:
    """What was registered under a name.

    Examples
    --------
    >>> import computeledger
    >>> drawing("text")(42)
    ''
    """
    return _drawings[kind]
