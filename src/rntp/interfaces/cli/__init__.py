"""The command ``rntp``. Imports of the engines stand inside the commands, so that ``--help`` answers at once."""

from __future__ import annotations

from collections.abc import Sequence

import click

from computeledger.interfaces.options import CONTEXT, help_alone, run_group
from rntp.interfaces.cli.evaluate import evaluate
from rntp.interfaces.cli.experiment import experiment
from rntp.interfaces.cli.ledger import ledger
from rntp.interfaces.cli.soup import soup
from rntp.interfaces.cli.study import study
from rntp.interfaces.cli.train import train
from rntp.interfaces.cli.verify import verify


@click.group(context_settings=CONTEXT, invoke_without_command=True)
@click.version_option(package_name="computeledger", message="%(version)s")
@click.pass_context
def cli(context: click.Context) -> None:
    """Reasoning with next-token prediction: train on ordinary text, verify answers, keep the ledger of both."""
    help_alone(context)


for command in (evaluate, experiment, ledger, soup, study, train, verify):
    cli.add_command(command)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line: exit code 2 and one line for bad input, no traceback."""
    run_group(cli, "rntp", arguments)
