"""The command ``plan``."""

from __future__ import annotations

from typing import Any

import click

from computeledger.errors import InputError
from computeledger.interfaces.asking import asked_by, question_options, report_option, show_answer
from computeledger.interfaces.options import SectionedCommand, answer_options, print_json, working_option
from computeledger.questions.plan import PlanQuestion


@click.command(cls=SectionedCommand)
@click.argument("plan", metavar="PLAN.toml", required=False)
@click.option("--schema", is_flag=True, help="Print the JSON Schema of plans for editors, and stop.")
@question_options(PlanQuestion, leave_out=("plan",))
@report_option
@working_option
@answer_options
def plan(**options: Any) -> None:
    """The life-cycle ledger of a plan: three phases in FLOP and GPU-time, with intervals and working."""
    if options["schema"]:
        from computeledger.economics.plan.keys import json_schema

        print_json(json_schema())
        return
    if options["plan"] is None:
        raise InputError("PLAN.toml: needed, such as 'examples/deepseek-v3.toml'")
    from computeledger.questions.answers.plan import answer_plan

    show_answer(answer_plan(asked_by(PlanQuestion, options)), options)
