"""The commands under ``books``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from computeledger.interfaces.asking import asked_by, question_options, report_option, show_answer
from computeledger.interfaces.options import CONTEXT, OnceGroup, answer_options, help_alone, json_option, print_json
from computeledger.questions.books import AddQuestion, BooksQuestion, EntryQuestion, ExportQuestion


@click.group(cls=OnceGroup, context_settings=CONTEXT, invoke_without_command=True)
@click.pass_context
def books(context: click.Context) -> None:
    """The books: an embedded store of plans and runs over time."""
    help_alone(context)


@books.command("add")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@question_options(AddQuestion, leave_out=("files",))
@json_option
def books_add(**options: Any) -> None:
    """Write down plans (TOML, or plan --json), runs' ledgers and reconciliations; all files or none."""
    from computeledger.questions.answer import schema_name
    from computeledger.stores.books.files import read_record
    from computeledger.stores.books.store import add_records

    question = asked_by(AddQuestion, options)
    records = [read_record(Path(path), question.price, question.name, question.note) for path in question.files]
    numbers = add_records(Path(question.book), records)
    if options["as_json"]:
        print_json({"schema": schema_name("books-add"), "book": question.book, "added": numbers})
        return
    for number, record in zip(numbers, records, strict=True):
        click.echo(f"{question.book}: entry {number}, {record.kind} {record.name}")


@books.command("list")
@question_options(BooksQuestion)
@report_option
@answer_options
def books_list(**options: Any) -> None:
    """Entries, and what they cost and reached by month."""
    from computeledger.stores.books.store import list_books

    question = asked_by(BooksQuestion, options)
    show_answer(list_books(Path(question.book), question.kind, question.name), options)


@books.command("show")
@click.argument("number")
@question_options(EntryQuestion, leave_out=("number",))
@report_option
@answer_options
def books_show(**options: Any) -> None:
    """One entry with its phases; --json has the whole document that was written down."""
    from computeledger.stores.books.store import read_entry

    question = asked_by(EntryQuestion, options)
    show_answer(read_entry(Path(question.book), question.number), options)


@books.command("export")
@click.argument("target", metavar="FILE.csv|FILE.parquet")
@question_options(ExportQuestion, leave_out=("target",))
@json_option
def books_export(**options: Any) -> None:
    """Write the entries or their phases as CSV or Parquet."""
    from computeledger.questions.answer import schema_name
    from computeledger.stores.books.store import export_table

    question = asked_by(ExportQuestion, options)
    rows = export_table(Path(question.book), Path(question.target), question.table)
    if options["as_json"]:
        named = {"schema": schema_name("books-export"), "file": question.target, "table": question.table}
        print_json({**named, "rows": rows})
        return
    click.echo(f"{question.target}: {rows} rows of {question.table}")
