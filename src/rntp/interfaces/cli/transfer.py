"""The command ``transfer``: train on text of one kind, and measure on the others."""

from __future__ import annotations

import click

from computeledger.interfaces.options import Count, json_option, print_json


@click.command()
@click.argument("transfer", metavar="TRANSFER.toml|RESULTS.json")
@click.option("--seed", "seeds", type=Count(0), multiple=True, help="Only this seed, several times for several.")
@json_option
def transfer(transfer: str, seeds: tuple[int, ...], as_json: bool) -> None:
    """Train the arms of TRANSFER.toml and measure each on every kind of text; of RESULTS.json, print the tables."""
    from pathlib import Path

    from rntp.interfaces.answers.train import transfer_answer
    from rntp.interfaces.tables.transfer import print_transfer

    def told(name: str, ended: int, total: int) -> None:
        click.echo(f"{ended} of {total}: {name}", err=True)

    try:
        results = transfer_answer(Path(transfer), seeds, told)
    except KeyboardInterrupt:
        click.echo("rntp: stopped; the same command goes on from the last checkpoints", err=True)
        raise click.exceptions.Exit(130) from None
    if as_json:
        print_json(results)
    else:
        print_transfer(results)
