"""Memory of one GPU as engines log it when they start: weights, activations, workspace, graphs, cache and its tokens.

The engine's constants are those of its version; share of memory, chunk and sequences are the run's. vLLM before 0.9
(its first engine) profiled otherwise, so that of it only weights and the cache's tokens are compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from computeledger.errors import ComputeLedgerError
from computeledger.facts.architecture import Model
from computeledger.facts.load import load_accelerator, load_model
from computeledger.facts.schema import PRECISION_BYTES
from computeledger.physics.parallelism import Layout, parse_layout
from computeledger.physics.roofline import Precision
from computeledger.physics.serving.buffers import Buffers, Held, held_beside
from computeledger.physics.serving.memory import sequence_bytes_per_gpu, weights_bytes_per_gpu
from computeledger.physics.weights import precision_of
from computeledger.units import GIB
from computeledger.validation.compare import Array, Comparison
from computeledger.workloads.engines import engines
from computeledger.workloads.engines.releases import release_numbers

NEEDED = ("source", "model", "accelerator", "engine", "engine_version", "layout", "weights", "kv_cache",
          "context_tokens", "chunk_tokens", "sequences", "memory_fraction", "device_gib", "weights_gib",
          "activations_gib", "non_torch_gib", "graphs_gib", "cache_gib", "cache_tokens")  # fmt: skip
#: What is compared, and the columns whose sum was measured.
FIGURES = {
    "weights_memory": ("weights_gib",),
    "activations_memory": ("activations_gib",),
    "workspace_memory": ("non_torch_gib",),
    "graphs_memory": ("graphs_gib",),
    "used_memory": ("weights_gib", "activations_gib", "non_torch_gib"),
    "cache_memory": ("cache_gib",),
    "cache_tokens": ("cache_tokens",),
}
#: vLLM's engine before this version profiled otherwise.
FIRST_VERSION = (0, 9)


@dataclass(frozen=True, slots=True)
class MemoryRun:
    """A start-up log: what was asked, and what the log says."""

    row: Mapping[str, str]
    model: Model
    layout: Layout
    precision: Precision
    context_tokens: float
    sequences: float
    device_bytes: float
    buffers: Buffers | None

    @property
    def held(self) -> Held | None:
        """What the engine holds beside weights and cache; None where its version is not modelled."""
        if self.buffers is None:
            return None
        return held_beside(self.model, self.context_tokens, self.layout, self.precision, self.buffers)


def memory_runs(rows: Sequence[Mapping[str, str]]) -> tuple[list[MemoryRun], Counter[str]]:
    """Read start-up logs; those of models that are not known are counted.

    Examples
    --------
    >>> from computeledger.validation.measured_table import curated_rows
    >>> runs, skipped = memory_runs(curated_rows("memory_curated.csv"))
    >>> len(runs) > 50, sum(skipped.values()) < 20
    (True, True)
    """
    runs: list[MemoryRun] = []
    skipped: Counter[str] = Counter()
    for row in rows:
        try:
            runs.append(_run(row))
        except ComputeLedgerError as reason:
            skipped["model not known" if "unknown model" in str(reason) else str(reason)] += 1
    return runs, skipped


def _run(row: Mapping[str, str]) -> MemoryRun:
    model = load_model(row["model"])
    buffers = _buffers(row["engine"], row["engine_version"])
    return MemoryRun(
        row=row,
        model=model,
        layout=parse_layout(row["layout"]),
        precision=precision_of(model, row["weights"] or None, row["kv_cache"]),
        context_tokens=np.inf,
        sequences=_number(row, "sequences"),
        device_bytes=_device_bytes(row),
        buffers=buffers and replace(buffers, chunk_tokens=_number(row, "chunk_tokens", buffers.chunk_tokens)),
    )


def _number(row: Mapping[str, str], name: str, default: float = np.nan) -> float:
    return float(row[name]) if row[name] else default


def _device_bytes(row: Mapping[str, str]) -> float:
    """What the log says that the card has, else what is known of it."""
    if row["device_gib"]:
        return _number(row, "device_gib") * GIB
    if not row["accelerator"]:
        return np.nan
    return load_accelerator(row["accelerator"]).usable_bytes


def _buffers(engine: str, version: str) -> Buffers | None:
    """An engine's constants of a version; None where it is not modelled."""
    read = release_numbers(engine, version)
    if engine == "vllm" and read is not None and read < FIRST_VERSION:
        return None
    return engines()[engine].buffers_of(version)


def compare_memory(
    rows: Sequence[Mapping[str, str]], n_samples: int = 256, seed: int = 0, runs: Sequence[MemoryRun] | None = None
) -> Comparison:
    """Predict what engines log when they start; the runs may be read already, with other constants.

    Examples
    --------
    >>> from computeledger.validation.measured_table import curated_rows
    >>> sorted(compare_memory(curated_rows("memory_curated.csv")[:2]).measured)[:2]
    ['activations_memory', 'cache_memory']
    """
    read, skipped = memory_runs(rows)
    runs = read if runs is None else runs
    normal = np.random.default_rng(seed).standard_normal(n_samples)
    measured = {name: np.array([_measured(one.row, columns) for one in runs]) for name, columns in FIGURES.items()}
    predicted = {name: _cloud(runs, figure, normal) for name, figure in _PREDICTED.items()}
    units = dict.fromkeys(FIGURES, "B") | {"cache_tokens": ""}
    for name, cloud in predicted.items():
        measured[name] = np.where(np.isfinite(cloud).all(axis=1), measured[name], np.nan)
    return Comparison([one.row for one in runs], measured, predicted, skipped, units)


def _measured(row: Mapping[str, str], columns: tuple[str, ...]) -> float:
    scale = 1.0 if columns == ("cache_tokens",) else GIB
    return sum(_number(row, column) for column in columns) * scale


def _cloud(runs: Sequence[MemoryRun], figure: Callable[[MemoryRun, Array], Array], normal: Array) -> Array:
    rows = [np.broadcast_to(figure(one, normal), normal.shape) for one in runs]
    return np.array(rows, float).reshape(len(runs), len(normal))


def _fitted(run: MemoryRun, normal: Array) -> tuple[Array, Array, Array]:
    """Activations, workspace and graphs, each with the spread of models left out."""
    held, kept = run.held, run.buffers
    if held is None or kept is None:
        blank = np.full_like(normal, np.nan)
        return blank, blank, blank
    return (
        np.asarray(held.activations_bytes(run.sequences) * np.exp(kept.activations_sd * normal)),
        np.asarray(held.library_bytes * np.exp(kept.workspace_sd * normal)),
        np.asarray(held.graph_bytes * np.exp(kept.graphs_sd * normal)),
    )


def _weights(run: MemoryRun, normal: Array) -> Array:
    return np.asarray(weights_bytes_per_gpu(run.model, run.layout, run.precision), float) + 0 * normal


def _used(run: MemoryRun, normal: Array) -> Array:
    activations, workspace, _ = _fitted(run, normal)
    return np.asarray(_weights(run, normal) + activations + workspace)


def _cache(run: MemoryRun, normal: Array) -> Array:
    """What is left to the cache: vLLM's share before graphs, SGLang's share of what is free less its weights."""
    kept = run.buffers
    stated = _number(run.row, "memory_fraction")
    if kept is None or not np.isfinite(stated):
        return np.full_like(normal, np.nan)
    if run.row["engine"] == "sglang":
        return np.asarray(stated * run.device_bytes * SGLANG_FREE - _weights(run, normal))
    return np.asarray(stated * run.device_bytes - _used(run, normal))


#: Of an empty card, what is free once a process of SGLang and its links are up (one log of 8 H200) [-].
SGLANG_FREE = 0.982


def _cache_tokens(run: MemoryRun, normal: Array) -> Array:
    """Tokens that the logged cache holds."""
    one = sequence_bytes_per_gpu(run.model, 1.0, run.layout, PRECISION_BYTES[run.precision.kv])
    given = _number(run.row, "cache_gib") * GIB
    return np.asarray(given / np.asarray(one, float)) + 0 * normal


_PREDICTED: Mapping[str, Callable[[MemoryRun, Array], Array]] = {
    "weights_memory": _weights,
    "activations_memory": lambda run, normal: _fitted(run, normal)[0],
    "workspace_memory": lambda run, normal: _fitted(run, normal)[1],
    "graphs_memory": lambda run, normal: _fitted(run, normal)[2],
    "used_memory": _used,
    "cache_memory": _cache,
    "cache_tokens": _cache_tokens,
}


def fit_buffers(runs: Sequence[MemoryRun], kept: Buffers) -> Buffers:
    """Refit vLLM's constants, one mechanism after the other, each by a median or a line through its own logs.

    Examples
    --------
    >>> from computeledger.validation.measured_table import curated_rows
    >>> from computeledger.workloads.engines.vllm import VLLM_BUFFERS
    >>> runs, _ = memory_runs(curated_rows("memory_curated.csv"))
    >>> 14 < fit_buffers(runs, VLLM_BUFFERS).logit_bytes < 16
    True
    """
    latest = [one for one in runs if one.buffers is not None and one.buffers.workspace_bytes == kept.workspace_bytes
              and one.row["engine"] == "vllm"]  # fmt: skip
    sampled = [_logit_bytes(one) for one in latest]
    alone = [_number(one.row, "non_torch_gib") * GIB for one in latest if one.layout.n_gpus_per_stage == 1]
    group = [_number(one.row, "non_torch_gib") * GIB for one in latest if one.layout.n_gpus_per_stage > 1]
    graphs = [(one.model.n_layers / one.layout.pp, _number(one.row, "graphs_gib") * GIB) for one in latest]
    layers, taken = np.array([one for one in graphs if np.isfinite(one[1])], float).T
    slope, fixed = np.polyfit(layers, taken, 1)
    workspace = float(np.nanmedian(alone))
    return replace(
        kept,
        logit_bytes=float(np.nanmedian(sampled)),
        workspace_bytes=workspace,
        group_bytes=float(np.nanmedian(group)) - workspace,
        graph_bytes=float(fixed),
        graph_bytes_per_layer=float(slope),
    )


def _logit_bytes(run: MemoryRun) -> float:
    """Bytes of a logit that a log leaves; none where a chunk takes more than sampling."""
    held, taken = run.held, _number(run.row, "activations_gib") * GIB
    if held is None or not taken > float(held.chunk_bytes) * CHUNK_MARGIN + float(held.expert_bytes):
        return np.nan
    left = taken - float(held.expert_bytes) - float(held.sampling_bytes)
    return left / (run.sequences * run.model.vocab_size)


#: A chunk this much smaller than what was logged did not set the peak [-].
CHUNK_MARGIN = 1.1


def left_out(runs: Sequence[MemoryRun], kept: Buffers) -> list[MemoryRun]:
    """Every log with the constants that all other models give.

    Examples
    --------
    >>> from computeledger.validation.measured_table import curated_rows
    >>> from computeledger.workloads.engines.vllm import VLLM_BUFFERS
    >>> runs, _ = memory_runs(curated_rows("memory_curated.csv")[:40])
    >>> len(left_out(runs, VLLM_BUFFERS)) == len(runs)
    True
    """
    models = {one.model.id for one in runs}
    refitted = {name: fit_buffers([one for one in runs if one.model.id != name], kept) for name in models}
    names = ("logit_bytes", "workspace_bytes", "group_bytes", "graph_bytes", "graph_bytes_per_layer")
    return [
        replace(one, buffers=replace(one.buffers, **{name: getattr(refitted[one.model.id], name) for name in names}))
        if one.buffers is not None and one.buffers.workspace_bytes == kept.workspace_bytes
        else one
        for one in runs
    ]
