"""The same serving questions to aiconfigurator 0.12.0 and to this project: errors and answers per second side by side.

Questions are aggregated rows of a table of measured serving points, drawn evenly over (model, system, backend,
precision): in each group the rows with the smallest hash of their id, never by error. Lengths are the mean lengths that
the rows' harness draws; the quantised kinds, the parallel degrees and the concurrency are as recorded. The peer runs in
an environment of its own, which this script makes; its kernel database is read by its own code only, and its end-to-end
sample file is not touched. Its engine versions are those that it ships, newer than most of the rows' engines; it saw
none of the rows, and neither did this project's factors beyond the width of one interval. Refusals are counted.

    python benchmarks/peers.py --data serving_points.csv [--rows 100] [--folder build/peers] [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import venv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import numpy as np

from computeledger.units import KILO
from computeledger.validation.drawing import drawn
from computeledger.validation.serving.points import DRAWN_LENGTH_RATIO, read_points
from computeledger.validation.serving.predictions import compare_serving

PEER = "aiconfigurator==0.12.0"
GROUP = ("model_path", "system", "backend", "precision")
DEGREES = ("tp_size", "pp_size", "attention_dp_size", "moe_tp_size", "moe_ep_size")
#: The same weights' shape under an id whose configuration the peer ships; the quantised kinds are passed as recorded.
NAMES = {
    "meta-llama/Llama-3.1-70B": "meta-llama/Meta-Llama-3.1-70B",
    "meta-llama/Llama-3.1-8B-Instruct": "meta-llama/Meta-Llama-3.1-8B",
    "nvidia/Llama-3.1-8B-Instruct-FP8": "meta-llama/Meta-Llama-3.1-8B",
    "nvidia/DeepSeek-R1-NVFP4": "deepseek-ai/DeepSeek-R1",
    "nvidia/Qwen3-32B-NVFP4": "Qwen/Qwen3-32B",
}
Row = Mapping[str, str]


def question(row: Row) -> dict[str, Any]:
    """The peer's own words for a row: its batch is that of one attention-DP rank."""
    degrees = {name: int(float(row[name])) for name in DEGREES if row[name] and float(row[name])}
    ranks = degrees.get("attention_dp_size", 1)
    lengths = {name: round(DRAWN_LENGTH_RATIO * float(row[name])) for name in ("isl", "osl")}
    kinds = {name: row[name] for name in ("gemm_quant_mode", "moe_quant_mode") if row[name]}
    return {
        "model_path": NAMES.get(row["model_path"], row["model_path"]), "system_name": row["system"],
        "backend_name": row["backend"],
        "batch_size": max(1, round(float(row["batch_size"]) / ranks)), **degrees, **lengths, **kinds,
    }  # fmt: skip


def peer_python(folder: Path) -> Path:
    """Interpreter of the peer's environment, made where it is missing."""
    python = folder / "venv" / "bin" / "python"
    if not python.exists():
        print(f"installing {PEER} into {folder / 'venv'}", file=sys.stderr)
        venv.create(folder / "venv", with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "-q", PEER], check=True)  # noqa: S603 (a pinned package)
    return python


def ask(questions: Sequence[Any], folder: Path) -> list[dict[str, Any]]:
    """The peer's answers, in the order of the questions; a list is one question in several wordings."""
    python = peer_python(folder)
    asked, answered = folder / "questions.json", folder / "answers.json"
    asked.write_text(json.dumps(questions), "utf-8")
    script = Path(__file__).with_name("peers_aiconfigurator.py")
    subprocess.run([python, script, asked, answered], check=True, stderr=subprocess.DEVNULL)  # noqa: S603 (own script)
    answers: list[dict[str, Any]] = json.loads(answered.read_text("utf-8"))
    return answers


def errors(ratio: np.ndarray) -> dict[str, float]:
    """Summary of predicted over measured."""
    error = np.abs(ratio - 1)
    return {
        "n": len(ratio), "median_abs_error": float(np.median(error)), "mean_abs_error": float(np.mean(error)),
        "p90_abs_error": float(np.quantile(error, 0.9)), "bias": float(np.median(ratio)),
    }  # fmt: skip


def ours(rows: Sequence[Row]) -> tuple[dict[str, dict[str, float]], dict[str, float]]:
    """Predictions by id, and answers per second: one by one, and all at once at the middle of the factors."""
    start = time.perf_counter()
    for row in rows[:20]:
        compare_serving([row], 2)
    single = min(len(rows), 20) / (time.perf_counter() - start)
    compare_serving(rows, 2)
    start = time.perf_counter()
    compare_serving(rows, 2)
    together = len(rows) / (time.perf_counter() - start)
    comparison = compare_serving(rows)
    middle = {name: np.median(cloud, axis=1) for name, cloud in comparison.predicted.items()}
    found = {row["id"]: {name: float(middle[name][i]) for name in middle} for i, row in enumerate(comparison.rows)}
    return found, {"one_by_one": single, "table": together}


def compare(rows: Sequence[Row], folder: Path) -> dict[str, Any]:
    """Both tools on the same rows; errors over the rows that both answered."""
    mine, rate = ours(rows)
    answers = ask([question(row) for row in rows], folder)
    both = [(row, one) for row, one in zip(rows, answers, strict=True) if "tpot_ms" in one and row["id"] in mine]
    refused: dict[str, int] = {}
    for one in answers:
        if "reason" in one:
            refused[one["reason"]] = refused.get(one["reason"], 0) + 1
    out: dict[str, Any] = {"n_asked": len(rows), "n_both": len(both), "computeledger": {}, "aiconfigurator": {}}
    for name in ("tpot", "ttft"):
        measured = np.array([float(row[f"silicon_{name}_ms"]) for row, _ in both])
        out["aiconfigurator"][name] = errors(np.array([one[f"{name}_ms"] for _, one in both]) / measured)
        out["computeledger"][name] = errors(np.array([mine[row["id"]][name] * KILO for row, _ in both]) / measured)
    out["computeledger"] |= {"n_answered": len(mine), "answers_per_s": rate}
    seconds = [one["seconds"] for one in answers if "seconds" in one]
    out["aiconfigurator"] |= {
        "n_answered": sum("tpot_ms" in one for one in answers), "answers_per_s": len(seconds) / sum(seconds),
        "median_seconds": float(np.median(seconds)), "refused": refused,
    }  # fmt: skip
    out["rows"] = [
        {"id": row["id"], "measured_tpot_ms": float(row["silicon_tpot_ms"]), "aiconfigurator_tpot_ms": one["tpot_ms"],
         "computeledger_tpot_ms": mine[row["id"]]["tpot"] * KILO}
        for row, one in both
    ]  # fmt: skip
    return out


def show(out: dict[str, Any]) -> None:
    """The table."""
    print(f"{out['n_asked']} questions, {out['n_both']} answered by both; errors are |predicted / measured - 1|")
    for tool in ("aiconfigurator", "computeledger"):
        found = out[tool]
        for name in ("tpot", "ttft"):
            one = found[name]
            figures = " / ".join(
                f"{100 * one[key]:.1f}" for key in ("median_abs_error", "mean_abs_error", "p90_abs_error")
            )
            print(f"{tool:16s} {name}: median / mean / p90 {figures} %, bias {one['bias']:.2f}")
        print(f"{'':16s} answered {found['n_answered']}; answers per second: {found['answers_per_s']}")
    for reason, count in out["aiconfigurator"]["refused"].items():
        print(f"  refused by aiconfigurator ({count}): {reason}")


def main() -> None:
    """Parse, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True, help="table of measured serving points")
    parser.add_argument("--rows", type=int, default=100)
    parser.add_argument("--folder", default="build/peers", help="for the peer's environment")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    folder = Path(options.folder).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    points = [row for row in read_points(options.data) if row["mode"] == "agg" and row.get("id")]
    out = compare(drawn(points, GROUP, len(points))[: options.rows], folder)
    print(json.dumps(out, indent=2)) if options.json else show(out)


if __name__ == "__main__":
    main()
