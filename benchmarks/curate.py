"""Writes the measurements that the package ships, from a folder of measured tables.

The rule, which never sees a prediction: of the serving points three rows of every (model, system, backend, precision,
mode), those with the smallest SHA-256 of their id; of the published figures every row of the large-scale deployments
and of the vendors' guides, and of the vendors' long tables one row of every (table, model, hardware), drawn alike.
Duplicates go first. Columns for the source, its licence, its address and the date are added; machine paths in the
record's own source column are left out.

    python benchmarks/curate.py --measured FOLDER
"""

from __future__ import annotations

import argparse
import csv
import re
from pathlib import Path

from computeledger.validation.drawing import drawn
from computeledger.validation.measured_table import read_rows
from computeledger.validation.tables import CURATED

OUT = Path(__file__).resolve().parents[1] / "src" / "computeledger" / "validation" / "data"
QUOTED = "no licence stated; figures quoted with credit"
POINTS = {
    "source": "InferenceX runs (SemiAnalysis) as shipped in aiconfigurator 0.12.0 (NVIDIA)",
    "licence": "Apache-2.0",
    "url": "https://github.com/ai-dynamo/aiconfigurator",
}
GROUP = ("model_path", "system", "backend", "precision", "mode")
TABLES = ("NVIDIA TensorRT-LLM perf-overview", "InferenceX experimental")
#: Left out: their rows lack what a prediction needs, all of them.
UNPREDICTABLE = ("MLPerf", "alibaba")
RELEASED = "2026-08-21"


def points(rows: list[dict[str, str]]) -> list[dict[str, str]]:
    """Serving points, drawn and credited."""
    same = ("model_path", "system", "mode", "isl", "osl", "batch_size", "silicon_ttft_ms", "silicon_tpot_ms")
    distinct = list({tuple(row[name] for name in same): row for row in reversed(rows)}.values())
    out = []
    for row in drawn(distinct, GROUP, 3):
        record = row["silicon_data_source"]
        measured = re.search(r"measured=(\d{4}-\d{2}-\d{2})", record) or re.search(r"(\d{4}-\d{2}-\d{2})", record)
        kept = "; ".join(part for part in record.split("; ") if not part.startswith("source_file="))
        date = measured.group(1) if measured else RELEASED
        out.append({**row, "silicon_data_source": kept, **POINTS, "date": date})
    return sorted(out, key=lambda row: (*(row[name] for name in GROUP), row["id"]))


def published(rows: list[dict[str, str]]) -> list[dict[str, str]]:
    """Published figures: the large deployments in full, one row per model and chip of the long tables."""
    left = [row for row in rows if not row["source"].startswith(UNPREDICTABLE)]
    long = [row for row in left if row["source"].startswith(TABLES)]
    whole = [row for row in left if not row["source"].startswith(TABLES)]
    out = []
    for row in [*whole, *drawn(long, ("source", "model", "hardware", "metric"), 1)]:
        path = row["url_or_repo_path"]
        nvidia = "NVIDIA/TensorRT-LLM" in path
        licence = "Apache-2.0" if nvidia or "InferenceX" in path else QUOTED
        date = re.search(r"\d{4}-\d{2}-\d{2}", row["source"] + row["notes"])
        out.append({**row, "licence": licence, "url": path, "date": date.group() if date else "not stated"})
    return sorted(out, key=lambda row: (row["source"], row["metric"], row["model"], row["hardware"], row["isl"]))


def write(name: str, rows: list[dict[str, str]]) -> None:
    """One CSV file with the columns of its first row."""
    with (OUT / name).open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    print(f"{name}: {len(rows)} rows")


def main() -> None:
    """Read, draw, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measured", required=True, type=Path, help="folder with the measured tables")
    folder = parser.parse_args().measured
    write(CURATED[0], points(read_rows(folder / "serving_points.csv")))
    write(CURATED[1], published(read_rows(folder / "serving_published.csv")))


if __name__ == "__main__":
    main()
