"""The commands under ``frontier``."""

from __future__ import annotations

from typing import Any

import click

from computeledger.interfaces.asking import asked_by, question_options, report_option, show_answer
from computeledger.interfaces.options import (
    CONTEXT,
    OnceGroup,
    answer_options,
    help_alone,
    whole_option,
    working_option,
)
from computeledger.questions.frontier import (
    BacktestQuestion,
    FlopSheetQuestion,
    ForecastQuestion,
    GrowthQuestion,
    LabsQuestion,
    RunsQuestion,
    ScheduleQuestion,
    SitesQuestion,
    SpreadQuestion,
    SystemsQuestion,
)


@click.group(cls=OnceGroup, context_settings=CONTEXT, invoke_without_command=True)
@click.pass_context
def frontier(context: click.Context) -> None:
    """What power and money can train, and when: systems, sites, growth, forecasts."""
    help_alone(context)


@frontier.command("systems")
@click.argument("spec")
@question_options(SystemsQuestion, leave_out=("spec",))
@report_option
@working_option
@answer_options
def frontier_systems(**options: Any) -> None:
    """A system by chips, power, money or buildings: what it has, costs, trains, and serves.

    SPEC is "[NUMBER UNIT] [boundary] [of ACCELERATOR_ID]", several joined by " + ": "400 MW facility of gb200-gpu",
    "$10bn of gb200-gpu", "7 buildings x 65 MW IT of trainium2", "50K chips of h100-sxm5-80gb + 30K chips of gb200-gpu",
    "$6bn a year at $2.50 per GPU-hour of h100-sxm5-80gb".
    """
    from computeledger.questions.answers.frontier.systems import answer_systems

    show_answer(answer_systems(asked_by(SystemsQuestion, options)), options)


@frontier.command("sites")
@question_options(SitesQuestion)
@whole_option
@report_option
@working_option
@answer_options
def frontier_sites(**options: Any) -> None:
    """Data-centre sites over time: H100-equivalents recomputed from chip counts, beside the published ones."""
    from computeledger.questions.answers.frontier.sites import answer_sites

    show_answer(answer_sites(asked_by(SitesQuestion, options)), options)


@frontier.command("labs")
@question_options(LabsQuestion)
@report_option
@answer_options
def frontier_labs(**options: Any) -> None:
    """Labs side by side at a date: largest site, whole fleet and its power, and what they train in 3 to 4 months."""
    from computeledger.questions.answers.frontier.labs import answer_labs

    show_answer(answer_labs(asked_by(LabsQuestion, options)), options)


@frontier.command("runs")
@question_options(RunsQuestion)
@report_option
@answer_options
def frontier_runs(**options: Any) -> None:
    """Training runs whose compute is estimated, by date of release: who, when, how large, and how that is known."""
    from computeledger.questions.answers.frontier.labs import answer_runs

    show_answer(answer_runs(asked_by(RunsQuestion, options)), options)


@frontier.command("backtest")
@question_options(BacktestQuestion)
@report_option
@answer_options
def frontier_backtest(**options: Any) -> None:
    """Forecast, from a cut-off date, what is known now: coverage, error and width of the intervals."""
    from computeledger.questions.answers.frontier.forecast import answer_backtest

    show_answer(answer_backtest(asked_by(BacktestQuestion, options)), options)


@frontier.command("growth")
@question_options(GrowthQuestion)
@report_option
@working_option
@answer_options
def frontier_growth(**options: Any) -> None:
    """Growth fitted on data with its interval, and scenarios of what bounds it."""
    from computeledger.questions.answers.frontier.forecast import answer_growth

    show_answer(answer_growth(asked_by(GrowthQuestion, options)), options)


@frontier.command("forecast")
@click.argument("flop")
@question_options(ForecastQuestion, leave_out=("flop",))
@report_option
@working_option
@answer_options
def frontier_forecast(**options: Any) -> None:
    """When a training run of FLOP (such as 1e28) is possible, with what probability, and what it takes."""
    from computeledger.questions.answers.frontier.forecast import answer_forecast

    show_answer(answer_forecast(asked_by(ForecastQuestion, options)), options)


@frontier.command("spread")
@question_options(SpreadQuestion)
@report_option
@answer_options
def frontier_spread(**options: Any) -> None:
    """One training run over several sites: bandwidth, step time, fibres, and what changes them."""
    from computeledger.questions.answers.frontier.runs import answer_spread

    show_answer(answer_spread(asked_by(SpreadQuestion, options)), options)


@frontier.command("sheet")
@click.argument("model")
@question_options(FlopSheetQuestion, leave_out=("model",))
@report_option
@answer_options
def frontier_sheet(**options: Any) -> None:
    """A published model's training FLOP from parameters, hardware-time and price: reconciled, or the conflict."""
    from computeledger.questions.answers.frontier.runs import answer_flop_sheet

    show_answer(answer_flop_sheet(asked_by(FlopSheetQuestion, options)), options)


@frontier.command("schedule")
@click.argument("start", metavar="YYYY-MM-DD")
@question_options(ScheduleQuestion, leave_out=("start",))
@report_option
@answer_options
def frontier_schedule(**options: Any) -> None:
    """When a model is released: delivery, installation, pretraining and post-training, one after the other."""
    from computeledger.questions.answers.frontier.runs import answer_schedule

    show_answer(answer_schedule(asked_by(ScheduleQuestion, options)), options)
