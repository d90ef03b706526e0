"""The commands ``facts``, ``guide``, ``cost`` and ``cite``."""

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
    json_option,
    print_json,
    whole_option,
    working_option,
)
from computeledger.questions.cost import CostQuestion
from computeledger.questions.facts import FreshnessQuestion, ModelQuestion


@click.group(cls=OnceGroup, context_settings=CONTEXT, invoke_without_command=True)
@click.pass_context
def facts(context: click.Context) -> None:
    """Look facts up, with source, date and locator."""
    help_alone(context)


@facts.command("model")
@click.argument("model", metavar="PATH_OR_ID")
@question_options(ModelQuestion, leave_out=("model",))
@answer_options
def facts_model(**options: Any) -> None:
    """A model's parameters, cache and shape, read from its configuration."""
    from computeledger.questions.answers.facts import answer_model

    show_answer(answer_model(asked_by(ModelQuestion, options)), options)


@facts.command("show")
@click.argument("fact_id", metavar="ID")
@answer_options
def facts_show(fact_id: str, **options: Any) -> None:
    """An accelerator, a system, a model, an edition or a source, every figure with its source."""
    from computeledger.questions.answers.facts import show_facts

    show_answer(show_facts(fact_id), options)


@facts.command("list")
@click.argument("query", nargs=-1, metavar="[WORDS]...")
@answer_options
def facts_list(query: tuple[str, ...], **options: Any) -> None:
    """Accelerators with memory, peak, power and node; words of a maker, family or name narrow it."""
    from computeledger.questions.answers.facts import list_chips

    show_answer(list_chips(" ".join(query)), options)


@facts.command("search")
@click.argument("query", nargs=-1, metavar="[WORDS]...")
@answer_options
def facts_search(query: tuple[str, ...], **options: Any) -> None:
    """Facts that every word is about: their value, range, source and date; then those that mention it.

    A kind, such as `sites`, finds its records; without words, what is known.
    """
    from computeledger.questions.answers.facts import searched_facts
    from computeledger.questions.answers.facts_search import search_facts

    show_answer(search_facts(" ".join(query)) if query else searched_facts(), options)


@facts.command("diff")
@click.argument("first", metavar="A")
@click.argument("second", metavar="B")
@answer_options
def facts_diff(first: str, second: str, **options: Any) -> None:
    """Facts in which two editions, accelerators, systems or models differ; either may be your own file."""
    from computeledger.questions.answers.facts import diff_facts

    show_answer(diff_facts(first, second), options)


@facts.command("freshness")
@question_options(FreshnessQuestion)
@whole_option
@answer_options
def facts_freshness(**options: Any) -> None:
    """Facts that were stated long ago, by kind and record, and how old the newest editions are."""
    from computeledger.questions.answers.freshness import freshness

    show_answer(freshness(asked_by(FreshnessQuestion, options)), options)


@click.command()
@click.argument("query", nargs=-1, metavar="[WORDS]...")
@answer_options
def guide(query: tuple[str, ...], **options: Any) -> None:
    """What you can ask, in the words of the field, and the command or page that answers it.

    WORDS, or their beginnings, narrow the list: `computeledger guide cached prefix`.
    """
    from computeledger.questions.answers import guide as answers

    show_answer(answers.guide(" ".join(query)), options)


@click.command(cls=SectionedCommand)
@question_options(CostQuestion)
@report_option
@working_option
@answer_options
def cost(**options: Any) -> None:
    """The same GPU-hour rented, reserved and owned: components, sources, energy and carbon.

    What an option does not state comes from the newest price and ownership editions. The cost is that of an hour that
    is used: a reserved or owned GPU is paid for while it stands idle.
    """
    from computeledger.questions.answers.cost import answer_cost

    show_answer(answer_cost(asked_by(CostQuestion, options)), options)


@click.command()
@click.argument("target", metavar="PLAN.toml|KEY", nargs=-1, required=True)
@json_option
def cite(target: tuple[str, ...], as_json: bool) -> None:
    """BibTeX of the sources that a plan's result rests on, or of source keys."""
    from computeledger.questions.answer import schema_name
    from computeledger.questions.answers.facts import cited_sources
    from computeledger.sources import bibtex

    keys = cited_sources(target)
    if as_json:
        print_json({"schema": schema_name("cite"), "keys": list(keys), "bibtex": bibtex(keys)})
        return
    click.echo(bibtex(keys))
