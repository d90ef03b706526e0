"""The command ``study``: variants of a recipe at several seeds, and the table of what they learnt."""

from __future__ import annotations

import click

from computeledger.interfaces.options import Count, json_option, print_json


@click.command()
@click.argument("study", metavar="STUDY.toml|RESULTS.json")
@click.option("--jobs", type=Count(1), help="Parts carried out side by side; one per core when left out.")
@json_option
def study(study: str, jobs: int | None, as_json: bool) -> None:
    """Carry out the variants that STUDY.toml names, at each of its seeds; of RESULTS.json, print the table."""
    from pathlib import Path

    from rntp.interfaces.answers.train import study_answer
    from rntp.interfaces.tables.study import print_study

    def told(name: str, ended: int, total: int) -> None:
        click.echo(f"{ended} of {total}: {name}", err=True)

    try:
        results = study_answer(Path(study), jobs, told)
    except KeyboardInterrupt:
        click.echo("rntp: stopped; the same command goes on from the last checkpoints", err=True)
        raise click.exceptions.Exit(130) from None
    if as_json:
        print_json(results)
    else:
        print_study(results)
