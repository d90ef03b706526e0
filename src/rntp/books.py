"""The books of a run: every second of it charged to one phase, the work counted, both written to a run ledger.

:class:`Books` keeps a stack of open phases. Time goes to the innermost one, and to "idle" while none is open, so that
phases and idle add up to the wall time by construction. Work is counted by the transformer formulas of
:mod:`computeledger.physics.transformer` from the model's Hugging Face configuration; nothing here needs torch but
:func:`measure_next_token` and :func:`this_machine`.
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

from computeledger.actuals.run_ledger import PHASES_OF_RUN, Entry, LedgerWriter, read_ledger
from computeledger.actuals.run_summary import summary
from computeledger.arrays import Num
from computeledger.errors import InputError, nearest, shown
from computeledger.facts.architecture import Model
from computeledger.facts.huggingface import parse_config
from computeledger.physics.attention import mixer_of
from computeledger.physics.transformer import n_params_active
from rntp.meter import PowerMeter


@dataclass(frozen=True, slots=True)
class Machine:
    """What a run's phases are run on.

    Attributes
    ----------
    device : str
        What one device is.
    devices : int
        How many the run holds.
    processes : int
        Data-parallel processes of which the one that keeps the books is one: what it counts is taken times as many.
    peak_flop_per_s : float or None
        Of one device, that utilisation is against [FLOP/s].
    peak_source : str
        Where the peak is from.
    versions : mapping of str to str
        Software, by name.
    synchronize : callable or None
        Waits until the device has done what it was given; called where a phase begins and ends.
    """

    device: str = ""
    devices: int = 1
    processes: int = 1
    peak_flop_per_s: float | None = None
    peak_source: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    synchronize: Callable[[], None] | None = None


@dataclass(frozen=True, slots=True)
class Work:
    """FLOP of some passes."""

    flop: float
    executed_flop: float


@dataclass(frozen=True, slots=True)
class ParameterCount:
    """All that is known of a model whose architecture the planner cannot count: 2 FLOP a parameter and token."""

    n_params: int
    n_params_head: int
    architecture: str = ""


Counted = Model | ParameterCount


def counted_model(config: object, name: str = "model", parameters: ParameterCount | None = None) -> Counted | None:
    """Choose what a model's work is counted by: its architecture, else its parameters, else nothing.

    Examples
    --------
    >>> counted_model({"model_type": "gpt2"}, parameters=ParameterCount(100, 10, "gpt2")).n_params
    100
    """
    if config is None:
        return None
    try:
        return parse_config(_mapping(config), name)
    except InputError:
        if parameters is None:
            raise
        return parameters


def _n_params(model: Counted) -> int:
    return model.n_params if isinstance(model, ParameterCount) else n_params_active(model)


def forward_work(model: Counted, new_tokens: Num, context_tokens: Num = 0.0, head_tokens: Num | None = None) -> Work:
    """Count a forward pass over new tokens that follow a context whose keys and values are cached.

    ``2 N`` per token, the output head where logits are made only, and the attention over visible tokens. Sequences of a
    batch are padded to the longest in ``executed_flop``.

    Examples
    --------
    >>> model = parse_config({"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "vocab_size": 100,
    ...     "num_hidden_layers": 2, "num_attention_heads": 4}, "tiny")
    >>> work = forward_work(model, np.array([8.0, 16.0]))
    >>> work.flop < work.executed_flop
    True
    """
    new, context = np.broadcast_arrays(np.atleast_1d(np.asarray(new_tokens, float)), np.asarray(context_tokens, float))
    head = new if head_tokens is None else np.broadcast_to(np.asarray(head_tokens, float), new.shape)
    longest, widest, heads = new.max(initial=0.0), context.max(initial=0.0), head.max(initial=0.0)
    # every query of a dense pass is multiplied with every key, those that the mask hides included
    dense = _matrix_flop(model, longest, heads) + longest * _attention_flop(model, longest + widest, every=True)
    causal = _matrix_flop(model, new, head) + new * _attention_flop(model, new, context)
    return Work(float(np.sum(causal)), float(dense * new.size))


def decode_work(model: Counted, new_tokens: Num, context_tokens: Num = 0.0) -> Work:
    """Count tokens that are passed one at a time, each with logits, after a cached context.

    Examples
    --------
    >>> model = parse_config({"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "vocab_size": 100,
    ...     "num_hidden_layers": 2, "num_attention_heads": 4}, "tiny")
    >>> work = decode_work(model, 8.0, 100.0)
    >>> work.flop == work.executed_flop
    True
    """
    new, context = np.broadcast_arrays(np.atleast_1d(np.asarray(new_tokens, float)), np.asarray(context_tokens, float))

    def whole(tokens: Num, before: Num) -> Num:
        return _matrix_flop(model, tokens, tokens) + tokens * _attention_flop(model, tokens, before)

    longest = np.broadcast_to(new.max(initial=0.0), new.shape)
    widest = np.broadcast_to(context.max(initial=0.0), new.shape)
    return Work(float(np.sum(whole(new, context))), float(np.sum(whole(longest, widest))))


def _head_flop(model: Counted) -> float:
    """FLOP of one token's logits."""
    if isinstance(model, ParameterCount):
        return 2.0 * model.n_params_head
    return 2.0 * model.vocab_size * model.hidden_size


def _matrix_flop(model: Counted, tokens: Num, head_tokens: Num) -> Num:
    head = _head_flop(model)
    return (2.0 * _n_params(model) - head) * tokens + head * head_tokens


def _attention_flop(model: Counted, new: Num, context: Num = 0.0, *, every: bool = False) -> Num:
    """Scores and values of a query, averaged over the new ones; of every key where asked."""
    flop: Num = 0.0
    if isinstance(model, ParameterCount):
        return flop
    some = np.maximum(new, 1.0)
    for group in model.layers:
        mixer = mixer_of(group.attention)
        visible = some if every else mixer.mean_visible_tokens(some, context)
        one = mixer.flop_per_query(visible, absorbed=False)
        indexed = mixer.indexer_flop_per_query(some if every else context + (some + 1) / 2)
        flop = flop + group.count * (one + indexed)
    return flop


class PhaseBook:
    """What is counted in an open phase."""

    def __init__(self, model: Counted | None) -> None:
        self._model = model
        self.tokens_by_kind: dict[str, float] = {}
        self.work: Work | None = None
        self.moved_bytes: float | None = None
        self.duration_s = 0.0
        self.energy_j: float | None = None

    def tokens(self, **counts: float) -> None:
        """Count tokens."""
        for kind, count in counts.items():
            self.tokens_by_kind[kind] = self.tokens_by_kind.get(kind, 0.0) + float(count)

    def moved(self, data_bytes: float) -> None:
        """Count data moved between devices or to disk."""
        self.moved_bytes = (self.moved_bytes or 0.0) + data_bytes

    def forward(self, new_tokens: Num, context_tokens: Num = 0.0, head_tokens: Num | None = None) -> None:
        """Count a forward pass, as :func:`forward_work` does."""
        if self._model is not None:
            self.add(forward_work(self._model, new_tokens, context_tokens, head_tokens))

    def generate(self, new_tokens: Num, context_tokens: Num) -> None:
        """Count sampling: one pass over each context, then one per token but the last; and the tokens themselves."""
        new, context = np.broadcast_arrays(np.atleast_1d(np.asarray(new_tokens, float)), context_tokens)
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
        """Count a forward and backward pass, 3 times the forward; and the tokens themselves."""
        lengths = np.atleast_1d(np.asarray(tokens, float))
        self.tokens(trained=float(np.sum(lengths)))
        if self._model is None:
            return
        once = forward_work(self._model, lengths, head_tokens=head_tokens)
        width = max(padded_tokens, float(lengths.max(initial=0.0)))
        layers = forward_work(self._model, np.full(lengths.shape, width), head_tokens=0.0).executed_flop
        headed = np.broadcast_to(np.asarray(lengths if head_tokens is None else head_tokens, float), lengths.shape)
        head = 3 * headed.max(initial=0.0) * headed.size if fused_tokens is None else 4 * np.sum(fused_tokens)
        executed = (4 if recomputed else 3) * layers + float(head) * _head_flop(self._model)
        self.add(Work(3 * once.flop, executed))

    def add(self, work: Work) -> None:
        """Count work that was counted elsewhere, such as another model's."""
        before = self.work or Work(0.0, 0.0)
        self.work = Work(before.flop + work.flop, before.executed_flop + work.executed_flop)


class Books:
    """Keeps the ledger of a run."""

    def __init__(
        self, path: Path | None, config: object, machine: Machine, *, run: str = "run", workload: str = "rl"
    ) -> None:
        if workload not in PHASES_OF_RUN:
            raise InputError(f"workload {shown(workload)}: {nearest(workload, PHASES_OF_RUN)}")
        self.machine, self.run, self.workload = machine, run, workload
        self.model = config if isinstance(config, Model | ParameterCount) else counted_model(config, run)
        before = read_ledger(path).entries if path is not None and path.exists() else ()
        mine = [entry.attempt for entry in before if entry.run == run and entry.workload == workload]
        self.attempt = max(mine, default=-1) + 1
        self.entries: list[Entry] = list(before)
        self._writer = None if path is None else LedgerWriter(path)
        self._meter = PowerMeter()
        self._open: list[PhaseBook] = []
        self._step: int | None = None
        self._idle = PhaseBook(None)
        self._idle_since = _now()
        self._mark, self._joules = time.perf_counter(), self._meter.energy_j()

    @property
    def unwritten(self) -> int:
        """Entries that wait for room on the disk [-]."""
        return 0 if self._writer is None else self._writer.unwritten

    @contextmanager
    def phase(self, name: str, step: int | None = None) -> Iterator[PhaseBook]:
        """Charge what happens inside to a phase; a phase opened within another takes its own time out of it."""
        if name not in PHASES_OF_RUN[self.workload] or name == "idle":
            raise InputError(f"phase {shown(name)}: {nearest(name, PHASES_OF_RUN[self.workload])}")
        self._charge()
        if step is not None and step != self._step:
            self._close_idle()
            self._step = step
        opened, started = PhaseBook(self.model), _now()
        self._open.append(opened)
        try:
            yield opened
        finally:
            self._charge()
            self._open.remove(opened)
            self._write(name, opened, started)

    def _charge(self) -> None:
        """Give the time since the last mark to whom it belongs."""
        if self.machine.synchronize is not None:
            self.machine.synchronize()
        now, joules = time.perf_counter(), self._meter.energy_j()
        book = self._open[-1] if self._open else self._idle
        book.duration_s += now - self._mark
        if joules is not None and self._joules is not None:
            book.energy_j = (book.energy_j or 0.0) + joules - self._joules
        self._mark, self._joules = now, joules

    def _close_idle(self) -> None:
        if self._idle.duration_s > 0:
            self._write("idle", self._idle, self._idle_since)
        self._idle, self._idle_since = PhaseBook(None), _now()

    def _write(self, phase: str, book: PhaseBook, started: str) -> None:
        machine, n = self.machine, self.machine.processes
        work = book.work
        entry = Entry(
            run=self.run, workload=self.workload, phase=phase, duration_s=book.duration_s, devices=machine.devices,
            step=self._step, attempt=self.attempt,
            tokens_by_kind={kind: n * count for kind, count in book.tokens_by_kind.items()},
            flop=n * work.flop if work else None, executed_flop=n * work.executed_flop if work else None,
            moved_bytes=None if book.moved_bytes is None else n * book.moved_bytes, energy_j=book.energy_j,
            device=machine.device, peak_flop_per_s=machine.peak_flop_per_s, peak_source=machine.peak_source,
            versions=dict(machine.versions), started=started,
            n_params_active=_n_params(self.model) if self.model else None,
        )  # fmt: skip
        self.entries.append(entry)
        if self._writer is not None:
            self._writer.append(entry)

    def summary(self) -> dict[str, Any]:
        """Sum up what has been written, with :func:`computeledger.actuals.run_summary.summary`."""
        self._charge()
        self._close_idle()
        mine = [entry for entry in self.entries if entry.run == self.run]
        unmeasured = "" if self._meter.works else "energy: not measured (no nvidia-smi that gives power)"
        return {
            **summary(mine, self.workload), "energy_note": unmeasured, "flop_note": self._flop_note(),
            "attempts": self.attempt + 1,
        }  # fmt: skip

    def _flop_note(self) -> str:
        """What the count of FLOP leaves out; empty where it is that of the architecture."""
        if not isinstance(self.model, ParameterCount):
            return ""
        return (
            f"FLOP: 2 per parameter and token, attention left out: the planner has no formulas for architecture "
            f"{shown(self.model.architecture)}"
        )

    def close(self) -> None:
        """Write the idle time that is left and close the ledger."""
        self._charge()
        self._close_idle()
        self._meter.close()
        if self._writer is not None:
            self._writer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _mapping(config: object) -> Mapping[str, Any]:
    if isinstance(config, Mapping):
        return config
    document: Mapping[str, Any] = config.to_dict()  # type: ignore[attr-defined]
    return document


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
