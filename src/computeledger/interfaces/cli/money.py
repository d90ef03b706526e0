"""The commands ``allocate``, ``prices``, ``invert`` and ``route``."""

from __future__ import annotations

from typing import Any

import click

from computeledger.interfaces.asking import asked_by, question_options, report_option, show_answer
from computeledger.interfaces.options import (
    CONTEXT,
    help_alone,
    json_option,
    parse_tokens,
    print_json,
    quantity_option,
    working_option,
)
from computeledger.questions.allocate import AllocateQuestion
from computeledger.questions.invert import InvertQuestion
from computeledger.questions.route import RouteQuestion

_ratio, _fraction = quantity_option("ratio", ""), quantity_option("fraction", "")
_rate, _flop = quantity_option("tokens_per_s", "tokens/s"), quantity_option("flop", "FLOP")


@click.command()
@question_options(AllocateQuestion)
@click.option(
    "--laws", is_flag=True, help="List the laws: where each was read, what it was fitted on, whether it is on."
)
@report_option
@json_option
def allocate(laws: bool, **options: Any) -> None:
    """Split a budget over size, pretraining, RL and inference by equal marginal returns.

    Without --inference-tokens or --rl-tokens the ledger is as large as pretraining's: a choice, and no law.
    """
    if laws:
        from computeledger.questions.answers.laws import LawsAnswer

        show_answer(LawsAnswer(), options)
        return
    from computeledger.questions.answers.allocate import answer_allocate

    show_answer(answer_allocate(asked_by(AllocateQuestion, options)), options)


@click.command()
@click.argument("sheet", metavar="[SHEET.toml]", required=False)
@question_options(InvertQuestion, leave_out=("sheet",))
@report_option
@working_option
@json_option
def invert(**options: Any) -> None:
    """Say what a price sheet reveals of the model behind it, and what it does not.

    Sizes come from prices of open models of known size; intervals are those that left-out models keep.
    """
    from computeledger.questions.answers.invert import answer_invert

    show_answer(answer_invert(asked_by(InvertQuestion, options)), options)


@click.command()
@click.argument("task", metavar="[TASK.toml]", required=False)
@question_options(RouteQuestion, leave_out=("task",))
@report_option
@working_option
@json_option
def route(**options: Any) -> None:
    """Cost, time and success of a completed task: single models, retries, best-of-k and cascades.

    Failures are correlated: what independence would promise is printed as an upper bound only.
    """
    from computeledger.questions.answers.route import answer_route

    show_answer(answer_route(asked_by(RouteQuestion, options)), options)


@click.group(context_settings=CONTEXT, invoke_without_command=True)
@click.pass_context
def prices(context: click.Context) -> None:
    """Price sheets of tokens: list, show, bill and compare, history, and the cost floor of an open model."""
    help_alone(context)


def _print(document: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(document)
        return
    from computeledger.interfaces.tables_money import print_prices

    print_prices(document)


@prices.command("list")
@click.argument("text", default="")
@json_option
def list_sheets(text: str, as_json: bool) -> None:
    """Models of the snapshot whose provider/name holds TEXT."""
    from computeledger.questions.answers.prices import list_document

    _print(list_document(text), as_json)


@prices.command()
@click.argument("name")
@json_option
def show(name: str, as_json: bool) -> None:
    """The sheet of provider/name or of a TOML file: every price with its tiers and modes."""
    from computeledger.questions.answers.prices import sheet_document, sheet_named

    _print(sheet_document(sheet_named(name)), as_json)


_tokens: dict[str, Any] = {"default": "0", "callback": parse_tokens, "metavar": "N"}


@prices.command()
@click.argument("names", nargs=-1, required=True)
@click.option("--input-tokens", **_tokens, help="New input, as in serve: the prompt without what the cache holds.")
@click.option("--output-tokens", **_tokens, help="The answer.")
@click.option("--cached-tokens", **_tokens, help="Cached prefix, as in serve: the rest of the prompt.")
@click.option(
    "--cache-write-tokens",
    default="0",
    callback=parse_tokens,
    metavar="N",
    help="Of the new input, written to the cache for 5 minutes.",
)
@click.option(
    "--cache-write-1h-tokens",
    default="0",
    callback=parse_tokens,
    metavar="N",
    help="Of the new input, written to it for an hour.",
)
@click.option("--mode", default="standard", show_default=True, help="Or batch, priority: what the sheet has.")
@json_option
def bill(names: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """What one request costs at one or more sheets, cheapest first."""
    from computeledger.questions.answers.prices import bill_document

    _print(bill_document(names, options), as_json)


@prices.command()
@click.argument("name")
@json_option
def history(name: str, as_json: bool) -> None:
    """Every dated set of prices that the source has for provider/name."""
    from computeledger.questions.answers.prices import history_document

    _print(history_document(name), as_json)


@prices.command()
@click.option("--model", required=True, help="Model id, or path to a config.json.")
@click.option("--system", required=True, help="System id, or path to a system TOML.")
@click.option("--price", metavar="$/h", help="GPU-hour; the edition's rent when left out.")
@click.option("--market", metavar="NAME", help="Its name in the table of market prices.")
@json_option
def floor(as_json: bool, **options: Any) -> None:
    """Cost of an open model's tokens on given hardware beside its market prices: who sells below cost."""
    from computeledger.questions.answers.prices import floor_document

    _print(floor_document(options), as_json)
