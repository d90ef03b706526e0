"""Power and utilisation of GPUs: ``nvidia-smi --query-gpu=... --format=csv``, DCGM fields as CSV, and ``dcgmi dmon``.

Energy is the integral of the samples of each GPU. A sample without a time, as ``dcgmi dmon`` prints it, counts for the
default interval of a second.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from computeledger.actuals.readers.tally import Hints, Tally, amount, stamp_s
from computeledger.actuals.run_ledger import Entry
from computeledger.errors import InputError
from computeledger.units import PERCENT

TOOL = "GPU power log"
MARK = re.compile(rb"power\.draw|power_w\b|DCGM_FI_DEV_POWER_USAGE|#\s*Entity\s[^\n]*(?:POWER|PWR)|#\s*gpu\s+pwr")

#: Samples further apart are a gap, whose energy is not known (assumption) [s].
LONGEST_GAP_S = 120.0
#: Interval of ``dcgmi dmon`` unless it is told another [s].
DMON_INTERVAL_S = 1.0

_POWER = re.compile(r"power[._]draw|power_w|power_usage|^power|^pwr", re.IGNORECASE)
_BUSY = re.compile(r"utilization[._]gpu|gpu_util|dev_gpu_util|^gputl|^sm$", re.IGNORECASE)
_GPU = re.compile(r"^(index|gpu|gpu_id|gpu_index|uuid|pci\.bus_id|device)$", re.IGNORECASE)
_TIME = re.compile(r"time", re.IGNORECASE)
_DMON = re.compile(r"^\s*(?:(\d{10}(?:\.\d+)?)\s+)?(?:GPU(?:-I)?\s+)?(\d+)\s+(\S.*)$")
_UNIT_LINE = re.compile(r"\s*(?:\d{10}\S*\s+)?(ID|#)")
_UNITS = re.compile(r"(?<!\s)\s*\[.*\]$")


def entries(lines: Iterable[tuple[int, str]], hints: Hints, tally: Tally) -> Iterator[Entry]:
    """Read a power log."""
    if not hints.workload:
        raise InputError("a power log does not say what the GPUs did: give the workload's own log beside it")
    last: dict[str, tuple[float, float]] = {}
    energy_j, covered_s = 0.0, 0.0
    for number, gpu, when_s, watts, busy in _samples(lines, tally):
        tally.observe("chip_w", watts)
        if busy is not None:
            tally.observe("busy_fraction", busy / PERCENT)
        before = last.get(gpu)
        last[gpu] = (when_s, watts)
        if before is None:
            continue
        since_s = when_s - before[0]
        if since_s < 0:
            tally.remark("the clock jumped back", number)
        elif since_s > LONGEST_GAP_S:
            tally.remark("a gap between samples", number)
        else:
            energy_j += since_s * (before[1] + watts) / 2
            covered_s += since_s
    if not last:
        return
    tally.observe("power_device_s", covered_s)
    phase = "other"
    yield Entry(hints.run, hints.workload, phase, 0.0, len(last), energy_j=energy_j)


def _samples(lines: Iterable[tuple[int, str]], tally: Tally) -> Iterator[tuple[int, str, float, float, float | None]]:
    """Line, GPU, time, power and utilisation in percent of each sample."""
    columns: list[str] = []
    is_dmon = False
    place: dict[str, int] = {}
    ticks: dict[str, float] = {}
    same: dict[float, int] = {}
    for number, text in lines:
        if not text.strip():
            continue
        if header := _header(text):
            is_dmon, columns = header
            place = _places(columns)
            continue
        if not place:
            continue
        if is_dmon and _UNIT_LINE.match(text):
            continue
        width = len(columns)
        sample = _dmon_sample(text, width, place, ticks) if is_dmon else _csv_sample(text, width, place, same)
        if isinstance(sample, str):
            tally.damage(sample, number)
        else:
            yield (number, *sample)


def _header(text: str) -> tuple[bool, list[str]] | None:
    """Whether a line names the columns, and which: of dmon, or of a CSV."""
    stripped = re.sub(r"^\s*\d{10}\S*\s+", "", text).strip()
    if re.match(r"#\s*(Entity|gpu)\b", stripped, re.IGNORECASE):
        return True, stripped.lstrip("# ").split()[1:]
    cells = [_UNITS.sub("", cell.strip()) for cell in text.split(",")]
    if any(_POWER.search(cell) for cell in cells) and not any(cell[:1].isdigit() for cell in cells):
        return False, cells
    return None


def _places(columns: Sequence[str]) -> dict[str, int]:
    """Where power, utilisation, GPU and time stand."""
    out: dict[str, int] = {}
    for name, pattern in (("power", _POWER), ("busy", _BUSY), ("gpu", _GPU), ("time", _TIME)):
        found = [index for index, column in enumerate(columns) if pattern.search(column) and "limit" not in column]
        if found:
            out[name] = found[0]
    return out if "power" in out else {}


def _csv_sample(
    text: str, n_columns: int, place: dict[str, int], same: dict[float, int]
) -> tuple[str, float, float, float | None] | str:
    cells = [cell.strip() for cell in text.split(",")]
    if len(cells) != n_columns:
        return "cut off or spliced: its cells are not those of the columns"
    watts = amount(cells[place["power"]].removesuffix("W").strip())
    if watts is None:
        return "no power in it"
    busy = amount(cells[place["busy"]].removesuffix("%").strip()) if "busy" in place else None
    when_s = stamp_s(cells[place["time"]]) if "time" in place else None
    if when_s is None and "time" in place:
        when_s = amount(cells[place["time"]])
    if when_s is None:
        return "no time in it"
    if "gpu" in place:
        return cells[place["gpu"]], when_s, watts, busy
    # without a column for it, lines of one instant are the GPUs in turn
    index = same.get(when_s, 0)
    if not index:
        same.clear()
    same[when_s] = index + 1
    return str(index), when_s, watts, busy


def _dmon_sample(
    text: str, n_columns: int, place: dict[str, int], ticks: dict[str, float]
) -> tuple[str, float, float, float | None] | str:
    found = _DMON.match(text)
    if found is None:
        return "no sample of the columns above it"
    stamp, gpu, rest = found.groups()
    cells = rest.split()
    watts = amount(cells[place["power"]]) if len(cells) == n_columns else None
    if watts is None:
        return "no power in it"
    ticks[gpu] = float(stamp) if stamp else ticks.get(gpu, 0.0) + DMON_INTERVAL_S
    busy = amount(cells[place["busy"]]) if "busy" in place else None
    return gpu, ticks[gpu], watts, busy
