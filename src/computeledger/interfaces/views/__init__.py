"""Views of answers: one function for each kind, found by the name of the answer's class."""

from __future__ import annotations

import dataclasses
import importlib

from computeledger.errors import ComputeLedgerError
from computeledger.interfaces.view import View
from computeledger.interfaces.views.display_names import view_in_names
from computeledger.interfaces.views.evidence import unmeasured
from computeledger.interfaces.views.unit_names import named_after
from computeledger.interfaces.working import named_as_tiles
from computeledger.questions.answer import Answer

#: Module of this folder that makes the view of each kind of answer.
_MODULES = {
    "AccuracyAnswer": "accuracy",
    "AllocateAnswer": "allocate",
    "BacktestAnswer": "frontier",
    "ClaimsAnswer": "claims",
    "BillAnswer": "prices",
    "BooksAnswer": "books",
    "CalibrateAnswer": "calibrate",
    "ClaimAnswer": "frontier",
    "ClosedModelAnswer": "closed_model",
    "CompareAnswer": "compare",
    "CostAnswer": "cost",
    "FitAnswer": "fit",
    "CoverageAnswer": "rl_returns",
    "DiffAnswer": "facts",
    "EntryAnswer": "books",
    "FactsAnswer": "facts",
    "FreshnessAnswer": "freshness",
    "FlopSheetAnswer": "frontier_runs",
    "ForecastAnswer": "frontier",
    "GrowthAnswer": "frontier",
    "GuideAnswer": "guide",
    "InvertAnswer": "invert",
    "LabAnswer": "frontier",
    "LabsAnswer": "frontier_runs",
    "LawsAnswer": "allocate",
    "MemoryAnswer": "memory",
    "ModelAnswer": "facts",
    "PlanAnswer": "plan",
    "PoolsAnswer": "serve",
    "PretrainAnswer": "pretrain",
    "PriceFloorAnswer": "prices",
    "PriceHistoryAnswer": "prices",
    "PriceListAnswer": "prices",
    "PriceSheetAnswer": "prices",
    "PublishedAnswer": "rl_returns",
    "QualityAnswer": "quality",
    "QualityPriceAnswer": "quality",
    "QualitySizeAnswer": "quality",
    "RLAnswer": "rl",
    "ContributeAnswer": "contribute",
    "ReconcileAnswer": "reconcile",
    "RewardAnswer": "rl_returns",
    "RouteAnswer": "route",
    "RouteCheckAnswer": "route",
    "RunsAnswer": "frontier_runs",
    "ScheduleAnswer": "frontier_runs",
    "SearchAnswer": "facts",
    "ChipsAnswer": "facts",
    "ServeAnswer": "serve",
    "SimulateRLAnswer": "simulate",
    "SimulateServeAnswer": "simulate",
    "SitesAnswer": "frontier",
    "SourceAnswer": "facts",
    "SpreadAnswer": "frontier_runs",
    "SweepAnswer": "sweep",
    "SystemsAnswer": "frontier",
    "ThinkAnswer": "think",
    "PriceCheckAnswer": "validate",
    "ValidateAnswer": "validate",
    "WatchAnswer": "watch",
}


def view_of(answer: object, working: bool = False) -> View:
    """The view of an answer, with formulas, inputs and sources where they are wanted."""
    name = _MODULES.get(type(answer).__name__)
    if name is None:
        raise ComputeLedgerError(f"{type(answer).__name__}: an answer without a view")
    view: View = importlib.import_module(f"{__name__}.{name}").view(answer, working)
    view = view_in_names(view)
    if view.working:
        view = dataclasses.replace(view, working=named_as_tiles(view.working, view.tiles))
    if view.evidence is None:
        view = dataclasses.replace(view, evidence=unmeasured(type(answer).__name__))
    if not isinstance(answer, Answer):
        return view
    remarks = answer.remarks
    unsaid = tuple(one for one in remarks if one not in (*view.notes, *view.grounds))
    view = dataclasses.replace(view, notes=(*view.notes, *unsaid)) if unsaid else view
    return named_after(view, answer.unit_name, remarks)


def has_view(result: object) -> bool:
    """Whether a result is an answer with a view."""
    return type(result).__name__ in _MODULES
