"""The command ``pretrain``."""

from __future__ import annotations

from typing import Any

import click

from computeledger.interfaces.asking import asked_by, question_options, report_option, show_launched
from computeledger.interfaces.options import SectionedCommand, answer_options, working_option
from computeledger.workloads.questions.pretrain import PretrainQuestion


@click.command(cls=SectionedCommand)
@question_options(PretrainQuestion)
@report_option
@working_option
@answer_options
def pretrain(**options: Any) -> None:
    """Pretraining: step time by part, MFU, memory, the best legal layouts, days and GPU-hours with failures.

    What you leave out is searched. --emit prints the arguments or the file alone; tables that were asked for beside it
    go to standard error.
    """
    from computeledger.questions.answers.pretraining.answer import answer_pretrain

    question = asked_by(PretrainQuestion, options)
    answer = answer_pretrain(question)
    beside = question.scaling or question.growing_batch or question.levers
    show_launched(answer, options, "" if answer.launch is None else answer.launch.text, beside=beside)
