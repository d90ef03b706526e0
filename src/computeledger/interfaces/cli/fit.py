"""The command ``fit``."""

from __future__ import annotations

from typing import Any

import click

from computeledger.interfaces.asking import asked_by, question_options, report_option, show_answer
from computeledger.interfaces.options import SectionedCommand, answer_options
from computeledger.questions.fit import FITS, FitQuestion


@click.command(cls=SectionedCommand)
@click.argument("what", metavar="|".join(FITS))
@question_options(FitQuestion, leave_out=("what",))
@report_option
@answer_options
def fit(**options: Any) -> None:
    """Derive a shipped calibration again from the measured tables: constants, how well they are known, intervals."""
    from computeledger.questions.answers.fit import answer_fit

    show_answer(answer_fit(asked_by(FitQuestion, options)), options)
