"""The command ``contribute``."""

from __future__ import annotations

from typing import Any

import click

from computeledger.interfaces.asking import asked_by, question_options, report_option, show_answer
from computeledger.interfaces.options import SectionedCommand, answer_options
from computeledger.questions.contribute import ContributeQuestion


@click.command(cls=SectionedCommand)
@click.argument("result", metavar="RESULT")
@question_options(ContributeQuestion, leave_out=("result",))
@report_option
@answer_options
def contribute(**options: Any) -> None:
    """A benchmark's result as rows of the measured world: checked, predicted, and written for a pull request.

    RESULT is what vLLM, SGLang, GenAI-Perf, AIPerf, GuideLLM, trtllm-bench or llama-bench wrote, or the log of a
    training run with its settings above its steps. Nothing is sent anywhere: the rows land in a file that you look at
    and add.
    """
    from computeledger.questions.answers.contribute import answer_contribute

    answer = answer_contribute(asked_by(ContributeQuestion, options))
    answer.write()
    show_answer(answer, options)
