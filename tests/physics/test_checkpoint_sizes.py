"""Weights against the published bytes of real checkpoints: within 0.1 %, each exception with its reason."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from computeledger.facts.load import load_model
from computeledger.physics.parallelism import Layout
from computeledger.physics.serving.memory import weights_bytes_per_gpu
from computeledger.physics.weights import precision_of
from computeledger.units import GIGA

TABLE = tomllib.loads((Path(__file__).parents[1] / "facts" / "checkpoint_sizes.toml").read_text("utf-8"))
ROWS: list[tuple[str, str | None, float, dict[str, Any]]] = [
    *((name, None, row["bytes"], row) for name, row in TABLE["checkpoint"].items()),
    *((name, file, row["size_gb"] * GIGA, row) for name, files in TABLE["gguf"].items() for file, row in files.items()),
]


@pytest.mark.parametrize(("name", "file", "published", "row"), ROWS, ids=[f"{row[0]} {row[1]}" for row in ROWS])
def test_weights_are_those_of_the_file(name: str, file: str | None, published: float, row: dict[str, Any]) -> None:
    model = load_model(name)
    ours = float(weights_bytes_per_gpu(model, Layout(), precision_of(model, file)))
    error = ours / published - 1
    if "why" in row:
        assert error == pytest.approx(row["error"], abs=5e-4), row["why"]
    else:
        assert abs(error) < 1e-3
        assert file is not None or ours == published, "tensors alone: to the byte"


def test_at_least_twenty_checkpoints_are_held() -> None:
    assert sum("why" not in row for *_, row in ROWS) >= 20
