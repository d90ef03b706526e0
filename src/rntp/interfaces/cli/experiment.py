"""The command ``experiment``: a run held against what thinking could gain, with a judge, plain training and a table."""

from __future__ import annotations

import click

from computeledger.interfaces.options import Count, json_option, print_json


@click.command()
@click.argument("config", metavar="CONFIG.toml")
@click.option("--fresh", is_flag=True, help="Begin anew; else an experiment that was ended is gone on with.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Change the recipe, such as seed=1.")
@click.option("--places", default=384, show_default=True, type=Count(2), help="Held-out places.")
@click.option("--kinds", metavar="KIND,KIND", default="", help="Kinds of documents measured; else those trained on.")
@click.option("--judge", metavar="FOLDER", help="A model trained apart; else one is pretrained from the next seed.")
@json_option
def experiment(
    config: str, fresh: bool, settings: tuple[str, ...], places: int, kinds: str, judge: str | None, as_json: bool
) -> None:
    """Train by the recipe CONFIG.toml, and a judge beside it; say how much of the gain of thinking was learnt."""
    from pathlib import Path

    from rntp.interfaces.answers.train import Asked, experiment_answer
    from rntp.interfaces.tables.experiment import print_experiment
    from rntp.interfaces.tables.train import bars

    try:
        with bars(shown=not as_json) as report:
            asked = Asked(Path(config), settings, places, tuple(kinds.split(",")) if kinds else (), judge)
            summary = experiment_answer(asked, report, fresh=fresh)
    except KeyboardInterrupt:
        click.echo("rntp: stopped; the same command goes on from the last checkpoint", err=True)
        raise click.exceptions.Exit(130) from None
    if as_json:
        print_json(summary)
    else:
        print_experiment(summary)
