"""Many serving questions at once: models x systems x precisions x lengths, each over all layouts and batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np

from computeledger.errors import InputError
from computeledger.physics.parallelism import Layout
from computeledger.physics.roofline import Machine
from computeledger.workloads.serving.columns import Limits, ServingBlock, evaluate_block, serving_blocks
from computeledger.workloads.serving.estimate import ServingScenario
from computeledger.workloads.serving.reading import layouts_of_engine
from computeledger.workloads.serving.search import layouts_that_fit
from computeledger.workloads.sweep import Columns, sweep


@dataclass(frozen=True, slots=True)
class ServingQuestion:
    """One question of a sweep."""

    index: int
    scenario: ServingScenario
    machine: Machine
    n_gpus: int | None = None
    engine: str = ""
    limits: Limits = ()

    @property
    def layouts(self) -> list[Layout]:
        """Those that hold the model and that the engine can run."""
        return layouts_of_engine(self.engine, layouts_that_fit(self.scenario, self.machine, self.n_gpus))


def question_blocks(questions: Iterable[ServingQuestion]) -> Iterator[tuple[int, ServingBlock]]:
    """Cut questions into blocks.

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> from computeledger.physics.parallelism import Layout
    >>> from computeledger.physics.roofline import Precision
    >>> one = ServingScenario(load_model("llama-3.1-8b"), Layout(), Precision(), 1024.0, 256.0, 1.0)
    >>> question = ServingQuestion(0, one, Machine(load_system("h100-nvl8")), 8)
    >>> [place for place, _ in question_blocks([question])]
    [0]
    """
    for question in questions:
        try:
            layouts = question.layouts
        except InputError:
            continue  # the sweep's summary counts it as without an answer
        for block in serving_blocks(question.scenario, layouts, question.machine, limits=question.limits):
            yield question.index, block


def _evaluate(placed: tuple[int, ServingBlock]) -> Columns:
    index, block = placed
    columns = evaluate_block(block)
    del columns["layout_index"]
    return {"question": np.full(columns["batch"].shape, index, np.int64), **columns}


def sweep_questions(questions: Sequence[ServingQuestion], executor: Executor | None = None) -> Iterator[Columns]:
    """Answer many questions.

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> from computeledger.physics.parallelism import Layout
    >>> from computeledger.physics.roofline import Precision
    >>> one = ServingScenario(load_model("llama-3.1-8b"), Layout(), Precision(), 1024.0, 256.0, 1.0)
    >>> (columns,) = sweep_questions([ServingQuestion(7, one, Machine(load_system("h100-nvl8")), 8)])
    >>> set(columns["question"].tolist())
    {7}
    """
    return sweep(_evaluate, question_blocks(questions), executor)
