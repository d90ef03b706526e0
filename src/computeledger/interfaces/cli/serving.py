"""The command ``serve``."""

from __future__ import annotations

from typing import Any

import click

from computeledger.interfaces.asking import asked_by, question_options, report_option, show_answer
from computeledger.interfaces.options import SectionedCommand, answer_options, whole_option, working_option
from computeledger.workloads.questions.serve import ServeQuestion


@click.command(cls=SectionedCommand)
@question_options(ServeQuestion)
@click.option(
    "--from-file",
    metavar="FILE[#NAME]",
    help="Take commands, GPUs and system from a deployment: a compose file, a Kubernetes or KServe manifest, values of "
    "llm-d, or a graph of Dynamo (extra: deployments); #NAME reads one service of several.",
)
@report_option
@working_option
@whole_option
@answer_options
def serve(**options: Any) -> None:
    """Serving: prefill and decode by operation, TTFT, TPOT, throughput, USD/Mtok, memory.

    Without --batch, the Pareto front of speed against throughput over legal layouts and batches; with
    --requests-per-s, how many GPUs that load needs.
    """
    from computeledger.questions.answers.serving.answer import answer_serve

    if options["from_file"] is not None:
        from computeledger.interfaces.deployment_files import with_deployment

        options = with_deployment(options["from_file"], options)
    question = asked_by(ServeQuestion, options)
    answer = answer_serve(question)
    alone = question.emit and not (options["working"] or question.kv_tiers or options["html"] or options["as_json"])
    if alone:
        click.echo(answer.to_dict()["launch"]["text"])
        return
    show_answer(answer, options)
