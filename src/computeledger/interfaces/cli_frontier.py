"""The commands under ``frontier``."""

from __future__ import annotations

from typing import Any

import click

from computeledger.interfaces.cli_options import (
    CONTEXT,
    COUNT,
    NUMBER,
    OF_PEAK,
    at_least_one,
    help_alone,
    json_option,
    parse_count,
    parse_price,
    parse_seconds,
    print_json,
    quantity_option,
    samples_option,
    seed_option,
    working_option,
    write_file,
)

_data = click.option(
    "--data", metavar="DIR", help="Folder with Epoch's CSV files as downloaded; left out: the copy that ships."
)
_accelerator = click.option("--accelerator", default="gb200-gpu", show_default=True, metavar="ID", help="Chip.")
_months = click.option(
    "--duration", default="4 months", show_default=True, callback=parse_seconds, help="Length of a run."
)
_use = click.option(
    "--utilization",
    default=OF_PEAK,
    show_default=True,
    callback=quantity_option("fraction", ""),
    help="Of the peak.",
)
_html = click.option("--html", "html_file", metavar="FILE", help="Write plots and tables as one HTML file.")


@click.group(context_settings=CONTEXT, invoke_without_command=True)
@click.pass_context
def frontier(context: click.Context) -> None:
    """What power and money can train, and when: systems, sites, growth, forecasts."""
    help_alone(context)


def _answer(document: dict[str, Any], as_json: bool, command: str, html_file: str | None = None) -> None:
    """Print a document, as JSON or as tables, and write its page."""
    if html_file is not None:
        from computeledger.interfaces.report_frontier import frontier_report

        write_file(html_file, frontier_report(command, document))
    if as_json:
        print_json(document)
        return
    from computeledger.interfaces.tables_frontier import print_frontier

    print_frontier(command, document)
    if "working" in document:
        from computeledger.interfaces.tables import console, print_working

        print_working(console(), document)
    if html_file is not None:
        click.echo(f"report: {html_file}")


@frontier.command("systems")
@click.argument("spec")
@_months
@_use
@samples_option
@seed_option
@_html
@working_option
@json_option
def frontier_systems(spec: str, as_json: bool, html_file: str | None, **options: Any) -> None:
    """A system by chips, power, money or buildings: what it has, costs, trains, and serves.

    SPEC is "[NUMBER UNIT] [boundary] [of ACCELERATOR_ID]", several joined by " + ": "400 MW facility of gb200-gpu",
    "$10bn of gb200-gpu", "7 buildings x 65 MW IT of trainium2", "50K chips of h100-sxm5-80gb + 30K chips of gb200-gpu",
    "$6bn a year at $2.50 per GPU-hour of h100-sxm5-80gb".
    """
    from computeledger.interfaces.answers_frontier import answer_systems

    _answer(answer_systems(spec, options), as_json, "systems", html_file)


@frontier.command("sites")
@_data
@click.option("--site", metavar="NAME", help="Only this site.")
@click.option("--lab", metavar="NAME", help="Chips of a lab over time, at the sites that the data name.")
@click.option("--claim", callback=quantity_option("w", "MW"), metavar="W", help="Facility power claimed for --site.")
@click.option("--date", metavar="YYYY-MM-DD", help="Day of the claim, or the last day shown.")
@_html
@working_option
@json_option
def frontier_sites(as_json: bool, html_file: str | None, **options: Any) -> None:
    """Data-centre sites over time: H100-equivalents recomputed from chip counts, beside the published ones."""
    from computeledger.interfaces.answers_frontier import answer_sites

    _answer(answer_sites(options | {"html_file": html_file}), as_json, "sites", html_file)


@frontier.command("backtest")
@click.option("--cutoff", default="2024-12-31", show_default=True, metavar="YYYY-MM-DD", help="Last day that is known.")
@_data
@_html
@json_option
def frontier_backtest(as_json: bool, html_file: str | None, **options: Any) -> None:
    """Forecast from a cut-off what is known now: coverage, error and width of the intervals."""
    from computeledger.interfaces.answers_frontier import answer_backtest

    _answer(answer_backtest(options), as_json, "backtest", html_file)


@frontier.command("growth")
@click.option("--first", default="2022-01-01", show_default=True, metavar="YYYY-MM-DD", help="Begin of the window.")
@click.option("--last", default="2026-08-22", show_default=True, metavar="YYYY-MM-DD", help="End of the window.")
@click.option("--scenario", metavar="NAME", help="One scenario, or a TOML file of them; all that ship when left out.")
@click.option(
    "--years",
    default=5,
    type=COUNT,
    show_default=True,
    callback=at_least_one,
    help="Years that scenarios look ahead.",
)
@_data
@_html
@working_option
@json_option
def frontier_growth(as_json: bool, html_file: str | None, **options: Any) -> None:
    """Growth fitted on data with its interval, and scenarios of what bounds it."""
    from computeledger.interfaces.answers_frontier import answer_growth

    _answer(answer_growth(options), as_json, "growth", html_file)


@frontier.command("forecast")
@click.argument("flop", callback=quantity_option("flop", "FLOP"))
@click.option("--by", metavar="YYYY-MM-DD", help="Day of which the chance is asked.")
@click.option("--scenario", metavar="NAME|FILE", help="Of growth, as in frontier growth: the date it would give.")
@_accelerator
@_months
@_use
@click.option("--samples", default=10_000, type=COUNT, show_default=True, help="Paths of the forecast.")
@seed_option
@_html
@working_option
@json_option
def frontier_forecast(flop: Any, as_json: bool, html_file: str | None, **options: Any) -> None:
    """When is a run of FLOP (such as 1e28) possible, with what chance, and what does it take."""
    from computeledger.interfaces.answers_frontier import answer_forecast

    _answer(answer_forecast(flop, options), as_json, "forecast", html_file)


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
    from computeledger.interfaces.answers_frontier import answer_spread

    _answer(answer_spread(options), as_json, "spread")


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
    from computeledger.interfaces.answers_frontier import answer_sheet

    _answer(answer_sheet(model, options), as_json, "sheet")


@frontier.command("schedule")
@click.argument("start", metavar="YYYY-MM-DD")
@click.option("--delivery", default="0 months", show_default=True, callback=parse_seconds, help="Of the chips.")
@click.option("--installation", default="2 months", show_default=True, callback=parse_seconds, help="Until they run.")
@click.option("--pretraining", default="4 months", show_default=True, callback=parse_seconds, help="Of the model.")
@click.option("--post-training", default="1 month", show_default=True, callback=parse_seconds, help="Until release.")
@json_option
def frontier_schedule(start: str, as_json: bool, **options: Any) -> None:
    """When is the model out: delivery, installation, pretraining, post-training one after the other."""
    from computeledger.interfaces.answers_frontier import answer_schedule

    _answer(answer_schedule(start, options), as_json, "schedule")
