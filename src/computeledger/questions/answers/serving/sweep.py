"""Answer a sweep: the best layout and batch of every combination, and every option in a file."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from computeledger.arrays import median
from computeledger.errors import InputError
from computeledger.fields import Given
from computeledger.physics.calibration.efficiency import median_of
from computeledger.physics.parallelism import Layout
from computeledger.questions.answer import Answer, from_python, remarked
from computeledger.questions.answers.serving import document as documents
from computeledger.questions.answers.serving.anchors import anchor_document
from computeledger.questions.answers.serving.offers import combinations
from computeledger.questions.answers.serving.setting import Setting, cost_ratio, interval_document, read_setting
from computeledger.questions.executors import local_workers, open_executor, open_parquet
from computeledger.questions.sweep import SweepQuestion
from computeledger.units import format_si
from computeledger.workloads.questions.serve import ServeQuestion, serve_question
from computeledger.workloads.serving.anchor import Anchoring
from computeledger.workloads.serving.estimate import estimate_serving
from computeledger.workloads.serving.fitting import with_remedies
from computeledger.workloads.serving.reading import buffers_asked, check_request, fits_context
from computeledger.workloads.serving.search import (
    SLOWEST_TPOT_S,
    ServingOption,
    cheapest_row,
    search_serving,
)
from computeledger.workloads.serving.table import ServingQuestion, sweep_questions
from computeledger.workloads.sweep import Columns

#: Fields of the question that are lists.
_LISTS = ("model", "system", "precision", "input_tokens", "output_tokens")
#: Figures of an option that a sweep's document has.
_KEPT = ("layout", "batch", "n_gpus", "ttft_s", "tpot_s", "output_tokens_per_s_per_gpu", "usd_per_mtok_input",
         "usd_per_mtok_output")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Combination:
    """One question of a sweep."""

    model: str
    system: str
    precision: str
    engine: str
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

    def contents(self, *, working: bool = False) -> dict[str, Any]:
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
            "assumptions": self._assumptions(),
        }

    def _assumptions(self) -> dict[str, Any]:
        """What is kept of a chip's memory; of several engines by each of them."""
        engines = list(dict.fromkeys(one.engine for one in self.combinations))
        each = {engine: documents.serving_assumptions(buffers_asked(self.question, engine)) for engine in engines}
        return dict(each[engines[0]]) if len(engines) == 1 else each


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
    settings = [read_setting(one) for one in _asked(question)]
    combinations = [_combination(one) for one in settings]
    limit_s = median_of(question.tpot) if question.tpot is not None else SLOWEST_TPOT_S
    workers = local_workers(question.workers, len(settings))
    with open_executor(workers, question.cluster) as executor:
        start = time.perf_counter()
        if question.anchor:  # as in serve: how far a measurement holds depends on the batch that is found
            found, _ = _run(_questions(settings, question, limit_s), combinations, (None, limit_s), executor)
            batches = [float(found[place].batch) if place in found else None for place in range(len(settings))]
            settings = [read_setting(one.question, batch) for one, batch in zip(settings, batches, strict=True)]
        every = _questions(settings, question, limit_s)
        best, count = _run(every, combinations, (question.parquet, limit_s), executor)
        wall_s = time.perf_counter() - start
    refused = {one.index: _why(one, combinations[one.index].engine) for one in every if one.index not in best}
    return SweepAnswer(
        question=question,
        combinations=tuple(combinations),
        best={place: _priced(settings[place], one) for place, one in best.items()},
        refused=refused,
        n_options=count,
        slowest_tpot_s=limit_s,
        wall_s=wall_s,
        anchoring=settings[-1].anchoring,
        executor=question.cluster or f"{workers} local process{'es' if workers > 1 else ''}",
    )


def _questions(settings: Sequence[Setting], question: SweepQuestion, limit_s: float) -> list[ServingQuestion]:
    """What is searched for each combination."""
    limits = (("tpot_s", limit_s),)
    return [
        ServingQuestion(place, one.at_median, one.typical, question.gpus, one.question.engine, limits)
        for place, one in enumerate(settings)
    ]


def _asked(question: SweepQuestion) -> list[ServeQuestion]:
    """Every combination as ``serve`` would be asked."""
    lists = {name: getattr(question, name) or (None,) for name in _LISTS}
    return [serve_question(question, **one) for one in combinations(lists)]


def _priced(setting: Setting, option: ServingOption) -> ServingOption:
    """The option at the cost that ``serve`` answers."""
    at = option.placed(setting.scenario)
    return option.at_price(cost_ratio(estimate_serving(at, setting.machine), option))


def _combination(setting: Setting) -> Combination:
    scenario, question = setting.at_median, setting.question
    weights = question.precision or scenario.precision.name
    name = interval_document(setting.interval, question.engine, setting.system)["class"]
    lengths = float(median(scenario.input_tokens)), float(median(scenario.output_tokens))
    return Combination(scenario.model.id, setting.system.id, weights, question.engine, name, *lengths)


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
    allowed = [one for one in questions if fits_context(one.scenario)]
    with open_parquet(path) as append:
        for columns in sweep_questions(allowed, executor):
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
        check_request(scenario)
        with with_remedies(scenario, machine.system, engine, one.n_gpus):
            found = search_serving(scenario, one.layouts, machine, [1])
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
    drafts = int(columns["draft_tokens"][row]) if "draft_tokens" in columns else 0
    return ServingOption(layout=layout, batch=int(columns["batch"][row]), **figures, draft_tokens=drafts)


_FIGURES = ("tpot_s", "ttft_s", "output_tokens_per_s_per_gpu", "requests_per_s", "usd_per_mtok_output",
            "usd_per_mtok_input")  # fmt: skip
