"""The command ``memory``."""

from __future__ import annotations

from typing import Any

import click

from computeledger.interfaces.asking import asked_by, question_options, report_option, show_answer
from computeledger.interfaces.options import SectionedCommand, answer_options
from computeledger.questions.memory import MemoryQuestion


@click.command(cls=SectionedCommand)
@question_options(MemoryQuestion)
@report_option
@answer_options
def memory(**options: Any) -> None:
    """Will it fit when it serves: formats over systems, on how few GPUs, with which context and batch.

    Prints the bytes of each component on the busiest GPU, the longest context and largest batch that fit, and the
    command that starts it. What training holds is in the answer of pretrain.
    """
    from computeledger.questions.answers.serving.memory import answer_memory

    show_answer(answer_memory(asked_by(MemoryQuestion, options)), options)
