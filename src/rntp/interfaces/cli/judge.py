"""The command ``judge``: how far a judge that is a language model agrees with a truth that is known."""

from __future__ import annotations

import click

from computeledger.interfaces.options import Count, json_option, print_json


@click.command()
@click.argument("config", metavar="RECIPE.toml")
@click.option("--environment", metavar="NAME", help="Whose judge; the first that has one when left out.")
@click.option("--items", default=140, show_default=True, type=Count(2, 5000), help="Answers of known quality.")
@click.option("--seed", default=0, show_default=True, type=Count(0), help="Of the answers.")
@click.option("--quality", default=1.0, show_default=True, type=click.FloatRange(0, 1), metavar="FRACTION",
              help="Least quality of an answer that is right.")  # fmt: skip
@click.option("--threshold", default=0.5, show_default=True, type=click.FloatRange(0, 1), metavar="FRACTION",
              help="Least score of an answer that the judge accepts.")  # fmt: skip
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Change the recipe.")
@json_option
def judge(
    config: str,
    environment: str | None,
    items: int,
    seed: int,
    quality: float,
    threshold: float,
    settings: tuple[str, ...],
    as_json: bool,
) -> None:
    """Ask the judge of RECIPE.toml about answers of known quality: agreement, biases, cost, and the signal left."""
    from pathlib import Path

    from rntp.interfaces.answers.judge import Question, judge_answer
    from rntp.interfaces.tables.judge import print_judge

    question = Question(Path(config), settings, environment, items, seed, quality, threshold)
    document = judge_answer(question)
    if as_json:
        print_json(document)
    else:
        print_judge(document)
