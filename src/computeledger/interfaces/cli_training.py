"""The command ``pretrain``."""

from __future__ import annotations

from typing import Any

import click

from computeledger.interfaces.cli_options import at_least_one, common_options, parse_tokens, print_json


@click.command()
@common_options
@click.option(
    "--tokens", default="1T tokens", show_default=True, callback=parse_tokens, metavar="D", help="Tokens of the run."
)
@click.option(
    "--sequence-tokens",
    default="4096",
    show_default=True,
    callback=parse_tokens,
    metavar="S",
    help="Length of a sequence.",
)
@click.option(
    "--global-batch-tokens",
    default="4M",
    show_default=True,
    callback=parse_tokens,
    metavar="T",
    help="Tokens per optimiser step.",
)
@click.option("--microbatch-sequences", type=int, metavar="M", help="Sequences that pass a stage at once.")
@click.option("--recompute", metavar="MODE", help="none, selective or full.")
@click.option(
    "--virtual-stages", default=1, show_default=True, metavar="V", help="Interleaved chunks per pipeline stage."
)
@click.option("--top", default=10, show_default=True, callback=at_least_one, metavar="K", help="Best layouts to list.")
def pretrain(**options: Any) -> None:
    """Pretraining: step time by part, MFU, HFU, memory, days and GPU-hours, the best legal layouts."""
    from computeledger.interfaces.answers_training import answer_pretrain

    document = answer_pretrain(options)
    if options["as_json"]:
        print_json(document)
        return
    from computeledger.interfaces.tables import print_pretrain

    print_pretrain(document, options["working"])
