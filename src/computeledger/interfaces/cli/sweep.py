"""The command ``sweep``."""

from __future__ import annotations

from typing import Any

import click

from computeledger.interfaces.asking import asked_by, question_options, report_option, show_answer
from computeledger.interfaces.options import SectionedCommand, answer_options
from computeledger.questions.sweep import SweepQuestion


@click.command(cls=SectionedCommand)
@question_options(SweepQuestion)
@report_option
@answer_options
def sweep(**options: Any) -> None:
    """Serving over lists of models, systems, precisions and lengths: every layout and batch of each.

    Prints the best option of each combination; --parquet keeps them all. Blocks and results are the same on one
    process, on many and on a cluster. Figures are medians.
    """
    from computeledger.questions.answers.serving.sweep import answer_sweep

    show_answer(answer_sweep(asked_by(SweepQuestion, options)), options)
