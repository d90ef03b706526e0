"""The fit of RL as a document, and the calibration it would write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from computeledger.physics.calibration.rl import FITTED
from computeledger.questions.documents.fit import summary_of_errors
from computeledger.validation.rl.fit import calibration_text, fit_rl, prior_of

_LEFT_OUT = {
    "no constants": "nothing that RL adds",
    "priors": "nothing fitted: the assumed constants",
    "nothing": "fitted, on the same runs",
    "run": "a configuration left out",
    "model": "a model left out",
    "chip": "a system left out",
}


def fit_of_rl(folder: Path, quick: bool) -> tuple[dict[str, Any], str]:
    """Fit the constants of RL; what was left out comes with it, so there is no quicker way."""
    del quick
    found = fit_rl(folder)
    constants = []
    for place, name in enumerate(FITTED):
        prior, width = prior_of(name)
        value = prior * float(np.exp(found.fitted.change[place]))
        sd = float(found.fitted.sd[place])
        constants.append({"constant": name, "prior": prior, "value": value, "prior_sd": width, "sd": sd})
    parts = {"all inputs stated": slice(0, found.n_stated), "split assumed": slice(found.n_stated, None)}
    errors = [
        {"left_out": label, "runs": name, "n": len(row[part]), "step_time": summary_of_errors(np.expm1(row[part]))}
        for key, label in _LEFT_OUT.items()
        if (row := found.residuals.get(key)) is not None
        for name, part in parts.items()
    ]
    document = {"fit": "rl", "n": len(found.runs), "n_constants": len(FITTED), "constants": constants, "errors": errors}
    return document, calibration_text(found)
