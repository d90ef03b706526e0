"""The command ``rntp``. Imports of the engines stand inside the commands, so that ``--help`` answers at once."""

from __future__ import annotations

from collections.abc import Sequence

import click

from computeledger.interfaces.options import CONTEXT, Commands, help_alone, run_group

#: Where each command is, and what it does in one line of 64 characters.
COMMANDS = {
    "evaluate": ("rntp.interfaces.cli.evaluate:evaluate", "Held-out loss with and without thought, and pass@k"),
    "experiment": (
        "rntp.interfaces.cli.experiment:experiment",
        "Train by a recipe beside a judge, and say what was learnt",
    ),
    "gpu": ("rntp.interfaces.cli.gpu:gpu", "Measure one GPU beside what the planner predicts of it"),
    "judge": ("rntp.interfaces.cli.judge:judge", "Hold a judge that is a language model against the truth"),
    "ledger": ("rntp.interfaces.cli.ledger:ledger", "GPU-time by phase, utilisation, energy and RL's beta"),
    "lm-eval": ("rntp.interfaces.cli.lm_eval:lm_eval", "lm-evaluation-harness, with and without thoughts"),
    "mixture": (
        "rntp.interfaces.cli.mixture:mixture",
        "Search the shares of texts and tasks that RL goes over",
    ),
    "soup": ("rntp.interfaces.cli.soup:soup", "Merge checkpoints that began as one model"),
    "study": ("rntp.interfaces.cli.study:study", "Train the variants of a study at several seeds"),
    "train": ("rntp.interfaces.cli.train:train", "Train by a recipe: pretraining where it is due, then RL"),
    "transfer": (
        "rntp.interfaces.cli.transfer:transfer",
        "Train on text of one kind, and measure on the others",
    ),
    "verify": ("rntp.interfaces.cli.verify:verify", "Check answers, and run code where it can harm nothing"),
}


@click.group(cls=Commands, sections={"Commands": COMMANDS}, context_settings=CONTEXT, invoke_without_command=True)
@click.version_option(package_name="computeledger", message="%(version)s")
@click.pass_context
def cli(context: click.Context) -> None:
    """Reasoning with next-token prediction: train on ordinary text, verify answers, keep the ledger of both."""
    help_alone(context)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line: exit code 2 and one line for bad input, no traceback."""
    run_group(cli, "rntp", arguments)
