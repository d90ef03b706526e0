"""Answer how far off predictions are: the published table, sliced, beside another tool on the same rows."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from computeledger.errors import InputError, nearest, shown
from computeledger.fields import Given
from computeledger.physics.calibration.serving import DEFAULT_TUNING
from computeledger.questions.accuracy import AccuracyQuestion
from computeledger.questions.answer import Answer, from_python
from computeledger.validation.accuracy.peers import Peer, beside
from computeledger.validation.accuracy.table import (
    Errors,
    Published,
    comparison_of,
    errors_of,
    kinds_of,
    published,
    shipped_part,
)
from computeledger.validation.compare import Comparison, comparison_document

#: Columns that a question chooses rows by, beside the workload.
_CHOSEN = ("source", "accelerator", "engine", "family", "model", "load", "statistic", "quantity")


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class AccuracyAnswer(Answer):
    """Measured figures beside what was predicted with their source left out."""

    question: AccuracyQuestion
    table: Published
    comparison: Comparison
    peers: Mapping[str, Peer]

    def contents(self, *, working: bool = False) -> dict[str, Any]:
        """As ``computeledger accuracy --json`` prints it."""
        del working
        by = self.question.by
        left_out = sorted({row["left_out"] for row in self.table.rows})
        return {
            **comparison_document(self.comparison, by),
            "workload": self.question.workload,
            "left_out": left_out,
            "n": len(self.table.rows),
            "n_sources": len({row["source"] for row in self.table.rows}),
            "date": self.table.date,
            "by_workload": dict(errors_of_times()),
            "n_times": sum(errors_of_times()[name]["n"] for name in COUNTED),
            "peers": {name: one.document(self.table.rows, by) for name, one in self.peers.items()},
        }


def accuracy(question: AccuracyQuestion | None = None, /, **given: Given) -> AccuracyAnswer:
    """How far predictions lie from measurements that they were not fitted on, whole sources left out.

    Parameters
    ----------
    question : AccuracyQuestion, optional
        What is asked; keywords change single fields of it.
    **given : str or sequence of str
        Fields of :class:`~computeledger.questions.accuracy.AccuracyQuestion`.

    Returns
    -------
    AccuracyAnswer
        Errors, coverage and width of intervals, by slice, beside other tools on the same rows.

    Raises
    ------
    InputError
        For a value that no published figure has.

    Examples
    --------
    >>> found = accuracy(engine="vllm", accelerator="h100-sxm5-80gb").to_dict()
    >>> found["left_out"], found["tpot"]["n"] > 10
    (['source'], True)
    >>> accuracy(engine="vlm")
    Traceback (most recent call last):
    computeledger.errors.InputError: engine 'vlm': no published figure has it; did you mean 'vllm'?
    """
    return from_python(AccuracyQuestion, answer_accuracy, question, given)


def answer_accuracy(question: AccuracyQuestion) -> AccuracyAnswer:
    """Answer ``computeledger accuracy``."""
    if question.data is not None and question.write is not None:
        _write_anew(Path(question.data), Path(question.write))
    table = published(question.workload, question.tuning).promised(question.left_out)
    _check(question, table)
    table = table.chosen(**{name: getattr(question, name) for name in _CHOSEN})
    if not table.rows:
        given = ", ".join(f"{name} {', '.join(getattr(question, name))}" for name in _CHOSEN if getattr(question, name))
        raise InputError(f"{given}: no published figure has all of these; leave one out")
    return AccuracyAnswer(question, table, comparison_of(table.rows), beside(table.rows))


#: What tells of each workload best.
_TELLING = {"serving": "step", "local": "step", "training": "step_time", "rl": "step_time"}


@functools.cache
def errors_by_workload() -> Mapping[str, Errors]:
    """How far off times of each workload are, of other people's deployments and runs, as intervals promise them.

    Examples
    --------
    >>> found = errors_by_workload()
    >>> found["serving"].sources > 5, found["training"].median_abs_error < 0.3
    (True, True)
    """
    found = {name: kinds_of(published(name, DEFAULT_TUNING).promised().rows) for name in _TELLING}
    return {name: errors_of([row for row in rows if row["quantity"] == _TELLING[name]]) for name, rows in found.items()}


#: Times that answers are made of, each with its workload and the quantity that tells of it.
_TIMES = {
    "token": ("serving", "step"),
    "first_token": ("serving", "ttft"),
    "training_step": ("training", "step_time"),
    "rl_step": ("rl", "step_time"),
    "local_token": ("local", "step"),
}

#: Those that are counted as one: the start page tells of the same.
COUNTED = ("token", "training_step", "rl_step")


@functools.cache
def errors_of_times() -> Mapping[str, Mapping[str, Any]]:
    """How far off each time is that answers are made of: typical and bad errors, and what intervals hold.

    Examples
    --------
    >>> found = errors_of_times()
    >>> found["token"]["n"] == errors_by_workload()["serving"].n, found["rl_step"]["workload"]
    (True, 'rl')
    """
    return {
        name: {"workload": workload, **_summary_of(workload, quantity)} for name, (workload, quantity) in _TIMES.items()
    }


def _summary_of(workload: str, quantity: str) -> Mapping[str, Any]:
    """Errors of a quantity of a workload; a step is every figure that tells of it."""
    rows = published(workload, DEFAULT_TUNING).promised().rows
    rows = [row for row in (kinds_of(rows) if quantity == "step" else rows) if row["quantity"] == quantity]
    found: Mapping[str, Any] = comparison_document(comparison_of(rows))[quantity]
    return found


def _write_anew(data: Path, home: Path) -> None:
    """Predict the parts whose constants or tables have changed, and write them."""
    for folder in (data, home):
        if not folder.is_dir():
            raise InputError(f"{folder}: no such folder")
    from computeledger.validation.accuracy.publish import write_parts  # with every fit: others only read what it wrote

    write_parts(data, home)
    shipped_part.cache_clear()


def _check(question: AccuracyQuestion, table: Published) -> None:
    """Each value is one of the table's; the nearest is named."""
    for name in _CHOSEN:
        known = values_of(table, name)
        for value in getattr(question, name):
            if value not in known:
                begun = " or ".join(repr(one) for one in known if one.startswith(value))
                meant = f"did you mean {begun}?" if begun else nearest(value, known)
                raise InputError(f"--{name} {shown(value)}: no published figure has it; {meant}")


def values_of(table: Published, name: str) -> Sequence[str]:
    """Values of a column, each once."""
    return sorted({row[name] for row in table.rows if row[name]})
