"""Questions of ``computeledger facts``: what a model's configuration says, and how old facts are."""

from __future__ import annotations

from dataclasses import dataclass

from computeledger.fields import Asked, asked, shared
from computeledger.units import MONTH_S
from computeledger.workloads.questions.serve import ServeQuestion


@dataclass(frozen=True, kw_only=True)
class ModelQuestion(Asked):
    """A model's parameters, cache and shape, read from its configuration."""

    model: str = asked("text", "Model id, path to a config.json, or numbers: 100B-A10B.", ..., metavar="PATH_OR_ID")
    kv_precision: str = shared(ServeQuestion, "kv_precision")


@dataclass(frozen=True, kw_only=True)
class FreshnessQuestion(Asked):
    """Which facts were stated long ago, and how old the newest editions are."""

    older_than: float = asked(
        "s", "Age from which a fact counts as old.", 12 * MONTH_S, least=0, is_single=True, unit="months",
        metavar="TIME", blank="12 months",
    )  # fmt: skip
    at: str | None = asked("text", "Day at which ages are taken.", metavar="YYYY-MM-DD", blank="today")
