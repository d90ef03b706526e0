"""The command ``plan``."""

from __future__ import annotations

from dataclasses import replace

import click

from computeledger.errors import InputError
from computeledger.interfaces.cli_options import json_option, print_json, samples_option, seed_option, working_option
from computeledger.writing import write_file


@click.command()
@click.argument("plan_file", metavar="PLAN.toml", required=False)
@click.option("--html", "html_file", metavar="FILE", help="Write the report as one self-contained HTML file.")
@click.option(
    "--calibration", "calibration_file", metavar="FILE", help="Utilisations that reconcile wrote of past runs."
)
@click.option("--schema", is_flag=True, help="Print the JSON Schema of plans for editors, and stop.")
@samples_option
@seed_option
@working_option
@json_option
def plan(
    plan_file: str | None,
    html_file: str | None,
    calibration_file: str | None,
    schema: bool,
    samples: int,
    seed: int,
    working: bool,
    as_json: bool,
) -> None:
    """The life-cycle ledger of a plan: three phases in FLOP and GPU-time, with intervals and working."""
    from computeledger.economics.plan import load_plan
    from computeledger.economics.plan_keys import json_schema

    if schema:
        print_json(json_schema())
        return
    if plan_file is None:
        raise InputError("PLAN.toml is missing: computeledger plan PLAN.toml (see examples/)")
    from computeledger.economics.ledger import estimate_ledger
    from computeledger.questions.documents.records import plan_document

    loaded = load_plan(plan_file)
    note = {}
    if calibration_file is not None:
        from computeledger.actuals.plan_calibration import calibrated, read_calibration

        calibration = read_calibration(calibration_file)
        loaded = calibrated(loaded, calibration)
        note = {"utilisation": f"{calibration_file} of {calibration.date}"}
    ledger = estimate_ledger(loaded, samples, seed)
    ledger = replace(ledger, editions={**ledger.editions, **note})
    document = plan_document(ledger, working=working or html_file is not None)
    if html_file is not None:
        from computeledger.interfaces.report import plan_report

        write_file(html_file, plan_report(ledger, document), plan_file)
    if as_json:
        print_json(document)
        return
    from computeledger.interfaces.tables import print_plan

    print_plan(document, working)
    if html_file is not None:
        click.echo(f"report: {html_file}")
