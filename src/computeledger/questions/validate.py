"""The question of ``computeledger validate``: how far predictions lie from published measurements."""

from __future__ import annotations

from dataclasses import dataclass

from computeledger.fields import Asked, asked, shared
from computeledger.workloads.questions.setup import Sampled


@dataclass(frozen=True, kw_only=True)
class ValidateQuestion(Asked):
    """Measurements to predict, and how to slice the errors."""

    data: str | None = asked(
        "text", "Measurements, as CSV: a file, or a shipped table by name.", metavar="F.csv", blank="the shipped ones"
    )
    prices: bool = asked("switch", "Size from price on models of known size, each left out in turn.", False)
    by: tuple[str, ...] = asked(
        "text", "Columns to slice by, such as backend,system.", (), is_list=True, metavar="COLS"
    )
    worst: int | None = asked(
        "whole", "Rows farthest from their measurement, with their breakdown.", metavar="N", blank="5, in a report 12"
    )
    samples: int = shared(Sampled, "samples", default=512)
    seed: int = shared(Sampled, "seed")
