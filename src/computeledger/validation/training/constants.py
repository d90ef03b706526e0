"""The constants of the training model and their fit to measured steps.

Constants are fitted in the logarithm by damped least squares with a robust loss on the logarithm of step times, from
starting values that measured kernels suggest, and never above what measured kernels reach.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from computeledger.physics.calibration.training import TrainingEfficiency, training_efficiency
from computeledger.validation.compare import Array
from computeledger.validation.training.points import predict_runs
from computeledger.validation.training.sources import TrainingRun


@dataclass(frozen=True, slots=True)
class Fitted:
    """Where the fit of a constant starts, and what bounds it."""

    start: float
    cap: float
    why: str


GEMM = "training_gemm_fraction_"
ATTENTION = "training_attention_fraction_"
#: What is fitted. Caps are the best of the measured kernels (gemm_fit.csv, gemm_8192.csv; TPU: the peak itself).
CONSTANTS = {
    f"{GEMM}ampere": Fitted(0.66, 0.78, "products of A100, of the dense bf16 peak"),
    f"{GEMM}hopper": Fitted(0.66, 0.82, "products of Hopper, of the dense bf16 peak"),
    f"{GEMM}hopper_fp8": Fitted(0.55, 0.67, "products of Hopper in fp8, of the dense fp8 peak"),
    f"{GEMM}blackwell": Fitted(0.55, 0.70, "products of Blackwell, of the dense bf16 peak, at 444 W per PFLOP/s"),
    f"{GEMM}blackwell_fp8": Fitted(0.50, 0.62, "products of Blackwell in fp8, per tensor or per block"),
    f"{GEMM}fp4": Fitted(0.32, 0.38, "products in NVFP4, layers that stay wider included"),
    f"{GEMM}tpu": Fitted(0.80, 0.95, "products of TPU v5e and v5p under one compiler, of the dense bf16 peak"),
    f"{ATTENTION}ampere": Fitted(0.35, 0.66, "attention of A100, forward and backward"),
    f"{ATTENTION}hopper": Fitted(0.40, 0.66, "attention of Hopper with FlashAttention 3 or cuDNN"),
    f"{ATTENTION}blackwell": Fitted(0.50, 0.66, "attention of Blackwell with cuDNN"),
    "training_expert_fraction": Fitted(0.5, 1.0, "grouped products of experts against one large product"),
    "training_fused_expert_fraction": Fitted(0.6, 1.0, "the same where casts and activation are inside the kernels"),
}
#: Runs of a source whose own figures contradict one another count for less.
WEIGHTS = {"prime-rl": 0.25}
#: Scale of the robust loss and weight of the starting values, in units of a logarithm.
ROBUST_SCALE, PRIOR_WEIGHT = 0.08, 0.04


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
    """Errors of predicted step times.

    Examples
    --------
    >>> log_errors([], TrainingEfficiency()).shape
    (0, 1)
    """
    measured = np.array([run.step_s for run in runs]).reshape(-1, 1)
    errors: Array = np.log(predict_runs(runs, training, width)[0]) - np.log(measured)
    return errors


@dataclass(frozen=True, slots=True)
class Problem:
    """What is fitted to what."""

    runs: Sequence[TrainingRun]
    weights: Array
    base: TrainingEfficiency

    def factors(self, points: Array) -> TrainingEfficiency:
        """Set the constants at points.

        Examples
        --------
        >>> points = np.zeros((len(CONSTANTS), 2))
        >>> Problem([], np.zeros(0), TrainingEfficiency()).factors(points).training_expert_fraction.shape
        (2,)
        """
        return replace(self.base, **{name: np.exp(row) for name, row in zip(CONSTANTS, points, strict=True)})

    def errors(self, point: Array) -> Array:
        """Tabulate errors and their derivatives, from one prediction of the point and of a step along each constant.

        Examples
        --------
        >>> Problem([], np.zeros(0), TrainingEfficiency()).errors(np.zeros(len(CONSTANTS))).shape[0]
        0
        """
        step = -1e-3
        points = point[:, None] + np.column_stack([np.zeros(len(point)), step * np.eye(len(point))])
        table = log_errors(self.runs, self.factors(points), len(point) + 1)
        table[:, 1:] = (table[:, 1:] - table[:, :1]) / step
        return table

    def loss(self, errors: Array, point: Array) -> float:
        """Add the pseudo-Huber loss of errors and a weak pull to the starting values.

        Examples
        --------
        >>> start = np.log([one.start for one in CONSTANTS.values()])
        >>> Problem([], np.zeros(0), TrainingEfficiency()).loss(np.zeros(0), start)
        0.0
        """
        robust = np.sqrt(1 + (errors / ROBUST_SCALE) ** 2) - 1
        return float(np.sum(self.weights * ROBUST_SCALE**2 * robust) + 0.5 * np.sum(_pull(point) ** 2))


def _start() -> Array:
    return np.log([one.start for one in CONSTANTS.values()])


def _pull(point: Array) -> Array:
    return PRIOR_WEIGHT * (point - _start())


def run_weights(runs: Sequence[TrainingRun]) -> Array:
    """Weigh runs by how far their source can be trusted.

    Examples
    --------
    >>> run_weights([]).shape
    (0,)
    """
    trust = [next((w for word, w in WEIGHTS.items() if word in run.row["source"]), 1.0) for run in runs]
    return np.array(trust)


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


def minimise(problem: Problem, iterations: int = 15) -> tuple[Array, Array]:
    """Find the constants of least loss.

    Examples
    --------
    >>> point, curvature = minimise(Problem([], np.zeros(0), TrainingEfficiency()))
    >>> len(point) == len(CONSTANTS) == len(curvature)
    True
    """
    caps = np.log([one.cap for one in CONSTANTS.values()])
    point, damping = _start(), 1e-3
    curvature = np.eye(len(point))
    for _ in range(iterations):
        table = problem.errors(point)
        errors, slopes = table[:, 0], table[:, 1:]
        weight = problem.weights / np.sqrt(1 + (errors / ROBUST_SCALE) ** 2)
        curvature = slopes.T @ (weight[:, None] * slopes) + PRIOR_WEIGHT**2 * np.eye(len(point))
        gradient = slopes.T @ (weight * errors) + PRIOR_WEIGHT * _pull(point)
        # a constant at its cap that wants to rise stays there
        free = (point < caps - 1e-9) | (gradient > 0)
        before, moved = problem.loss(errors, point), np.zeros(len(point))
        for _ in range(8):
            system = (curvature + damping * np.diag(np.diag(curvature)))[np.ix_(free, free)]
            step = np.zeros(len(point))
            step[free] = -np.linalg.solve(system, gradient[free])
            trial = np.minimum(point + np.clip(step, -0.5, 0.5), caps)
            trial_errors = log_errors(problem.runs, problem.factors(trial[:, None]))[:, 0]
            if problem.loss(trial_errors, trial) < before:
                moved, point, damping = trial - point, trial, max(damping / 5, 1e-6)
                break
            damping *= 8
        if np.abs(moved).max() < 1e-4:
            break
    return point, curvature


def fit_constants(runs: Sequence[TrainingRun]) -> TrainingEfficiency:
    """Fit the constants to runs.

    Examples
    --------
    >>> fitted = fit_constants([])
    >>> round(fitted.training_gemm_fraction_hopper, 9) == CONSTANTS["training_gemm_fraction_hopper"].start
    True
    """
    base = plain(training_efficiency())
    if not runs:
        return replace(base, **{name: one.start for name, one in CONSTANTS.items()})
    point, _ = minimise(Problem(runs, run_weights(runs), base))
    return replace(base, **dict(zip(CONSTANTS, np.exp(point).tolist(), strict=True)))


def left_out_errors(runs: Sequence[TrainingRun], group: Callable[[TrainingRun], str]) -> Array:
    """Errors of each run under a fit that has not seen its group.

    Examples
    --------
    >>> left_out_errors([], lambda run: "").shape
    (0,)
    """
    names = np.array([group(run) for run in runs])
    errors = np.full(len(runs), np.nan)
    for name in sorted(set(names.tolist()) - {""}):
        seen = [run for run, own in zip(runs, names, strict=True) if own != name]
        unseen = [run for run, own in zip(runs, names, strict=True) if own == name]
        errors[names == name] = log_errors(unseen, fit_constants(seen))[:, 0]
    return errors
