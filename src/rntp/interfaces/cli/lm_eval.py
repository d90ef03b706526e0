"""The command ``lm-eval``."""

from __future__ import annotations

import click


@click.command(
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    options_metavar="", short_help="lm-evaluation-harness, with the model `rntp`",
)  # fmt: skip
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[HARNESS OPTIONS]...")
def lm_eval(arguments: tuple[str, ...]) -> None:
    """Run lm-evaluation-harness with its own options and one more model: --model rntp thinks before it is scored.

    --model_args pretrained=RUN|CHECKPOINT,thoughts=K,budget=TOKENS,seed=N,dtype=float32|bfloat16
    """
    import importlib.util
    import sys

    from computeledger.errors import InputError

    if importlib.util.find_spec("lm_eval") is None:
        raise InputError("lm-eval: the package is not installed: pip install 'computeledger[lm-eval,train]'")
    from lm_eval.__main__ import cli_evaluate

    from rntp.interfaces.lm_eval_model import register

    register()
    before, sys.argv = sys.argv, ["lm-eval", *arguments]  # where the harness reads its options
    try:
        cli_evaluate()
    finally:
        sys.argv = before
