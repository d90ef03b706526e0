"""From parsed options to a document of predictions against measurements."""

from __future__ import annotations

from typing import Any

from computeledger.validation.compare import comparison_document
from computeledger.validation.serving_points import read_points
from computeledger.validation.serving_predictions import compare_serving


def answer_validate(data_file: str, by: str, samples: int, seed: int) -> dict[str, Any]:
    """Answer ``computeledger validate``."""
    columns = [name.strip() for name in by.split(",") if name.strip()]
    return comparison_document(compare_serving(read_points(data_file), samples, seed), columns)
