"""The commands under ``frontier``."""

from __future__ import annotations

from typing import Any

import click

from computeledger.interfaces.asking import asked_by, question_options, report_option, show_answer
from computeledger.interfaces.options import (
    CONTEXT,
    COUNT,
    NUMBER,
    help_alone,
    json_option,
    parse_count,
    parse_price,
    parse_seconds,
    print_json,
    quantity_option,
    working_option,
)
from computeledger.questions.frontier import (
    BacktestQuestion,
    ForecastQuestion,
    GrowthQuestion,
    SitesQuestion,
    SystemsQuestion,
)


@click.group(context_settings=CONTEXT, invoke_without_command=True)
@click.pass_context
def frontier(context: click.Context) -> None:
    """What power and money can train, and when: systems, sites, growth, forecasts."""
    help_alone(context)


def _show(document: dict[str, Any], as_json: bool, command: str) -> None:
    """Print a document, as JSON or as tables."""
    if as_json:
        print_json(document)
        return
    from computeledger.interfaces.tables_frontier import print_frontier

    print_frontier(command, document)


@frontier.command("systems")
@click.argument("spec")
@question_options(SystemsQuestion, leave_out=("spec",))
@report_option
@working_option
@json_option
def frontier_systems(**options: Any) -> None:
    """A system by chips, power, money or buildings: what it has, costs, trains, and serves.

    SPEC is "[NUMBER UNIT] [boundary] [of ACCELERATOR_ID]", several joined by " + ": "400 MW facility of gb200-gpu",
    "$10bn of gb200-gpu", "7 buildings x 65 MW IT of trainium2", "50K chips of h100-sxm5-80gb + 30K chips of gb200-gpu",
    "$6bn a year at $2.50 per GPU-hour of h100-sxm5-80gb".
    """
    from computeledger.questions.answers.frontier import answer_systems

    show_answer(answer_systems(asked_by(SystemsQuestion, options)), options)


@frontier.command("sites")
@question_options(SitesQuestion)
@report_option
@working_option
@json_option
def frontier_sites(**options: Any) -> None:
    """Data-centre sites over time: H100-equivalents recomputed from chip counts, beside the published ones."""
    from computeledger.questions.answers.frontier import answer_sites

    show_answer(answer_sites(asked_by(SitesQuestion, options)), options)


@frontier.command("backtest")
@question_options(BacktestQuestion)
@report_option
@json_option
def frontier_backtest(**options: Any) -> None:
    """Forecast from a cut-off what is known now: coverage, error and width of the intervals."""
    from computeledger.questions.answers.frontier import answer_backtest

    show_answer(answer_backtest(asked_by(BacktestQuestion, options)), options)


@frontier.command("growth")
@question_options(GrowthQuestion)
@report_option
@working_option
@json_option
def frontier_growth(**options: Any) -> None:
    """Growth fitted on data with its interval, and scenarios of what bounds it."""
    from computeledger.questions.answers.frontier import answer_growth

    show_answer(answer_growth(asked_by(GrowthQuestion, options)), options)


@frontier.command("forecast")
@click.argument("flop")
@question_options(ForecastQuestion, leave_out=("flop",))
@report_option
@working_option
@json_option
def frontier_forecast(**options: Any) -> None:
    """When is a run of FLOP (such as 1e28) possible, with what chance, and what does it take."""
    from computeledger.questions.answers.frontier import answer_forecast

    show_answer(answer_forecast(asked_by(ForecastQuestion, options)), options)


@frontier.command("spread")
@click.option("--params", callback=quantity_option("count", ""), metavar="N", help="Parameters exchanged.")
@click.option("--model", metavar="ID", help="In place of --params.")
@click.option("--step", callback=parse_seconds, metavar="T", help="Optimiser step within a site.")
@click.option("--system", metavar="ID", help="Of each site; with --gpus the operation model gives the step.")
@click.option("--gpus", callback=parse_count, metavar="N", help="Of one site.")
@click.option(
    "--batch-tokens",
    callback=quantity_option("tokens", "tokens"),
    help="Of a step, over all sites. [default: the critical batch of the compute-optimal run]",
)
@click.option("--exchange", callback=parse_seconds, metavar="T", help="Of an exchange. [default: a sixth of --step]")
@click.option("--sites", default=2, type=COUNT, show_default=True, help="Sites.")
@click.option("--distance-km", default=0.0, type=NUMBER, show_default=True, help="Fibre between the furthest two.")
@click.option("--local-steps", default=1.0, type=NUMBER, show_default=True, help="Steps between exchanges (DiLoCo).")
@click.option(
    "--bytes-per-gradient", default=4.0, type=NUMBER, show_default=True, help="4 as computed; 1 or less compressed."
)
@json_option
def frontier_spread(as_json: bool, **options: Any) -> None:
    """One training run over several sites: bandwidth, step time, fibres, and what changes them."""
    from computeledger.questions.answers.frontier import answer_spread

    _show(answer_spread(options), as_json, "spread")


@frontier.command("sheet")
@click.argument("model")
@click.option("--accelerator", metavar="ID", help="Chip of the hours. [default: as published, else gb200-gpu]")
@click.option("--gpu-hours", callback=quantity_option("gpu_hours", "GPU-hours"), help="Of pretraining.")
@click.option("--usd", callback=quantity_option("usd", "$"), help="Price of the run.")
@click.option("--price", default="$2/h", show_default=True, callback=parse_price, metavar="$/h", help="GPU-hour.")
@click.option("--claim", callback=quantity_option("flop", "FLOP"), metavar="FLOP", help="What somebody says it took.")
@click.option("--precision", default="bf16", show_default=True, metavar="P", help="Whose peak utilisation is of.")
@click.option("--utilization", callback=quantity_option("fraction", ""), help="Of the peak. [default: 19%..46%]")
@json_option
def frontier_sheet(model: str, as_json: bool, **options: Any) -> None:
    """A published model's training FLOP from parameters, hardware-time and price: reconciled, or the conflict."""
    from computeledger.questions.answers.frontier import answer_sheet

    _show(answer_sheet(model, options), as_json, "sheet")


@frontier.command("schedule")
@click.argument("start", metavar="YYYY-MM-DD")
@click.option("--delivery", default="0 months", show_default=True, callback=parse_seconds, help="Of the chips.")
@click.option("--installation", default="2 months", show_default=True, callback=parse_seconds, help="Until they run.")
@click.option("--pretraining", default="4 months", show_default=True, callback=parse_seconds, help="Of the model.")
@click.option("--post-training", default="1 month", show_default=True, callback=parse_seconds, help="Until release.")
@json_option
def frontier_schedule(start: str, as_json: bool, **options: Any) -> None:
    """When is the model out: delivery, installation, pretraining, post-training one after the other."""
    from computeledger.questions.answers.frontier import answer_schedule

    _show(answer_schedule(start, options), as_json, "schedule")
