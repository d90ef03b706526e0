"""The commands under ``books``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from computeledger.interfaces.options import CONTEXT, help_alone, json_option, parse_price, print_json

_book = click.option(
    "--book",
    default="books.duckdb",
    show_default=True,
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="The books.",
)


@click.group(context_settings=CONTEXT, invoke_without_command=True)
@click.pass_context
def books(context: click.Context) -> None:
    """The books: an embedded store of plans and runs over time."""
    help_alone(context)


@books.command("add")
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path(path_type=Path))
@_book
@click.option("--name", help="In place of the plan's title or the run's name.")
@click.option("--note", default="", help="What to remember about it.")
@click.option(
    "--price", callback=parse_price, metavar="$/h", help="A GPU-hour of a run; left out, its cost is unknown."
)
@json_option
def books_add(files: tuple[Path, ...], book: Path, as_json: bool, **options: Any) -> None:
    """Write down plans (TOML, or plan --json), runs' ledgers and reconciliations; all files or none."""
    from computeledger.interfaces.answers_books import read_record
    from computeledger.interfaces.book_store import add_records

    records = [read_record(path, options["price"], options["name"], options["note"]) for path in files]
    numbers = add_records(book, records)
    if as_json:
        print_json({"book": str(book), "added": numbers})
        return
    for number, record in zip(numbers, records, strict=True):
        click.echo(f"{book}: entry {number}, {record.kind} {record.name}")


@books.command("list")
@_book
@click.option("--kind", type=click.Choice(["plan", "run", "reconciliation"]), help="Only these.")
@click.option("--name", help="Only entries of this name.")
@json_option
def books_list(book: Path, kind: str | None, name: str | None, as_json: bool) -> None:
    """Entries, and what they cost and reached by month."""
    from computeledger.interfaces.book_store import list_entries, trends

    document = {"book": str(book), "entries": list_entries(book, kind, name), "trends": trends(book)}
    if as_json:
        print_json(document)
        return
    from computeledger.interfaces.tables_books import print_books

    print_books(document)


@books.command("show")
@click.argument("number", type=int)
@_book
@json_option
def books_show(number: int, book: Path, as_json: bool) -> None:
    """One entry with its phases; --json has the whole document that was written down."""
    from computeledger.interfaces.book_store import read_entry

    document = read_entry(book, number)
    if as_json:
        print_json(document)
        return
    from computeledger.interfaces.tables_books import print_entry

    print_entry(document)


@books.command("export")
@click.argument("target", metavar="FILE.csv|FILE.parquet", type=click.Path(path_type=Path))
@_book
@click.option("--table", type=click.Choice(["entries", "phases"]), default="entries", show_default=True, help="Which.")
@json_option
def books_export(target: Path, book: Path, table: str, as_json: bool) -> None:
    """Write the entries or their phases as CSV or Parquet."""
    from computeledger.interfaces.book_store import export_table

    rows = export_table(book, target, table)
    if as_json:
        print_json({"file": str(target), "table": table, "rows": rows})
        return
    click.echo(f"{target}: {rows} rows of {table}")
