"""Files of actuals, of any tool, summed up as they stream by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from computeledger.actuals.readers import power
from computeledger.actuals.readers.all_tools import read_actuals, reader_of
from computeledger.actuals.readers.tally import Hints, Tally
from computeledger.actuals.sums import LEDGERS, Sums
from computeledger.errors import InputError, shown


@dataclass(frozen=True, slots=True)
class ReadFile:
    """A file of actuals after it was read."""

    path: str
    tool: str
    entries: int
    phases: tuple[str, ...]
    tally: Tally
    has_energy: bool


def read_files(files: Sequence[str], hints: Hints) -> tuple[Sums, tuple[ReadFile, ...]]:
    """Sum up files; logs of power come last, as they belong to the workload of the others."""
    sums = Sums()
    read: list[ReadFile] = []
    found = [(name, reader_of(Path(name))) for name in files]
    for index, (name, _) in enumerate(found):
        if any(Path(name).samefile(other) for other, _ in found[:index]):
            raise InputError(f"{shown(name)}: is given twice, and would count twice")
    for name, reader in sorted(found, key=lambda pair: pair[1].tool == power.TOOL):
        own = replace(hints, run=Path(name).stem)
        if reader.tool == power.TOOL:
            own = replace(own, workload=_powered(name, sums, [one for one in read if one.tool != power.TOOL]))
        tally, workloads, count, has_energy = Tally(), dict[str, None](), 0, False
        for entry in read_actuals(Path(name), own, tally):
            sums.add((entry,))
            workloads[entry.workload] = None
            count += 1
            has_energy = has_energy or entry.energy_j is not None
        read.append(ReadFile(name, reader.tool, count, tuple(LEDGERS[one] for one in workloads), tally, has_energy))
    return sums, tuple(read)


def _powered(name: str, sums: Sums, others: Sequence[ReadFile]) -> str:
    """The workload that a power log belongs to; none where there is no other log."""
    workloads = sums.workloads()
    if len(workloads) > 1:
        raise InputError(f"{shown(name)}: a power log of which of {', '.join(workloads)}? give them apart")
    counted_in = [one.path for one in others if one.has_energy]
    if counted_in:
        raise InputError(f"{shown(name)}: {shown(counted_in[0])} counts energy itself: leave one of them out")
    return next(iter(workloads), "")


def tally_of(phase: str, read: Sequence[ReadFile]) -> Tally:
    """What the files of a phase say of themselves, as one."""
    out = Tally()
    for one in read:
        if phase not in one.phases:
            continue
        for name, value in one.tally.observed.items():
            out.observed[name] = out.observed[name].joined(value) if name in out.observed else value
    return out
