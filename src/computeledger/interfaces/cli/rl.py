"""The command ``rl``."""

from __future__ import annotations

from typing import Any

import click

from computeledger.errors import InputError
from computeledger.interfaces.asking import asked_by, question_options, report_option, show_answer
from computeledger.interfaces.options import NUMBER, json_option, print_json, working_option
from computeledger.workloads.questions.rl import RLQuestion

#: Questions that need no model.
_WITHOUT_MODEL = ("published", "reward", "coverage")


@click.command()
@question_options(RLQuestion)
@click.option("--published", is_flag=True, help="Beta of published runs, by phase; needs no model.")
@click.option("--reward", metavar="F.csv", help="Fit what RL buys from columns compute,reward; needs no model.")
@click.option(
    "--coverage", metavar="F.csv", help="Fit pass@k from columns k,coverage or samples,correct; needs no model."
)
@click.option("--forecast", type=NUMBER, metavar="X", help="Compute, or samples, to forecast the fit at.")
@report_option
@working_option
@json_option
def rl(**options: Any) -> None:
    """An RL run: rollout, verify, score, update, weight sync; beta in both currencies, and who waits.

    The step by phase, GPU-hours, FLOP, utilisation, tokens, cores, dollars and energy; with --search the best split of
    the GPUs; with --published the beta of published runs.
    """
    if any(options[name] for name in _WITHOUT_MODEL):
        _show_returns(options)
        return
    for name in ("model", "system"):
        if not options[name]:
            raise InputError(f"--{name} is missing (only --published, --reward and --coverage do without)")
    from computeledger.questions.answers.rl import answer_rl

    show_answer(answer_rl(asked_by(RLQuestion, options)), options)


def _show_returns(options: dict[str, Any]) -> None:
    """Beta of published runs, or a fit to the reader's own points."""
    from computeledger.interfaces.tables_rl import print_returns
    from computeledger.questions.answers import rl_returns

    if options["html"] is not None:
        raise InputError("--html: --published, --reward and --coverage have no report")
    if options["published"]:
        document = rl_returns.answer_published()
    elif options["reward"]:
        document = rl_returns.answer_reward(options["reward"], options["forecast"])
    else:
        document = rl_returns.answer_coverage(options["coverage"], options["forecast"])
    if options["as_json"]:
        print_json(document)
    else:
        print_returns(document)
