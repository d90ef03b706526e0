"""The commands ``accuracy``, ``validate`` and ``claims``."""

from __future__ import annotations

from typing import Any

import click

from computeledger.interfaces.asking import asked_by, question_options, report_option, show_answer
from computeledger.interfaces.options import SectionedCommand, answer_options, whole_option
from computeledger.questions.accuracy import AccuracyQuestion
from computeledger.questions.claims import ClaimsQuestion
from computeledger.questions.validate import ValidateQuestion


@click.command(cls=SectionedCommand)
@question_options(ValidateQuestion)
@report_option
@answer_options
def validate(**options: Any) -> None:
    """Predicted against measured: errors, bias and interval coverage, over all rows and by slice.

    A table is told by its columns: serving points (InferenceX columns), published serving figures or training runs.
    Rows that lack what a prediction needs are counted by reason; groups in doubt are counted and reported apart.
    """
    from computeledger.questions.answers.validate import answer_validate

    show_answer(answer_validate(asked_by(ValidateQuestion, options)), options)


@click.command(cls=SectionedCommand)
@question_options(AccuracyQuestion)
@whole_option
@report_option
@answer_options
def accuracy(**options: Any) -> None:
    """How far answers are off what they were not fitted on: errors, coverage and width of intervals, by slice.

    The published table: every measured figure, predicted with its whole source left out where that is what an interval
    promises, beside aiconfigurator on the same rows. `--data FOLDER` predicts and writes it anew.
    """
    from computeledger.questions.answers.accuracy import answer_accuracy

    show_answer(answer_accuracy(asked_by(AccuracyQuestion, options)), options)


@click.command(cls=SectionedCommand)
@click.argument("ids", metavar="[ID]...", nargs=-1)
@question_options(ClaimsQuestion, leave_out=("ids",))
@whole_option
@report_option
@answer_options
def claims(**options: Any) -> None:
    """Every quantitative claim of the source documents, recomputed: what holds, and what is concluded from it."""
    from computeledger.questions.answers.claims import answer_claims

    show_answer(answer_claims(asked_by(ClaimsQuestion, options)), options)
