"""Other people's measurements: how far their deployments lie from those that the constants are fitted on.

How well a deployment is tuned, and how it was measured, differs more between sources than within one. Each source has
an effect of its own on the times of its steps; what a reader's deployment will show is that of one source more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from computeledger.facts.load import load_system
from computeledger.facts.schema import Accelerator
from computeledger.physics.calibration.efficiency import Efficiency
from computeledger.physics.calibration.local import local_engines
from computeledger.physics.calibration.serving import calibrated_engines
from computeledger.physics.roofline import Machine
from computeledger.validation.compare import Array
from computeledger.validation.measured_table import read_rows
from computeledger.validation.published.rows import Unpredictable
from computeledger.validation.serving.open_points import NEEDED, OpenCase, Row, open_case, predict_open
from computeledger.workloads.engines import constants_of
from computeledger.workloads.serving.intervals import ALONE, BURST, CHIP, ENGINE, USUAL

#: Tables of such measurements: of the folder, and shipped with the package.
IN_FOLDER, SHIPPED = "serving_open.csv", "serving_elsewhere.csv"
#: Spread of the logarithm of sources' effects before the fit (assumption), and rows that a source counts for at most.
EFFECT_SD, MOST_ROWS_OF_A_SOURCE = 0.3, 20.0
#: The same of other makers' chips (assumption).
MAKER_SD = 0.6
#: Whose chips the constants are fitted on; sources that make one of its chips a usual one, and that show a maker's.
MAKER, FEWEST_SOURCES, FEWEST_OF_A_MAKER = "NVIDIA", 3, 2


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Measurements of many sources, as questions; local engines have constants of their own and are left out."""

    rows: Sequence[Row]
    cases: Sequence[OpenCase]

    @property
    def sources(self) -> list[str]:
        """Each source once."""
        return sorted({row["source"] for row in self.rows})

    @property
    def places(self) -> NDArray[np.int64]:
        """Which source each row is of."""
        order = {name: place for place, name in enumerate(self.sources)}
        return np.array([order[row["source"]] for row in self.rows], dtype=np.int64)

    @property
    def first_tokens(self) -> NDArray[np.bool_]:
        """Which rows are times to the first token."""
        return np.array([case.quantity == "ttft" for case in self.cases], dtype=np.bool_)

    @property
    def weights(self) -> Array:
        """What each row counts, so that no source counts for more than a few; a burst tells nothing of a step."""
        count = Counter(row["source"] for row in self.rows)
        steady = np.array([case.interval != BURST for case in self.cases], dtype=np.float64)
        shares = np.array([min(1.0, MOST_ROWS_OF_A_SOURCE / count[row["source"]]) for row in self.rows])
        return np.asarray(steady * shares)

    @property
    def usual_chips(self) -> frozenset[str]:
        """Accelerators of the fitted ones' maker that several sources measured."""
        found = _sources_by(self, lambda chip: chip.id if chip.vendor == MAKER else "")
        return frozenset(name for name, sources in found.items() if name and len(sources) >= FEWEST_SOURCES)

    @property
    def makers(self) -> list[str]:
        """Other makers whose chips several sources measured with a fitted engine."""
        found = _sources_by(self, lambda chip: chip.vendor)
        return sorted(name for name, sources in found.items() if name != MAKER and len(sources) >= FEWEST_OF_A_MAKER)

    @property
    def made_by(self) -> NDArray[np.int64]:
        """Which of those makers each row's chip is of; -1 for none of them, and for engines that are not fitted."""
        order = {name: place for place, name in enumerate(self.makers)}
        fitted = calibrated_engines()
        makers = [_chip(case).vendor if case.engine in fitted else "" for case in self.cases]
        return np.array([order.get(name, -1) for name in makers], dtype=np.int64)

    @property
    def alone(self) -> NDArray[np.bool_]:
        """Which rows are of requests that no other one kept waiting."""
        return np.array([case.interval.endswith(ALONE) for case in self.cases], dtype=np.bool_)

    def classes(self, known: frozenset[str]) -> list[str]:
        """Interval class of each row, by how far its load, its engine and its chip are from what was measured."""
        chips = known | self.usual_chips
        return [
            BURST if case.interval == BURST
            else ENGINE if case.engine not in calibrated_engines()
            else USUAL if _chip(case).id in chips
            else CHIP
            for case in self.cases
        ]  # fmt: skip

    @property
    def limits(self) -> Array:
        """Logarithm of the physical limit over the measured time of each row."""
        found = [float(np.ravel(predict_open(case, Machine(load_system(case.system))))[0]) for case in self.cases]
        ratios = np.log([limit / case.measured for limit, case in zip(found, self.cases, strict=True)])
        return np.where([case.is_time for case in self.cases], ratios, -ratios)

    def residuals(self, engines: Mapping[str, Efficiency], n: int) -> Array:
        """Logarithm of predicted over measured time, along the axis of the engines' constants.

        Examples
        --------
        >>> Elsewhere([], []).residuals({}, 3).shape
        (0, 3)
        """
        out = np.empty((len(self.cases), n))
        for place, case in enumerate(self.cases):
            system = load_system(case.system)
            constants = engines[constants_of(case.engine, system.accelerator)].after(case.years).run_as(case.tuning)
            log_ratio = np.log(predict_open(case, Machine(system, constants)) / case.measured)
            out[place] = log_ratio if case.is_time else -log_ratio
        return out


def _chip(case: OpenCase) -> Accelerator:
    return load_system(case.system).accelerator


def _sources_by(found: Elsewhere, label: Callable[[Accelerator], str]) -> dict[str, set[str]]:
    """Sources of steady rows of fitted engines, by a label of their chips."""
    out: dict[str, set[str]] = {}
    for row, case in zip(found.rows, found.cases, strict=True):
        if case.engine in calibrated_engines() and case.interval != BURST:
            out.setdefault(label(_chip(case)), set()).add(row["source"])
    return out


def read_elsewhere(folder: Path) -> Elsewhere:
    """Read the tables; rows that cannot be predicted, or whose acceptance is a guess, are left out.

    Examples
    --------
    >>> len(read_elsewhere(Path("nowhere")).sources) > 0
    True
    """
    shipped = Path(str(resources.files("computeledger.validation").joinpath("data", SHIPPED)))
    rows: list[Row] = []
    cases: list[OpenCase] = []
    for path in (folder / IN_FOLDER, shipped):
        for row in read_rows(path, NEEDED) if path.is_file() else []:
            try:
                case = open_case(row)
            except Unpredictable:
                continue
            if case.engine not in local_engines() and not case.is_acceptance_assumed:
                rows.append(row)
                cases.append(case)
    return Elsewhere(rows, cases)
