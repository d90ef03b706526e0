"""The command ``mixture``: search the shares of texts and tasks that RL goes over."""

from __future__ import annotations

import click

from computeledger.interfaces.options import json_option, print_json


@click.command()
@click.argument("mixture", metavar="MIXTURE.toml|RESULTS.json")
@json_option
def mixture(mixture: str, as_json: bool) -> None:
    """Search the shares of the sources that MIXTURE.toml names; of RESULTS.json, print the tables."""
    from pathlib import Path

    from rntp.interfaces.answers.train import mixture_answer
    from rntp.interfaces.tables.mixture import print_mixture

    def told(said: str) -> None:
        click.echo(said, err=True)

    try:
        results = mixture_answer(Path(mixture), told)
    except KeyboardInterrupt:
        click.echo("rntp: stopped; the same command goes on from the last checkpoints", err=True)
        raise click.exceptions.Exit(130) from None
    if as_json:
        print_json(results)
    else:
        print_mixture(results)
