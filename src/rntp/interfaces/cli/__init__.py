"""The command ``rntp``. Imports of the engines stand inside the commands, so that ``--help`` answers at once."""

from __future__ import annotations

import re
import sys
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

#: How torch says that memory has run out, on a CPU and on a GPU, and how much was asked for.
_NO_MEMORY, _ASKED = re.compile(r"can't allocate memory|out of memory"), re.compile(r"ried to allocate ([\d.]+ \w+)")


@click.group(cls=Commands, sections={"Commands": COMMANDS}, context_settings=CONTEXT, invoke_without_command=True)
@click.version_option(package_name="computeledger", message="%(version)s")
@click.pass_context
def cli(context: click.Context) -> None:
    """Reasoning with next-token prediction: train on ordinary text, verify answers, keep the ledger of both."""
    help_alone(context)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line: exit code 2 and one line for bad input, 1 where memory runs out, no traceback."""
    try:
        run_group(cli, "rntp", arguments)
    except (MemoryError, RuntimeError) as error:  # torch's own class is a RuntimeError on a GPU; on a CPU it has none
        if not (isinstance(error, MemoryError) or _NO_MEMORY.search(str(error))):
            raise
        asked = _ASKED.search(str(error))
        more = f": {asked[1]} more were asked for" if asked else ""
        less = "a smaller rl.micro_batch or group, shorter contexts, or a smaller model need less"
        click.echo(
            f"rntp: out of memory{more}; {less}, and the same command goes on from the last checkpoint", err=True
        )
        sys.exit(1)
