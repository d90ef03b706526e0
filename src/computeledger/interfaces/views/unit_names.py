"""What a view calls one accelerator: a GPU, or what the chip at hand is called."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from computeledger.interfaces.view import View

_GPU = re.compile(r"\bGPU(?=s?\b)")
#: What names a part, links or is typed: not read as words.
_NO_WORDS = ("name", "key", "id", "href", "blocks", "chosen", "sources", "overline", "main")


def named_after(view: View, unit: str, kept: tuple[str, ...] = ()) -> View:
    """A view in which one accelerator is called as its facts say; texts that are kept stay as they are.

    Examples
    --------
    >>> named_after(View("64 GPUs, 3 GPU-hours of each GPU"), "chip").headline
    '64 chips, 3 chip-hours of each chip'
    >>> named_after(View("", blocks=(("Launch", "--gpu GPU"),)), "chip").blocks
    (('Launch', '--gpu GPU'),)
    """
    if unit == "GPU":
        return view
    blocks = tuple((_named(title, unit, kept), text) for title, text in view.blocks)
    named: View = _named(view, unit, kept)
    return replace(named, blocks=blocks)


def _named(value: Any, unit: str, kept: tuple[str, ...]) -> Any:
    if isinstance(value, str):
        return value if value in kept else _GPU.sub(unit, value)
    if isinstance(value, (tuple, list)):
        return type(value)(_named(one, unit, kept) for one in value)
    if isinstance(value, Mapping):
        return {name: _named(one, unit, kept) for name, one in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        read = (one.name for one in fields(value) if one.name not in _NO_WORDS)
        return replace(value, **{name: _named(getattr(value, name), unit, kept) for name in read})
    return value
