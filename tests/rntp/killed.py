"""Runs that are killed and resumed, each a child of one process that has loaded everything."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rntp.checkpoints import clear, last_checkpoint
from rntp.mixture import mixed_rows
from rntp.recipe import RewardSpec
from rntp.trainer import Extras, RntpTrainer
from tests.rntp import tiny


class Killed(RntpTrainer):
    """Ends at a step, as by a power cut."""

    at = 0

    def _save_more(self, folder: Path) -> None:
        super()._save_more(folder)
        if self.at == -self.state.global_step:
            os.kill(os.getpid(), signal.SIGKILL)

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> Any:
        if self.state.global_step == self.at > 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return super()._compute_loss(model, inputs)


def attempt(output: Path, at: int) -> None:
    """Go on from the last good checkpoint."""
    scorer = RewardSpec(scorer="ema", ema_decay=0.9)
    recipe = tiny.recipe(output, steps=6, save_steps=2, ntp_weight=0.5, reward=scorer)
    rows = mixed_rows(tiny.places(12), {}, {"text": 1.0}, 24)
    documents = [place.context_ids for place in tiny.places(7)]
    trainer = Killed(tiny.model(), tiny.TOKENIZER, rows, recipe, None, Extras(documents))
    trainer.at = at
    clear(output)
    found = last_checkpoint(output)
    sys.stdout.write(f"from {found.name if found else 'the start'}\n")
    sys.stdout.flush()
    trainer.train(resume_from_checkpoint=str(found) if found else None)


def run(output: Path, steps: Sequence[int]) -> None:
    """Attempts that are killed there; below 0, while the checkpoint of that step is written; at 0, not killed."""
    for at in steps:
        child = os.fork()
        if not child:
            attempt(output, at)
            os._exit(0)
        ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if ended != (0 if at == 0 else -signal.SIGKILL):
            sys.exit(f"{at}: ended with {ended}")
