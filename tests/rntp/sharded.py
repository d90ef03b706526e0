"""The weights after a short run, for processes whose weights are sharded (FSDP2) or whole (DDP), without a GPU.

accelerate gives FSDP to GPUs alone: the kind of the group is relabelled before it looks, and gloo does the rest.
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from accelerate import PartialState
from accelerate.utils import DistributedType

from rntp.mixture import mixed_rows
from rntp.recipe import LoraSpec, RewardSpec, ThoughtSpec
from rntp.trainer import Extras, RntpTrainer
from tests.rntp import tiny

#: What the launcher sets where weights are sharded.
SHARDED = {
    "ACCELERATE_USE_FSDP": "true", "FSDP_VERSION": "2", "FSDP_AUTO_WRAP_POLICY": "TRANSFORMER_BASED_WRAP",
    "FSDP_RESHARD_AFTER_FORWARD": "true", "FSDP_STATE_DICT_TYPE": "FULL_STATE_DICT",
}  # fmt: skip


class Fixed(RntpTrainer):
    """Thinks what its place among all thoughts says."""

    def _sample(self, prompts: list[list[int]], _each: int) -> tuple[list[list[int]], None]:
        made = []
        for place in range(len(prompts)):
            row = place + self.accelerator.process_index * len(prompts) + 100 * self.state.global_step
            ids = np.random.default_rng(row).integers(tiny.FIRST, len(tiny.TOKENIZER), 3 + row % 5).tolist()
            made.append(ids if row % 3 else [*ids, self._end])
        return made, None


def whole(one: Any) -> Any:
    """A weight, gathered where it is sharded."""
    return (one.full_tensor() if hasattr(one, "full_tensor") else one).detach().numpy().ravel()


BEGUN = PartialState.__init__


def relabelled(self: PartialState, *given: Any, **named: Any) -> None:
    """A group of processors under the name that accelerate shards."""
    BEGUN(self, *given, **named)
    if self.distributed_type == DistributedType.MULTI_CPU:
        self.distributed_type = DistributedType.MULTI_GPU


def trained(folder: Path, checkpoint: str | None = None, lora: LoraSpec | None = None) -> Fixed:
    """Three updates with a frozen scorer and every term of the loss, from the start or from a checkpoint."""
    recipe = tiny.recipe(
        folder, steps=3, prompts_per_step=4, group_size=2, ntp_weight=0.5, ntp_sequences=4, save_steps=2,
        reward=RewardSpec(scorer="frozen", nll_weight=0.2), thought=ThoughtSpec(budget=12, truncation="keep"),
    )  # fmt: skip
    rows = mixed_rows(tiny.places(12), {}, {"text": 1.0}, 12)
    documents = [place.context_ids for place in tiny.places(7)]
    recipe = replace(recipe, lora=lora)
    trainer = Fixed(tiny.model(), tiny.TOKENIZER, rows, recipe, None, Extras(documents))
    trainer.train(resume_from_checkpoint=checkpoint)
    return trainer


def alone(folder: Path) -> None:
    """Train with one process."""
    trained(folder)


def changed(folder: Path) -> None:
    """Go on with two processes from the checkpoint of one, and save the model."""
    trained(folder, str(folder.parent / "one" / "checkpoint-2")).save_final(folder / "final", folder / "ema")


def run(folder: Path, *, is_sharded: bool, lora: LoraSpec | None = None) -> None:
    """Train, go on from the checkpoint of step 2, say whether both end alike, and save the model."""
    if is_sharded:
        os.environ |= SHARDED
        PartialState.__init__ = relabelled
    done = trained(folder, lora=lora)
    found = np.concatenate([whole(one) for one in done.model.parameters()])
    sharded = any(hasattr(one, "full_tensor") for one in done.model.parameters())
    again = trained(folder, str(folder / "checkpoint-2"), lora)
    apart = np.abs(found - np.concatenate([whole(one) for one in again.model.parameters()])).max()
    sys.stdout.write(f"sharded {sharded} resumed {apart < 1e-6}\n")
    done.save_final(folder / "final", folder / "ema")
