"""The command ``soup``: merged checkpoints, and a search of the weights."""

from __future__ import annotations

import click

from computeledger.interfaces.options import Count, json_option, print_json


@click.command()
@click.argument("checkpoints", metavar="CHECKPOINT...", nargs=-1, required=True)
@click.option("--out", required=True, metavar="FOLDER", help="Where the merged checkpoint comes to stand.")
@click.option("--method", default="linear", show_default=True, metavar="M", help="linear, or slerp of two.")
@click.option("--weights", metavar="W,W,...", help="One per checkpoint; equal when left out.")
@click.option("--search", metavar="RECIPE", help="Look for the weights on this recipe's held-out text or tasks.")
@click.option("--trials", default=24, show_default=True, type=Count(1), help="Weights tried at most.")
@click.option("--places", default=64, show_default=True, type=Count(2), help="Held-out places, and tasks.")
@json_option
def soup(
    checkpoints: tuple[str, ...],
    out: str,
    method: str,
    weights: str | None,
    search: str | None,
    trials: int,
    places: int,
    as_json: bool,
) -> None:
    """Merge checkpoints that began as one model; weights as given, equal, or searched."""
    from pathlib import Path

    from rntp.interfaces.answers.soup import Order, soup_answer
    from rntp.interfaces.tables.evaluate import stages
    from rntp.interfaces.tables.soup import print_soup

    order = Order(tuple(Path(one) for one in checkpoints), Path(out), method, weights, places, trials)
    with stages(shown=not as_json) as progress:
        document = soup_answer(order, Path(search) if search else None, progress)
    if as_json:
        print_json(document)
    else:
        print_soup(document)
