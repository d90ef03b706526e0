"""Results in a notebook: a small, quiet table with intervals, nothing in it runs, and no sample is printed."""

from __future__ import annotations

import doctest
import html
import importlib
import inspect
import pkgutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import computeledger as cl
from computeledger.display import Displayed
from computeledger.economics.prices.inversion import PriceClues, invert_prices
from computeledger.economics.routing.model import Fallback, RouteModel, RouteTask, evaluate_policies
from computeledger.economics.scaling.allocation import allocate
from computeledger.frontier.forecast import backtest, run_series, when_reached
from computeledger.frontier.growth import Growth
from computeledger.frontier.systems import described_system
from computeledger.interfaces import notebook, views
from computeledger.questions import answers
from computeledger.simulation.rl import simulate_rl
from computeledger.simulation.serving import simulate_serving
from computeledger.workloads.rl.estimate import estimate_rl
from computeledger.workloads.serving.pools import estimate_disaggregated
from tests.axe import EVERY, issues
from tests.interfaces.test_report import HOSTILE, Page

#: A cell of a notebook is mailed and committed with its output.
LARGEST = 20_000


def hostile_ledger() -> cl.Ledger:
    plan = cl.read_plan({
        "title": HOSTILE + "long " * 10_000, "model": "llama-3.1-8b", "system": "h100-nvl8", "price": "$2..$3/h",
        "pretraining": {"tokens": "15T tokens", "utilization": "30%..40%"}, "rl": {"skip": HOSTILE},
        "inference": {"skip": "none"},
    })  # fmt: skip
    return cl.estimate_ledger(plan, n_samples=64)


def million() -> Any:
    found = when_reached(run_series(), 1e28, n_samples=64)
    return replace(found, years=np.linspace(2027, 2030, 1_000_000), growth_ratio=np.linspace(3, 5, 1_000_000))


def trained() -> Any:
    scenario = cl.PretrainingScenario(
        cl.load_model("llama-3.1-8b"), cl.parse_layout("dp8"), cl.parse_precision("bf16"), cl.Batch(8192.0, 128.0),
        tokens=cl.sample({"tokens": cl.Range(1e12, 2e12)}, 32)["tokens"],
    )  # fmt: skip
    return cl.estimate_pretraining(scenario, cl.Machine(cl.load_system("h100-nvl8")))


def served() -> Any:
    scenario = cl.ServingScenario(
        cl.load_model("llama-3.1-8b"), cl.parse_layout("tp1"), cl.parse_precision("bf16"), 1024.0, 256.0,
        np.array([1.0, 8.0, 64.0]), usd_per_gpu_hour=2.0,
    )  # fmt: skip
    return cl.estimate_serving(scenario, cl.Machine(cl.load_system("h100-nvl8")))


def routed() -> Any:
    models = (RouteModel("small", 0.6, 0.01, 2.0), RouteModel("large", 0.8, 0.1, 5.0))
    return evaluate_policies(RouteTask(models, fallback=Fallback(20.0, 3600.0)))


def example(function: Callable[..., Any]) -> Any:
    """The result in the example of a function's own docstring."""
    (test,) = doctest.DocTestFinder(recurse=False).find(function, globs={**vars(inspect.getmodule(function))})
    exec("\n".join(one.source for one in test.examples), test.globs)
    return next(one for one in test.globs.values() if isinstance(one, Displayed))


RESULTS = {
    "Ledger": (hostile_ledger, "Pretraining"), "Reached": (million, "2028-07-01"), "ServingResult": (served, "/Mtok"),
    "PretrainingResult": (trained, "MFU"), "Outcome": (routed, "model 2"), "Backtest": (backtest, "quarters"),
    "Inversion": (lambda: invert_prices(PriceClues(2.0, 12.0), n_samples=2_000), "active parameters"),
    "TrainingSystem": (lambda: described_system("400 MW facility of gb200-gpu", 64, 0), "400"),
    "Allocation": (lambda: example(allocate), "active parameters"), "RLResult": (lambda: example(estimate_rl), "beta"),
    "DisaggregatedResult": (lambda: example(estimate_disaggregated), "in flight"),
    "ServingClockResult": (lambda: example(simulate_serving), "end to end"),
    "RLClockResult": (lambda: example(simulate_rl), "per RL step"),
    "Growth": (lambda: Growth("runs", 4.5, 4.2, 4.9, 30, "2018-01-01", "2026-01-01", 0.3), "4.2"),
}  # fmt: skip


@pytest.mark.parametrize("name", RESULTS)
def test_a_result_is_a_small_table(name: str) -> None:
    make, part = RESULTS[name]
    result = make()
    shown = result._repr_mimebundle_(include=None, exclude=None)
    page = Page(shown["text/html"])
    tags = {tag for tag, _ in page.elements}
    assert shown["text/html"] == result._repr_html_()
    assert len(shown["text/html"]) < LARGEST and len(shown["text/plain"]) < LARGEST
    assert tags <= {"div", "style", "p", "b", "table", "thead", "tbody", "tr", "th", "td", "br", "small"}
    allowed = {"class", "scope", "tabindex", "role", "aria-label"}
    assert {name for _, attributes in page.elements for name in attributes} <= allowed
    assert part in html.unescape(shown["text/html"]) and part in shown["text/plain"]
    assert {attributes["scope"] for tag, attributes in page.elements if tag == "th"} <= {"row", "col"}
    assert isinstance(result, Displayed) and type(result).__name__ == name


def test_the_table_says_what_the_document_says(repository: Path) -> None:
    ledger = cl.estimate_ledger(cl.load_plan(repository / "examples" / "deepseek-v3.toml"), n_samples=64)
    text = html.unescape(str(ledger._repr_html_()))
    hours = cl.plan_document(ledger)["phases"]["inference"]["gpu_hours"]
    assert f"{hours['p50'] / 1e6:.3g}M<br><small>{hours['p05'] / 1e6:.3g}M – {hours['p95'] / 1e6:.3g}M</small>" in text
    assert "64 samples" in text


def known_kinds() -> set[str]:
    importlib.import_module("computeledger.interfaces.book_store")
    for module in pkgutil.iter_modules(answers.__path__, f"{answers.__name__}."):
        importlib.import_module(module.name)
    found, waiting = set(), [Displayed]
    while waiting:
        for one in waiting.pop().__subclasses__():
            waiting.append(one)
            if one.__module__.startswith("computeledger."):
                found.add(one.__name__)
    return found


def test_every_kind_of_result_has_its_table() -> None:
    assert known_kinds() - {"Answer", "ServingAnswer"} == set(notebook._SHEETS) | set(views._MODULES)
    assert set(notebook._SHEETS) == set(RESULTS)


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_in_either_scheme(scheme: str, browser: Any) -> None:
    context = browser.new_context(color_scheme=scheme, viewport={"width": 390, "height": 844})
    page = context.new_page()
    page.set_content(
        "<!doctype html><html lang=en><meta name=color-scheme content='light dark'><title>cell</title><main>"
        f"<h1>cell</h1>{hostile_ledger()._repr_html_()}{served()._repr_html_()}"
    )
    found = issues(page, ("wcag2a", "wcag2aa", "wcag22aa"), EVERY)
    context.close()
    assert found == []
