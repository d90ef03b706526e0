"""The commands ``allocate``, ``prices``, ``invert``, ``sheet``, ``route`` and ``think``."""

from __future__ import annotations

from typing import Any

import click

from computeledger.interfaces.asking import asked_by, question_options, report_option, show_answer
from computeledger.interfaces.options import (
    CONTEXT,
    OnceGroup,
    SectionedCommand,
    answer_options,
    help_alone,
    working_option,
)
from computeledger.questions.allocate import AllocateQuestion
from computeledger.questions.invert import InvertQuestion
from computeledger.questions.prices import (
    BillQuestion,
    PriceFloorQuestion,
    PriceHistoryQuestion,
    PriceListQuestion,
    PriceSheetQuestion,
    QualityQuestion,
)
from computeledger.questions.route import RouteQuestion
from computeledger.questions.sheet import SheetQuestion
from computeledger.questions.think import ThinkQuestion


@click.command(cls=SectionedCommand)
@question_options(AllocateQuestion)
@click.option(
    "--laws", is_flag=True, help="List the laws: where each was read, what it was fitted on, whether it is on."
)
@report_option
@answer_options
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


@click.command(cls=SectionedCommand)
@click.argument("sheet", metavar="[SHEET.toml]", required=False)
@question_options(InvertQuestion, leave_out=("sheet",))
@report_option
@working_option
@answer_options
def invert(**options: Any) -> None:
    """What a price sheet reveals about the model behind it, and what it does not.

    Sizes come from prices of open models of known size; intervals are those that left-out models keep.
    """
    from computeledger.questions.answers.prices.invert import answer_invert

    show_answer(answer_invert(asked_by(InvertQuestion, options)), options)


@click.command(cls=SectionedCommand)
@question_options(SheetQuestion)
@report_option
@working_option
@answer_options
def sheet(**options: Any) -> None:
    """What scraps say of a closed model together: parameters, tokens, FLOP and cost, and which clues conflict.

    Every clue has a law fitted on open models. frontier sheet reconciles a published model; invert reads a price
    sheet in full.
    """
    from computeledger.questions.answers.frontier.closed import answer_sheet

    show_answer(answer_sheet(asked_by(SheetQuestion, options)), options)


@click.command(cls=SectionedCommand)
@click.argument("task", metavar="[TASK.toml]", required=False)
@question_options(RouteQuestion, leave_out=("task",))
@report_option
@working_option
@answer_options
def route(**options: Any) -> None:
    """Cost, time and success of a completed task: single models, retries, best-of-k and cascades.

    Failures are correlated: what independence would promise is printed as an upper bound only.
    """
    from computeledger.questions.answers.route import answer_route

    show_answer(answer_route(asked_by(RouteQuestion, options)), options)


@click.command(cls=SectionedCommand)
@question_options(ThinkQuestion)
@report_option
@working_option
@answer_options
def think(**options: Any) -> None:
    """Parameters, thinking tokens and samples that reach a success at least cost per task, or with the least wait.

    Success is published, or by laws of published curves; cost and wait are those of serving on the system.
    """
    from computeledger.questions.answers.think import answer_think

    show_answer(answer_think(asked_by(ThinkQuestion, options)), options)


@click.group(cls=OnceGroup, context_settings=CONTEXT, invoke_without_command=True)
@click.pass_context
def prices(context: click.Context) -> None:
    """Price sheets of tokens: list, show, bill and compare, history, cost floors, and quality against price."""
    help_alone(context)


@prices.command("list")
@click.argument("text", required=False)
@report_option
@answer_options
def list_sheets(**options: Any) -> None:
    """Models of the snapshot whose provider/name holds TEXT."""
    from computeledger.questions.answers.prices.sheets import answer_price_list

    show_answer(answer_price_list(asked_by(PriceListQuestion, options)), options)


@prices.command()
@click.argument("name")
@report_option
@answer_options
def show(**options: Any) -> None:
    """The sheet of provider/name or of a TOML file: every price with its tiers and modes."""
    from computeledger.questions.answers.prices.sheets import answer_price_sheet

    show_answer(answer_price_sheet(asked_by(PriceSheetQuestion, options)), options)


@prices.command()
@click.argument("names", nargs=-1, required=True)
@question_options(BillQuestion, leave_out=("names",))
@report_option
@answer_options
def bill(**options: Any) -> None:
    """What one request costs at one or more sheets, cheapest first."""
    from computeledger.questions.answers.prices.sheets import answer_bill

    show_answer(answer_bill(asked_by(BillQuestion, options)), options)


@prices.command()
@click.argument("name")
@report_option
@answer_options
def history(**options: Any) -> None:
    """Every dated set of prices that the source has for provider/name."""
    from computeledger.questions.answers.prices.sheets import answer_price_history

    show_answer(answer_price_history(asked_by(PriceHistoryQuestion, options)), options)


@prices.command()
@question_options(PriceFloorQuestion)
@report_option
@answer_options
def floor(**options: Any) -> None:
    """Cost of an open model's tokens on given hardware beside its market prices: who sells below cost."""
    from computeledger.questions.answers.prices.sheets import answer_price_floor

    show_answer(answer_price_floor(asked_by(PriceFloorQuestion, options)), options)


@prices.command()
@question_options(QualityQuestion)
@report_option
@answer_options
def quality(**options: Any) -> None:
    """Who is strong for its price, by public evaluations; --at: what a score costs; --size-of: what size is implied."""
    from computeledger.questions.answers.prices.quality import answer_quality

    show_answer(answer_quality(asked_by(QualityQuestion, options)), options)
