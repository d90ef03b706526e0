"""From parsed options to the answer of a sweep."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from itertools import product
from typing import Any

import numpy as np

from computeledger.errors import InputError
from computeledger.facts.load import load_model, load_system
from computeledger.facts.schema import System
from computeledger.physics.efficiency import DEFAULT_ENGINE, efficiency, middle
from computeledger.physics.parallelism import Layout
from computeledger.physics.roofline import Machine
from computeledger.questions.answers.setup import precision_of, price_of, whole_number
from computeledger.questions.documents import serving as documents_serving
from computeledger.questions.executors import local_workers, open_executor, open_parquet
from computeledger.workloads.intervals import Interval, interval_class, interval_of
from computeledger.workloads.serving import ServingScenario
from computeledger.workloads.serving_questions import ServingQuestion, sweep_questions
from computeledger.workloads.serving_search import SLOWEST_TPOT_S
from computeledger.workloads.sweep import Columns

_ASKED = ("model", "system", "precision", "input_tokens", "output_tokens")


def answer_sweep(options: Mapping[str, Any]) -> dict[str, Any]:
    """Answer ``computeledger sweep``."""
    questions, labels = _questions(options)
    limit_s = middle(options["tpot"]) if options["tpot"] is not None else SLOWEST_TPOT_S
    asked = whole_number("--workers", options["workers"])
    if asked is not None and options["cluster"] is not None:
        raise InputError("--workers and --cluster exclude each other: a cluster has its own workers")
    workers = local_workers(asked, len(questions))
    with open_executor(workers, options["cluster"]) as executor:
        start = time.perf_counter()
        best, count = _run(questions, labels, (options["parquet"], limit_s), executor)
        wall_s = time.perf_counter() - start
    return {
        "n_questions": len(questions),
        "n_options": count,
        "options_per_s": count / wall_s,
        "wall_s": wall_s,
        "slowest_tpot_s": limit_s,
        "parquet": options["parquet"],
        "executor": options["cluster"] or f"{workers} local process{'es' if workers > 1 else ''}",
        "without_answer": [labels[one.index] for one in questions if one.index not in best],
        "best": [{**labels[index], **found} for index, found in sorted(best.items())],
        "assumptions": documents_serving.serving_assumptions(),
    }


def _questions(options: Mapping[str, Any]) -> tuple[list[ServingQuestion], list[dict[str, Any]]]:
    lists = [options[name] or (None,) for name in _ASKED]
    for name, values in zip(_ASKED, lists, strict=True):
        if len(set(values)) < len(values):
            raise InputError(f"--{name.replace('_', '-')}: a value is given twice")
    gpus = whole_number("--gpus", options["gpus"])
    questions: list[ServingQuestion] = []
    labels: list[dict[str, Any]] = []
    for model_id, system_id, width, given, written in product(*lists):
        model, system = load_model(model_id), load_system(system_id)
        precision = precision_of(model, width, options["kv_precision"])
        price = middle(price_of(system, options["price"])[0])
        scenario = ServingScenario(model, Layout(), precision, given, written, 1.0, usd_per_gpu_hour=price)
        sure = _sureness(scenario, system)
        questions.append(ServingQuestion(len(labels), scenario, _machine(sure, system), gpus))
        labels.append({"model": model.id, "system": system.id, "precision": width or precision.name,
                       "interval_class": sure.name, "input_tokens": given, "output_tokens": written})  # fmt: skip
    return questions, labels


def _sureness(scenario: ServingScenario, system: System) -> Interval:
    return interval_of(interval_class(scenario.model, scenario.precision.name, system, DEFAULT_ENGINE))


def _machine(sure: Interval, system: System) -> Machine:
    """One GPU at the medians that ``serve`` answers with: those of the question's interval class."""
    middles = {"efficiency.serving_ratio": middle(sure.tpot), "efficiency.first_token_ratio": middle(sure.ttft)}
    return Machine(system, efficiency(DEFAULT_ENGINE, middles))


def _run(
    questions: Sequence[ServingQuestion],
    labels: Sequence[Mapping[str, Any]],
    wanted: tuple[str | None, float],
    executor: Executor | None,
) -> tuple[dict[int, dict[str, Any]], int]:
    """The best option of each question, and how many options there were."""
    path, limit_s = wanted
    best: dict[int, dict[str, Any]] = {}
    count = 0
    with open_parquet(path) as append:
        for columns in sweep_questions(questions, executor):
            index = int(columns["question"][0])
            append(_labelled(columns, labels[index]))
            count += len(columns["batch"])
            found = _best(columns, limit_s)
            rate = "output_tokens_per_s_per_gpu"
            if found and (index not in best or found[rate] > best[index][rate]):
                best[index] = found
    return best, count


def _labelled(columns: Columns, label: Mapping[str, Any]) -> dict[str, Any]:
    size = len(columns["batch"])
    return {**{name: np.full(size, value) for name, value in label.items()}, **columns}


def _best(columns: Columns, limit_s: float) -> dict[str, Any] | None:
    """The option with the most throughput among those fast enough."""
    rate = np.where(columns["tpot_s"] <= limit_s, columns["output_tokens_per_s_per_gpu"], -1.0)
    row = int(np.argmax(rate))
    if rate[row] < 0:
        return None
    layout = Layout(**{name: int(columns[name][row]) for name in ("tp", "pp", "dp", "ep")})
    kept = ("batch", "n_gpus", "ttft_s", "tpot_s", "output_tokens_per_s_per_gpu", "usd_per_mtok_input",
            "usd_per_mtok_output")  # fmt: skip
    return {"layout": str(layout), **{name: columns[name][row].item() for name in kept}}
