"""The question of ``computeledger watch``: what a running server does, against what was predicted of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from computeledger.errors import InputError
from computeledger.fields import Asked, asked, shared
from computeledger.units import HOUR_S
from computeledger.workloads.questions.serve import ServeQuestion

if TYPE_CHECKING:
    from computeledger.arrays import Uncertain
    from computeledger.economics.plan.read import Plan

#: Fields that say what was deployed, as ``serve`` has them.
DEPLOYED = (
    "model", "system", "gpus", "layout", "precision", "kv_precision", "price", "backend", "backend_version", "profile",
    "tuning", "max_batch", "memory_fraction", "chunk_tokens", "eager", "no_prefix_cache", "anchor", "draft_tokens",
    "speculation", "tokens_per_step", "samples", "seed",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class WatchQuestion(Asked):
    """What a running server does, against what was predicted of it."""

    urls: tuple[str, ...] = asked(
        "texts", "Addresses of metrics: of one server, and of DCGM for its power.", ..., metavar="URL..."
    )
    plan: str | Plan | None = asked(
        "text", "Plan file: its [inference] section says what was deployed.", metavar="PLAN.toml", takes_record=True
    )
    model: str | None = shared(ServeQuestion, "model", default=None, is_required=False, blank="nothing is predicted")
    system: str | None = shared(ServeQuestion, "system", default=None, is_required=False, blank="nothing is predicted")
    gpus: int | None = shared(ServeQuestion, "gpus", help="GPUs of the server, where no layout is stated.", blank="")
    layout: str | None = shared(ServeQuestion, "layout")
    precision: str | None = shared(ServeQuestion, "precision")
    kv_precision: str | None = shared(ServeQuestion, "kv_precision", default=None, blank="bf16")
    price: Uncertain | None = shared(ServeQuestion, "price")
    backend: str | None = shared(
        ServeQuestion, "backend", help="Engine whose constants count.", blank="that of the metrics"
    )
    backend_version: str | None = shared(ServeQuestion, "backend_version")
    profile: str | None = shared(ServeQuestion, "profile")
    max_batch: int | None = shared(ServeQuestion, "max_batch")
    anchor: tuple[str, ...] = shared(ServeQuestion, "anchor")
    from_command: str | None = shared(ServeQuestion, "from_command")
    input_tokens: float | None = asked(
        "tokens", "New input tokens of a request, where the metrics do not tell.", unit="tokens", is_open=True,
        is_single=True, metavar="I", blank="as the metrics say, or the plan",
    )  # fmt: skip
    output_tokens: float | None = asked(
        "tokens", "Output tokens of a request, where the metrics do not tell.", unit="tokens", is_open=True,
        is_single=True, metavar="O", blank="as the metrics say, or the plan",
    )  # fmt: skip
    every: float = asked(
        "s", "Time between two scrapes.", 5.0, unit=None, least=0.1, most=HOUR_S, is_single=True, metavar="T",
        blank="5s",
    )  # fmt: skip
    samples: int = shared(ServeQuestion, "samples", default=256)
    seed: int = shared(ServeQuestion, "seed")

    def check(self) -> None:
        """Refuse an address given twice, and half of a deployment."""
        if len(set(self.urls)) < len(self.urls):
            raise InputError("an address is given twice, and would count twice")
        if self.plan is None and self.from_command is None and (self.model is None) != (self.system is None):
            missing = "--system" if self.system is None else "--model"
            raise InputError(f"{missing}: a prediction needs --model and --system; without both nothing is predicted")
