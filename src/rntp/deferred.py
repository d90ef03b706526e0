"""Packages that load at their first use, for a library that imports them whether it uses them or not."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any

#: Trackers that TRL's trainers import where they are installed, with what is asked of them meanwhile: an open run.
TRACKERS: Mapping[str, Mapping[str, Any]] = {"mlflow": {}, "wandb": {"run": None}}


class _Deferred(ModuleType):
    """Stands for a package; passes on what it is asked for."""

    def __init__(self, name: str, answers: Mapping[str, Any]) -> None:
        super().__init__(name)
        self.__spec__ = importlib.util.find_spec(name)
        self._answers = answers

    def __getattr__(self, name: str) -> Any:
        """Give what stands in for the package while it is deferred, and what the package says from then on."""
        if sys.modules.get(self.__name__) is not self:
            return getattr(importlib.import_module(self.__name__), name)
        if name not in self._answers:
            raise AttributeError(f"{self.__name__}.{name} is asked for while {self.__name__} is deferred")
        return self._answers[name]


@contextmanager
def deferred(packages: Mapping[str, Mapping[str, Any]]) -> Iterator[None]:
    """Defer the import of packages: what is bound to their names in this block loads them at its first use after it.

    Packages that are loaded already, or not installed, are left as they are.

    Parameters
    ----------
    packages : mapping of str to mapping
        Names of packages, with the attributes that may be asked for within the block.

    Examples
    --------
    >>> import sys
    >>> with deferred({"this": {"s": "not yet"}}):
    ...     import this
    ...     this.s
    'not yet'
    >>> "this" in sys.modules
    False
    """
    absent = [name for name in packages if name not in sys.modules and importlib.util.find_spec(name) is not None]
    standing = {name: _Deferred(name, packages[name]) for name in absent}
    sys.modules.update(standing)
    try:
        yield
    finally:
        for name in standing:
            del sys.modules[name]
