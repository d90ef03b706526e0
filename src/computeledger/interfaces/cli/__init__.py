"""The command line. Every command takes ``--json`` and then prints exactly one JSON document on stdout.

Imports of the engine stand inside the commands, so that ``--help`` answers at once.
"""

from __future__ import annotations

from collections.abc import Sequence

import click

from computeledger.interfaces.cli.books import books
from computeledger.interfaces.cli.calibrate import calibrate
from computeledger.interfaces.cli.facts import cite, cost, facts
from computeledger.interfaces.cli.fit import fit
from computeledger.interfaces.cli.frontier import frontier
from computeledger.interfaces.cli.money import allocate, invert, prices, route
from computeledger.interfaces.cli.plan import plan
from computeledger.interfaces.cli.reconcile import reconcile
from computeledger.interfaces.cli.rl import rl
from computeledger.interfaces.cli.serving import serve
from computeledger.interfaces.cli.simulate import simulate
from computeledger.interfaces.cli.sweep import sweep
from computeledger.interfaces.cli.training import pretrain
from computeledger.interfaces.cli.validate import claims, validate
from computeledger.interfaces.cli.web import web
from computeledger.interfaces.options import CONTEXT, help_alone, run_group


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

    Examples
    --------
    >>> main(["--version"])
    Traceback (most recent call last):
    SystemExit: 0
    """
    run_group(cli, "computeledger", arguments)
