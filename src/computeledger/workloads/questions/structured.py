"""What a question says of structured output: which library masks tokens, for how many requests and schemas."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from computeledger.errors import InputError
from computeledger.fields import Asked, asked

if TYPE_CHECKING:
    from computeledger.arrays import Uncertain

#: Libraries of masks that have published times.
LIBRARIES = ("xgrammar", "llguidance")
_OF_MASKS = ("structured_fraction", "new_schemas", "mask_time")


@dataclass(frozen=True, kw_only=True)
class Structured(Asked):
    """Requests whose output may have to follow a grammar."""

    structured: str | None = asked(
        "text", "Output follows a JSON schema or grammar: the library that masks tokens, xgrammar or llguidance.",
        choices=LIBRARIES, metavar="LIBRARY", label="Structured output", group="Structured output", blank="none",
    )  # fmt: skip
    structured_fraction: float | None = asked(
        "fraction", "Share of requests whose output is structured.", most=1.0, is_single=True, metavar="F",
        label="Structured share", group="Structured output", blank="all, with --structured",
    )  # fmt: skip
    new_schemas: float | None = asked(
        "fraction", "Of those, the share whose schema the engine has not compiled yet.", most=1.0, is_single=True,
        metavar="F", label="New schemas", group="Structured output", blank="0: a few schemas, used over and over",
    )  # fmt: skip
    mask_time: Uncertain | None = asked(
        "s", "Host time of one sequence's mask in a step, as you measured it.", unit=None, is_open=True,
        is_single=True, metavar="T", label="Time of a mask", group="Structured output",
        blank="as published",
    )  # fmt: skip

    def check(self) -> None:
        """Refuse what is said of structured output that nobody asked for."""
        super().check()
        named = next((name for name in _OF_MASKS if getattr(self, name) is not None), None)
        if self.structured is None and named is not None:
            raise InputError(f"--{named.replace('_', '-')}: of structured output: add --structured xgrammar")
