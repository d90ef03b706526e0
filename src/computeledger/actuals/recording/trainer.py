"""A callback that writes the run ledger of the Hugging Face Trainer and of TRL's trainers.

transformers and torch are loaded by the run that uses the callback, never by this module.
"""

from __future__ import annotations

import functools
import warnings
from dataclasses import dataclass
from importlib import import_module, util
from pathlib import Path
from typing import Any

import numpy as np

from computeledger.actuals.recording.devices import accelerator_of, installed_versions
from computeledger.actuals.recording.forward_passes import ForwardPasses, Rows
from computeledger.actuals.recording.run import PhaseBook, RunLedger, RunMachine, join
from computeledger.actuals.recording.trl_timers import TrlTimers
from computeledger.actuals.recording.work import ParameterCount, counted_model
from computeledger.errors import InputError
from computeledger.facts.load import load_accelerator

#: Packages whose versions are written to the ledger.
PACKAGES = ("computeledger", "torch", "transformers", "trl", "accelerate", "peft", "deepspeed", "vllm")


@dataclass(frozen=True, slots=True)
class _Wishes:
    """What the caller said of the ledger."""

    path: Path
    run: str | None
    devices: int | None
    synchronize: bool
    overwrite: bool


class _Recording:
    """A run that is being recorded: the open phase, and what watches model and library."""

    def __init__(self, wishes: _Wishes, args: Any, state: Any, model: Any) -> None:
        is_rl = hasattr(args, "num_generations")
        _check(args, is_rl, wishes.devices)
        self.torch = import_module("torch")
        self.ledger = RunLedger(
            wishes.path, _counted(model), _machine(self.torch, args, model, wishes),
            run=wishes.run or wishes.path.stem, workload="rl" if is_rl else "pretraining", by_step=True,
        )  # fmt: skip
        self.passes = ForwardPasses(self.torch, model, labels=is_rl)
        self.timers = TrlTimers(self.ledger) if is_rl else None
        older = getattr(args, "gradient_checkpointing", False)  # its name until transformers 5
        self.recomputed = bool(getattr(args, "activation_checkpointing", older))
        self.trained_fraction = _trained_fraction(model)
        self.begun, self.seen = state.global_step, float(state.num_input_tokens_seen)
        self.trains, self.scores, self.samples = "forward-backward", "forward-backward", ""
        if self.timers is not None:
            names = ("update", "log-probs", "generation") if self.timers.works else ("step", "step", "step")
            self.trains, self.scores, self.samples = names
        self._open, self._phase = self.ledger.begin(), ""

    def begin(self, phase: str = "") -> None:
        """Begin a phase; without a name it gets one when it ends."""
        self._open, self._phase = self.ledger.begin(), phase

    def end(self, phase: str = "") -> None:
        """End the open phase."""
        self.ledger.end(self._open, self._phase or phase)

    def beside(self, phase: str) -> None:
        """Write what was made between two steps."""
        self.end(phase)
        self.ledger.write_step()
        self.begin()

    def close(self) -> None:
        """Let go of model and library, and close the ledger."""
        self.passes.close()
        if self.timers is not None:
            self.timers.close()
        self.ledger.close()

    def count(self, state: Any) -> None:
        """Tokens, sequences, work and memory of the step, into the phases that had them."""
        rows, scored = self.passes.trained(), self.passes.scored()
        if not rows.tokens.size and state.global_step == self.begun + 1:
            warnings.warn(
                "trainer_callback saw no forward pass of the model with gradients: the ledger has times, and no tokens",
                stacklevel=2,
            )
        book = self.ledger.book(self.trains)
        book.peak_memory_bytes = _peak_memory_bytes(self.torch)
        if rows.tokens.size:
            book.update(
                rows.tokens, rows.padded_tokens, recomputed=self.recomputed, trained_fraction=self.trained_fraction
            )
        if scored.tokens.size:
            self.ledger.book(self.scores).forward(scored.tokens)
        if self.samples:
            self._count_rollouts(state, scored if scored.tokens.size > rows.tokens.size else rows)

    def _count_rollouts(self, state: Any, rows: Rows) -> None:
        """Tokens that the step's rollouts read and sampled.

        TRL adds prompts and completions of all processes to the state. How they divide is taken from the rows of this
        process that the step scored or trained on, which are all of them: where a step trains on a part of what it
        generated, TRL scores the whole before.
        """
        made = (float(state.num_input_tokens_seen) - self.seen) / self.ledger.machine.processes
        self.seen = float(state.num_input_tokens_seen)
        if made <= 0 or not rows.tokens.size:
            return
        scale = made / float(np.sum(rows.tokens))
        once = PhaseBook(self.ledger.model)
        once.generate(rows.labelled_tokens, rows.tokens - rows.labelled_tokens)
        once.went_over(rows.tokens.size)
        join(self.ledger.book(self.samples), once.times(scale))


class TrainerEvents:
    """Events of a Trainer, charged to phases; in the first process alone."""

    def __init__(self, wishes: _Wishes) -> None:
        self._wishes = wishes
        self._run: _Recording | None = None

    def on_train_begin(self, args: Any, state: Any, *_: Any, model: Any = None, **_options: Any) -> None:
        """Open the ledger."""
        self._close()  # of a run that was broken off, and begins again in the same process
        if not state.is_world_process_zero:
            return
        if self._wishes.overwrite and self._wishes.path.is_file():
            self._wishes.path.unlink()
        self._run = _Recording(self._wishes, args, state, model)

    def on_step_begin(self, _args: Any, state: Any, *_: Any, **_options: Any) -> None:
        """What was before was spent on data."""
        if (run := self._run) is not None:
            run.ledger.begin_step(state.global_step + 1)
            run.end("data")
            if run.timers is not None:
                run.timers.in_step = True
            run.begin(run.trains)

    def on_pre_optimizer_step(self, *_: Any, **_options: Any) -> None:
        """Gradients are there."""
        if (run := self._run) is not None and run.timers is None:
            run.end()
            run.begin("optimizer")

    def on_step_end(self, _args: Any, state: Any, *_: Any, **_options: Any) -> None:
        """Count what the step went over, and write it."""
        if (run := self._run) is not None:
            run.end()
            if run.timers is not None:
                run.timers.in_step = False
            run.begin()
            run.count(state)
            run.ledger.write_step()

    def on_evaluate(self, *_: Any, **_options: Any) -> None:
        """What was before was spent on evaluation."""
        if (run := self._run) is not None:
            rows = run.passes.scored()
            if rows.tokens.size:
                book = run.ledger.book("evaluation")
                book.forward(rows.tokens)
                book.went_over(rows.tokens.size)
            run.beside("evaluation")

    def on_save(self, *_: Any, **_options: Any) -> None:
        """What was before was spent on the checkpoint."""
        if self._run is not None:
            self._run.beside("checkpoint")

    def on_train_end(self, *_: Any, **_options: Any) -> None:
        """Close the ledger."""
        if self._run is not None:
            self._run.end("other")
        self._close()

    def _close(self) -> None:
        run, self._run = self._run, None
        if run is not None:
            run.close()


def _check(args: Any, is_rl: bool, devices: int | None) -> None:
    """Refuse what the ledger would get wrong."""
    if getattr(args, "torch_compile", False):
        raise InputError("trainer_callback with torch_compile: a compiled model's passes cannot be watched")
    served = is_rl and getattr(args, "use_vllm", False) and getattr(args, "vllm_mode", "") == "server"
    if served and devices is None:
        raise InputError("trainer_callback with vllm_mode 'server': say devices, those of the server included")


def _machine(torch: Any, args: Any, model: Any, wishes: _Wishes) -> RunMachine:
    """The run's devices; the peak of a GPU whose data sheet is known."""
    device = next(iter(model.parameters())).device
    versions = installed_versions(PACKAGES)
    name, peak, source, wait = device.type.upper(), None, "", None
    if device.type == "cuda":
        name = torch.cuda.get_device_name(device)
        versions["cuda"] = str(torch.version.cuda)
        sheet = accelerator_of(name, float(torch.cuda.get_device_properties(device).total_memory))
        if sheet is not None:
            peak, source = load_accelerator(sheet).peak("bf16"), f"{sheet}, bf16"
        if wishes.synchronize:
            wait = functools.partial(torch.cuda.synchronize, device)
    apart = getattr(getattr(args, "parallelism_config", None), "tp_size", None) or 1
    held = args.world_size * max(1, getattr(args, "n_gpu", 1))
    return RunMachine(name, wishes.devices or held, max(1, args.world_size // apart), peak, source, versions, wait)


def _peak_memory_bytes(torch: Any) -> float | None:
    """Most memory that PyTorch has allocated on this process's GPU so far; None without one [byte]."""
    return float(torch.cuda.max_memory_allocated()) if torch.cuda.is_initialized() else None


def _counted(model: Any) -> Any:
    """Choose what the model's work is counted by."""
    total = int(sum(getattr(one, "ds_numel", None) or one.numel() for one in model.parameters()))
    config = getattr(model, "config", None)
    known = ParameterCount(total, 0, str(getattr(config, "model_type", type(model).__name__)))
    return known if config is None else counted_model(config, known.architecture, known)


def _trained_fraction(model: Any) -> float:
    """Share of the parameters that gradients are taken of."""
    sizes = [(one.requires_grad, getattr(one, "ds_numel", None) or one.numel()) for one in model.parameters()]
    total = sum(size for _, size in sizes)
    return sum(size for trains, size in sizes if trains) / total if total else 1.0


def trainer_callback(
    path: str | Path, *, run: str | None = None, devices: int | None = None, synchronize: bool = True,
    overwrite: bool = False,
) -> Any:  # fmt: skip
    """Make a callback that writes the run ledger of a Hugging Face ``Trainer`` or of a trainer of TRL.

    Every step is a few lines: wall time by phase, tokens, sequences, FLOP by the model's configuration, peak memory of
    a GPU. A Trainer's phases are forward-backward, optimizer, data, evaluation and checkpoint; with GRPO and RLOO they
    are those that TRL times: generation, verification, log-probs, update, weight sync and data. The first process
    writes; what it counts is taken times the data-parallel processes.

    Parameters
    ----------
    path : str or Path
        File that lines are added to. A run that resumes goes on in it as its next attempt.
    run : str or None
        Name of the run; else the file's name.
    devices : int or None
        Devices that the run holds; else its processes, one each. Needed where vLLM serves on GPUs of its own [-].
    synchronize : bool
        Whether the device is waited for where a phase begins and ends; without it work that was begun in a phase
        counts in the one that waits for it.
    overwrite : bool
        Whether a ledger that is there is begun anew.

    Returns
    -------
    transformers.TrainerCallback
        For the trainer's ``callbacks``.

    Raises
    ------
    InputError
        transformers is not installed; the file cannot be written, or is no ledger (both when training begins).

    Examples
    --------
    >>> from transformers import TrainerCallback
    >>> isinstance(trainer_callback("run.jsonl", run="first try"), TrainerCallback)
    True
    """
    if util.find_spec("transformers") is None:
        raise InputError("trainer_callback: the package transformers is needed; pip install transformers")
    theirs = import_module("transformers").TrainerCallback
    made = type("LedgerCallback", (TrainerEvents, theirs), {"__doc__": TrainerEvents.__doc__})
    return made(_Wishes(Path(path), run, devices, synchronize, overwrite))
