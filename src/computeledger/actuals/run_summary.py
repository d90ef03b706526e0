"""Sums over a run ledger: GPU-time by phase, utilisation, energy, and RL's coefficient beta as it was measured.

``beta_flop = C_RL / (N D_RL)`` and ``beta_gpu_time = 6 (device-s of RL / D_RL) / (device-s of next-token training / its
tokens)``: on both scales a token of next-token training takes 6. C_RL and the device-time are those of every RL phase,
idle time included, evaluation and the reference itself left out; D_RL counts sampled tokens, trained on or not. Work
that a restart repeated is in the phases and not in beta.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from computeledger.actuals.run_ledger import PHASES_OF_RUN, Entry
from computeledger.errors import InputError, nearest, shown
from computeledger.units import HOUR_S, format_percent, format_si

#: Phases of RL that are measured beside it and belong to no RL token.
BESIDE_RL = ("next-token reference", "evaluation")
#: Phases of next-token training that its tokens are charged with.
TRAINING_PHASES = ("step", "forward-backward", "optimizer", "communication")

#: Active parameters below which beta in device-time is that of the launches, not of the model's work (assumption).
LEAST_PARAMS = 1e8

#: Workload -> the phase that every step of its optimizer has.
STEP_PHASES = {"rl": "update", "pretraining": "forward-backward"}

DEFINITIONS: Mapping[str, str] = {
    "beta_flop": "FLOP of the RL phases per active parameter and sampled token; 6 in next-token training",
    "beta_gpu_time": "device-time of the RL phases, idle included, per sampled token; 6 in next-token training",
    "beta_gpu_time_busy": "the same without idle time",
    "D_RL": "tokens of the policy's rollouts, trained on or not; per_kept_token counts those that the loss took",
    "C_RL": f"every RL phase but {' and '.join(BESIDE_RL)}; work that a restart repeated is left out",
    "utilization_fraction": "the model's FLOP over peak times device-time; recomputation is not in it",
}


def superseded(entries: Sequence[Entry]) -> list[bool]:
    """Say which entries are work that a later attempt did again.

    Examples
    --------
    >>> entry = lambda step, attempt: Entry("mine", "rl", "update", 1.0, step=step, attempt=attempt)
    >>> superseded([entry(1, 0), entry(2, 0), entry(2, 1)])
    [False, True, False]
    """
    begun: dict[tuple[str, str], dict[int, int]] = {}
    for entry in entries:
        if entry.step is not None:
            attempts = begun.setdefault((entry.run, entry.workload), {})
            attempts[entry.attempt] = min(entry.step, attempts.get(entry.attempt, entry.step))
    out = []
    for entry in entries:
        attempts = begun.get((entry.run, entry.workload), {})
        step = entry.step
        later = (first for attempt, first in attempts.items() if attempt > entry.attempt)
        out.append(step is not None and any(first <= step for first in later))
    return out


def summary(entries: Sequence[Entry], workload: str | None = None) -> dict[str, Any]:
    """Sum up the entries of one workload.

    Examples
    --------
    >>> sampled = Entry("mine", "rl", "generation", 60.0, 8, step=1, tokens_by_kind={"sampled": 1e6}, flop=8e15)
    >>> trained = Entry("mine", "rl", "update", 30.0, 8, step=1, flop=24e15)
    >>> out = summary([sampled, trained], "rl")
    >>> round(out["phases"]["update"]["fraction"], 3), out["tokens_sampled"], out["beta_gpu_time"]
    (0.333, 1000000.0, None)
    """
    chosen = _workload(entries, workload)
    part = [entry for entry in entries if entry.workload == chosen]
    repeated = superseded(part)
    kept = [entry for entry, again in zip(part, repeated, strict=True) if not again]
    device_s = sum(entry.device_s for entry in part)
    phases = {name: [entry for entry in part if entry.phase == name] for name in PHASES_OF_RUN[chosen]}
    out: dict[str, Any] = {
        "runs": sorted({entry.run for entry in part}),
        "workload": chosen,
        "steps": _steps(part, STEP_PHASES.get(chosen)),
        "gpu_hours": device_s / HOUR_S,
        "wall_s": sum(entry.duration_s for entry in part),
        "phases": {name: _phase(some, device_s) for name, some in phases.items() if some},
        "energy_j": _sum(entry.energy_j for entry in part),
        "repeated_gpu_hours": sum(e.device_s for e, again in zip(part, repeated, strict=True) if again) / HOUR_S,
        "other_workloads_gpu_hours": {
            name: sum(entry.device_s for entry in entries if entry.workload == name) / HOUR_S
            for name in sorted({entry.workload for entry in entries} - {chosen})
        },
    }
    return out | _beta(kept, next_token_reference(entries)) if chosen == "rl" else out


def _workload(entries: Sequence[Entry], workload: str | None) -> str:
    if not entries:
        raise InputError("a ledger without entries has no sums")
    there = {entry.workload for entry in entries}
    chosen = workload or ("rl" if "rl" in there else entries[0].workload)
    if chosen not in there:
        raise InputError(f"workload {shown(chosen)} is not in the ledger: {nearest(chosen, there)}")
    return chosen


def _steps(entries: Sequence[Entry], phase: str | None) -> int:
    """Distinct steps with the phase that makes a step; of any phase where none is written."""
    steps = [(entry.run, entry.step, entry.phase) for entry in entries if entry.step is not None]
    made = {(run, step) for run, step, name in steps if name == phase}
    return len(made or {(run, step) for run, step, _ in steps})


def _phase(entries: Sequence[Entry], all_device_s: float) -> dict[str, Any]:
    """Figures of one phase."""
    device_s = sum(entry.device_s for entry in entries)
    tokens: dict[str, float] = {}
    for entry in entries:
        for kind, count in entry.tokens_by_kind.items():
            tokens[kind] = tokens.get(kind, 0.0) + count
    return {
        "gpu_hours": device_s / HOUR_S,
        "fraction": device_s / all_device_s if all_device_s else 0.0,
        "tokens_by_kind": tokens,
        "flop": _sum(entry.flop for entry in entries),
        "executed_flop": _sum(entry.executed_flop for entry in entries),
        "utilization_fraction": _utilization(entries),
        "moved_bytes": _sum(entry.moved_bytes for entry in entries),
        "energy_j": _sum(entry.energy_j for entry in entries),
    }


def _sum(values: Iterable[float | None]) -> float | None:
    """Sum of what was measured; None where nothing was."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _utilization(entries: Sequence[Entry]) -> float | None:
    """Work over what the devices could do in all the phase's time, where work and peak are known."""
    flop = _sum(entry.flop for entry in entries)
    possible = sum((entry.peak_flop_per_s or 0.0) * entry.device_s for entry in entries)
    return None if flop is None or not possible else flop / possible


def next_token_reference(entries: Sequence[Entry]) -> dict[str, Any] | None:
    """Find what a token of next-token training took in the same ledger.

    The phase "next-token reference" where it was measured, else pretraining of the same ledger; entries without tokens
    warm up and are left out.

    Examples
    --------
    >>> measured = Entry("mine", "rl", "next-token reference", 2.0, 8, tokens_by_kind={"trained": 4000}, flop=24e9)
    >>> next_token_reference([measured])["device_s_per_token"]
    0.004
    """
    reference = [e for e in entries if e.phase == "next-token reference" and e.tokens_by_kind.get("trained")]
    found = reference or [e for e in entries if e.workload == "pretraining" and e.phase in TRAINING_PHASES]
    tokens = sum(entry.tokens_by_kind.get("trained", 0.0) for entry in found)
    if not tokens:
        return None
    flop = _sum(entry.flop for entry in found)
    device_s = sum(entry.device_s for entry in found)
    return {
        "device_s_per_token": device_s / tokens,
        "flop_per_token": None if flop is None else flop / tokens,
        "devices": sorted({entry.devices for entry in found}),
        "tokens": tokens,
        "measured_in": "next-token reference" if reference else "pretraining",
        "measurements": len(reference) or None,
        "standard_error_fraction": _standard_error(reference, device_s / tokens) if len(reference) > 1 else None,
    }


def _standard_error(reference: Sequence[Entry], per_token: float) -> float:
    """Of the ratio of device-time to tokens, over itself: ``sqrt(n / (n - 1) sum (d - R t)^2) / sum d``."""
    n = len(reference)
    off = (entry.device_s - per_token * entry.tokens_by_kind["trained"] for entry in reference)
    return math.sqrt(n / (n - 1) * sum(one**2 for one in off)) / sum(entry.device_s for entry in reference)


def _time_note(paid: Sequence[Entry], n_params: int, device_s: float) -> str:
    """What keeps beta in device-time from saying anything of larger models; empty where nothing does."""
    if not n_params or n_params >= LEAST_PARAMS:
        return ""
    elsewhere = sum(entry.device_s for entry in paid if entry.flop is None) / device_s
    return (
        f"not transferable: at {format_si(n_params)} parameters (below {format_si(LEAST_PARAMS)}) launches and Python "
        f"take the time; {format_percent(elsewhere)} of it is in phases that count no FLOP"
    )


def _beta(kept: Sequence[Entry], reference: Mapping[str, Any] | None) -> dict[str, Any]:
    """RL's coefficient, in FLOP and in GPU-time, with what it rests on."""
    paid = [entry for entry in kept if entry.phase not in BESIDE_RL]
    busy = [entry for entry in paid if entry.phase != "idle"]
    sampled = sum(entry.tokens_by_kind.get("sampled", 0.0) for entry in paid)
    kept_tokens = sum(entry.tokens_by_kind.get("kept", 0.0) for entry in paid)
    flop = _sum(entry.flop for entry in paid)
    per_reference = None if reference is None or not sampled else 6 / reference["device_s_per_token"] / sampled
    n_params = max((entry.n_params_active or 0 for entry in paid), default=0)
    device_s, busy_s = sum(entry.device_s for entry in paid), sum(entry.device_s for entry in busy)
    beta_flop = flop / n_params / sampled if flop and n_params and sampled else None
    beta_time = None if per_reference is None else per_reference * device_s
    scale = sampled / kept_tokens if kept_tokens else None
    return {
        "tokens_sampled": sampled,
        "tokens_kept": kept_tokens or None,
        "beta_flop": beta_flop,
        "beta_gpu_time": beta_time,
        "beta_gpu_time_note": "" if beta_time is None else _time_note(paid, n_params, device_s),
        "beta_gpu_time_busy": None if per_reference is None else per_reference * busy_s,
        "per_kept_token": {
            "beta_flop": beta_flop * scale if beta_flop and scale else None,
            "beta_gpu_time": beta_time * scale if beta_time and scale else None,
        },
        "reference": None if reference is None else dict(reference),
        "definitions": dict(DEFINITIONS),
    }
