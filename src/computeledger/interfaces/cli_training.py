"""The command ``pretrain``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from computeledger.interfaces.cli_options import (
    COUNT,
    at_least_one,
    common_options,
    parse_count,
    parse_seconds,
    parse_tokens,
    print_json,
    quantity_option,
    write_file,
)

_STEP = [
    click.option(
        "--tokens", default="1T tokens", show_default=True, callback=parse_tokens, metavar="D",
        help="Tokens of the run.",
    ),
    click.option(
        "--sequence-tokens", default="4096", show_default=True, callback=parse_tokens, metavar="S",
        help="Length of a sequence.",
    ),
    click.option(
        "--global-batch-tokens", default="4M", show_default=True, callback=parse_tokens, metavar="T",
        help="Tokens per optimiser step.",
    ),
    click.option(
        "--microbatch-sequences", type=COUNT, callback=at_least_one, metavar="M",
        help="Sequences that pass a stage at once.",
    ),
    click.option(
        "--recompute", metavar="WHAT", help="none, selective, full, or of core_attn, layernorm, mla_up_proj, moe_act."
    ),
    click.option(
        "--virtual-stages", type=COUNT, callback=at_least_one, metavar="V",
        help="Interleaved pieces of the model per stage.",
    ),
    click.option(
        "--schedule", default="1f1b", show_default=True, metavar="NAME", help="1f1b, zero-bubble, dualpipe or any."
    ),
    click.option(
        "--sharding", metavar="NAME",
        help="What data-parallel ranks share: zero-1 the optimiser, zero-2 gradients too, zero-3 weights too.",
    ),
    click.option(
        "--activation-precision", metavar="NAME", help="Of what products keep, and dispatch to experts: bf16 or fp8."
    ),
    click.option("--moment-precision", metavar="NAME", help="Of the optimiser's two moments: fp32 or bf16."),
    click.option("--recipe", metavar="NAME", help="Scales of 8- and 4-bit products: of a tensor, a row or a block."),
    click.option(
        "--mtp-layers", type=COUNT, callback=at_least_one, metavar="N",
        help="Multi-token-prediction modules beside the model.",
    ),
    click.option(
        "--lora-rank", type=COUNT, callback=at_least_one, metavar="R",
        help="Train adapters of this rank, the model frozen.",
    ),
    click.option("--lora-targets", metavar="WHICH", help="attention or all (dense MLPs too; the default)."),
]  # fmt: skip
_RUN = [
    click.option(
        "--interruptions-per-gpu-year", callback=parse_count, metavar="F",
        help="Unexpected stops per GPU and year; left out: as published.",
    ),
    click.option("--checkpoint-pause", callback=parse_seconds, metavar="T", help="Training stands still so long."),
    click.option(
        "--checkpoint-interval", callback=parse_seconds, metavar="T",
        help="Between checkpoints; left out: the best one.",
    ),
    click.option("--restart", callback=parse_seconds, metavar="T", help="From a failure to training again."),
    click.option(
        "--stragglers", callback=quantity_option("fraction", ""), metavar="F",
        help="Time that slow hosts add to a step.",
    ),
]  # fmt: skip
_ANSWER = [
    click.option(
        "--objective", default="time", show_default=True, metavar="WHAT", help="Least time, or least gpu-hours."
    ),
    click.option(
        "--top",
        default=10,
        type=COUNT,
        show_default=True,
        callback=at_least_one,
        metavar="K",
        help="Layouts to list.",
    ),
    click.option("--scaling", is_flag=True, help="Strong and weak scaling around the number of GPUs."),
    click.option("--growing-batch", is_flag=True, help="A batch that grows with the critical batch, part by part."),
    click.option("--anchor", metavar="KEY=VALUE,...", help="A measurement: tokens_per_s_per_gpu=4200, layout=..."),
    click.option("--emit", metavar="FRAMEWORK", help="Arguments that launch the layout: megatron."),
    click.option("--html", "html_file", metavar="FILE", help="Write the working and a timeline as one HTML file."),
]


def _with(options: list[Callable[..., Any]]) -> Callable[..., Any]:
    """Several options at once, in their order."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        """Add them."""
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


@click.command()
@common_options
@_with(_STEP)
@_with(_RUN)
@_with(_ANSWER)
def pretrain(**options: Any) -> None:
    """Pretraining: step time by part, MFU, memory, the best legal layouts, days and GPU-hours with failures.

    What is given holds, what is left out is searched.
    """
    from computeledger.interfaces.answers_training import answer_pretrain

    document = answer_pretrain(options)
    if options["html_file"] is not None:
        from computeledger.interfaces.report_training import pretrain_report

        write_file(options["html_file"], pretrain_report(document))
    if options["as_json"]:
        print_json(document)
        return
    if "launch" in document and not (options["working"] or options["scaling"] or options["growing_batch"] or
                                     options["html_file"] is not None):  # fmt: skip
        click.echo(document["launch"]["text"])
        return
    from computeledger.interfaces.tables_training import print_pretrain

    print_pretrain(document, options["working"])
    if options["html_file"] is not None:
        click.echo(f"report: {options['html_file']}")
