"""A generator fitted to the trace of a question, as a file that names it again."""

from __future__ import annotations

from computeledger.errors import InputError
from computeledger.questions.simulate import SimulateServeQuestion
from computeledger.simulation.serving.generator import fit_workload, workload_toml
from computeledger.simulation.serving.workload import read_workload


def fitted_toml(question: SimulateServeQuestion) -> str:
    """Fit a generator to the trace that a question replays."""
    workload = None if question.workload is None else read_workload(question.workload)
    if workload is None or workload.trace is None:
        raise InputError("--write-workload fits a generator to a trace: add --workload FILE, such as trace.csv")
    return workload_toml(fit_workload(workload.trace, workload.name))
