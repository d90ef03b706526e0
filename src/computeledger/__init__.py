"""Compute Ledger: the compute of a language model's life in FLOP and in GPU-time.

``import computeledger as cl``; names are loaded when they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from computeledger.display import display_with

if TYPE_CHECKING:
    from computeledger.actuals.recording.framework_logger import FrameworkLogger
    from computeledger.actuals.recording.run import RunLedger, RunMachine
    from computeledger.actuals.recording.trainer import trainer_callback
    from computeledger.arrays import Range, quantiles, sample
    from computeledger.economics.plan.ledger import Ledger, estimate_ledger
    from computeledger.economics.plan.read import Plan, load_plan, read_plan
    from computeledger.errors import ComputeLedgerError, FactError, InputError
    from computeledger.facts.architecture import Model
    from computeledger.facts.editions import load_ownership, load_prices, load_tiers
    from computeledger.facts.load import load_accelerator, load_model, load_system
    from computeledger.facts.schema import Accelerator, Fact, System
    from computeledger.physics.calibration.efficiency import Efficiency, efficiency
    from computeledger.physics.parallelism import Layout, parse_layout
    from computeledger.physics.roofline import Machine, Precision, parse_precision
    from computeledger.physics.training.batch import Batch
    from computeledger.questions.accuracy import AccuracyQuestion
    from computeledger.questions.allocate import AllocateQuestion
    from computeledger.questions.answers.allocate import allocate
    from computeledger.questions.answers.calibrate import calibrate
    from computeledger.questions.answers.claims import claims
    from computeledger.questions.answers.compare import compare
    from computeledger.questions.answers.cost import cost
    from computeledger.questions.answers.facts import diff_facts
    from computeledger.questions.answers.facts_search import search_facts
    from computeledger.questions.answers.fit import fit
    from computeledger.questions.answers.frontier.closed import sheet
    from computeledger.questions.answers.frontier.forecast import backtest, forecast, growth
    from computeledger.questions.answers.frontier.labs import labs, training_runs
    from computeledger.questions.answers.frontier.runs import flop_sheet, schedule, spread
    from computeledger.questions.answers.frontier.sites import sites
    from computeledger.questions.answers.frontier.systems import systems
    from computeledger.questions.answers.guide import guide
    from computeledger.questions.answers.plan import plan, plan_document
    from computeledger.questions.answers.pretraining.answer import pretrain
    from computeledger.questions.answers.prices.invert import invert
    from computeledger.questions.answers.prices.quality import price_quality
    from computeledger.questions.answers.prices.sheets import bill, price_floor, price_history
    from computeledger.questions.answers.reconcile import reconcile
    from computeledger.questions.answers.rl.answer import rl
    from computeledger.questions.answers.rl.returns import rl_returns
    from computeledger.questions.answers.route import route
    from computeledger.questions.answers.serving.answer import serve
    from computeledger.questions.answers.serving.memory import memory
    from computeledger.questions.answers.serving.sweep import sweep
    from computeledger.questions.answers.simulation.rl import simulate_rl
    from computeledger.questions.answers.simulation.serving import simulate_serve
    from computeledger.questions.answers.think import think
    from computeledger.questions.answers.validate import validate
    from computeledger.questions.calibrate import CalibrateQuestion
    from computeledger.questions.claims import ClaimsQuestion
    from computeledger.questions.compare import CompareQuestion
    from computeledger.questions.cost import CostQuestion
    from computeledger.questions.fit import FitQuestion
    from computeledger.questions.frontier import (
        BacktestQuestion,
        FlopSheetQuestion,
        ForecastQuestion,
        GrowthQuestion,
        LabsQuestion,
        RunsQuestion,
        ScheduleQuestion,
        SitesQuestion,
        SpreadQuestion,
        SystemsQuestion,
    )
    from computeledger.questions.invert import InvertQuestion
    from computeledger.questions.memory import MemoryQuestion
    from computeledger.questions.plan import PlanQuestion
    from computeledger.questions.prices import BillQuestion, PriceFloorQuestion, PriceHistoryQuestion, QualityQuestion
    from computeledger.questions.reconcile import ReconcileQuestion
    from computeledger.questions.rl_returns import RLReturnsQuestion
    from computeledger.questions.route import RouteQuestion
    from computeledger.questions.sheet import SheetQuestion
    from computeledger.questions.simulate import SimulateRLQuestion, SimulateServeQuestion
    from computeledger.questions.sweep import SweepQuestion
    from computeledger.questions.think import ThinkQuestion
    from computeledger.questions.validate import ValidateQuestion
    from computeledger.simulation.engine import Engine, timed_pool
    from computeledger.simulation.serving.clock import ServingClock, simulate_serving
    from computeledger.simulation.serving.traces import read_trace
    from computeledger.sources import bibtex
    from computeledger.workloads.pretraining.estimate import PretrainingScenario, estimate_pretraining
    from computeledger.workloads.questions.pretrain import PretrainQuestion
    from computeledger.workloads.questions.rl import RLQuestion
    from computeledger.workloads.questions.serve import ServeQuestion
    from computeledger.workloads.rl.estimate import estimate_rl
    from computeledger.workloads.rl.scenario import RLScenario
    from computeledger.workloads.serving.estimate import ServingScenario, estimate_serving, ideal_serving

_HOMES = {
    "actuals.recording.framework_logger": ("FrameworkLogger",),
    "actuals.recording.run": ("RunLedger", "RunMachine"),
    "actuals.recording.trainer": ("trainer_callback",),
    "arrays": ("Range", "quantiles", "sample"),
    "economics.plan.ledger": ("Ledger", "estimate_ledger"),
    "economics.plan.read": ("Plan", "load_plan", "read_plan"),
    "errors": ("ComputeLedgerError", "FactError", "InputError"),
    "facts.architecture": ("Model",),
    "facts.editions": ("load_ownership", "load_prices", "load_tiers"),
    "facts.load": ("load_accelerator", "load_model", "load_system"),
    "facts.schema": ("Accelerator", "Fact", "System"),
    "questions.accuracy": ("AccuracyQuestion",),
    "questions.answers.accuracy": ("accuracy",),
    "questions.answers.pretraining.answer": ("pretrain",),
    "questions.answers.reconcile": ("reconcile",),
    "questions.answers.rl.answer": ("rl",),
    "questions.answers.serving.answer": ("serve",),
    "questions.answers.compare": ("compare",),
    "questions.answers.serving.memory": ("memory",),
    "questions.answers.serving.sweep": ("sweep",),
    "questions.answers.validate": ("validate",),
    "questions.reconcile": ("ReconcileQuestion",),
    "workloads.questions.pretrain": ("PretrainQuestion",),
    "workloads.questions.rl": ("RLQuestion",),
    "questions.answers.plan": ("plan", "plan_document"),
    "questions.answers.claims": ("claims",),
    "questions.answers.calibrate": ("calibrate",),
    "questions.answers.cost": ("cost",),
    "questions.answers.prices.invert": ("invert",),
    "questions.answers.prices.quality": ("price_quality",),
    "questions.answers.route": ("route",),
    "questions.answers.think": ("think",),
    "questions.answers.allocate": ("allocate",),
    "questions.answers.fit": ("fit",),
    "questions.answers.facts": ("diff_facts",),
    "questions.answers.facts_search": ("search_facts",),
    "questions.answers.guide": ("guide",),
    "questions.fit": ("FitQuestion",),
    "questions.answers.frontier.forecast": ("backtest", "forecast", "growth"),
    "questions.answers.frontier.labs": ("labs", "training_runs"),
    "questions.answers.frontier.closed": ("sheet",),
    "questions.sheet": ("SheetQuestion",),
    "questions.answers.frontier.sites": ("sites",),
    "questions.answers.frontier.systems": ("systems",),
    "questions.answers.frontier.runs": ("flop_sheet", "schedule", "spread"),
    "questions.answers.rl.returns": ("rl_returns",),
    "questions.rl_returns": ("RLReturnsQuestion",),
    "questions.frontier": (
        "BacktestQuestion",
        "FlopSheetQuestion",
        "ForecastQuestion",
        "GrowthQuestion",
        "LabsQuestion",
        "RunsQuestion",
        "ScheduleQuestion",
        "SitesQuestion",
        "SpreadQuestion",
        "SystemsQuestion",
    ),
    "questions.answers.simulation.rl": ("simulate_rl",),
    "questions.answers.simulation.serving": ("simulate_serve",),
    "questions.answers.prices.sheets": ("bill", "price_floor", "price_history"),
    "questions.plan": ("PlanQuestion",),
    "questions.claims": ("ClaimsQuestion",),
    "questions.calibrate": ("CalibrateQuestion",),
    "questions.prices": ("BillQuestion", "PriceFloorQuestion", "PriceHistoryQuestion", "QualityQuestion"),
    "questions.compare": ("CompareQuestion",),
    "questions.cost": ("CostQuestion",),
    "questions.invert": ("InvertQuestion",),
    "questions.route": ("RouteQuestion",),
    "questions.think": ("ThinkQuestion",),
    "questions.allocate": ("AllocateQuestion",),
    "workloads.questions.serve": ("ServeQuestion",),
    "questions.simulate": ("SimulateRLQuestion", "SimulateServeQuestion"),
    "questions.memory": ("MemoryQuestion",),
    "questions.sweep": ("SweepQuestion",),
    "questions.validate": ("ValidateQuestion",),
    "physics.calibration.efficiency": ("Efficiency", "efficiency"),
    "physics.parallelism": ("Layout", "parse_layout"),
    "physics.roofline": ("Machine", "Precision", "parse_precision"),
    "physics.training.batch": ("Batch",),
    "simulation.serving.clock": ("ServingClock", "simulate_serving"),
    "simulation.engine": ("Engine", "timed_pool"),
    "simulation.serving.traces": ("read_trace",),
    "sources": ("bibtex",),
    "workloads.pretraining.estimate": ("PretrainingScenario", "estimate_pretraining"),
    "workloads.rl.estimate": ("estimate_rl",),
    "workloads.rl.scenario": ("RLScenario",),
    "workloads.serving.estimate": ("ServingScenario", "estimate_serving", "ideal_serving"),
}
_MODULES = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "Accelerator",
    "AccuracyQuestion",
    "AllocateQuestion",
    "BacktestQuestion",
    "Batch",
    "BillQuestion",
    "CalibrateQuestion",
    "ClaimsQuestion",
    "CompareQuestion",
    "ComputeLedgerError",
    "CostQuestion",
    "Efficiency",
    "Engine",
    "Fact",
    "FactError",
    "FitQuestion",
    "FlopSheetQuestion",
    "ForecastQuestion",
    "FrameworkLogger",
    "GrowthQuestion",
    "InputError",
    "InvertQuestion",
    "LabsQuestion",
    "Layout",
    "Ledger",
    "Machine",
    "MemoryQuestion",
    "Model",
    "Plan",
    "PlanQuestion",
    "Precision",
    "PretrainQuestion",
    "PretrainingScenario",
    "PriceFloorQuestion",
    "PriceHistoryQuestion",
    "QualityQuestion",
    "RLQuestion",
    "RLReturnsQuestion",
    "RLScenario",
    "Range",
    "ReconcileQuestion",
    "RouteQuestion",
    "RunLedger",
    "RunMachine",
    "RunsQuestion",
    "ScheduleQuestion",
    "ServeQuestion",
    "ServingClock",
    "ServingScenario",
    "SheetQuestion",
    "SimulateRLQuestion",
    "SimulateServeQuestion",
    "SitesQuestion",
    "SpreadQuestion",
    "SweepQuestion",
    "System",
    "SystemsQuestion",
    "ThinkQuestion",
    "ValidateQuestion",
    "accuracy",
    "allocate",
    "backtest",
    "bibtex",
    "bill",
    "calibrate",
    "claims",
    "compare",
    "cost",
    "diff_facts",
    "efficiency",
    "estimate_ledger",
    "estimate_pretraining",
    "estimate_rl",
    "estimate_serving",
    "fit",
    "flop_sheet",
    "forecast",
    "growth",
    "guide",
    "ideal_serving",
    "invert",
    "labs",
    "load_accelerator",
    "load_model",
    "load_ownership",
    "load_plan",
    "load_prices",
    "load_system",
    "load_tiers",
    "memory",
    "parse_layout",
    "parse_precision",
    "plan",
    "plan_document",
    "pretrain",
    "price_floor",
    "price_history",
    "price_quality",
    "quantiles",
    "read_plan",
    "read_trace",
    "reconcile",
    "rl",
    "rl_returns",
    "route",
    "sample",
    "schedule",
    "search_facts",
    "serve",
    "sheet",
    "simulate_rl",
    "simulate_serve",
    "simulate_serving",
    "sites",
    "spread",
    "sweep",
    "systems",
    "think",
    "timed_pool",
    "trainer_callback",
    "training_runs",
    "validate",
]


def _html(result: object) -> str:
    return str(importlib.import_module("computeledger.interfaces.notebook").notebook_html(result))


def _text(result: object) -> str:
    return str(importlib.import_module("computeledger.interfaces.notebook").notebook_text(result))


def _view(answer: object, working: bool) -> Any:
    return importlib.import_module("computeledger.interfaces.views").view_of(answer, working)


def _page(answer: object) -> str:
    return str(
        importlib.import_module("computeledger.interfaces.render.html").report(
            _view(answer, getattr(answer, "has_working", True))
        )
    )


# results stand below the interfaces and may not import them; the package knows both
display_with(html=_html, text=_text, view=_view, page=_page)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(importlib.import_module(f"computeledger.{_MODULES[name]}"), name)
    if name == "__version__":
        from importlib.metadata import version

        return version("computeledger")
    raise AttributeError(f"module 'computeledger' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
