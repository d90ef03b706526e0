"""The command ``compare``."""

from __future__ import annotations

from typing import Any

import click

from computeledger.interfaces.asking import asked_by, question_options, report_option, show_answer
from computeledger.interfaces.options import SectionedCommand, answer_options
from computeledger.questions.compare import CompareQuestion


@click.command(cls=SectionedCommand)
@click.argument("offers", metavar="OFFERS.toml")
@question_options(CompareQuestion, leave_out=("offers",))
@report_option
@answer_options
def compare(**options: Any) -> None:
    """Offers for one workload and one promise: what each takes and costs, and which is the cheapest, how surely.

    OFFERS.toml has a [workload] and a [promise] in the fields of `serve`, and an [[offer]] for each system or price
    sheet; a list in an offer makes one of each of its values.
    """
    from computeledger.questions.answers.compare import answer_compare

    show_answer(answer_compare(asked_by(CompareQuestion, options)), options)
