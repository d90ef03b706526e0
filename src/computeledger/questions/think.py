"""The question of ``computeledger think``: size, thinking and samples that reach a success at least cost or wait."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from computeledger.economics.thinking.measured import KINDS, LEVEL_BENCHMARKS
from computeledger.fields import Asked, asked, shared
from computeledger.workloads.questions.setup import OnSystem

if TYPE_CHECKING:
    from computeledger.arrays import Uncertain


@dataclass(frozen=True, kw_only=True)
class ThinkQuestion(Asked):
    """Which model, thinking as long as that, with so many samples, reaches a success at least cost or wait."""

    success: float = asked(
        "fraction", "Share of tasks to be solved.", 0.8, is_open=True, most=0.999, is_single=True, metavar="F",
        label="Success", group="What", slider=(0.1, 0.99),
    )  # fmt: skip
    benchmark: str = asked(
        "text", "Tasks: those of a benchmark on which many sizes were published.", "aime-2024",
        choices=LEVEL_BENCHMARKS, label="Tasks", group="What",
    )  # fmt: skip
    model: tuple[str, ...] = asked(
        "texts", "Model id, or numbers such as 30B-A3B; may be repeated.", (), metavar="ID", label="Models",
        group="What", blank="Qwen3 of 0.6B to 235B",
    )  # fmt: skip
    kind: str | None = asked(
        "text", "Training of a model of which no success was published.", choices=KINDS, label="Training", group="What",
        blank="thinking",
    )  # fmt: skip
    pretraining_tokens: float = asked(
        "tokens", "Pretraining of a model of which it was not published (assumption).", 15e12, is_open=True,
        is_single=True, metavar="D", label="Pretraining", group="What", unit="tokens",
    )  # fmt: skip
    false_accept: float | None = asked(
        "fraction", "Share of wrong answers that a verifier or a selector accepts (0 for a proof, or complete tests).",
        is_single=True, metavar="F", label="Verifier errs", group="How", blank="no verifier: votes",
    )  # fmt: skip
    proposer: str | None = asked(
        "text", "Base model that proposes several answers; each of the models reads them and selects one.",
        metavar="ID", label="Proposer", group="How", blank="each model answers itself",
    )  # fmt: skip
    proposer_success: float | None = asked(
        "fraction", "Share of tasks that one proposal solves.", is_single=True, least=0.001, most=0.999, metavar="F",
        label="One proposal", group="How", blank="that of the model without thinking",
    )  # fmt: skip
    selector_tokens: float | None = asked(
        "tokens", "Tokens that a selector writes about a proposal (assumption).", is_open=True, least=1.0, most=1e6,
        is_single=True, metavar="L", unit="tokens", label="Selecting", group="How",
        blank="those of an answer without thinking",
    )  # fmt: skip
    max_samples: int = asked(
        "whole", "Most answers per task; powers of two are compared.", 64, least=1, most=4096, metavar="N",
        label="Samples", group="How",
    )  # fmt: skip
    natural_tokens: float | None = asked(
        "tokens", "Mean thinking tokens without a limit.", is_open=True, least=1.0, most=1e6, is_single=True,
        metavar="L", unit="tokens", label="Thoughts", group="How", blank="as published on these tasks",
    )  # fmt: skip
    input_tokens: float = asked(
        "tokens", "Tokens of a task (assumption).", 300.0, is_open=True, least=1.0, most=1e6, is_single=True,
        metavar="I", unit="tokens", label="Input", group="How",
    )  # fmt: skip
    system: str = asked(
        "text", "System id, a count (2xl40s, 4xh100-nvl8), or path to a system TOML.", "h100-nvl8", label="System",
        group="How",
    )  # fmt: skip
    price: Uncertain | None = shared(OnSystem, "price", is_open=True)
