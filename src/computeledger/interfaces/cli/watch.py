"""The command ``watch``."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from computeledger.errors import InputError
from computeledger.interfaces.asking import asked_by, question_options, report_option, show_answer
from computeledger.interfaces.options import Count, SectionedCommand, answer_options
from computeledger.progress import Progress, listening
from computeledger.questions.watch import WatchQuestion

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from computeledger.interfaces.view import View
    from computeledger.interfaces.watch.loop import Watch
    from computeledger.questions.answers.watch.session import Endpoint


@click.command(cls=SectionedCommand)
@click.argument("urls", metavar="URL...", nargs=-1)
@question_options(WatchQuestion, leave_out=("urls",))
@click.option("--once", "is_once", is_flag=True, help="Two scrapes, --every apart, and one answer.")
@click.option("--scrapes", type=Count(least=1), metavar="N", help="End after so many scrapes.  [default: on Ctrl-C]")
@click.option("--ledger", metavar="FILE", help="Add every span to a run ledger, which reconcile reads.")
@click.option("--calibration", metavar="FILE", help="With --plan and --ledger: write what plan --calibration takes, at "
              "the end.")  # fmt: skip
@click.option("--serve", "port", type=Count(least=1, most=65535), metavar="PORT",
              help="Serve a live page at 127.0.0.1:PORT, and Prometheus metrics at /metrics.")  # fmt: skip
@click.option("--dashboard", metavar="FILE", help="Write a Grafana dashboard of these metrics; it may stand alone.")
@report_option
@answer_options
def watch(**options: Any) -> None:
    """A running server, live: predicted against actual, what binds, and which setting would help.

    URL is http://HOST:8000/metrics of vLLM, SGLang, TGI or llama.cpp; a second one of DCGM adds power. What runs there
    is said by --plan, --from-command, or --model and --system.
    """
    if options["dashboard"] is not None:
        _write_dashboard(options["dashboard"])
        if not options["urls"]:
            return
    _check(options)
    question = asked_by(WatchQuestion, options)
    from computeledger.actuals.live.scrape import check_parser
    from computeledger.interfaces.watch.loop import addresses_of, once, watching
    from computeledger.questions.answers.watch.session import new_session

    check_parser()
    session = new_session(question, addresses_of(question.urls))
    quiet = listening(Progress())  # a prediction is short, and its progress would break the screen
    if options["is_once"]:
        with quiet, watching(session, options["ledger"]) as watched:
            answer = once(watched)
        show_answer(answer, options)
    else:
        with quiet, watching(session, options["ledger"]) as watched:
            _follow(watched, options)
        if not any(one.scrapes for one in session.watched):
            silent = (one.endpoint.said(one.silence) for one in session.watched)
            raise InputError("; ".join(one for one in silent if one) or "no scrape was made")
    if options["calibration"] is not None:
        _write_calibration(question, options)


def _check(options: dict[str, Any]) -> None:
    if not options["urls"]:
        raise InputError("URL: what is to be watched? write for example http://HOST:8000/metrics")
    if options["as_json"] and not options["is_once"]:
        raise InputError("--json prints one document: add --once")
    if options["html"] is not None and not options["is_once"]:
        raise InputError("--html writes one report: add --once")
    if options["is_once"] and (options["scrapes"] is not None or options["port"] is not None):
        raise InputError("--once ends after one answer: leave out --scrapes and --serve")
    if options["calibration"] is not None and (options["plan"] is None or options["ledger"] is None):
        raise InputError("--calibration is of a plan, by a ledger: add --plan PLAN.toml and --ledger FILE")


def _follow(watched: Watch, options: dict[str, Any]) -> None:
    """Show every answer as it comes: on a terminal in place of the last one, elsewhere a line each, with its time."""
    import sys

    from computeledger.interfaces.view import brief
    from computeledger.interfaces.views.watch import on_screen
    from computeledger.interfaces.watch.loop import steps
    from computeledger.interfaces.watch.page import Board
    from computeledger.interfaces.watch.served import serve_board

    board = Board(options["every"])
    port, stop = (None, None) if options["port"] is None else serve_board(board, options["port"])
    if port is not None:
        click.echo(f"http://127.0.0.1:{port}; metrics at /metrics; Ctrl-C ends it", err=True)
    is_screen = sys.stdout.isatty() and not options["brief"]

    def silent(endpoints: Sequence[Endpoint]) -> None:
        board.hear_nothing(endpoints)
        said = "; ".join(one.said(one.silence) for one in endpoints if one.silence)
        if is_screen:
            click.clear()
        click.echo(said if is_screen else f"{_now():%H:%M:%S}  {said}")

    try:
        for answer in steps(watched, options["scrapes"], silent):
            board.show(answer, _now())
            if is_screen:
                click.clear()
                print_screenful(on_screen(answer.view()))
            else:
                click.echo(f"{_now():%H:%M:%S}  {brief(answer.view())}")
    finally:
        if stop is not None:
            stop()


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def print_screenful(view: View, rows: int | None = None, out: Console | None = None) -> None:
    """Print as much of a view as a terminal has rows for, from its headline on, and how many lines more there are."""
    import shutil

    from computeledger.interfaces.render.terminal import print_view
    from computeledger.interfaces.tables import console

    out = out or console()
    with out.capture() as captured:
        print_view(view, out)
    lines = captured.get().splitlines()
    room = (rows or shutil.get_terminal_size().lines) - 1  # the cursor stands on the last one
    if len(lines) > room:
        rest = len(lines) - room + 1
        lines = [*lines[: room - 1], f"... {rest} lines more: --serve PORT shows all of it on a page"]
    click.echo("\n".join(lines), file=out.file)


def _write_dashboard(path: str) -> None:
    from computeledger.interfaces.watch.dashboard import dashboard_text
    from computeledger.writing import write_bytes

    write_bytes(path, dashboard_text().encode(), "--dashboard")
    click.echo(f"dashboard: {path}", err=True)


def _write_calibration(question: WatchQuestion, options: dict[str, Any]) -> None:
    """Settle the plan with the ledger, and write what the next plan takes; of few requests nothing."""
    from computeledger.actuals.run_ledger import read_ledger
    from computeledger.questions.answers.reconcile import answer_reconcile
    from computeledger.questions.answers.watch.answer import ENOUGH_REQUESTS, ENOUGH_TOKENS, is_enough
    from computeledger.questions.reconcile import ReconcileQuestion
    from computeledger.units import format_count

    if question.plan is None:
        raise InputError("--calibration is of a plan: add --plan PLAN.toml")
    entries = read_ledger(Path(options["ledger"])).entries
    requests = sum(one.sequences or 0.0 for one in entries)
    tokens = sum(one.tokens_by_kind.get("output", 0.0) for one in entries)
    if not is_enough(requests, tokens):
        seen = f"{options['ledger']} has {format_count(requests, 'request')} and {format_count(tokens, 'output token')}"
        needed = f"{ENOUGH_REQUESTS} requests or {ENOUGH_TOKENS:,} output tokens are needed"
        click.echo(f"no calibration: {seen}; {needed}: watch for longer", err=True)
        return
    settled = answer_reconcile(
        ReconcileQuestion(plan=question.plan, actuals=(options["ledger"],), calibration=options["calibration"])
    )
    if "inference" not in settled.calibration.phases:
        click.echo("no calibration: the ledger contradicts physics", err=True)
        return
    settled.write_calibration()
    click.echo(f"calibration: {options['calibration']}", err=True)
