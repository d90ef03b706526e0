"""The ledger of a run while it goes on: every second charged to a phase, the work counted, both written as it ends.

:class:`RunLedger` keeps a stack of open phases. Time goes to the innermost one, and to "idle" while none is open, so
that phases and idle add up to the wall time by construction. Work is counted from the model's configuration; nothing
here needs torch.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from computeledger.actuals.recording.power_meter import PowerMeter
from computeledger.actuals.recording.work import (
    Adapted,
    Counted,
    ParameterCount,
    Work,
    active_parameters,
    bare,
    counted_model,
    decode_work,
    forward_work,
    training_work,
    update_work,
)
from computeledger.actuals.run_ledger import PHASES_OF_RUN, Entry, LedgerWriter, read_ledger
from computeledger.actuals.run_summary import summary
from computeledger.arrays import Num
from computeledger.bounds import AT_LEAST_ONE, POSITIVE, check_record
from computeledger.errors import InputError, nearest, shown
from computeledger.units import LARGEST

#: Idle time that is a line of its own where lines are written by the step; less waits for more [s].
LEAST_IDLE_S = 0.01


@dataclass(frozen=True, slots=True)
class RunMachine:
    """What a run's phases are run on.

    Attributes
    ----------
    device : str
        What one device is.
    devices : int
        How many the run holds.
    processes : int
        Data-parallel processes of which the one that keeps the ledger is one: what it counts is taken times as many.
    peak_flop_per_s : float or None
        Of one device, that utilisation is against [FLOP/s].
    peak_source : str
        Where the peak is from.
    versions : mapping of str to str
        Software, by name.
    synchronize : callable or None
        Waits until the device has done what it was given; called where a phase begins and ends.

    Examples
    --------
    >>> RunMachine("H100", devices=16, processes=16).devices
    16
    """

    device: str = ""
    devices: int = 1
    processes: int = 1
    peak_flop_per_s: float | None = None
    peak_source: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    synchronize: Callable[[], None] | None = None

    def __post_init__(self) -> None:
        check_record(self, devices=AT_LEAST_ONE, processes=AT_LEAST_ONE, peak_flop_per_s=POSITIVE)


class PhaseBook:
    """What is counted in a phase."""

    def __init__(self, model: Counted | None) -> None:
        self._model = model
        self.tokens_by_kind: dict[str, float] = {}
        self.work: Work | None = None
        self.moved_bytes: float | None = None
        self.sequences: float | None = None
        self.peak_memory_bytes: float | None = None
        self.duration_s = 0.0
        self.energy_j: float | None = None
        self.started = ""

    def tokens(self, **counts: float) -> None:
        """Count tokens."""
        for kind, count in counts.items():
            self.tokens_by_kind[kind] = self.tokens_by_kind.get(kind, 0.0) + _counted(count, f"{kind} tokens")

    def moved(self, data_bytes: float) -> None:
        """Count data moved between devices or to disk."""
        self.moved_bytes = (self.moved_bytes or 0.0) + _counted(data_bytes, "moved bytes")

    def went_over(self, sequences: float) -> None:
        """Count sequences."""
        self.sequences = (self.sequences or 0.0) + _counted(sequences, "sequences")

    def forward(
        self, new_tokens: ArrayLike, context_tokens: Num = 0.0, head_tokens: Num | None = None, *, adapted: bool = True
    ) -> None:
        """Count a forward pass, as :func:`forward_work` does; of the model without its adapters where told so."""
        if self._model is not None:
            model = self._model if adapted else bare(self._model)
            self.add(forward_work(model, np.asarray(new_tokens, float), context_tokens, head_tokens))

    def generate(self, new_tokens: ArrayLike, context_tokens: ArrayLike) -> None:
        """Count sampling: one pass over each context, then one per token but the last; and the tokens themselves."""
        new, context = np.broadcast_arrays(
            np.atleast_1d(np.asarray(new_tokens, float)), np.asarray(context_tokens, float)
        )
        self.tokens(sampled=float(new.sum()), input=float(context.sum()))
        self.sample(new, context)

    def sample(self, new_tokens: Num, context_tokens: Num) -> None:
        """Count the work of sampling alone, where what is sampled is no rollout of the policy.

        Parameters
        ----------
        new_tokens : float or ndarray
            Tokens sampled for each sequence [token].
        context_tokens : float or ndarray
            Tokens before them [token].
        """
        new, context = np.broadcast_arrays(np.atleast_1d(np.asarray(new_tokens, float)), context_tokens)
        if self._model is not None:
            self.add(forward_work(self._model, context, head_tokens=1.0))
            self.add(decode_work(self._model, np.maximum(new - 1, 0.0), context))

    def train(
        self, tokens: Num, head_tokens: Num | None = None, *, recomputed: bool = False, padded_tokens: float = 0.0,
        fused_tokens: Num | None = None,
    ) -> None:  # fmt: skip
        """Count a forward and backward pass, as :func:`training_work` does; and the tokens themselves."""
        self.tokens(trained=float(np.sum(np.asarray(tokens, float))))
        if self._model is not None:
            self.add(
                training_work(
                    self._model, tokens, head_tokens, recomputed=recomputed, padded_tokens=padded_tokens,
                    fused_tokens=fused_tokens,
                )
            )  # fmt: skip

    def update(
        self, tokens: ArrayLike, padded_tokens: ArrayLike, *, recomputed: bool = False, trained_fraction: float = 1.0
    ) -> None:
        """Count forward and backward passes over rows of several batches, and the tokens and sequences themselves.

        Parameters
        ----------
        tokens : float or ndarray
            Tokens of each sequence [token].
        padded_tokens : float or ndarray
            Width of the batch it was in [token].
        recomputed : bool
            Whether the backward pass made the forward pass of the layers again.
        trained_fraction : float
            Share of the parameters whose gradients are taken: adapters leave most of them out.
        """
        lengths = np.atleast_1d(np.asarray(tokens, float))
        self.tokens(trained=float(lengths.sum()))
        self.went_over(lengths.size)
        if self._model is not None:
            widths = np.asarray(padded_tokens, float)
            self.add(update_work(self._model, lengths, widths, recomputed, trained_fraction))

    def times(self, n: float) -> PhaseBook:
        """The same counts, so many times over."""
        out = PhaseBook(self._model)
        out.tokens(**{kind: n * count for kind, count in self.tokens_by_kind.items()})
        if self.sequences is not None:
            out.went_over(n * self.sequences)
        if self.work is not None:
            out.add(Work(n * self.work.flop, n * self.work.executed_flop))
        return out

    def add(self, work: Work) -> None:
        """Count work that was counted elsewhere, such as another model's."""
        before = self.work or Work(0.0, 0.0)
        self.work = Work(before.flop + work.flop, before.executed_flop + work.executed_flop)


def _counted(count: float, what: str) -> float:
    """Refuse a count that no ledger can hold, where it is made."""
    number = float(count)
    if not 0 <= number <= LARGEST:
        raise InputError(f"{what} {shown(number)}: a finite number from 0 is needed")
    return number


class LedgerLines:
    """Add a run's lines to its ledger, whatever measured them."""

    def __init__(
        self, path: str | Path | None, config: object = None, machine: RunMachine | None = None, *, run: str = "run",
        workload: str = "rl",
    ) -> None:  # fmt: skip
        if workload not in PHASES_OF_RUN:
            raise InputError(f"workload {shown(workload)}: {nearest(workload, PHASES_OF_RUN)}")
        self.path = None if path is None else Path(path)
        self.machine, self.run, self.workload = machine or RunMachine(), run, workload
        self.model = config if isinstance(config, Counted) else counted_model(config, run)
        self._n_params_active = active_parameters(self.model) if self.model else None
        self._before = read_ledger(self.path).entries if self.path is not None and _has_content(self.path) else ()
        mine = [entry.attempt for entry in self._before if entry.run == run and entry.workload == workload]
        self.attempt = max(mine, default=-1) + 1
        self._writer = None if self.path is None else LedgerWriter(self.path)

    @property
    def unwritten(self) -> int:
        """Entries that wait for room on the disk [-]."""
        return 0 if self._writer is None else self._writer.unwritten

    def adapt(self, n_params: float) -> None:
        """Count what follows as a frozen model's with adapters of so many parameters beside it."""
        if self.model is not None:
            self.model = Adapted(bare(self.model), n_params)

    def check(self, phase: str) -> None:
        """Refuse a phase that the workload does not have."""
        if phase not in PHASES_OF_RUN[self.workload] or phase == "idle":  # what is idle is what is in no phase
            raise InputError(f"phase {shown(phase)}: {nearest(phase, PHASES_OF_RUN[self.workload])}")

    def add(self, phase: str, book: PhaseBook, step: int | None) -> Entry:
        """Write what is in a book as a line."""
        machine, n = self.machine, self.machine.processes
        work = book.work
        entry = Entry(
            run=self.run, workload=self.workload, phase=phase, duration_s=book.duration_s, devices=machine.devices,
            step=step, attempt=self.attempt,
            tokens_by_kind={kind: n * count for kind, count in book.tokens_by_kind.items()},
            flop=n * work.flop if work else None, executed_flop=n * work.executed_flop if work else None,
            moved_bytes=None if book.moved_bytes is None else n * book.moved_bytes, energy_j=book.energy_j,
            sequences=None if book.sequences is None else n * book.sequences,
            peak_memory_bytes=book.peak_memory_bytes,
            device=machine.device, peak_flop_per_s=machine.peak_flop_per_s, peak_source=machine.peak_source,
            versions=dict(machine.versions), started=book.started,
            n_params_active=self._n_params_active,
        )  # fmt: skip
        if self._writer is not None:
            self._writer.append(entry)
        return entry

    def close(self) -> None:
        """Close the file."""
        if self._writer is not None:
            self._writer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class RunLedger(LedgerLines):
    """Write a run's ledger while it goes on.

    A line is one phase of one step. It goes to the disk in one write when its phase ends, so a run that is killed
    leaves a ledger that can be read. A run that goes on in the same file is its next attempt.

    Parameters
    ----------
    path : str or Path or None
        File that lines are added to; None writes nothing, as a process beside the first does.
    config : object
        What FLOP are counted by: a model of :func:`computeledger.load_model`, a Hugging Face configuration (an object
        or a mapping), or None, where no FLOP are counted.
    machine : RunMachine
        Devices, their number and their peak.
    run : str
        Name of the run.
    workload : str
        ``rl``, ``pretraining`` or ``serving``; its phases are those of :data:`PHASES_OF_RUN`.
    by_step : bool
        Whether what a phase does several times in a step is one line, written when the next step begins.

    Raises
    ------
    InputError
        The file cannot be written, or holds something else than a ledger; the workload or a phase is unknown.

    Examples
    --------
    >>> import tempfile
    >>> from computeledger.facts.load import load_model
    >>> path = Path(tempfile.mkdtemp(), "run.jsonl")
    >>> with RunLedger(path, load_model("Qwen/Qwen3-8B"), RunMachine("H100", devices=8)) as ledger:
    ...     with ledger.phase("generation", step=1) as counted:
    ...         counted.generate(new_tokens=[900, 300], context_tokens=100)
    >>> [(one.phase, one.tokens_by_kind) for one in read_ledger(path).entries if one.phase != "idle"]
    [('generation', {'sampled': 1200.0, 'input': 200.0})]
    """

    def __init__(
        self, path: str | Path | None, config: object = None, machine: RunMachine | None = None, *, run: str = "run",
        workload: str = "rl", by_step: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(path, config, machine, run=run, workload=workload)
        self._by_step = by_step
        # a long run's lines are on the disk, and need not be in the memory
        self.entries: list[Entry] = [] if by_step else list(self._before)
        self._before = ()
        self._meter = PowerMeter()
        self._held: dict[str, PhaseBook] = {}
        self._open: list[PhaseBook] = []
        self._step: int | None = None
        self._idle = PhaseBook(None)
        self._idle.started = _now()
        self._mark, self._joules = time.perf_counter(), self._energy_j()

    @contextmanager
    def phase(self, name: str, step: int | None = None) -> Iterator[PhaseBook]:
        """Charge what happens inside to a phase; a phase opened within another takes its own time out of it.

        Parameters
        ----------
        name : str
            One of the workload's phases.
        step : int or None
            Step of the optimizer that it belongs to; else that of the phase before [-].

        Returns
        -------
        PhaseBook
            Counts what the phase works on: ``generate``, ``forward``, ``update``, ``tokens``, ``moved``.
        """
        self.check(name)
        self._charge()
        if step is not None:
            self._next_step(step)
        opened = self._begin()
        try:
            yield opened
        finally:
            self.end(opened, name)

    def begin(self) -> PhaseBook:
        """Open a phase whose name is known when it ends.

        Returns
        -------
        PhaseBook
            What is counted in it.
        """
        self._charge()
        return self._begin()

    def end(self, opened: PhaseBook, name: str) -> None:
        """End a phase that was opened.

        Parameters
        ----------
        opened : PhaseBook
            What :meth:`begin` gave.
        name : str
            One of the workload's phases.
        """
        self.check(name)
        self._charge()
        self._open.remove(opened)
        if not self._by_step:
            self._write(name, opened)
            return
        held = self.book(name)
        held.started = min(held.started, opened.started) if held.started else opened.started
        join(held, opened)

    def book(self, name: str) -> PhaseBook:
        """Find what the step has of a phase, where phases are written by the step.

        Parameters
        ----------
        name : str
            One of the workload's phases.

        Returns
        -------
        PhaseBook
            What is counted in it.
        """
        self.check(name)
        return self._held.setdefault(name, PhaseBook(self.model))

    def begin_step(self, step: int) -> None:
        """Say which step what follows belongs to; writes what is held of the one before.

        Parameters
        ----------
        step : int
            Step of the optimizer [-].
        """
        self._charge()
        self._next_step(step)

    def write_step(self) -> None:
        """Write what is held of the step."""
        held, self._held = self._held, {}
        for name, book in held.items():
            self._write(name, book)

    def _begin(self) -> PhaseBook:
        opened = PhaseBook(self.model)
        opened.started = _now()
        self._open.append(opened)
        return opened

    def _next_step(self, step: int) -> None:
        if step != self._step:
            self.write_step()
            if not self._by_step or self._idle.duration_s >= LEAST_IDLE_S:
                self._close_idle()
            self._step = step

    def _energy_j(self) -> float | None:
        """Energy of every device of the run; None where the meter reads fewer or more of them."""
        return self._meter.energy_j() if self._meter.devices == self.machine.devices else None

    def _charge(self) -> None:
        """Give the time since the last mark to whom it belongs."""
        if self.machine.synchronize is not None:
            self.machine.synchronize()
        now, joules = time.perf_counter(), self._energy_j()
        book = self._open[-1] if self._open else self._idle
        book.duration_s += now - self._mark
        if joules is not None and self._joules is not None:
            book.energy_j = (book.energy_j or 0.0) + joules - self._joules
        self._mark, self._joules = now, joules

    def _close_idle(self) -> None:
        if self._idle.duration_s > 0:
            self._write("idle", self._idle)
        self._idle = PhaseBook(None)
        self._idle.started = _now()

    def _write(self, phase: str, book: PhaseBook) -> None:
        entry = self.add(phase, book, self._step)
        if not self._by_step:
            self.entries.append(entry)

    def summary(self) -> dict[str, Any]:
        """Sum up what has been written.

        Returns
        -------
        dict
            That of :func:`computeledger.actuals.run_summary.summary`, and what is not in it.
        """
        self._charge()
        self.write_step()
        self._close_idle()
        written = read_ledger(self.path).entries if self._by_step and self.path is not None else self.entries
        mine = [entry for entry in written if entry.run == self.run]
        unmeasured = "" if self._energy_j() is not None else "energy: not measured (no nvidia-smi that gives power)"
        return {
            **summary(mine, self.workload), "energy_note": unmeasured, "flop_note": self._flop_note(),
            "attempts": self.attempt + 1,
        }  # fmt: skip

    def _flop_note(self) -> str:
        """What the count of FLOP leaves out; empty where it is that of the architecture."""
        model = None if self.model is None else bare(self.model)
        if not isinstance(model, ParameterCount):
            return ""
        return (
            f"FLOP: 2 per parameter and token, attention left out: the planner has no formulas for architecture "
            f"{shown(model.architecture)}"
        )

    def close(self) -> None:
        """Write what is held and the idle time that is left, and close the file."""
        self._charge()
        self.write_step()
        self._close_idle()
        self._meter.close()
        super().close()


def join(held: PhaseBook, opened: PhaseBook) -> None:
    """Add a piece of a phase to what the step has of it."""
    held.tokens(**opened.tokens_by_kind)
    held.duration_s += opened.duration_s
    if opened.work is not None:
        held.add(opened.work)
    if opened.moved_bytes is not None:
        held.moved(opened.moved_bytes)
    if opened.sequences is not None:
        held.went_over(opened.sequences)
    if opened.energy_j is not None:
        held.energy_j = (held.energy_j or 0.0) + opened.energy_j
    peaks = [one for one in (held.peak_memory_bytes, opened.peak_memory_bytes) if one is not None]
    held.peak_memory_bytes = max(peaks, default=None)


def _has_content(path: Path) -> bool:
    return path.is_file() and path.stat().st_size > 0


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
