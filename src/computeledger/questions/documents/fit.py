"""Errors of a fit as a document."""

from __future__ import annotations

from typing import Any

import numpy as np


def summary_of_errors(error: Any) -> dict[str, float]:
    """Median, mean and 90th percentile of relative errors, and the median of predicted over measured."""
    size = np.abs(error)
    return {
        "median_abs_error": float(np.median(size)),
        "mean_abs_error": float(np.mean(size)),
        "p90_abs_error": float(np.quantile(size, 0.9)),
        "bias": float(np.median(1 + error)),
    }
