"""Published percentiles to aiconfigurator 0.12.0 and to this project: errors of both on the same runs, and their pace.

The runs are those of the shipped ``serving_percentiles.csv`` that the peer has a chip, an engine and a configuration
for, drawn evenly over sources and loads by the hash of their ids, never by error. The peer answers one time to first
token and one time per token for a number of requests in flight, "ideal zero-queue arrival" by its own words; it is
given its best: clients as stated, a burst as many as the engine's release takes at once, and at a rate the requests
in flight that the *measured* times of whole requests or of tokens tell by Little's law. Its one figure stands against
every percentile, as a reader of it would have to take it.

    python benchmarks/peers_promise.py [--runs 48] [--folder build/peers] [--json]
"""

from __future__ import annotations

import argparse
import importlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from computeledger.units import KILO
from computeledger.validation.drawing import drawn
from computeledger.validation.measured_table import curated_rows
from computeledger.validation.serving.tails import SHIPPED, Run, compare_tails, run_of_row

#: The other scripts of this folder: the pinned peer, how it is asked, and how a row is put in its words.
peers: Any = importlib.import_module("peers")
gathered: Any = importlib.import_module("peers_gathered")
Row = Mapping[str, str]
#: Figures that are compared, and which of the peer's two answers stands for each.
FIGURES = {
    "ttft_median": "ttft_ms", "ttft_p90": "ttft_ms", "ttft_p99": "ttft_ms", "tpot_median": "tpot_ms",
    "tpot_p99": "tpot_ms",
}  # fmt: skip
_RUN = ("source", "url", "model", "engine", "layout", "arrivals", "requests_per_s", "concurrency", "note")


def runs_of(rows: Sequence[Row]) -> list[list[Row]]:
    """Figures of the same run together, in the order of the table."""
    found: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        found.setdefault(tuple(row[name] for name in _RUN), []).append(row)
    return list(found.values())


def in_flight(run: Run, rows: Sequence[Row]) -> float:
    """Requests that the peer is told to hold."""
    sent = run.sent
    if sent.arrivals in ("burst", "clients"):
        return float(min(sent.n_requests, run.live or sent.n_requests))
    known = {(row["metric"], row["statistic"]): float(row["value"]) for row in rows}
    output = float(np.mean(sent.trace(0, None).output_tokens))
    whole = [known[key] for key in known if key[0] == "request_latency" and key[1] in ("median", "p90")]
    tokens = [output * known["tpot", "median"]] if ("tpot", "median") in known else []
    return max(sent.requests_per_s * min([*whole, *tokens], default=1.0), 1.0)


def questions(runs: Sequence[list[Row]], folder: Path) -> list[list[dict[str, Any]]]:
    """The peer's wordings of each run; none where it lacks chip, engine or model."""
    shipped = gathered.shipped_models(folder)
    out = []
    for rows in runs:
        run = run_of_row(rows[0])
        case = replace(run.case, scenario=replace(run.case.scenario, batch=in_flight(run, rows)))
        out.append(gathered.questions(rows[0], case, shipped, folder))
    return out


def chosen(folder: Path, n: int) -> tuple[list[list[Row]], list[list[dict[str, Any]]]]:
    """Runs that the peer can be asked, drawn evenly over sources and kinds of load."""
    runs = runs_of(curated_rows(SHIPPED))
    asked = questions(runs, folder)
    known = {rows[0]["id"]: (rows, one) for rows, one in zip(runs, asked, strict=True) if one}
    first = drawn([rows[0] for rows, _ in known.values()], ("source", "arrivals"), len(known))[:n]
    kept = [known[row["id"]] for row in first]
    return [rows for rows, _ in kept], [one for _, one in kept]


def ours(rows: Sequence[Row]) -> tuple[dict[str, float], float]:
    """Medians by id, and runs per second, each with its interval and from a cold start."""
    start = time.perf_counter()
    found = compare_tails(rows, 65)
    rate = len(runs_of(found.rows)) / (time.perf_counter() - start)
    out = {}
    for name in found.measured:
        for row, measured, cloud in zip(found.rows, found.measured[name], found.predicted[name], strict=True):
            if np.isfinite(measured):
                out[row["id"]] = float(np.median(cloud))
    return out, rate


def compare(folder: Path, n: int) -> dict[str, Any]:
    """Both tools on the figures of runs that both answered."""
    runs, asked = chosen(folder, n)
    compare_tails(runs[0], 2)  # kernels are loaded once for all runs of a machine
    mine, rate = ours([row for rows in runs for row in rows])
    answers = peers.ask(asked, folder)
    refused: dict[str, int] = {}
    ratios: dict[str, dict[str, list[float]]] = {name: {"theirs": [], "ours": []} for name in FIGURES}
    for rows, one in zip(runs, answers, strict=True):
        if "reason" in one:
            kind = str(one["reason"]).partition(":")[0]
            refused[kind] = refused.get(kind, 0) + 1
            continue
        for row in rows:
            name = f"{row['metric']}_{row['statistic']}"
            if name in FIGURES and row["id"] in mine:
                ratios[name]["theirs"].append(one[FIGURES[name]] / KILO / float(row["value"]))
                ratios[name]["ours"].append(mine[row["id"]] / float(row["value"]))
    seconds = [one["seconds"] for one in answers if "seconds" in one and "reason" not in one]
    return {
        "n_runs": len(runs), "n_both": len(seconds), "refused": refused,
        "answers_per_s": {"theirs": len(seconds) / sum(seconds), "ours": rate},
        "figures": {
            name: {tool: peers.errors(np.array(values)) for tool, values in both.items()}
            for name, both in ratios.items()
            if both["theirs"]
        },
    }  # fmt: skip


def show(out: Mapping[str, Any]) -> None:
    """The table."""
    print(f"{out['n_runs']} runs, {out['n_both']} answered by both; median error, 90th percentile, bias")
    for name, both in out["figures"].items():
        said = [
            f"{tool} {one['median_abs_error']:.0%} / {one['p90_abs_error']:.0%}, {one['bias']:.2f}"
            for tool, one in both.items()
        ]
        print(f"{name:12s} n {both['theirs']['n']:3d}  {'   '.join(said)}")
    pace = out["answers_per_s"]
    print(f"answers per second: theirs {pace['theirs']:.2f}, ours {pace['ours']:.2f} with intervals")
    for reason, count in out["refused"].items():
        print(f"  refused ({count}): {reason}")


def main() -> None:
    """Parse, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=48)
    parser.add_argument("--folder", default="build/peers", type=Path, help="for the peer's environment")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    folder = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    out = compare(folder, options.runs)
    print(json.dumps(out, indent=2)) if options.json else show(out)


if __name__ == "__main__":
    main()
