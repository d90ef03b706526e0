"""Answer a sweep: the best layout and batch of every combination, and every option in a file."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

import numpy as np

from computeledger.errors import InputError
from computeledger.facts.load import load_model, load_system
from computeledger.fields import Given
from computeledger.physics.calibration.efficiency import efficiency, median_of
from computeledger.physics.parallelism import Layout
from computeledger.physics.roofline import Machine
from computeledger.questions.answer import Answer, from_python, remarked
from computeledger.questions.answers.serving import document as documents
from computeledger.questions.answers.serving.anchors import anchor_document
from computeledger.questions.answers.serving.setting import interval_document
from computeledger.questions.answers.setup import price_of
from computeledger.questions.executors import local_workers, open_executor, open_parquet
from computeledger.questions.sweep import SweepQuestion
from computeledger.units import format_si
from computeledger.workloads.engines import constants_of
from computeledger.workloads.questions.serve import serve_question
from computeledger.workloads.serving.anchor import Anchoring, anchoring_of, medians_of
from computeledger.workloads.serving.fitting import with_remedies
from computeledger.workloads.serving.reading import interval_asked, median_lengths, read_serving, run_asked
from computeledger.workloads.serving.search import (
    SLOWEST_TPOT_S,
    ServingOption,
    cheapest_row,
    layouts_that_fit,
    search_serving,
)
from computeledger.workloads.serving.table import ServingQuestion, sweep_questions
from computeledger.workloads.sweep import Columns

#: Figures of an option that a sweep's document has.
_KEPT = ("layout", "batch", "n_gpus", "ttft_s", "tpot_s", "output_tokens_per_s_per_gpu", "usd_per_mtok_input",
         "usd_per_mtok_output")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Combination:
    """One question of a sweep."""

    model: str
    system: str
    precision: str
    interval_class: str
    input_tokens: float
    output_tokens: float


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class SweepAnswer(Answer):
    """The best option of every combination."""

    question: SweepQuestion
    combinations: tuple[Combination, ...]
    best: Mapping[int, ServingOption]
    refused: Mapping[int, str]
    n_options: int
    slowest_tpot_s: float
    wall_s: float
    executor: str
    anchoring: Anchoring | None = None

    def to_dict(self, *, working: bool = False) -> dict[str, Any]:
        """As ``computeledger sweep --json`` prints it; a sweep has no working of its own."""
        del working
        best = [
            asdict(self.combinations[place]) | {name: documents.option_document(one)[name] for name in _KEPT}
            for place, one in sorted(self.best.items())
        ]
        return remarked({}, self.remarks) | {
            "n_questions": len(self.combinations),
            "n_options": self.n_options,
            "options_per_s": self.n_options / self.wall_s,
            "wall_s": self.wall_s,
            "slowest_tpot_s": self.slowest_tpot_s,
            "parquet": self.question.parquet,
            "executor": self.executor,
            "without_answer": [asdict(self.combinations[place]) | {"why": why} for place, why in self.refused.items()],
            "best": best,
            **anchor_document(self.anchoring),
            "assumptions": documents.serving_assumptions(),
        }


def sweep(question: SweepQuestion | None = None, /, **given: Given) -> SweepAnswer:
    """Serving over lists of models, systems, precisions and lengths: the best layout and batch of each combination.

    Parameters
    ----------
    question : SweepQuestion, optional
        What is asked; keywords change single fields of it.
    **given : str, float or sequence
        Fields of :class:`~computeledger.questions.sweep.SweepQuestion`; lists as sequences, or as texts with commas.

    Returns
    -------
    SweepAnswer
        Figures are medians, the same as those of :func:`computeledger.serve`.

    Raises
    ------
    InputError
        For bad input.

    Examples
    --------
    >>> answer = sweep(model="llama-3.1-8b", system="h100-nvl8", gpus=1, input_tokens=[1024, "8K"])
    >>> short, long = (answer.best[place].output_tokens_per_s_per_gpu for place in (0, 1))
    >>> short > 2 * long
    True
    """
    return from_python(SweepQuestion, answer_sweep, question, given)


def answer_sweep(question: SweepQuestion) -> SweepAnswer:
    """Answer ``computeledger sweep``."""
    questions, combinations, anchoring = _questions(question)
    limit_s = median_of(question.tpot) if question.tpot is not None else SLOWEST_TPOT_S
    workers = local_workers(question.workers, len(questions))
    with open_executor(workers, question.cluster) as executor:
        start = time.perf_counter()
        best, count = _run(questions, combinations, (question.parquet, limit_s), executor)
        wall_s = time.perf_counter() - start
    refused = {one.index: _why(one, question.engine) for one in questions if one.index not in best}
    return SweepAnswer(
        question=question,
        combinations=tuple(combinations),
        best=best,
        refused=refused,
        n_options=count,
        slowest_tpot_s=limit_s,
        wall_s=wall_s,
        anchoring=anchoring,
        executor=question.cluster or f"{workers} local process{'es' if workers > 1 else ''}",
    )


def _questions(asked: SweepQuestion) -> tuple[list[ServingQuestion], list[Combination], Anchoring | None]:
    """Every combination as a question, and what the reader's measurements taught of the last."""
    anchoring = None
    questions: list[ServingQuestion] = []
    combinations: list[Combination] = []
    widths = asked.precision or (None,)
    for model_id, system_id, width, given, written in product(
        asked.model, asked.system, widths, asked.input_tokens, asked.output_tokens
    ):
        model, system = load_model(model_id), load_system(system_id)
        one = serve_question(
            asked, model=model_id, system=system_id, precision=width, input_tokens=given, output_tokens=written
        )
        scenario = read_serving(one, median_lengths(one), median_of(price_of(system, asked.price)[0]))
        interval = interval_asked(one, model, system)
        anchoring = anchoring_of(one, model, system, interval)
        factors = efficiency(
            constants_of(asked.engine, system.accelerator), medians_of(interval, anchoring), *run_asked(one)
        )
        questions.append(ServingQuestion(len(combinations), scenario, Machine(system, factors), asked.gpus))
        weights = width or scenario.precision.name
        name = interval_document(interval, asked.engine)["class"]
        combinations.append(Combination(model.id, system.id, weights, name, given, written))
    return questions, combinations, anchoring


def _run(
    questions: Sequence[ServingQuestion],
    combinations: Sequence[Combination],
    wanted: tuple[str | None, float],
    executor: Executor | None,
) -> tuple[dict[int, ServingOption], int]:
    """The best option of each question, and how many options there were."""
    path, limit_s = wanted
    best: dict[int, ServingOption] = {}
    count = 0
    with open_parquet(path) as append:
        for columns in sweep_questions(questions, executor):
            index = int(columns["question"][0])
            append(_labelled(columns, asdict(combinations[index])))
            count += len(columns["batch"])
            found = _best(columns, limit_s)
            if found is None:
                continue
            if index not in best or found.output_tokens_per_s_per_gpu > best[index].output_tokens_per_s_per_gpu:
                best[index] = found
    return best, count


def _why(one: ServingQuestion, engine: str) -> str:
    """Why a question has no answer: what would make it fit, or the least time per token."""
    scenario, machine = one.scenario, one.machine
    try:
        with with_remedies(scenario, machine.system, engine, one.n_gpus):
            found = search_serving(scenario, layouts_that_fit(scenario, machine, one.n_gpus), machine, [1])
    except InputError as error:
        return str(error).removeprefix(f"{scenario.model.id} in {scenario.precision.written} ")
    return f"the fastest layout takes {format_si(min(option.tpot_s for option in found), 's')} per output token"


def _labelled(columns: Columns, label: Mapping[str, Any]) -> dict[str, Any]:
    size = len(columns["batch"])
    return {**{name: np.full(size, value) for name, value in label.items()}, **columns}


def _best(columns: Columns, limit_s: float) -> ServingOption | None:
    """The option with the most throughput among those fast enough."""
    row = cheapest_row(columns["tpot_s"], columns["output_tokens_per_s_per_gpu"], limit_s)
    if row is None:
        return None
    layout = Layout(**{name: int(columns[name][row]) for name in ("tp", "pp", "dp", "ep")})
    figures = {name: columns[name][row].item() for name in _FIGURES}
    return ServingOption(layout=layout, batch=int(columns["batch"][row]), **figures)


_FIGURES = ("tpot_s", "ttft_s", "output_tokens_per_s_per_gpu", "requests_per_s", "usd_per_mtok_output",
            "usd_per_mtok_input")  # fmt: skip
