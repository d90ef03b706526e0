"""The command ``calibrate``."""

from __future__ import annotations

from typing import Any

import click

from computeledger.interfaces.asking import asked_by, question_options, report_option, show_answer
from computeledger.interfaces.options import SectionedCommand, answer_options
from computeledger.questions.calibrate import CalibrateQuestion


@click.command(cls=SectionedCommand)
@question_options(CalibrateQuestion)
@report_option
@answer_options
def calibrate(**options: Any) -> None:
    """Measure this machine and fit its efficiency profile: products, memory, attention, launches, all-reduce.

    Other commands use it: serve --system FOLDER/system.toml --profile FOLDER/profile.toml.
    """
    question = asked_by(CalibrateQuestion, options)
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from computeledger.questions.answers.calibrate import answer_calibrate

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    out = Console(stderr=True)
    with Progress(*columns, console=out, transient=True, disable=not out.is_terminal) as bar:
        task = bar.add_task("measuring", total=1.0)
        answer = answer_calibrate(question, lambda done: bar.update(task, completed=done))
    if answer.warning and options["as_json"]:
        click.echo(f"warning: {answer.warning}", err=True)
    show_answer(answer, options)
