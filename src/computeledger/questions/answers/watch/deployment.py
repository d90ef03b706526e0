"""What was deployed, as a question of ``serve``: by a plan, a launch command or options."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from computeledger.actuals.live.names import EngineMetrics
from computeledger.economics.plan.read import Plan, load_plan, question_of
from computeledger.errors import InputError
from computeledger.fields import Record, fields_of, question_from
from computeledger.questions.watch import DEPLOYED, WatchQuestion
from computeledger.workloads.engines import engines
from computeledger.workloads.questions.serve import ONE_POOL, ServeQuestion
from computeledger.workloads.serving.reading import median_lengths


@dataclass(frozen=True, slots=True)
class Deployment:
    """A server as it was planned: the question that predicts it, and the lengths of requests where these are stated."""

    question: ServeQuestion
    input_tokens: float | None = None
    output_tokens: float | None = None
    plan: Plan | None = None


def deployment_of(asked: WatchQuestion, engine: EngineMetrics | None) -> Deployment | None:
    """Read what was deployed; None where nothing says so.

    Examples
    --------
    >>> from computeledger.actuals.live.names import engine_metrics
    >>> asked = WatchQuestion(urls=("http://h:1",), model="llama-3.1-8b", system="h100-nvl8", layout="tp1")
    >>> deployment_of(asked, engine_metrics()["sglang"]).question.engine
    'sglang'
    """
    given = {name: getattr(asked, name) for name in (*DEPLOYED, "from_command") if hasattr(asked, name)}
    given = {name: value for name, value in given.items() if value not in (None, ())}
    plan = _plan(asked)
    known = plan is not None or asked.model is not None or asked.from_command is not None
    if not known:
        return None
    if plan is not None:
        planned = _planned(plan)
        lengths = {name: float(value) for name, value in median_lengths(planned).items()}
        question = question_from(ServeQuestion, {**_kept(planned), **given}, lambda one: one.option)
        return Deployment(question, lengths["input_tokens"], lengths["output_tokens"], plan)
    says_engine = "backend" in given or "profile" in given or "from_command" in given
    if engine is not None and not says_engine and engine.id in engines():
        given["backend"] = engine.id
    return Deployment(question_from(ServeQuestion, given, lambda one: one.option))


def _plan(asked: WatchQuestion) -> Plan | None:
    return load_plan(asked.plan) if isinstance(asked.plan, str) else asked.plan


def _planned(plan: Plan) -> ServeQuestion:
    section = plan.sections.get("inference")
    if section is None or "skip" in section:
        raise InputError(f"{plan.name}: has no [inference] that could be watched")
    stream = section.traffic[0] if section.traffic else None
    found: Record = question_of(plan, section, stream)
    if not isinstance(found, ServeQuestion):
        raise InputError(f"{plan.name}: [inference] asks no question about serving")
    if found.modes != (ONE_POOL,):
        raise InputError(f"{plan.name}: [inference] has prefill and decode apart: a server of one pool is watched")
    return found


def _kept(planned: ServeQuestion) -> dict[str, Any]:
    """Fields of a planned question that stay, whatever the load: those that differ from their defaults."""
    known = fields_of(ServeQuestion)
    values = {name: getattr(planned, name) for name in DEPLOYED}
    return {name: value for name, value in values.items() if value != known[name].default}
