"""The question of ``computeledger route``: which model, or which order of models, completes a task most cheaply."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from computeledger.errors import InputError
from computeledger.fields import MOST_SEED, Asked, asked
from computeledger.files import of_files

if TYPE_CHECKING:
    from computeledger.economics.routing.task import RouteCase


@dataclass(frozen=True, kw_only=True)
class RouteQuestion(Asked):
    """Cost, time and success of a completed task: single models, retries, best of k, and cascades."""

    task: str | RouteCase | None = asked("text", "Models, checks and the task, as TOML.", takes_record=True)
    attempts: str | None = asked(
        "text", "Fit models to attempts: model, task, success, cost; CSV or JSONL.", metavar="F.csv"
    )
    check_attempts: bool = asked(
        "switch", "Predict cascades of one half of the attempts' tasks from the other half.", False,
        aliases=("check",),
    )  # fmt: skip
    min_success: float | None = asked(
        "fraction", "Share of the tasks to complete at least, in place of what the task says.", is_single=True,
        most=1.0, metavar="F",
    )  # fmt: skip
    failure_usd: float | None = asked(
        "usd", "What a task costs besides that is not completed, in place of what the task says.", is_single=True,
        least=0.0, metavar="USD", unit="USD",
    )  # fmt: skip
    seed: int = asked("whole", "Seed of the sampling.", 0, most=MOST_SEED)

    def check(self) -> None:
        """Refuse a question without a task."""
        if self.check_attempts and self.attempts is None:
            raise InputError("--check-attempts needs --attempts, the real runs to predict")
        if self.check_attempts and (self.min_success is not None or self.failure_usd is not None):
            raise InputError("--check-attempts predicts cascades: it takes no --min-success and no --failure-usd")
        if self.task is None and self.attempts is None:
            tables = "its tables, first of all model: who may do it"
            raise InputError(f"no task: give {of_files('a file such as TASK.toml, or --attempts', tables)}")
