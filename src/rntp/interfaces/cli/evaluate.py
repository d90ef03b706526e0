"""The command ``evaluate``: what thinking gains on text and tasks never trained on, and what explains it."""

from __future__ import annotations

import click

from computeledger.interfaces.options import Count, json_option, print_json


@click.command()
@click.argument("target", metavar="CHECKPOINT|RUN")
@click.option("--recipe", metavar="FILE", help="Recipe with corpus, places and thoughts; the run's when left out.")
@click.option("--base", metavar="FOLDER", help="The model before RL; the run's when left out.")
@click.option("--judge", metavar="FOLDER", help="A model trained apart, with the same tokenizer.")
@click.option("--places", default=64, show_default=True, type=Count(1), help="Held-out places, and tasks.")
@click.option("--thoughts", default=8, show_default=True, type=Count(1), help="Samples at each.")
@click.option("--controls", multiple=True, metavar="NAME",
              help="Train a rival on as much: ntp-equal-tokens, ntp-equal-time, mixed-sft, or all.")  # fmt: skip
@click.option("--html", metavar="FILE", help="Write a page with samples to read.")
@click.option("--samples", default=20, show_default=True, type=Count(0), help="Places shown on the page.")
@json_option
def evaluate(
    target: str,
    recipe: str | None,
    base: str | None,
    judge: str | None,
    places: int,
    thoughts: int,
    controls: tuple[str, ...],
    html: str | None,
    samples: int,
    as_json: bool,
) -> None:
    """Held-out loss with and without thought, controls, pass@k against the model before RL, samples to read."""
    from pathlib import Path

    from rntp.interfaces.answers.evaluate import Question, evaluate_answer
    from rntp.interfaces.evaluate_page import write_page
    from rntp.interfaces.tables.evaluate import print_evaluation, stages

    given = {"recipe": recipe, "base": base, "judge": judge}
    folders = {name: Path(one) for name, one in given.items() if one is not None}
    question = Question(Path(target), places, thoughts, samples, controls, **folders)
    with stages(shown=not as_json) as progress:
        document, shown_samples = evaluate_answer(question, progress)
    if html is not None:
        write_page(html, document, shown_samples)
    if as_json:
        print_json(document)
    else:
        print_evaluation(document)
