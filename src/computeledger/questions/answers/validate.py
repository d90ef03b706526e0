"""From parsed options to predictions beside measurements."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from computeledger.questions.documents.validation import validation_document
from computeledger.validation.compare import Comparison
from computeledger.validation.prices import check_prices
from computeledger.validation.tables import compare_curated, compare_table


def answer_validate(data_file: str | None, by: str, samples: int, seed: int) -> dict[str, Any]:
    """Answer ``computeledger validate --json``."""
    return validation_document(compare_measured(data_file, samples, seed), columns_of(by))


def answer_validate_prices(data_file: str | None) -> dict[str, Any]:
    """Answer ``computeledger validate --prices``."""
    return asdict(check_prices(data_file))


def compare_measured(data_file: str | None, samples: int, seed: int) -> Comparison:
    """Predict a table of the user's, told by its columns, or the shipped measurements."""
    if data_file is None:
        return compare_curated(samples, seed)
    return compare_table(data_file, samples, seed)


def columns_of(by: str) -> list[str]:
    """Columns to slice by, as the option lists them."""
    return [name.strip() for name in by.split(",") if name.strip()]
