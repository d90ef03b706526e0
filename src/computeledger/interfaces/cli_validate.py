"""The commands ``validate`` and ``claims``."""

from __future__ import annotations

import click

from computeledger.interfaces.cli_options import json_option, print_json, samples_option, seed_option, write_file


@click.command()
@click.option(
    "--data",
    "data_file",
    required=True,
    metavar="F.csv",
    help="Measured serving points (InferenceX columns) or training runs.",
)
@click.option("--by", default="", metavar="COLS", help="Columns to slice by, such as backend,system.")
@samples_option
@seed_option
@json_option
def validate(data_file: str, by: str, samples: int, seed: int, as_json: bool) -> None:
    """Predicted against measured: errors, bias and interval coverage, over all rows and by slice."""
    from computeledger.interfaces.answers_validate import answer_validate

    document = answer_validate(data_file, by, samples, seed)
    if as_json:
        print_json(document)
        return
    from computeledger.interfaces.tables import print_validation

    print_validation(document)


@click.command()
@click.argument("ids", metavar="[ID]...", nargs=-1)
@click.option("--verdict", metavar="V", help="Only these: holds, holds_if, fails, input or not_checkable.")
@click.option("--html", "html_file", metavar="FILE", help="Write the claims as one self-contained HTML file.")
@json_option
def claims(ids: tuple[str, ...], verdict: str | None, html_file: str | None, as_json: bool) -> None:
    """Every quantitative claim of the source documents, recomputed: holds, holds if, or does not hold, and why."""
    from computeledger.interfaces.documents_claims import claims_document
    from computeledger.validation.claims import check_claims

    document = claims_document(check_claims(ids, verdict))
    if html_file is not None:
        from computeledger.interfaces.report_claims import claims_report

        write_file(html_file, claims_report(document))
    if as_json:
        print_json(document)
        return
    from computeledger.interfaces.tables_claims import print_claims

    print_claims(document)
    if html_file is not None:
        click.echo(f"report: {html_file}")
