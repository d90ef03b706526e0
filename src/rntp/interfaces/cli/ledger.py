"""The command ``ledger``: what a run's ledger says."""

from __future__ import annotations

import click

from computeledger.interfaces.options import json_option, print_json


@click.command()
@click.argument("files", metavar="LEDGER.jsonl | RUN...", nargs=-1, required=True)
@click.option("--workload", metavar="W", help="rl, pretraining or serving; RL where there is any when left out.")
@click.option("--run", metavar="NAME", help="Entries of this run only.")
@click.option("--parquet", metavar="FILE", help="Write every entry to a Parquet file as well.")
@click.option(
    "--machine",
    metavar="FOLDER",
    help="Of runs: predict times too, for what computeledger calibrate --write measured, or a shipped system.",
)
@json_option
def ledger(
    files: tuple[str, ...],
    workload: str | None,
    run: str | None,
    parquet: str | None,
    machine: str | None,
    as_json: bool,
) -> None:
    """GPU-time by phase, utilisation, energy and RL's beta, from a run's own ledger.

    Of folders of runs: what each cost by phase, beside the planner's prediction for the same shapes.
    """
    from pathlib import Path

    from rntp.interfaces.answers.ledger import costs_answer, ledger_answer
    from rntp.interfaces.tables.cost import print_costs
    from rntp.interfaces.tables.ledger import print_ledger

    paths = [Path(one) for one in files]
    if len(paths) > 1 or paths[0].is_dir() or machine is not None:
        others = {"--workload": workload, "--run": run, "--parquet": parquet}
        document = costs_answer(paths, machine, [name for name, given in others.items() if given is not None])
        printed = print_costs
    else:
        document, printed = ledger_answer(paths[0], workload, run, parquet), print_ledger
    if as_json:
        print_json(document)
    else:
        printed(document)
