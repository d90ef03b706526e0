"""The commands ``validate`` and ``claims``."""

from __future__ import annotations

from typing import Any

import click

from computeledger.interfaces.asking import asked_by, question_options, report_option, show_answer
from computeledger.interfaces.cli_options import COUNT, at_least_one, json_option, print_json, seed_option
from computeledger.questions.claims import ClaimsQuestion
from computeledger.writing import write_file

#: Rows shown where the option is left out: in the terminal, and on a page.
WORST_PRINTED, WORST_ON_PAGE = 5, 12


@click.command()
@click.option("--data", "data_file", metavar="F.csv", help="Measurements; the shipped ones when left out.")
@click.option("--prices", is_flag=True, help="Size from price on models of known size, each left out in turn.")
@click.option("--by", default="", metavar="COLS", help="Columns to slice by, such as backend,system.")
@click.option("--worst", type=click.IntRange(min=0), metavar="N", help="Farthest rows with their breakdown.")
@click.option("--html", "html_file", metavar="FILE", help="Write plots and tables as one self-contained HTML file.")
@click.option(
    "--samples",
    default=512,
    type=COUNT,
    show_default=True,
    callback=at_least_one,
    help="Samples of uncertain inputs.",
)
@seed_option
@json_option
def validate(
    data_file: str | None, prices: bool, by: str, worst: int | None, html_file: str | None, samples: int, seed: int,
    as_json: bool,
) -> None:  # fmt: skip
    """Predicted against measured: errors, bias and interval coverage, over all rows and by slice.

    A table is told by its columns: serving points (InferenceX columns), published serving figures or training runs.
    Rows that lack what a prediction needs are counted by reason; groups in doubt are counted and reported apart.
    """
    if prices:
        from computeledger.interfaces.tables_money import print_price_check
        from computeledger.questions.answers.validate import answer_validate_prices

        found = answer_validate_prices(data_file)
        (print_json if as_json else print_price_check)(found)
        return
    from computeledger.questions.answers.validate import columns_of, compare_measured
    from computeledger.questions.documents.validation import anchor_lines, validation_document

    comparison, columns = compare_measured(data_file, samples, seed), columns_of(by)
    shown = WORST_PRINTED if worst is None and not as_json else worst or 0
    document = validation_document(comparison, columns, shown)
    if html_file is not None:
        from computeledger.interfaces.report_validation import validation_report

        most = WORST_ON_PAGE if worst is None else worst
        write_file(html_file, validation_report(comparison, columns, most, data_file), data_file)
    if as_json:
        print_json(document)
        return
    from computeledger.interfaces.tables_validation import print_validation

    where = data_file or "the shipped measurements"
    title = f"Predicted against measured: {len(comparison.rows)} rows of {where}"
    print_validation(document, title)
    for line in anchor_lines(document):
        click.echo(line)
    if html_file is not None:
        click.echo(f"report: {html_file}")


@click.command()
@click.argument("ids", metavar="[ID]...", nargs=-1)
@question_options(ClaimsQuestion, leave_out=("ids",))
@report_option
@json_option
def claims(**options: Any) -> None:
    """Every quantitative claim of the source documents, recomputed: holds, holds if, or does not hold, and why."""
    from computeledger.questions.answers.claims import answer_claims

    show_answer(answer_claims(asked_by(ClaimsQuestion, options)), options)
