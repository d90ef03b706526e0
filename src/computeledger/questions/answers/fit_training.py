"""The fit of training as a document, and the calibration it would write."""

from __future__ import annotations

from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any

from computeledger.validation.training.calibration_file import calibration_toml
from computeledger.validation.training.fit import fit_training


def fit_of_training(folder: Path, quick: bool) -> tuple[dict[str, Any], str]:
    """Fit the training constants; every left-out table comes with it, so there is no quicker way."""
    del quick
    found = fit_training(folder)
    document = {
        "fit": "training",
        "n_constants": len(found.constants),
        "constants": [asdict(one) for one in found.constants],
        "interval_factors": dict(found.ratios),
        "errors": {
            name: {value: asdict(summary) for value, summary in slices.items()} for name, slices in found.tables.items()
        },
    }
    return document, calibration_toml(found, date.today().isoformat())
