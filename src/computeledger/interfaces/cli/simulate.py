"""The commands ``simulate serve`` and ``simulate rl``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from computeledger.interfaces.asking import asked_by, question_options, report_option, show_answer
from computeledger.interfaces.options import CONTEXT, OnceGroup, answer_options, help_alone
from computeledger.questions.simulate import SimulateRLQuestion, SimulateServeQuestion
from computeledger.writing import write_bytes

_records_option = click.option(
    "--records", metavar="FILE", help="Write every record as .csv, .npz or .parquet (extra: parquet)."
)


@click.group(cls=OnceGroup, context_settings=CONTEXT, invoke_without_command=True)
@click.pass_context
def simulate(context: click.Context) -> None:
    """Serving and RL through time: queues, tails, idle GPUs."""
    help_alone(context)
    from computeledger.simulation.compiled import can_compile

    if context.invoked_subcommand is not None and not can_compile():
        said = "numba is not installed: long simulations run as Python, some hundred times slower"
        click.echo(f"{said}; pip install 'computeledger[fast]'", err=True)


@simulate.command("serve")
@question_options(SimulateServeQuestion)
@_records_option
@click.option(
    "--write-workload", metavar="FILE", help="Write a generator fitted to the trace, as a TOML file for --workload."
)
@report_option
@answer_options
def simulate_serve(**options: Any) -> None:
    """A fleet under a load, request by request: percentiles, goodput, cost, saturation.

    Continuous batching with chunked prefill and a prefix cache. Give --workload or --arrivals: a trace is simulated
    from beginning to end, arrivals in steady state.
    """
    from computeledger.questions.answers.simulation.serving import answer_simulate_serve

    question, written = asked_by(SimulateServeQuestion, options), options.pop("write_workload")
    if written is not None:
        from computeledger.questions.answers.simulation.generator import fitted_toml

        write_bytes(written, fitted_toml(question).encode(), "--write-workload", (question.workload or "",))
    _finish(answer_simulate_serve(question, is_reported=options["html"] is not None), options)


@simulate.command("rl")
@click.argument("plan", metavar="PLAN.toml")
@question_options(SimulateRLQuestion, leave_out=("plan",))
@_records_option
@report_option
@answer_options
def simulate_rl(**options: Any) -> None:
    """The RL section of a plan, rollout by rollout: step time, what waits for what, staleness."""
    from computeledger.questions.answers.simulation.rl import answer_simulate_rl

    _finish(answer_simulate_rl(asked_by(SimulateRLQuestion, options)), options)


def _finish(answer: Any, options: Mapping[str, Any]) -> None:
    """Print the answer, and write what was asked for."""
    if options["records"] is not None:
        from computeledger.stores.records import record_bytes

        records = record_bytes(options["records"], answer.records())
        write_bytes(options["records"], records, "--records", answer.read_from)
    show_answer(answer, options)
    if options["records"] is not None and not (options["as_json"] or options["brief"]):
        click.echo(f"records: {options['records']}")
