"""Other people's measurements: how far their deployments lie from those that the constants are fitted on.

How well a deployment is tuned, and how it was measured, differs more between sources than within one. Each source has
an effect of its own on the times of its steps; what a reader's deployment will show is that of one source more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from computeledger.facts.load import load_system
from computeledger.physics.calibration.efficiency import Efficiency
from computeledger.physics.calibration.local import local_engines
from computeledger.physics.calibration.serving import calibrated_engines
from computeledger.physics.roofline import Machine
from computeledger.validation.compare import Array
from computeledger.validation.measured_table import read_rows
from computeledger.validation.published.rows import Unpredictable
from computeledger.validation.serving.open_points import NEEDED, OpenCase, Row, open_case, predict_open
from computeledger.workloads.engines import constants_of
from computeledger.workloads.serving.intervals import BURST, CHIP, ENGINE, USUAL

#: Tables of such measurements: of the folder, and shipped with the package.
IN_FOLDER, SHIPPED = "serving_open.csv", "serving_elsewhere.csv"
#: Spread of the logarithm of sources' effects before the fit (assumption), and rows that a source counts for at most.
EFFECT_SD, MOST_ROWS = 0.3, 20.0
#: Sources that make a chip one of the usual ones.
FEWEST_SOURCES = 3


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
        return steady * np.array([min(1.0, MOST_ROWS / count[row["source"]]) for row in self.rows])

    def usual_chips(self, known: frozenset[str]) -> frozenset[str]:
        """Accelerators beside the known ones that several sources measured."""
        by_chip: dict[str, set[str]] = {}
        for row in self.rows:
            by_chip.setdefault(row["accelerator"], set()).add(row["source"])
        return frozenset(chip for chip, found in by_chip.items() if len(found) >= FEWEST_SOURCES) - known

    def classes(self, known: frozenset[str]) -> list[str]:
        """Interval class of each row, by how far its load, its engine and its chip are from what was measured."""
        chips = known | self.usual_chips(known)
        return [
            BURST if case.interval == BURST
            else ENGINE if case.engine not in calibrated_engines()
            else USUAL if load_system(case.system).accelerator.id in chips
            else CHIP
            for case in self.cases
        ]  # fmt: skip

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
            constants = engines[constants_of(case.engine, system.accelerator)].after(case.years).usual()
            log_ratio = np.log(predict_open(case, Machine(system, constants)) / case.measured)
            out[place] = log_ratio if case.is_time else -log_ratio
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
