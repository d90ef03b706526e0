"""The command ``sweep``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from computeledger.errors import InputError
from computeledger.interfaces.cli_options import (
    json_option,
    parse_count,
    parse_price,
    parse_seconds,
    print_json,
    quantity_option,
)


def split_option(dimension: str | None) -> Callable[[click.Context, click.Parameter, str | None], Any]:
    """Parse a list with commas, of names or of quantities."""

    def parse(context: click.Context, parameter: click.Parameter, text: str | None) -> tuple[Any, ...]:
        """Read one option."""
        parts = [part.strip() for part in (text or "").split(",") if part.strip()]
        if text is not None and not parts:
            raise InputError(f"{parameter.opts[0]} {text!r}: at least one is needed")
        if dimension is None:
            return tuple(parts)
        values = tuple(quantity_option(dimension, dimension)(context, parameter, part) for part in parts)
        for part, value in zip(parts, values, strict=True):
            if not isinstance(value, float) or value <= 0:
                raise InputError(f"{parameter.opts[0]} {part}: a sweep takes single numbers greater than 0")
        return values

    return parse


@click.command()
@click.option("--model", required=True, callback=split_option(None), metavar="A,B", help="Model ids.")
@click.option("--system", required=True, callback=split_option(None), metavar="A,B", help="System ids.")
@click.option("--precision", callback=split_option(None), metavar="P,P", help="As stored when left out.")
@click.option("--input-tokens", default="4096", show_default=True, callback=split_option("tokens"), metavar="I,I")
@click.option("--output-tokens", default="1024", show_default=True, callback=split_option("tokens"), metavar="O,O")
@click.option("--kv-precision", default="bf16", show_default=True, metavar="P", help="Precision of the KV cache.")
@click.option("--gpus", callback=parse_count, metavar="N", help="GPUs at hand.")
@click.option("--price", callback=parse_price, metavar="$/h", help="GPU-hour; the edition's rent when left out.")
@click.option("--tpot", callback=parse_seconds, metavar="T", help="Slowest acceptable time per output token.")
@click.option("--workers", callback=parse_count, metavar="N", help="Local processes; left out: as many as pay off.")
@click.option("--cluster", metavar="tcp://HOST:PORT", help="A Dask scheduler instead (extra: cluster).")
@click.option("--parquet", metavar="FILE", help="Write every option (extra: parquet).")
@json_option
def sweep(**options: Any) -> None:
    """Serving over lists of models, systems, precisions and lengths: every layout and batch of each.

    Prints the best option of each combination; --parquet keeps them all. Blocks and results are the same on one
    process, on many and on a cluster. Figures are medians.
    """
    from computeledger.questions.answers.sweep import answer_sweep

    document = answer_sweep(options)
    if options["as_json"]:
        print_json(document)
        return
    from computeledger.interfaces.tables_serving import print_sweep

    print_sweep(document)
