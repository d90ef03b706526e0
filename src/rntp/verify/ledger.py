"""The verifiers' own ledger: what checks took, and how many cores a rate of rollouts needs."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from computeledger.errors import InputError, shown
from rntp.verify.verdict import INFRASTRUCTURE, STATUSES

#: Share of the time that cores may be busy before queues grow long: the summary's assumption.
BUSY_FRACTION = 0.8


@dataclass(frozen=True, slots=True)
class Entry:
    """One check in the ledger."""

    environment: str
    status: str
    score: float | None
    wall_s: float
    cpu_s: float
    queue_s: float
    tries: int = 1


def cores_for_rate(rollouts_per_s: float, verifier_cpu_s: float, busy_fraction: float = BUSY_FRACTION) -> float:
    """Cores that keep up with a rate of rollouts: rate times processor time, over the share of time cores are busy.

    Examples
    --------
    >>> cores_for_rate(100.0, 0.04, 0.8)
    5.0
    """
    if not (rollouts_per_s >= 0 and verifier_cpu_s >= 0 and 0 < busy_fraction <= 1):
        given = f"{shown(rollouts_per_s)}, {shown(verifier_cpu_s)}, {shown(busy_fraction)}"
        raise InputError(f"cores for a rate: {given}: rates and times from 0 and a share from 0 to 1 are needed")
    return rollouts_per_s * verifier_cpu_s / busy_fraction


def summary_of(
    entries: Sequence[Entry], wall_s: float, rollouts_per_s: float | None = None, n_before: int = 0
) -> dict[str, Any]:
    """Sum checks up.

    Examples
    --------
    >>> right, wrong = Entry("math", "correct", 1.0, 0.1, 0.05, 0.0), Entry("math", "wrong", 0.0, 0.1, 0.15, 0.0)
    >>> out = summary_of([right, wrong], 0.5)
    >>> out["verifications_per_s"], out["cpu_s_per_rollout"], out["mean_score"]
    (4.0, 0.1, 0.5)
    """
    out = _figures(entries)
    rate = (len(entries) - n_before) / wall_s if wall_s > 0 else 0.0
    wanted = rate if rollouts_per_s is None else rollouts_per_s
    out |= {
        "wall_s": wall_s, "verifications_per_s": rate, "verifier_cpu_s": out["cpu_s_per_rollout"],
        "rollouts_per_s": wanted, "cores_for_rate": cores_for_rate(wanted, out["cpu_s_per_rollout"]),
    }  # fmt: skip
    names = sorted({entry.environment for entry in entries})
    parts = {name: [entry for entry in entries if entry.environment == name] for name in names}
    return {**out, "environments": {name: _figures(part, len(entries)) for name, part in parts.items()}}


def _figures(entries: Sequence[Entry], n_all: int | None = None) -> dict[str, Any]:
    """Figures of some checks."""
    counts = Counter(entry.status for entry in entries)
    scores = [entry.score for entry in entries if entry.score is not None]
    waits, walls = _quantiles(entry.queue_s for entry in entries), _quantiles(entry.wall_s for entry in entries)
    cpu_s = sum(entry.cpu_s for entry in entries)
    out: dict[str, Any] = {
        "n": len(entries), "status": {name: counts[name] for name in STATUSES if counts[name]},
        "mean_score": statistics.fmean(scores) if scores else None, "infrastructure": counts[INFRASTRUCTURE],
        "retried": sum(entry.tries > 1 for entry in entries), "cpu_s": cpu_s,
        "cpu_s_per_rollout": cpu_s / len(entries) if entries else 0.0,
        "p50_s": walls[0], "p95_s": walls[1], "queue_p50_s": waits[0], "queue_p95_s": waits[1],
    }  # fmt: skip
    return out if n_all is None else {"share_fraction": len(entries) / n_all, **out}


def _quantiles(values: Iterable[float]) -> tuple[float, float]:
    ordered = sorted(values)
    return (0.0, 0.0) if not ordered else (ordered[len(ordered) // 2], ordered[int(0.95 * len(ordered))])


def _score(given: Any) -> float | None:
    return None if given is None else float(given)


def entry_of(document: Mapping[str, Any]) -> Entry:
    """Read an entry back from the line that a run wrote.

    Examples
    --------
    >>> entry_of({"environment": "math", "status": "correct", "score": 1.0, "seconds": 0.1}).cpu_s
    0.0
    """
    try:
        return Entry(
            str(document["environment"]), str(document["status"]), _score(document["score"]),
            float(document["seconds"]), float(document.get("cpu_s", 0.0)), float(document.get("queue_s", 0.0)),
            int(document.get("tries", 1)),
        )  # fmt: skip
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise InputError(f"results: a line is no verdict ({error})") from None
