"""The command ``train``."""

from __future__ import annotations

import json

import click


@click.command()
@click.argument("config", metavar="CONFIG.toml")
@click.option("--fresh", is_flag=True, help="Begin anew; else a run that was ended is gone on with.")
@click.option("--longer", is_flag=True, help="Go on with a run that ended after fewer steps or less device-time.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Change the recipe, such as rl.steps=20.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document at the end.")
def train(config: str, fresh: bool, longer: bool, settings: tuple[str, ...], as_json: bool) -> None:
    """Train by the recipe CONFIG.toml: pretraining where it is asked for, RL on text and tasks, the ledger of both."""
    from pathlib import Path

    from rntp.interfaces.answers.train import train_answer
    from rntp.interfaces.cli.stopping import goes_on
    from rntp.interfaces.tables.train import bars, print_run

    with goes_on(), bars(shown=not as_json) as report:
        summary = train_answer(Path(config), settings, report, fresh=fresh, longer=longer)
    if summary is None:
        return
    if as_json:
        click.echo(json.dumps(summary))
    else:
        print_run(summary)
