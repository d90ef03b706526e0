"""How often large training runs stop, and what a stop costs: records of published runs."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from computeledger.arrays import Range, Uncertain
from computeledger.errors import unknown_id
from computeledger.facts.catalog import shipped_file
from computeledger.facts.reading import read_facts, read_file
from computeledger.facts.schema import Fact
from computeledger.units import YEAR_S


@dataclass(frozen=True, slots=True)
class ReliabilityRecord:
    """What one publication says about the stops of a run or a cluster."""

    id: str
    name: str
    facts: Mapping[str, Fact]

    @property
    def interruptions_per_gpu_s(self) -> float | None:
        """Unexpected stops of the job per GPU and second; None where they were not published [1/s]."""
        needed = [self.facts.get(name) for name in ("n_interruptions", "n_gpus", "elapsed_s")]
        stops, gpus, elapsed = needed
        if stops is None or gpus is None or elapsed is None:
            return None
        return stops.value / (gpus.value * elapsed.value)


@functools.cache
def load_reliability() -> Mapping[str, ReliabilityRecord]:
    """Load every record of published stops."""
    document = read_file(shipped_file("reliability.toml"), shipped=True)
    out = {}
    for key, table in document.table.items():
        facts = {name: value for name, value in table.items() if name != "name"}
        out[key] = ReliabilityRecord(key, str(table["name"]), read_facts(document, key, facts))
    return out


def reliability_record(key: str) -> ReliabilityRecord:
    """Load one record.

    Examples
    --------
    >>> reliability_record("byterobust").facts["effective_fraction"].value
    0.97
    """
    records = load_reliability()
    if key not in records:
        raise unknown_id("reliability record", key, records)
    return records[key]


def published_interruptions_per_gpu_s() -> Range:
    """Range of the published rates of unexpected stops: from the lowest to the highest, around their median."""
    rates = [one.interruptions_per_gpu_s for one in load_reliability().values()]
    known = sorted(rate for rate in rates if rate is not None)
    return Range(known[0], known[-1], mid=float(np.median(known)))


def interruptions_per_gpu_s(per_gpu_year: Uncertain | None) -> Uncertain:
    """Rate of unexpected stops from one of a year; where none is given, that of published runs.

    Parameters
    ----------
    per_gpu_year : float, ndarray, Range or None
        Unexpected stops per GPU and year [1/year].

    Returns
    -------
    float, ndarray or Range
        The same per second [1/s].

    Examples
    --------
    >>> interruptions_per_gpu_s(Range(0.1, 0.2)).low == 0.1 / YEAR_S, interruptions_per_gpu_s(None).low > 0
    (True, True)
    """
    if per_gpu_year is None:
        return published_interruptions_per_gpu_s()
    if isinstance(per_gpu_year, Range):
        return Range(per_gpu_year.low / YEAR_S, per_gpu_year.high / YEAR_S)
    return per_gpu_year / YEAR_S
