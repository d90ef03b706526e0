"""The questions of ``computeledger prices``: lists, sheets, bills, histories and cost floors."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from computeledger.economics.quality.evaluations import ANCHOR, GUESS_FRACTION
from computeledger.errors import InputError, shown
from computeledger.fields import Asked, asked, shared
from computeledger.workloads.questions.setup import OnSystem

if TYPE_CHECKING:
    from computeledger.arrays import Uncertain

#: Fields of a bill that count tokens; those from the third on are parts of the new input.
TOKENS = ("input_tokens", "output_tokens", "cached_tokens", "cache_write_tokens", "cache_write_1h_tokens")


@dataclass(frozen=True, kw_only=True)
class PriceListQuestion(Asked):
    """Models that have a price sheet."""

    text: str = asked("text", "Part of provider/name.", "")


@dataclass(frozen=True, kw_only=True)
class PriceSheetQuestion(Asked):
    """Every price of one sheet, with its tiers and modes."""

    name: str = asked("text", "provider/name, or a price sheet as TOML.", ..., example="deepseek/deepseek-chat")


@dataclass(frozen=True, kw_only=True)
class PriceHistoryQuestion(Asked):
    """Every dated set of prices of one model."""

    name: str = asked("text", "provider/name.", ..., example="deepseek/deepseek-chat")


@dataclass(frozen=True, kw_only=True)
class BillQuestion(Asked):
    """What one request costs at one or more price sheets."""

    names: tuple[str, ...] = asked(
        "texts", "provider/name, or price sheets as TOML.", ..., example="deepseek/deepseek-chat"
    )
    input_tokens: float = asked(
        "tokens",
        "New input tokens, as in serve: the prompt without its cached prefix.",
        0.0,
        unit="tokens",
        metavar="N",
    )
    output_tokens: float = asked("tokens", "Output tokens.", 0.0, unit="tokens", metavar="N")
    cached_tokens: float = asked("tokens", "Cached prefix, as in serve.", 0.0, unit="tokens", metavar="N")
    cache_write_tokens: float = asked(
        "tokens", "Part of the new input written to the cache for 5 minutes.", 0.0, unit="tokens", metavar="N"
    )
    cache_write_1h_tokens: float = asked(
        "tokens", "Part of the new input written to the cache for an hour.", 0.0, unit="tokens", metavar="N"
    )
    mode: str = asked("text", "standard, batch, priority or another mode of the sheet.", "standard")
    at: str | None = asked(
        "text",
        "Hour of the day in UTC, where a provider's prices depend on it.",
        metavar="HH:MM",
        blank="that of most hours",
    )

    def check(self) -> None:
        """Refuse parts of a token, a request of none, and more that is written to the cache than is new."""
        for name in TOKENS:
            tokens = getattr(self, name)
            if not isinstance(tokens, float) or tokens % 1:
                raise InputError(f"--{name.replace('_', '-')}: a bill needs one whole number")
        if self.at is not None and not re.fullmatch(r"([01]?\d|2[0-3]):[0-5]\d", self.at):
            raise InputError(f"--at {shown(self.at)}: write an hour of the day in UTC, as 02:30")
        written = self.cache_write_tokens + self.cache_write_1h_tokens
        if written > self.input_tokens:
            raise InputError(
                f"--input-tokens {self.input_tokens:.0f}: fewer than the {written:.0f} that are written to the cache"
            )
        if not self.input_tokens + self.cached_tokens + self.output_tokens:
            raise InputError("a request of no tokens costs nothing: give --input-tokens, --output-tokens, or both")


@dataclass(frozen=True, kw_only=True)
class PriceFloorQuestion(Asked):
    """Cost of an open model's tokens on given hardware, beside its market prices."""

    model: str = shared(OnSystem, "model")
    system: str = shared(OnSystem, "system")
    price: Uncertain | None = shared(OnSystem, "price", is_open=True)
    market: str | None = asked(
        "text", "Name of the model in the table of market prices.", metavar="NAME", blank="told from the model"
    )


@dataclass(frozen=True, kw_only=True)
class QualityQuestion(Asked):
    """Who is strong for its price, or what a given quality costs over time."""

    at: float | None = asked(
        "fraction", "Score on --benchmark whose price over time is asked.", is_open=True, is_single=True,
        metavar="SCORE", label="Score", group="Quality", slider=(0.05, 0.95), blank="all models by ability",
    )  # fmt: skip
    benchmark: str = asked(
        "text", "Benchmark of that score.", ANCHOR, choices=tuple(GUESS_FRACTION), metavar="NAME", label="Benchmark",
        group="Quality",
    )  # fmt: skip
    inputs_per_output: float = asked(
        "ratio", "Input tokens for each output token in a blended price.", 3.0, is_single=True, metavar="X",
        label="Input per output", group="Quality", slider=(0.1, 100),
    )  # fmt: skip
    size_of: str | None = asked(
        "text", "Evaluated version whose size is implied, by its price and by its ability.", metavar="VERSION",
        label="Size of", group="Quality", blank="none",
    )  # fmt: skip
    no_reasoning: bool = asked(
        "switch",
        "Leave out models that reason before they answer: they write more tokens for the same question.",
        False,
        label="Without reasoning",
        group="Quality",
    )

    def check(self) -> None:
        """Refuse two questions in one."""
        if self.at is not None and self.size_of is not None:
            raise InputError("--at asks what a score costs, --size-of what a model's size is: give one of them")
