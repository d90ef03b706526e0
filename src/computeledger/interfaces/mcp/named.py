"""Which question each tool asks, and which tool stands for a command."""

from __future__ import annotations

from importlib import import_module

from computeledger.fields import Field, Record, fields_of

#: Where the question of each tool is declared; ``computeledger.NAME`` answers it.
QUESTIONS = {
    "accuracy": "questions.accuracy:AccuracyQuestion",
    "allocate": "questions.allocate:AllocateQuestion",
    "backtest": "questions.frontier:BacktestQuestion",
    "bill": "questions.prices:BillQuestion",
    "calibrate": "questions.calibrate:CalibrateQuestion",
    "claims": "questions.claims:ClaimsQuestion",
    "compare": "questions.compare:CompareQuestion",
    "cost": "questions.cost:CostQuestion",
    "fit": "questions.fit:FitQuestion",
    "flop_sheet": "questions.frontier:FlopSheetQuestion",
    "forecast": "questions.frontier:ForecastQuestion",
    "growth": "questions.frontier:GrowthQuestion",
    "invert": "questions.invert:InvertQuestion",
    "labs": "questions.frontier:LabsQuestion",
    "memory": "questions.memory:MemoryQuestion",
    "plan": "questions.plan:PlanQuestion",
    "pretrain": "workloads.questions.pretrain:PretrainQuestion",
    "price_floor": "questions.prices:PriceFloorQuestion",
    "price_history": "questions.prices:PriceHistoryQuestion",
    "price_quality": "questions.prices:QualityQuestion",
    "reconcile": "questions.reconcile:ReconcileQuestion",
    "rl": "workloads.questions.rl:RLQuestion",
    "rl_returns": "questions.rl_returns:RLReturnsQuestion",
    "route": "questions.route:RouteQuestion",
    "schedule": "questions.frontier:ScheduleQuestion",
    "serve": "workloads.questions.serve:ServeQuestion",
    "sheet": "questions.sheet:SheetQuestion",
    "simulate_rl": "questions.simulate:SimulateRLQuestion",
    "simulate_serve": "questions.simulate:SimulateServeQuestion",
    "sites": "questions.frontier:SitesQuestion",
    "spread": "questions.frontier:SpreadQuestion",
    "sweep": "questions.sweep:SweepQuestion",
    "systems": "questions.frontier:SystemsQuestion",
    "think": "questions.think:ThinkQuestion",
    "training_runs": "questions.frontier:RunsQuestion",
    "validate": "questions.validate:ValidateQuestion",
}
#: Fields that write files or start other processes: no tool has them.
LEFT_OUT = frozenset({"cluster", "csv", "parquet", "workers", "write"})
_ALSO_LEFT_OUT = {"reconcile": {"calibration"}}
#: Commands whose tool has another name.
_TOOL_OF = {
    "frontier sheet": "flop_sheet", "frontier runs": "training_runs", "prices quality": "price_quality",
    "prices floor": "price_floor", "prices history": "price_history", "prices bill": "bill",
    "facts search": "search_facts", "facts show": "search_facts", "facts model": "search_facts",
    "rl --published": "rl_returns",
}  # fmt: skip


def question_of(name: str) -> type[Record]:
    """The question of a tool.

    Examples
    --------
    >>> fields_of(question_of("serve"))["tpot"].dimension
    's'
    """
    module, _, record = QUESTIONS[name].partition(":")
    found: type[Record] = getattr(import_module(f"computeledger.{module}"), record)
    return found


def asked_fields(name: str) -> dict[str, Field]:
    """Fields of a tool's question, those left out that write files or start processes.

    Examples
    --------
    >>> "csv" in asked_fields("compare"), "offers" in asked_fields("compare")
    (False, True)
    """
    left_out = LEFT_OUT | _ALSO_LEFT_OUT.get(name, set())
    return {key: one for key, one in fields_of(question_of(name)).items() if key not in left_out}


def tool_of(command: str) -> str:
    """The tool that answers what a command does; empty where none does.

    Examples
    --------
    >>> [tool_of(f"computeledger {one}") for one in ("frontier systems '1 MW'", "rl --published", "claims C1", "web")]
    ['systems', 'rl_returns', 'claims', '']
    """
    words = command.split()[1:3] if command.startswith("computeledger ") else []
    name = _TOOL_OF.get(" ".join(words), "")
    return name or next((one for one in ("_".join(words), *words[::-1]) if one in QUESTIONS), "")
