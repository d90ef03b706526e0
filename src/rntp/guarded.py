"""What a long run needs of any GRPO trainer: books, checkpoints that are whole, and a stop before damage is saved.

Nothing here knows what is learnt. Every second of a step is charged to a phase; a loss, gradient or weight that is no
number stops the run with the name of the last good checkpoint; a checkpoint counts once its last file is on the disk.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor
from transformers import TrainerCallback

from computeledger.actuals.recording.run import RunLedger
from computeledger.errors import InputError
from rntp.ahead import BESIDE
from rntp.checkpoints import clear, last_checkpoint, mark_complete
from rntp.deferred import TRACKERS, deferred
from rntp.errors import TrainingError
from rntp.vllm_engine import faults_named

with deferred(TRACKERS):
    from trl import GRPOTrainer

#: Complete checkpoints that are kept.
KEPT_CHECKPOINTS = 2


def _finite(weights: Any) -> bool:
    """Whether every weight is a number; of those this process holds, where they are sharded."""
    held = weights.to_local() if hasattr(weights, "to_local") else weights
    return bool(torch.isfinite(held).all())


def _asking(args: Any, refusal: Callable[[str], Exception]) -> AbstractContextManager[None]:
    """Name the faults of a server, where one is asked."""
    if not args.use_vllm or args.vllm_mode != "server":
        return nullcontext()
    here = f"http://{args.vllm_server_host}:{args.vllm_server_port}"
    return faults_named(args.vllm_server_base_url or here, refusal)


class _Ends(TrainerCallback):
    """Tells the trainer where training begins, and where an update ends."""

    def __init__(self, trainer: GuardedTrainer) -> None:
        self._trainer = trainer

    def on_train_begin(self, *_args: Any, **_kwargs: Any) -> None:
        self._trainer.begin()

    def on_optimizer_step(self, *_args: Any, **_kwargs: Any) -> None:
        self._trainer.follow()

    def on_substep_end(self, *_args: Any, **_kwargs: Any) -> None:
        self._trainer.end_update()

    def on_step_end(self, *_args: Any, **_kwargs: Any) -> None:
        self._trainer.end_update()


class GuardedTrainer(GRPOTrainer):
    """TRL's trainer with books and whole checkpoints."""

    def __init__(self, books: RunLedger, callbacks: Sequence[TrainerCallback], **arguments: Any) -> None:
        self.books = books
        self._update: ExitStack | None = None
        with _asking(arguments["args"], InputError):
            super().__init__(callbacks=[_Ends(self), *callbacks], **arguments)
        self.get_batch_samples = self._in_phase("data", super().get_batch_samples)
        if self.use_vllm:
            engine = self.vllm_generation
            engine.sync_weights = self._in_phase("weight sync", engine.sync_weights)

    def _phase(self, name: str) -> Any:
        beside = BESIDE.get()
        return self.books.phase(name, self.state.global_step) if beside is None else nullcontext(beside)

    def _in_phase(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """A method of the base class, charged to a phase."""

        def charged(*arguments: Any, **options: Any) -> Any:
            with self._phase(name):
                return call(*arguments, **options)

        return charged

    def _asking(self) -> AbstractContextManager[None]:
        """Stop the run with one line where a server fails."""
        return _asking(self.args, self._stopped)

    def _begin_update(self) -> Any:
        """Charge what follows to the update, up to the end of the step; gives the phase's book."""
        self._update = ExitStack()
        return self._update.enter_context(self._phase("update"))

    def end_update(self) -> None:
        """Stop charging the update."""
        if self._update is not None:
            self._update.close()
            self._update = None

    def begin(self) -> None:
        """Do what has to be done once the weights are where they are trained; nothing here."""

    def follow(self) -> None:
        """Do what has to follow a change of the weights; nothing here."""

    def training_step(self, *arguments: Any, **options: Any) -> Tensor:
        """Make one pass, and stop the run where its loss is no number."""
        try:
            loss: Tensor = super().training_step(*arguments, **options)
        except BaseException:
            self.end_update()
            raise
        if self._anywhere(not math.isfinite(loss.item())):
            self.end_update()
            raise self._stopped(f"the loss is {loss.item()}")
        return loss

    def _get_grad_norm(self, *arguments: Any, **options: Any) -> Any:
        norm = super()._get_grad_norm(*arguments, **options)
        if not math.isfinite(float(norm)):
            self.end_update()
            raise self._stopped(f"the gradient's norm is {float(norm)}")
        return norm

    def _anywhere(self, wrong: bool) -> bool:
        """Whether something is wrong in any process, so that all of them stop."""
        flag = torch.tensor(float(wrong), device=self.accelerator.device)
        return bool(self.accelerator.reduce(flag, reduction="sum").item() > 0)

    def _stopped(self, reason: str) -> TrainingError:
        last = last_checkpoint(Path(self.args.output_dir))
        kept = f"the last good checkpoint is {last}" if last else "there is no checkpoint yet"
        return TrainingError(f"step {self.state.global_step + 1}: {reason}; {kept}")

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        with self._phase("checkpoint"):
            if self._anywhere(not all(map(_finite, self.model.parameters()))):
                raise self._stopped("weights are no numbers, and were not saved")
            folder = Path(self.args.output_dir) / f"checkpoint-{self.state.global_step}"
            try:
                super()._save_checkpoint(model, trial)
                self._save_more(folder)
                self.accelerator.wait_for_everyone()
                if self.accelerator.is_main_process:
                    mark_complete(folder)
                    clear(folder.parent, KEPT_CHECKPOINTS)
            except (OSError, RuntimeError, SafetensorError) as error:
                if self.accelerator.is_main_process:
                    shutil.rmtree(folder, ignore_errors=True)
                raise self._stopped(f"the checkpoint could not be written ({error})") from error

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """Write the model; in a checkpoint of sharded weights its configuration alone."""
        if not (_internal_call and self.is_fsdp_enabled):
            super().save_model(output_dir, _internal_call)
        elif self.args.should_save:
            for part in (self.model.config, self.processing_class):
                part.save_pretrained(output_dir or self.args.output_dir)

    def _save_more(self, folder: Path) -> None:
        """Write what else a run needs to go on; nothing here."""

    def create_model_card(self, *_arguments: Any, **_options: Any) -> None:
        """Write no card."""

    def _send_telemetry(self) -> None:
        """A run is nobody else's business."""
