"""From parsed options to a document of predictions against measurements."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from computeledger.validation.compare import Comparison, comparison_document
from computeledger.validation.serving_points import compare_serving, read_points
from computeledger.validation.training_points import compare_training
from computeledger.validation.training_rows import is_training_table, read_training_table


def answer_validate(data_file: str, by: str, samples: int, seed: int) -> dict[str, Any]:
    """Answer ``computeledger validate``."""
    columns = [name.strip() for name in by.split(",") if name.strip()]
    return comparison_document(_compare(data_file, samples, seed), columns)


def _compare(data_file: str, samples: int, seed: int) -> Comparison:
    """Predictions beside measurements, of the kind that the table's columns tell."""
    if is_training_table(_columns(data_file)):
        return compare_training(read_training_table(data_file), samples, seed)
    return compare_serving(read_points(data_file), samples, seed)


def _columns(data_file: str) -> list[str]:
    """Header of a table; empty where it cannot be read, which the reader of serving points reports."""
    try:
        with Path(data_file).open(encoding="utf-8", newline="") as stream:
            return next(csv.reader(stream), [])
    except (OSError, UnicodeDecodeError, csv.Error):
        return []
