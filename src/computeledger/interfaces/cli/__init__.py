"""The command line. Every command takes ``--json`` and then prints exactly one JSON document on stdout.

Imports of the engine stand inside the commands, so that ``--help`` answers at once.
"""

from __future__ import annotations

from collections.abc import Sequence

import click

from computeledger.interfaces.options import CONTEXT, Commands, help_alone, run_group

_HOME = "computeledger.interfaces.cli"
#: By section, as in the app: where each command is, and what it answers in one line of 64 characters.
SECTIONS = {
    "Plan": {
        "plan": (f"{_HOME}.plan:plan", "A model's life: training, RL and inference in FLOP and GPU-hours"),
        "serve": (f"{_HOME}.serving:serve", "Serve a model: TTFT, TPOT, memory, cost, the best layout"),
        "memory": (f"{_HOME}.memory:memory", "Will it fit: formats over systems, on how few GPUs"),
        "compare": (f"{_HOME}.compare:compare", "Offers for one workload: GPUs, cost, how surely the cheapest"),
        "sweep": (f"{_HOME}.sweep:sweep", "Serving over lists of models, systems, formats and layouts"),
        "pretrain": (f"{_HOME}.training:pretrain", "Pretrain: step time, MFU, memory, the best layout"),
        "rl": (f"{_HOME}.rl:rl", "An RL run: generation, training, weight sync, beta"),
        "simulate": (f"{_HOME}.simulate:simulate", "Serving and RL through time: queues, tails, idle GPUs"),
    },
    "Judge": {
        "prices": (f"{_HOME}.money:prices", "Price sheets of tokens: list, bill, history, floor"),
        "invert": (f"{_HOME}.money:invert", "What a price sheet reveals about the model behind it"),
        "sheet": (f"{_HOME}.money:sheet", "A closed model from scraps: price, speed, cost, chips, date"),
        "route": (f"{_HOME}.money:route", "Cost, time and success of a finished task"),
        "think": (f"{_HOME}.money:think", "Size, thinking and samples to a success at least cost"),
        "allocate": (f"{_HOME}.money:allocate", "Split a budget over size, pretraining, RL and inference"),
        "frontier": (f"{_HOME}.frontier:frontier", "What power and money can train, and when"),
        "cost": (f"{_HOME}.facts:cost", "A GPU-hour rented, reserved and owned, by component"),
    },
    "Evidence": {
        "accuracy": (f"{_HOME}.validate:accuracy", "How far off answers are, by source, chip, engine and load"),
        "claims": (f"{_HOME}.validate:claims", "The claims of the source documents, recomputed"),
        "validate": (f"{_HOME}.validate:validate", "Predicted against measured: errors and coverage"),
        "facts": (f"{_HOME}.facts:facts", "Look facts up, with source, date and locator"),
        "cite": (f"{_HOME}.facts:cite", "BibTeX of the sources that an answer rests on"),
        "reconcile": (f"{_HOME}.reconcile:reconcile", "Budget against actuals of a run, by phase"),
        "contribute": (f"{_HOME}.contribute:contribute", "A benchmark result as rows for the measured world"),
        "calibrate": (f"{_HOME}.calibrate:calibrate", "Measure this machine and fit its efficiency profile"),
        "fit": (f"{_HOME}.fit:fit", "Derive a shipped calibration again from measured tables"),
    },
    "Tools": {
        "guide": (f"{_HOME}.facts:guide", "What you can ask: the command or page that answers it"),
        "watch": (f"{_HOME}.watch:watch", "A running server, live: predicted against actual"),
        "books": (f"{_HOME}.books:books", "Keep plans and runs over time in an embedded store"),
        "web": (f"{_HOME}.web:web", "The app in the browser"),
        "mcp": (f"{_HOME}.mcp:mcp", "Every question as a tool of an assistant (MCP)"),
        "completion": (f"{_HOME}.shell:completion", "A script that completes commands in bash, zsh or fish"),
        "man": (f"{_HOME}.shell:man", "The manual page, for man -l"),
    },
}
COMMANDS = {name: home for homes in SECTIONS.values() for name, home in homes.items()}


#: Stands below the commands: an example, and the way from a question to its command.
_EPILOG = """Example: `computeledger serve --model llama-3.1-70b --system h100-nvl8 --tpot 30ms`

Which command answers your question? `computeledger guide WORDS` says, such as
`computeledger guide cached prefix`; docs/questions.md lists all questions by subject."""


@click.group(cls=Commands, sections=SECTIONS, context_settings=CONTEXT, invoke_without_command=True, epilog=_EPILOG)
@click.version_option(package_name="computeledger", message="%(version)s")
@click.pass_context
def cli(context: click.Context) -> None:
    """Plan, run and reconcile the compute of a language model's life in GPU-time.

    Three ledgers (pretraining, reinforcement learning, inference), two currencies (FLOP and GPU-time), every number
    with its source and an interval. A quantity may be a range: "10M..100M" is a 90 % interval.
    """
    help_alone(context)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line: exit code 2 and one line for bad input, no traceback.

    Examples
    --------
    >>> main(["--version"])
    Traceback (most recent call last):
    SystemExit: 0
    """
    run_group(cli, "computeledger", arguments)
