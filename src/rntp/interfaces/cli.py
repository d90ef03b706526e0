"""The command ``rntp``. Imports of the engines stand inside the commands, so that ``--help`` answers at once."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence

import click

from computeledger.errors import ComputeLedgerError, InputError, shown
from computeledger.interfaces.cli_options import CONTEXT, help_alone
from rntp.interfaces.cli_evaluate import evaluate
from rntp.interfaces.cli_experiment import experiment
from rntp.interfaces.cli_ledger import ledger
from rntp.interfaces.cli_soup import soup
from rntp.interfaces.cli_train import train
from rntp.interfaces.cli_verify import verify


@click.group(context_settings=CONTEXT, invoke_without_command=True)
@click.version_option(package_name="computeledger", message="%(version)s")
@click.pass_context
def cli(context: click.Context) -> None:
    """Reasoning with next-token prediction: train on ordinary text, verify answers, keep the ledger of both."""
    help_alone(context)


for command in (evaluate, experiment, ledger, soup, train, verify):
    cli.add_command(command)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line: exit code 2 and one line for bad input, no traceback."""
    try:
        code = cli.main(args=list(arguments) if arguments is not None else None, standalone_mode=False)
    except click.ClickException as error:
        _fail(error.format_message().replace("\n", " "), 2)
    except click.exceptions.Abort:
        _fail("interrupted", 130)
    except InputError as error:
        _fail(str(error).replace("\n", " "), 2)
    except ComputeLedgerError as error:
        _fail(str(error), 1)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except OSError as error:
        _fail(f"{shown(error.filename or 'a file')}: {(error.strerror or 'cannot be used').lower()}", 2)
    sys.exit(code if isinstance(code, int) else 0)


def _fail(message: str, code: int) -> None:
    message = re.sub(r"(\S{80})\S{200,}", r"\1...", message)  # what was given may be a whole file
    click.echo(f"rntp: {message}", err=True)
    sys.exit(code)
