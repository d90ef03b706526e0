"""The command ``rl``."""

from __future__ import annotations

from typing import Any

import click

from computeledger.fields import fields_of
from computeledger.interfaces.asking import asked_by, question_options, report_option, show_answer, show_launched
from computeledger.interfaces.options import SectionedCommand, answer_options, working_option
from computeledger.questions.rl_returns import RLReturnsQuestion
from computeledger.workloads.questions.rl import RLQuestion


@click.command(cls=SectionedCommand)
@question_options(RLQuestion)
@question_options(RLReturnsQuestion)
@report_option
@working_option
@answer_options
def rl(**options: Any) -> None:
    """An RL run: rollout, verify, score, update, weight sync; beta in both currencies, and who waits.

    The step by phase, GPU-hours, FLOP, utilisation, tokens, cores, dollars and energy; with --search the best split of
    the GPUs; with --published the beta of published runs.
    """
    if any(options[name] is not None for name in fields_of(RLReturnsQuestion)):
        from computeledger.questions.answers.rl.returns import answer_rl_returns

        show_answer(answer_rl_returns(asked_by(RLReturnsQuestion, options)), options)
        return
    from computeledger.questions.answers.rl.answer import answer_rl

    question = asked_by(RLQuestion, options)
    answer = answer_rl(question)
    beside = question.levers or question.scale_up or question.search
    show_launched(answer, options, "" if answer.launch is None else answer.launch.text, beside=beside)
