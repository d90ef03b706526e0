"""The command ``ledger``: what a run's ledger says."""

from __future__ import annotations

import click

from computeledger.interfaces.cli_options import json_option, print_json


@click.command()
@click.argument("file", metavar="LEDGER.jsonl")
@click.option("--workload", metavar="W", help="rl, pretraining or serving; RL where there is any when left out.")
@click.option("--run", metavar="NAME", help="Entries of this run only.")
@click.option("--parquet", metavar="FILE", help="Write every entry to a Parquet file as well.")
@json_option
def ledger(file: str, workload: str | None, run: str | None, parquet: str | None, as_json: bool) -> None:
    """GPU-time by phase, utilisation, energy and RL's beta, from a run's own ledger."""
    from pathlib import Path

    from rntp.interfaces.answers_ledger import ledger_answer
    from rntp.interfaces.tables_ledger import print_ledger

    document = ledger_answer(Path(file), workload, run, parquet)
    if as_json:
        print_json(document)
    else:
        print_ledger(document)
