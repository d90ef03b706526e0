"""The command ``pretrain``."""

from __future__ import annotations

from typing import Any

import click

from computeledger.interfaces.asking import asked_by, question_options, report_option, show_answer
from computeledger.interfaces.options import json_option, working_option
from computeledger.workloads.questions.pretrain import PretrainQuestion


@click.command()
@question_options(PretrainQuestion)
@report_option
@working_option
@json_option
def pretrain(**options: Any) -> None:
    """Pretraining: step time by part, MFU, memory, the best legal layouts, days and GPU-hours with failures.

    What you leave out is searched.
    """
    from computeledger.questions.answers.pretraining.answer import answer_pretrain

    question = asked_by(PretrainQuestion, options)
    answer = answer_pretrain(question)
    shown = (
        options["working"],
        options["html"],
        options["as_json"],
        question.scaling,
        question.growing_batch,
        question.levers,
    )
    if answer.launch is not None and not any(shown):
        click.echo(answer.launch.text)
        return
    show_answer(answer, options)
