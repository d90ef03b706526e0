"""The command ``reconcile``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from computeledger.interfaces.asking import asked_by, question_options, report_option, show_answer
from computeledger.interfaces.options import SectionedCommand, answer_options
from computeledger.questions.reconcile import ReconcileQuestion

#: Megabytes of a file that takes long enough to say that it is being read.
_LARGE_MB = 100


@click.command(cls=SectionedCommand)
@click.argument("plan", metavar="PLAN.toml")
@click.argument("actuals", metavar="ACTUALS...", nargs=-1, required=True)
@question_options(ReconcileQuestion, leave_out=("plan", "actuals"))
@report_option
@answer_options
def reconcile(**options: Any) -> None:
    """Budget against actuals by phase; writes a calibration that the next plan can use.

    ACTUALS are run ledgers and logs, told apart by what is in them: Megatron-LM, Megatron-Bridge, NeMo, MaxText,
    DeepSpeed, torchtitan and verl consoles, verl's JSONL, trainer_state.json of TRL and the Trainer, files of W&B,
    MLflow and TensorBoard, results of vLLM's and SGLang's benchmarks, vLLM's /metrics, and power logs of nvidia-smi and
    DCGM, which go with the workload beside them. Slurm's sacct, pods of Kubernetes and a cloud bill in the FOCUS form
    say what was held and paid. A profile beside a training log, PyTorch's trace or a summary of nsys stats, tells why
    its steps take longer than modelled.
    """
    from computeledger.interfaces.views.reconcile import next_command
    from computeledger.questions.answers.reconcile import answer_reconcile
    from computeledger.units import MEGA, format_si

    question = asked_by(ReconcileQuestion, options)
    for path in map(Path, question.actuals):
        if path.is_file() and path.stat().st_size >= _LARGE_MB * MEGA:
            click.echo(f"reading {path} ({format_si(path.stat().st_size, 'B')})", err=True)
    answer = answer_reconcile(question)
    answer.write_calibration()
    show_answer(answer, options)
    plan, calibration = question.plan, question.calibration
    if options["as_json"] or not answer.calibration.phases or not isinstance(plan, str):
        return
    if any(Path(one).is_absolute() for one in (plan, calibration)):  # a report names no folder of this machine
        click.echo(f"next: {next_command(plan, calibration)}", err=True)
