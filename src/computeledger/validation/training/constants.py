"""The constants of the training model, and how they and the effects of frameworks and sources are fitted to steps.

Constants are fitted in the logarithm, each with a prior around what measured kernels suggest, and never above what
measured kernels reach. A framework has one effect on the time of its steps, and each source one of its own: what a
reader's job will show is that of one source more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from computeledger.physics.calibration.training import TrainingEfficiency, training_efficiency
from computeledger.validation import fit
from computeledger.validation.compare import Array
from computeledger.validation.training.points import predict_runs
from computeledger.validation.training.sources import TrainingRun
from computeledger.workloads.frameworks import USUAL_STACK, load_framework


@dataclass(frozen=True, slots=True)
class Fitted:
    """What a constant is before the fit, the spread of its logarithm, and what bounds it."""

    start: float
    cap: float
    why: str
    sd: float = 0.2


GEMM = "training_gemm_fraction_"
ATTENTION = "training_attention_fraction_"
#: What is fitted. Caps are the best of the measured kernels (gemm_fit.csv, gemm_8192.csv; TPU: the peak itself; AMD:
#: its own Max-Achievable FLOP/s).
CONSTANTS = {
    f"{GEMM}ampere": Fitted(0.66, 0.78, "products of A100, of the dense bf16 peak"),
    f"{GEMM}hopper": Fitted(0.66, 0.82, "products of Hopper, of the dense bf16 peak"),
    f"{GEMM}hopper_fp8": Fitted(0.55, 0.67, "products of Hopper in fp8, of the dense fp8 peak"),
    f"{GEMM}blackwell": Fitted(0.50, 0.70, "products of Blackwell, of the dense bf16 peak, at 444 W per PFLOP/s"),
    f"{GEMM}blackwell_fp8": Fitted(0.50, 0.62, "products of Blackwell in fp8, per tensor or per block"),
    f"{GEMM}fp4": Fitted(0.32, 0.38, "products in NVFP4, layers that stay wider included"),
    f"{GEMM}tpu": Fitted(0.80, 0.95, "products of TPU v5e to v7 under one compiler, of the dense peak"),
    f"{GEMM}cdna": Fitted(0.46, 0.65, "products of Instinct MI300X and MI355X, of the dense bf16 peak"),
    f"{ATTENTION}ampere": Fitted(0.35, 0.66, "attention of A100, forward and backward", 0.3),
    f"{ATTENTION}hopper": Fitted(0.40, 0.66, "attention of Hopper with FlashAttention 3 or cuDNN", 0.3),
    f"{ATTENTION}blackwell": Fitted(0.50, 0.66, "attention of Blackwell with cuDNN", 0.3),
    f"{ATTENTION}tpu": Fitted(0.40, 0.66, "attention of TPU", 0.3),
    "training_expert_fraction": Fitted(0.6, 1.0, "grouped products of many rows against one large product", 0.3),
    "training_fused_expert_fraction": Fitted(0.8, 1.0, "the same, casts and activation inside the kernels", 0.3),
    "training_power_exponent": Fitted(1.0, np.inf, "sustained clocks follow power per peak: B200 1 kW, GB300 1.4", 0.5),
}
#: Runs of a source whose own figures contradict one another count for less.
WEIGHTS = {"prime-rl": 0.25}
#: Rows that a source counts for at most.
MOST_RUNS_OF_A_SOURCE = 80.0
#: Scale of the robust loss, and spreads of the logarithm of effects: of frameworks, of one against the framework that
#: it grew out of, and of sources (assumptions).
ROBUST_SCALE, FRAMEWORK_SD, SUCCESSOR_SD, SOURCE_SD = 0.08, 0.15, 0.06, 0.08


def plain(training: TrainingEfficiency) -> TrainingEfficiency:
    """Factors without the ratios of real over modelled time.

    Examples
    --------
    >>> plain(TrainingEfficiency(training_known_ratio=1.1)).training_known_ratio
    1.0
    """
    ratios = {one.name: 1.0 for one in fields(TrainingEfficiency) if one.name.endswith("_ratio")}
    return replace(training, **ratios)


def log_errors(runs: Sequence[TrainingRun], training: TrainingEfficiency, width: int = 1) -> Array:
    """Errors of step times that physics alone predicts, without what its framework takes.

    Examples
    --------
    >>> log_errors([], TrainingEfficiency()).shape
    (0, 1)
    """
    measured = np.array([run.step_s for run in runs]).reshape(-1, 1)
    taken = np.array([run.stack.time_ratio for run in runs], float).reshape(-1, 1)
    errors: Array = np.log(predict_runs(runs, training, width)[0]) - np.log(measured * taken)
    return errors


def source_family(source: str) -> str:
    """Name the publisher or paper series of a row, the unit that is left out as a source.

    Examples
    --------
    >>> source_family("MLPerf Training v5.0 (NVIDIA)")
    'MLPerf'
    """
    series = {"Narayanan": "Megatron papers", "Korthikanti": "Megatron papers"}
    named = next((name for word, name in series.items() if word in source), None)
    return named or next((word for word in ("MLPerf", "MegaScale", "MaxText README") if word in source), source)


def framework_of_run(run: TrainingRun) -> str:
    """Name the framework whose effect a run shows; none where nobody says which it is."""
    return "" if run.framework.id == USUAL_STACK else run.framework.id


def _places(labels: Sequence[str]) -> tuple[list[str], NDArray[np.int64]]:
    """Each label once, and which one every row has; -1 where it has none."""
    names = sorted(set(labels) - {""})
    order = {name: place for place, name in enumerate(names)}
    return names, np.array([order.get(label, -1) for label in labels], dtype=np.int64)


def _shared(frameworks: Sequence[str]) -> Array:
    """Whose effects each framework shows: its own, and that of the one that it follows."""
    followed = {name: load_framework(name).follows for name in frameworks}
    return np.array([[float(two in (one, followed[one])) for two in frameworks] for one in frameworks]).reshape(
        len(frameworks), len(frameworks)
    )


def _several(names: list[str], places: NDArray[np.int64]) -> tuple[list[str], NDArray[np.int64]]:
    return (names, places) if len(names) > 1 else ([], np.full(len(places), -1))


@dataclass(frozen=True, slots=True)
class Problem:
    """What is fitted to what: constants, then the effects of frameworks, then those of sources."""

    runs: Sequence[TrainingRun]
    base: TrainingEfficiency
    held: frozenset[str] = frozenset()

    @property
    def frameworks(self) -> tuple[list[str], NDArray[np.int64]]:
        """Frameworks, and which one each run has; none where there are not several to compare."""
        return _several(*_places([framework_of_run(run) for run in self.runs]))

    @property
    def sources(self) -> tuple[list[str], NDArray[np.int64]]:
        """Sources, and which one each run is of; none where there are not several to compare."""
        return _several(*_places([source_family(run.row["source"]) for run in self.runs]))

    def factors(self, changes: Array) -> TrainingEfficiency:
        """Set the constants along an axis of vectors, those that are held at their caps.

        Examples
        --------
        >>> Problem([], TrainingEfficiency()).factors(np.zeros((2, len(CONSTANTS)))).training_expert_fraction
        array([0.6, 0.6])
        """
        moved = zip(CONSTANTS.items(), changes.T[: len(CONSTANTS)], strict=True)
        held = {name: np.full(len(changes), CONSTANTS[name].cap) for name in self.held}
        return replace(self.base, **{name: one.start * np.exp(change) for (name, one), change in moved} | held)

    def at(self, change: Array) -> TrainingEfficiency:
        """Set the constants to one vector."""
        factors = self.factors(change[None, :])
        return replace(factors, **{name: float(getattr(factors, name)[0]) for name in CONSTANTS})

    def solved(self) -> tuple[Problem, fit.Fitted]:
        """Fit; a constant that would exceed the best measured kernel is held there, and the others fitted again.

        Examples
        --------
        >>> Problem([], TrainingEfficiency()).solved()[1].change.shape
        (15,)
        """
        problem, fitted = self, fit.fit_constants(self.fit())
        while True:
            values = zip(CONSTANTS.items(), fitted.change.tolist(), strict=False)
            over = {name for (name, one), change in values if one.start * np.exp(change) > one.cap} - problem.held
            if not over:
                return problem, fitted
            problem = replace(problem, held=problem.held | over)
            fitted = fit.fit_constants(problem.fit(), fitted.change)

    def fit(self) -> fit.Fit:
        """State the fit.

        Examples
        --------
        >>> Problem([], TrainingEfficiency()).fit().scales.shape
        (0,)
        """
        (frameworks, run_by), (sources, made_by) = self.frameworks, self.sources
        shared = _shared(frameworks)
        spreads = [one.sd for one in CONSTANTS.values()]
        own = np.where(np.sum(shared, axis=1) > 1, SUCCESSOR_SD, FRAMEWORK_SD).tolist()
        effects = [*own, *[SOURCE_SD] * len(sources)]
        residuals = partial(self._residuals, shared, run_by, made_by)
        return fit.Fit(residuals, np.full(len(self.runs), ROBUST_SCALE), run_weights(self.runs),
                       np.array(spreads + effects))  # fmt: skip

    def _residuals(self, shared: Array, run_by: NDArray[np.int64], made_by: NDArray[np.int64], changes: Array) -> Array:
        n, m = len(CONSTANTS), len(CONSTANTS) + len(shared.T)
        errors = log_errors(self.runs, self.factors(changes), len(changes))
        for places, effects in ((run_by, shared @ changes[:, n:m].T), (made_by, changes[:, m:].T)):
            known = places >= 0
            errors[known] += effects[places[known]]
        return errors


def run_weights(runs: Sequence[TrainingRun]) -> Array:
    """Weigh runs by how far their source can be trusted, no source for more than some rows.

    Examples
    --------
    >>> run_weights([]).shape
    (0,)
    """
    trust = [next((w for word, w in WEIGHTS.items() if word in run.row["source"]), 1.0) for run in runs]
    _, places = _places([source_family(run.row["source"]) for run in runs])
    counts = np.bincount(places) if runs else np.zeros(0)
    return np.array(trust) * np.minimum(1.0, MOST_RUNS_OF_A_SOURCE / counts[places])


def configuration(run: TrainingRun) -> str:
    """Name what a run shares with its repeats under other software releases.

    Examples
    --------
    >>> from computeledger.validation.training.sources import describe_run
    >>> row = {"source": "SimuMax", "model": "llama3_70b truncated to 12 layers", "hardware": "B200", "n_gpus": "8",
    ...        "tp": "2", "pp": "1", "seq_len": "4096", "global_batch_tokens": "65536", "precision": "bf16"}
    >>> configuration(describe_run(row))[:10]
    "('SimuMax'"
    """
    asked = (run.row["source"], run.row["model"], run.row["chip"], run.row["precision"], str(run.layout))
    return repr((*asked, run.sequence_tokens, run.microbatch_sequences, run.global_sequences))


def fit_constants(runs: Sequence[TrainingRun]) -> TrainingEfficiency:
    """Fit the constants to runs.

    Examples
    --------
    >>> fitted = fit_constants([])
    >>> round(fitted.training_gemm_fraction_hopper, 9) == CONSTANTS["training_gemm_fraction_hopper"].start
    True
    """
    problem, fitted = Problem(runs, plain(training_efficiency())).solved()
    return problem.at(fitted.change)


def left_out_errors(runs: Sequence[TrainingRun]) -> Array:
    """Errors of each run under constants and effects of frameworks that have not seen its source.

    Examples
    --------
    >>> left_out_errors([]).shape
    (0,)
    """
    problem, fitted = Problem(runs, plain(training_efficiency())).solved()
    stated = problem.fit()
    return fit.cross_validate_near(stated, fit.linear_at(stated, fitted.change), problem.sources[1], fitted.change)


def effects_of(problem: Problem, fitted: fit.Fitted) -> tuple[Mapping[str, float], Mapping[str, float]]:
    """Measured over predicted time of each framework and of each source.

    Examples
    --------
    >>> effects_of(Problem([], TrainingEfficiency()), fit.Fitted(np.zeros(len(CONSTANTS)), np.zeros(0), 0.0))
    ({}, {})
    """
    (frameworks, _), (sources, _) = problem.frameworks, problem.sources
    effects = fitted.change[len(CONSTANTS) :]
    of_frameworks = _shared(frameworks) @ effects[: len(frameworks)]
    return (
        dict(zip(frameworks, np.exp(of_frameworks).tolist(), strict=True)),
        dict(zip(sources, np.exp(effects[len(frameworks) :]).tolist(), strict=True)),
    )
