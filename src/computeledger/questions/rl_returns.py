"""The question of ``computeledger rl`` without a model: beta of published runs, or a fit to a reader's own points."""

from __future__ import annotations

from dataclasses import dataclass

from computeledger.errors import InputError
from computeledger.fields import Asked, asked


@dataclass(frozen=True, kw_only=True)
class RLReturnsQuestion(Asked):
    """Beta of published runs, or what RL buys by a reader's own points."""

    published: bool = asked("switch", "Beta of published runs, by phase; needs no model.", False)
    reward: str | None = asked("text", "Fit what RL buys from columns compute,reward; needs no model.", metavar="F.csv")
    coverage: str | None = asked(
        "text", "Fit pass@k from columns k,coverage or samples,correct; needs no model.", metavar="F.csv"
    )
    trained: str | None = asked(
        "text", "With --coverage, the same of the trained model: where the base model overtakes it.", metavar="F.csv"
    )
    forecast: float | None = asked("count", "Compute, or samples, to forecast the fit at.", is_single=True, metavar="X")

    def check(self) -> None:
        """Refuse none of the three and more than one, and a forecast of what is not fitted."""
        if sum((self.published, self.reward is not None, self.coverage is not None)) != 1:
            raise InputError("give one of --published, --reward and --coverage")
        if self.trained is not None and self.coverage is None:
            raise InputError("--trained goes with --coverage: pass@k before and after RL")
        if self.published and self.forecast is not None:
            raise InputError("--forecast goes with --reward or --coverage")
