"""The command line. Every command takes ``--json`` and then prints exactly one JSON document on stdout.

Imports of the engine stand inside the commands, so that ``--help`` answers at once.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence

import click

from computeledger.errors import ComputeLedgerError, InputError, shown
from computeledger.interfaces.cli_books import books
from computeledger.interfaces.cli_calibrate import calibrate
from computeledger.interfaces.cli_facts import cite, cost, facts
from computeledger.interfaces.cli_fit import fit
from computeledger.interfaces.cli_frontier import frontier
from computeledger.interfaces.cli_money import allocate, invert, prices, route
from computeledger.interfaces.cli_options import CONTEXT, help_alone
from computeledger.interfaces.cli_plan import plan
from computeledger.interfaces.cli_reconcile import reconcile
from computeledger.interfaces.cli_rl import rl
from computeledger.interfaces.cli_serving import serve
from computeledger.interfaces.cli_simulate import simulate
from computeledger.interfaces.cli_sweep import sweep
from computeledger.interfaces.cli_training import pretrain
from computeledger.interfaces.cli_validate import claims, validate
from computeledger.interfaces.cli_web import web


@click.group(context_settings=CONTEXT, invoke_without_command=True)
@click.version_option(package_name="computeledger", message="%(version)s")
@click.pass_context
def cli(context: click.Context) -> None:
    """Plan, run and reconcile the compute of a language model's life in GPU-time.

    Three ledgers (pretraining, reinforcement learning, inference), two currencies (FLOP and GPU-time), every number
    with its source and an interval. A quantity may be a range: "10M..100M" is a 90 % interval.
    """
    help_alone(context)


for _command in (
    plan,
    serve,
    sweep,
    pretrain,
    rl,
    simulate,
    facts,
    cost,
    cite,
    claims,
    allocate,
    prices,
    invert,
    route,
    frontier,
    validate,
    fit,
    reconcile,
    calibrate,
    books,
    web,
):
    cli.add_command(_command)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line: exit code 2 and one line for bad input, no traceback.

    Parameters
    ----------
    arguments : sequence of str, optional
        Command and options; the process's own when left out.

    Examples
    --------
    >>> main(["--version"])
    Traceback (most recent call last):
    SystemExit: 0
    """
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
    click.echo(f"computeledger: {message}", err=True)
    sys.exit(code)
