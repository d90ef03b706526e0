"""Why a step takes longer than the plan's model says: the parts of the gap, each with its share and what shortens it.

The gap is the device-time of a global batch, pauses included, over that of the modelled step. It is split exactly:
pauses between steps, steps slower than the median, and what the median step takes more; a profile divides the last.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from computeledger.actuals.profiles.profile import StepProfile, load_parts
from computeledger.actuals.reconcile import typical_setting
from computeledger.actuals.sums import REPEATED, UNPLANNED, Actual
from computeledger.arrays import median
from computeledger.economics.plan.pretraining import model_training
from computeledger.economics.plan.read import Plan
from computeledger.physics.roofline import Machine
from computeledger.workloads.pretraining.estimate import PretrainingResult, estimate_pretraining
from computeledger.workloads.pretraining.step_logs import StepLog

#: Collectives that exchange gradients and sharded weights, and split layers: which of them depends on the software.
_EXCHANGED = ("all-reduce", "reduce-scatter", "all-gather")
_EXCHANGES = ("tensor-parallel", "gradient exchange", "all-reduce")
#: A part of the gap below this share of the step has no fix.
WORTH_A_FIX_FRACTION = 0.005
#: A gap below this share of the modelled step is none: the model itself is not that exact (assumption).
AS_PREDICTED_FRACTION = 0.02


#: What tells the rest apart where a profile does not.
_SAME = "a profile of one rank over steps of the log's own batch and layout"


@dataclass(frozen=True, slots=True)
class GapPart:
    """A part of the gap: modelled and measured time in a step, what is between them, and what shortens it."""

    name: str
    modelled_s: float
    measured_s: float | None
    excess_s: float
    fix: str
    largest: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Gap:
    """A modelled and a measured step, and the parts of what is between them, the largest first."""

    modelled_s: float
    measured_s: float
    steady_s: float
    layout: str
    parts: tuple[GapPart, ...]
    profile: StepProfile | None = None
    remarks: tuple[str, ...] = ()

    @property
    def total_s(self) -> float:
        """Measured less modelled [s]."""
        return self.measured_s - self.modelled_s

    @property
    def best(self) -> GapPart | None:
        """The part whose fix pays most; none where no part takes much more than it should."""
        most = max(self.parts, key=lambda one: one.excess_s, default=None)
        if most is None or most.excess_s <= WORTH_A_FIX_FRACTION * self.measured_s:
            return None
        return most


def explain_step(
    plan: Plan, took: Actual, log: StepLog | None = None, profile: StepProfile | None = None
) -> Gap | None:
    """Explain a pretraining step; nothing where the plan models none.

    Examples
    --------
    >>> from computeledger.economics.plan.read import read_plan
    >>> run = {"tokens": "1B tokens", "gpus": 8, "layout": "dp8", "global_batch_tokens": "1M tokens"}
    >>> plan = read_plan({"model": "llama-3.1-8b", "system": "h100-nvl8", "price": "$2/h", "pretraining": run,
    ...                   "rl": {"skip": "-"}, "inference": {"skip": "-"}})
    >>> took = Actual("pretraining", ("a",), 10, 10 * 2**20, {"step": 1600.0, "idle": 80.0}, None, None, (8,), (), None)
    >>> gap = explain_step(plan, took)
    >>> round(gap.measured_s), [one.name for one in gap.parts]
    (21, ['not told apart', 'pauses between steps'])
    """
    setting = typical_setting(plan, "pretraining")
    modelled = model_training(setting)
    if modelled is None:
        return None
    result = modelled[0]
    gpus, batch = median(result.scenario.layout.n_gpus), median(result.scenario.global_batch_tokens)
    per_batch = batch / took.tokens / gpus
    paused = sum(took.gpu_s_by_phase.get(name, 0.0) for name in (*UNPLANNED, REPEATED)) * per_batch
    mean_s = sum(took.gpu_s_by_phase.values()) * per_batch - paused
    steady_s = min(_steady_s(log, batch, gpus) or mean_s, mean_s)
    named = load_parts()
    rows = [
        GapPart("pauses between steps", 0.0, paused, paused, named.named("pauses between steps").fix),
        GapPart("slow steps", 0.0, mean_s - steady_s, mean_s - steady_s, named.named("slow steps").fix),
    ]
    recomputed = _recomputed(result, setting.typical, log, profile)
    within = _by_part(result, recomputed, profile)
    rest = steady_s - median(result.step_s) - sum(one.excess_s for one in within)
    rows += [
        *within,
        GapPart("not told apart", 0.0, None, rest, _SAME if profile else named.named("not told apart").fix),
    ]
    kept = [one for one in rows if one.excess_s or one.modelled_s]
    kept.sort(key=lambda one: -one.excess_s)
    total = mean_s + paused
    return Gap(median(result.step_s), total, steady_s, str(result.scenario.layout), tuple(kept), profile,
               _remarks(profile, steady_s))  # fmt: skip


def _steady_s(log: StepLog | None, batch_tokens: float, n_gpus: float) -> float | None:
    """The median step of a log, as long as a global batch of the plan would take."""
    if log is None:
        return None
    if "tokens_per_s_per_gpu" in log.measures:
        return batch_tokens / n_gpus / log.measures["tokens_per_s_per_gpu"]
    own = [log.settings.get(name) for name in ("sequences", "sequence", "gpus")]
    sequences, sequence, gpus = own
    if "step" not in log.measures or not (sequences and sequence and gpus):
        return None
    return log.measures["step"] * (gpus / n_gpus) * batch_tokens / (sequences * sequence)


def _recomputed(
    result: PretrainingResult, machine: Machine, log: StepLog | None, profile: StepProfile | None
) -> Mapping[str, float]:
    """What whole recomputation adds to each component, where the run did it and the plan does not."""
    did = (log is not None and log.words.get("recompute") == "full") or (profile is not None and profile.recomputes)
    asked = result.scenario
    if not did or asked.batch.forward_again:
        return {}
    again = estimate_pretraining(replace(asked, batch=replace(asked.batch, recompute="full")), machine)
    return {name: median(again.components_s[name]) - median(value) for name, value in result.components_s.items()}


def _by_part(result: PretrainingResult, recomputed: Mapping[str, float], profile: StepProfile | None) -> list[GapPart]:
    """The steady step by part: recomputation as modelled, and what a profile shows of the rest."""
    named, rows = load_parts(), []
    if recomputed:
        added = sum(recomputed.values())
        rows.append(GapPart("recomputation", 0.0, added, added, named.named("recomputation").fix))
    if profile is None:
        return rows
    components = {name: median(value) for name, value in result.components_s.items()}
    exchanged = sum(components.get(name, 0.0) for name in _EXCHANGES)
    seen = [name for name in _EXCHANGED if profile.exposed_s.get(name)]
    for part in (*named.kernels, *named.waits):
        if profile.step_s is None and part.name not in profile.exposed_s:
            continue  # a summary does not tell it
        modelled_s = sum(components.get(name, 0.0) for name in part.modelled if name not in _EXCHANGES)
        again = sum(recomputed.get(name, 0.0) for name in part.modelled)
        measured_s = profile.exposed_s.get(part.name, 0.0)
        if part.name in _EXCHANGED:  # which of them carries an exchange is the software's choice
            whole = sum(profile.exposed_s.get(name, 0.0) for name in seen)
            modelled_s = exchanged * (measured_s / whole if whole else float(part.name == _EXCHANGED[0]))
        excess = measured_s - modelled_s - again
        if modelled_s or measured_s:
            largest = profile.largest.get(part.name, ())
            rows.append(GapPart(part.name, modelled_s, measured_s, excess, part.fix, largest))
    return rows


def _remarks(profile: StepProfile | None, steady_s: float) -> tuple[str, ...]:
    if profile is None:
        return ()
    out = []
    if profile.is_host:
        out.append("the profile has no kernels of a GPU: its operators are those of the host")
    if profile.step_s is None:
        out.append("a summary adds up kernels: what communication and copies take beside computing is not told")
    elif abs(profile.step_s / steady_s - 1) > AS_PREDICTED_FRACTION * 2:
        why = "profiling slows the host" if profile.step_s > steady_s else "they are of another batch or layout"
        out.append(f"the profiled steps took {profile.step_s / steady_s:.2g} times the log's steady ones: {why}")
    return tuple(out)
