"""Weights against the published bytes of real checkpoints: within 0.1 %, each exception with its reason."""

from __future__ import annotations

import math
import tomllib
from pathlib import Path
from typing import Any

import pytest

from computeledger.facts.huggingface import parse_config
from computeledger.facts.load import load_model
from computeledger.physics.parallelism import Layout
from computeledger.physics.serving.memory import weights_bytes_per_gpu
from computeledger.physics.weights import precision_of
from computeledger.units import GIGA

TABLE = tomllib.loads((Path(__file__).parents[1] / "facts" / "checkpoint_sizes.toml").read_text("utf-8"))
ROWS: list[tuple[str, str | None, dict[str, Any]]] = [
    *((name, None, row) for name, row in TABLE["checkpoint"].items()),
    *((row["model"], row["precision"], row) for row in TABLE["quantised"]),
    *((name, None, row) for name, row in TABLE["configured"].items()),
    *((name, file, row) for name, files in TABLE["gguf"].items() for file, row in files.items()),
]


@pytest.mark.parametrize(("name", "precision", "row"), ROWS, ids=[f"{row[0]} {row[1]}" for row in ROWS])
def test_weights_are_those_of_the_file(name: str, precision: str | None, row: dict[str, Any]) -> None:
    model = parse_config(row["config"], name) if "config" in row else load_model(name)
    ours = float(weights_bytes_per_gpu(model, Layout(), precision_of(model, precision)))
    published = row.get("bytes") or row.get("file_bytes") or row["size_gb"] * GIGA
    if "why" in row:
        assert ours / published - 1 == pytest.approx(row["error"], abs=5e-4), row["why"]
    else:
        assert abs(ours / published - 1) < 1e-3
        assert "bytes" not in row or ours == published, "tensors alone: to the byte"


def test_at_least_thirty_checkpoints_are_held_to_the_byte_or_nearly() -> None:
    tensors = [row for *_, row in ROWS if "size_gb" not in row]
    assert sum("why" not in row for row in tensors) >= 30
    assert sum("bytes" in row and "why" not in row for row in tensors) >= 30


def test_block_scaled_fp8_is_the_published_file_tensor_by_tensor() -> None:
    """DeepSeek V3 from the shapes of its tensors: 8-bit values, a 32-bit scale for 128 x 128 of them, the rest wide."""
    d, heads = 7168, 128

    def fp8(rows: int, columns: int) -> int:
        return rows * columns + 4 * math.ceil(rows / 128) * math.ceil(columns / 128)

    latent = fp8(576, d) + fp8(heads * 256, 512) + 2 * (1536 + 512 + 2 * d)
    attention = fp8(1536, d) + fp8(heads * 192, 1536) + latent + fp8(d, heads * 128)
    router = 2 * 256 * d + 4 * 256
    experts = 257 * (2 * fp8(2048, d) + fp8(d, 2048)) + router
    tables = 2 * 2 * 129280 * d
    proper = 61 * attention + 3 * (2 * fp8(18432, d) + fp8(d, 18432)) + 58 * experts + tables + 2 * d
    drafting = attention + experts + tables + 2 * (2 * d * d + 3 * d)
    headers = TABLE["checkpoint"]["deepseek-ai/DeepSeek-V3"]["file_bytes"] - proper - drafting
    assert 0 < headers / 91_991 < 150, "what is left are the headers of 91,991 tensors"
    model = load_model("deepseek-v3")
    ours = float(weights_bytes_per_gpu(model, Layout(), precision_of(model, None)))
    assert ours + 58 * (router - 256 * d) == pytest.approx(proper, rel=2e-6), "but for routers, which are in 16 bits"
