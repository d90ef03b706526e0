"""Files of actuals, of any tool, summed up as they stream by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from computeledger.actuals.readers import power
from computeledger.actuals.readers.accounts import Account, AccountReader
from computeledger.actuals.readers.all_tools import read_actuals, reader_of
from computeledger.actuals.readers.tally import Hints, Tally, lines_of, none_readable
from computeledger.actuals.run_ledger import Entry
from computeledger.actuals.sums import LEDGERS, Actual, Sums
from computeledger.errors import InputError, shown
from computeledger.units import HOUR_S, format_si

#: Logs may state this much more GPU-time than was held: they round (assumption).
_ROUNDING = 1.02


@dataclass(frozen=True, slots=True)
class ReadFile:
    """A file of actuals after it was read."""

    path: str
    tool: str
    entries: int
    phases: tuple[str, ...]
    tally: Tally
    has_energy: bool


@dataclass(frozen=True, slots=True)
class ReadActuals:
    """What the runs took, what their logs alone say and the accounts beside them, by phase of a plan; what was read."""

    took: Mapping[str, Actual]
    logged: Mapping[str, Actual]
    accounts: Mapping[str, Account]
    files: tuple[ReadFile, ...]


def read_files(files: Sequence[str], hints: Hints) -> ReadActuals:
    """Sum up files: logs first, then logs of power and accounts, which belong to the phase of the others."""
    sums = Sums()
    read: list[ReadFile] = []
    found = [(name, reader_of(Path(name))) for name in files]
    for index, (name, _) in enumerate(found):
        if any(Path(name).samefile(other) for other, _ in found[:index]):
            raise InputError(f"{shown(name)}: is given twice, and would count twice")
    beside = [(name, reader) for name, reader in found if isinstance(reader, AccountReader)]
    logs = [(name, reader) for name, reader in found if not isinstance(reader, AccountReader)]
    for name, reader in sorted(logs, key=lambda pair: pair[1].tool == power.TOOL):
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
    return _with_accounts(sums, read, beside)


def _with_accounts(sums: Sums, read: Sequence[ReadFile], accounts: Sequence[tuple[str, AccountReader]]) -> ReadActuals:
    """What accounts say of the run whose logs were read; GPU-time that was held beside them is idle."""
    logged = sums.actuals()
    if not accounts:
        return ReadActuals(logged, logged, {}, tuple(read))
    files, total, workload = list(read), Account(), ""
    for name, reader in accounts:
        workload = _only_workload(name, sums, reader.tool)
        tally = Tally()
        try:
            one = reader.read(lines_of(Path(name), tally), tally)
        except InputError as error:
            raise InputError(f"{shown(name)}: {error}") from None
        if one == Account():
            raise InputError(f"{shown(name)}: {none_readable(reader.tool, tally)}")
        total = total + one
        files.append(ReadFile(name, reader.tool, 1, (LEDGERS[workload],), tally, one.node_energy_j is not None))
    if total.gpu_s is not None:
        _hold(sums, workload, total.gpu_s, files[-1])
    return ReadActuals(sums.actuals(), logged, {LEDGERS[workload]: total}, tuple(files))


def _hold(sums: Sums, workload: str, held_s: float, account: ReadFile) -> None:
    """Count what was held beyond the logs as idle; say so where the logs state more than was held."""
    took = sums.actuals()[LEDGERS[workload]]
    logged_s, devices = took.gpu_hours * HOUR_S, max(took.devices, default=1)
    if held_s >= logged_s:
        sums.add((Entry(took.runs[0], workload, "idle", (held_s - logged_s) / devices, devices),))
    elif logged_s > _ROUNDING * held_s:
        logged, held = (format_si(one / HOUR_S, "GPU-hours") for one in (logged_s, held_s))
        account.tally.remark(f"the logs state {logged}, and only {held} were held", 1)


def _only_workload(name: str, sums: Sums, what: str) -> str:
    """The workload of the logs beside a file that does not say whose it is."""
    workloads = sums.workloads()
    if len(workloads) > 1:
        raise InputError(f"{shown(name)}: {what} of which of {', '.join(workloads)}? give them apart")
    if not workloads:
        raise InputError(f"{shown(name)}: {what} counts no tokens: give the run's own log beside it")
    return workloads[0]


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
