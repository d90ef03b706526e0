"""The commands ``verify run``, ``verify mix`` and ``verify check``."""

from __future__ import annotations

import json
import signal
from types import FrameType
from typing import Any

import click

from computeledger.interfaces.options import Count, help_alone

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, one document per line.")


@click.group(invoke_without_command=True)
@click.pass_context
def verify(context: click.Context) -> None:
    """Answers checked by domain, and code run where it can harm nothing."""
    help_alone(context)


@verify.command()
@click.argument("tasks", metavar="TASKS.jsonl")
@click.argument("completions", metavar="COMPLETIONS.jsonl")
@click.option("--out", "results", metavar="FILE", help="Write verdicts here; an earlier run's are gone on with.")
@click.option("--jobs", type=Count(1, 4096), metavar="N", help="Local worker processes; else one per core.")
@click.option("--cluster", metavar="tcp://HOST:PORT", help="Address of a Dask scheduler whose workers check instead.")
@click.option(
    "--isolation", default="fresh", show_default=True, metavar="I", help="Sandboxes of programs: fresh or warm."
)
@click.option("--as-completed", is_flag=True, help="Verdicts as they are made, not in the order of the completions.")
@click.option("--in-hand", type=Count(1, 10**6), metavar="N", help="Checks in hand at most.")
@click.option("--rollouts-per-s", type=click.FloatRange(0), metavar="R", help="Rate of rollouts to give the cores for.")
@click.option("--preload", multiple=True, metavar="MODULE", help="Imported by each local worker; may register scorers.")
@json_option
def run(
    tasks: str,
    completions: str,
    results: str | None,
    jobs: int | None,
    cluster: str | None,
    isolation: str,
    as_completed: bool,
    in_hand: int | None,
    rollouts_per_s: float | None,
    preload: tuple[str, ...],
    as_json: bool,
) -> None:
    """Check completions against tasks: one verdict each, then a summary."""
    from pathlib import Path

    from rntp.interfaces.answers.verify import Settings, run_answer
    from rntp.interfaces.tables.verify import bar, print_summary

    settings = Settings(Path(tasks), Path(completions), Path(results) if results else None, isolation, not as_completed)
    with bar(settings.count(), shown=not as_json) as advance:

        def report(document: dict[str, Any]) -> None:
            """Print or count one verdict."""
            if as_json:
                click.echo(json.dumps(document))
            advance()

        executor = {"cluster": cluster, "workers": jobs, "preload": preload}
        summary = run_answer(settings, executor, report, in_hand, rollouts_per_s, _until_interrupted)
    if as_json:
        click.echo(json.dumps({"summary": summary}))
    else:
        print_summary(summary)
        if results:
            click.echo(f"verdicts: {results}")
    if summary["stopped"]:
        click.echo("rntp: stopped before the end; the same command with --out goes on from there", err=True)
        raise click.exceptions.Exit(130)


def _until_interrupted(stop: Any) -> None:
    """Let the first Ctrl-C or SIGTERM end the run in good order: what is in hand is answered, nothing more begun."""

    def handle(number: int, _frame: FrameType | None) -> None:
        """Stop, and let a second signal end at once."""
        stop.set()
        signal.signal(number, signal.SIG_DFL)
        click.echo("stopping: what is in hand is finished; once more to end at once", err=True)

    signal.signal(signal.SIGINT, handle)
    signal.signal(signal.SIGTERM, handle)


@verify.command()
@click.argument("mixture", metavar="MIX.toml")
@click.option("--count", default=100, show_default=True, type=Count(1), help="Tasks to draw.")
@click.option("--seed", default=0, show_default=True, help="Of the draw.")
def mix(mixture: str, count: int, seed: int) -> None:
    """Draw tasks from environments by their shares, one JSON document per line."""
    from pathlib import Path

    from rntp.interfaces.answers.verify import mixed

    for document in mixed(Path(mixture), count, seed):
        click.echo(json.dumps(document))


@verify.command()
@json_option
def check(as_json: bool) -> None:
    """What this machine offers: sandbox, control groups, compiler, and one trial of each."""
    from rntp.interfaces.answers.verify import machine
    from rntp.interfaces.tables.verify import print_machine

    document = machine()
    if as_json:
        click.echo(json.dumps(document))
    else:
        print_machine(document)
