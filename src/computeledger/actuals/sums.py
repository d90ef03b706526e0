"""Entries of run ledgers summed up as they stream by: what each ledger of a plan really took."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from computeledger.actuals.run_ledger import Entry
from computeledger.units import HOUR_S

#: Workload of a run ledger -> phase of a plan.
LEDGERS: Mapping[str, str] = {"pretraining": "pretraining", "rl": "rl", "serving": "inference"}
#: Workload -> kinds of token that a plan of it counts.
COUNTED: Mapping[str, tuple[str, ...]] = {
    "pretraining": ("trained",),
    "rl": ("sampled",),
    "serving": ("input", "output"),
}
#: Phases that no plan has: time beside the work that was planned.
UNPLANNED = ("checkpoint", "evaluation", "restart", "other", "idle", "next-token reference", "position selection")
#: Phase of a step that its tool does not divide.
UNDIVIDED = "step"
#: Work that a restart did once more.
REPEATED = "repeated after a restart"
#: Pieces that a run is cut into, to see how steady it was.
MOST_BLOCKS = 64


@dataclass(frozen=True, slots=True)
class Actual:
    """What a ledger of a plan really took."""

    name: str
    runs: tuple[str, ...]
    steps: int
    tokens: float
    gpu_s_by_phase: Mapping[str, float]
    flop: float | None
    energy_j: float | None
    devices: tuple[int, ...]
    blocks: tuple[tuple[float, float], ...]
    reference_s_per_token: float | None

    @property
    def gpu_hours(self) -> float:
        """Device-time that was held [h]."""
        return sum(self.gpu_s_by_phase.values()) / HOUR_S

    @property
    def unplanned_gpu_hours(self) -> float:
        """Device-time of phases that no plan has [h]."""
        return sum(self.gpu_s_by_phase.get(name, 0.0) for name in (*UNPLANNED, REPEATED)) / HOUR_S

    @property
    def planned_gpu_hours(self) -> float:
        """Device-time of the work that was planned [h]."""
        return self.gpu_hours - self.unplanned_gpu_hours


class _WorkloadSums:
    """One workload's running sums."""

    def __init__(self, workload: str) -> None:
        self.workload = workload
        self.runs: dict[str, None] = {}
        self.devices: set[int] = set()
        self.tokens, self.steps = 0.0, 0
        self.gpu_s: dict[str, float] = {}
        self.flop: float | None = None
        self.energy_j: float | None = None
        self.reference = [0.0, 0.0]
        self.furthest: dict[str, dict[int, int]] = {}
        self.blocks: list[list[float]] = []
        self.per_block, self.in_block = 1, 0

    def add(self, entry: Entry) -> None:
        """Count an entry."""
        self.runs[entry.run] = None
        device_s = entry.duration_s * entry.devices
        if entry.energy_j is not None:
            self.energy_j = (self.energy_j or 0.0) + entry.energy_j
        if not device_s:
            return
        self.devices.add(entry.devices)
        repeated = self._is_repeated(entry)
        phase = REPEATED if repeated else entry.phase
        self.gpu_s[phase] = self.gpu_s.get(phase, 0.0) + device_s
        trained = entry.tokens_by_kind.get("trained", 0.0)
        if entry.phase == "next-token reference" and trained:  # without tokens it warms up
            self.reference = [self.reference[0] + device_s, self.reference[1] + trained]
        tokens = 0.0
        if not repeated and entry.phase not in UNPLANNED:
            tokens = sum(entry.tokens_by_kind.get(kind, 0.0) for kind in COUNTED[self.workload])
            if entry.flop is not None:
                self.flop = (self.flop or 0.0) + entry.flop
        self.tokens += tokens
        self._to_block(tokens, device_s)

    def _is_repeated(self, entry: Entry) -> bool:
        """Whether an earlier attempt had done the step; attempts come in their order."""
        if entry.step is None:
            return False
        attempts = self.furthest.setdefault(entry.run, {})
        if entry.step > attempts.get(entry.attempt, -1):
            attempts[entry.attempt] = entry.step
        if not entry.attempt:
            return False
        return any(entry.step <= most for attempt, most in attempts.items() if attempt < entry.attempt)

    def _to_block(self, tokens: float, device_s: float) -> None:
        """Blocks begin where tokens do, and join in pairs when they become many."""
        if tokens:
            self.steps += 1
            if not self.blocks or self.in_block >= self.per_block:
                self.blocks.append([0.0, 0.0])
                self.in_block = 0
            self.in_block += 1
            if len(self.blocks) > 2 * MOST_BLOCKS:
                pairs = zip(self.blocks[::2], self.blocks[1::2], strict=False)
                last = [self.blocks[-1]] if len(self.blocks) % 2 else []
                self.blocks = [[one[0] + two[0], one[1] + two[1]] for one, two in pairs] + last
                self.per_block *= 2
        if not self.blocks:
            self.blocks.append([0.0, 0.0])
        self.blocks[-1][0] += tokens
        self.blocks[-1][1] += device_s

    def actual(self) -> Actual:
        """The sums as a record."""
        device_s, tokens = self.reference
        # the last block may be a piece of one
        whole = self.blocks[:-1] if len(self.blocks) > 2 and self.in_block < self.per_block else self.blocks
        return Actual(
            name=LEDGERS[self.workload],
            runs=tuple(self.runs),
            steps=self.steps,
            tokens=self.tokens,
            gpu_s_by_phase=dict(self.gpu_s),
            flop=self.flop,
            energy_j=self.energy_j,
            devices=tuple(sorted(self.devices)),
            blocks=tuple((one[0], one[1]) for one in whole),
            reference_s_per_token=device_s / tokens if tokens else None,
        )


class Sums:
    """Sums of all entries that were added, one ledger of a plan each."""

    def __init__(self) -> None:
        self._sums: dict[str, _WorkloadSums] = {}

    def add(self, entries: Iterable[Entry]) -> None:
        """Count entries, one after the other."""
        for entry in entries:
            one = self._sums.get(entry.workload)
            if one is None:
                one = self._sums[entry.workload] = _WorkloadSums(entry.workload)
            one.add(entry)

    def workloads(self) -> tuple[str, ...]:
        """Workloads that were counted."""
        return tuple(self._sums)

    def actuals(self) -> dict[str, Actual]:
        """What was counted."""
        return {LEDGERS[name]: sums.actual() for name, sums in self._sums.items()}
