"""The question of ``computeledger route``: which model, or which order of models, completes a task most cheaply."""

from __future__ import annotations

from dataclasses import dataclass

from computeledger.errors import InputError
from computeledger.fields import MOST_SEED, Asked, asked


@dataclass(frozen=True, kw_only=True)
class RouteQuestion(Asked):
    """Cost, time and success of a completed task: single models, retries, best of k, and cascades."""

    task: str | None = asked("text", "Models, checks and the task, as TOML.")
    attempts: str | None = asked(
        "text", "Fit models to attempts: model, task, success, cost; CSV or JSONL.", metavar="F.csv"
    )
    check_attempts: bool = asked(
        "switch", "Predict cascades of one half of the attempts' tasks from the other half.", False,
        aliases=("check",),
    )  # fmt: skip
    seed: int = asked("whole", "Seed of the sampling.", 0, most=MOST_SEED)

    def check(self) -> None:
        """Refuse a question without a task."""
        if self.check_attempts and self.attempts is None:
            raise InputError("--check-attempts needs --attempts, the real runs to predict")
        if self.task is None and self.attempts is None:
            raise InputError("no task: give a file such as TASK.toml, or --attempts")
