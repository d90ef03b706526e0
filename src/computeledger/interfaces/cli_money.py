"""The commands ``allocate``, ``prices``, ``invert`` and ``route``."""

from __future__ import annotations

from typing import Any

import click

from computeledger.interfaces.cli_options import (
    json_option,
    parse_count,
    parse_price,
    parse_seconds,
    parse_tokens,
    print_json,
    quantity_option,
    samples_option,
    seed_option,
)

_ratio, _fraction = quantity_option("ratio", ""), quantity_option("fraction", "")
_rate, _flop = quantity_option("tokens_per_s", "tokens/s"), quantity_option("flop", "FLOP")


@click.command()
@click.option("--law", default="besiroglu_2024", show_default=True, metavar="NAME", help="Loss law.")
@click.option("--budget", metavar="AMOUNT", help="'5.76e23 FLOP', '2.7M GPU-hours' or '$50M'.")
@click.option("--inference-tokens", "tokens_inference", callback=parse_tokens, metavar="N", help="Tokens served.")
@click.option("--rate", callback=_rate, metavar="N/s", help="Tokens served per second; with --life.")
@click.option("--life", callback=parse_seconds, metavar="TIME", help="Time in service; with --rate.")
@click.option("--rl-tokens", "tokens_rl", callback=parse_tokens, metavar="N", help="Tokens of RL.")
@click.option("--beta", default="6", callback=_ratio, show_default=True, help="FLOP of RL per parameter and token.")
@click.option("--rl-gain", callback=_ratio, metavar="LOSS", help="Loss that unlimited RL is worth; with --rl-mid.")
@click.option("--rl-mid", callback=_flop, metavar="FLOP", help="RL compute at which half of it is reached.")
@click.option("--rl-exponent", callback=_ratio, metavar="B", help="Steepness of the sigmoid; 1 when left out.")
@click.option("--elasticity", default="0", callback=_fraction, help="Demand falls as size^-elasticity, 0 to 1.")
@click.option("--at-n-params", "n_params_reference", callback=parse_count, metavar="N", help="Size of that demand.")
@click.option("--utilization-pretraining", callback=_fraction, metavar="F", help="FLOP over peak; 40 % assumed.")
@click.option("--utilization-rl", callback=_fraction, metavar="F", help="Of RL; a third of pretraining's assumed.")
@click.option("--utilization-inference", callback=_fraction, metavar="F", help="Of inference; a third assumed.")
@click.option("--system", default="h100-nvl8", show_default=True, help="System whose GPUs are counted.")
@click.option("--price", callback=parse_price, metavar="$/h", help="GPU-hour; the edition's rent when left out.")
@click.option("--n-params", callback=parse_count, metavar="N", help="Judge ledgers that exist: active parameters.")
@click.option("--tokens", "tokens_pretraining", callback=parse_tokens, metavar="N", help="And pretraining tokens.")
@click.option("--levers", metavar="MODEL", help="What sparsity, caches, drafts, bits and routing do, on this model.")
@click.option("--html", "html_file", metavar="FILE", help="Write plots as one self-contained HTML file.")
@samples_option
@seed_option
@json_option
def allocate(as_json: bool, html_file: str | None, **options: Any) -> None:
    """Split a budget over size, pretraining, RL and inference by equal marginal returns.

    Without --inference-tokens or --rl-tokens the ledger is as large as pretraining's: a choice, and no law.
    """
    from computeledger.interfaces.answers_allocate import answer_allocate

    document = answer_allocate(options)
    if html_file is not None:
        from computeledger.interfaces.report_money import write_allocation

        write_allocation(html_file, document)
    if as_json:
        print_json(document)
        return
    from computeledger.interfaces.tables_money import print_allocation

    print_allocation(document)
    if html_file is not None:
        click.echo(f"report: {html_file}")
