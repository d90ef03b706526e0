"""Results in a notebook: a small, quiet table with intervals, nothing in it runs, and no sample is printed."""

from __future__ import annotations

import doctest
import html
import importlib
import inspect
import pkgutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import computeledger as cl
from computeledger.display import Displayed
from computeledger.interfaces import notebook, views
from computeledger.questions import answers
from computeledger.simulation.rl.clock import simulate_rl
from computeledger.simulation.serving.clock import simulate_serving
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


def example(function: Callable[..., Any]) -> Any:
    """The result in the example of a function's own docstring."""
    (test,) = doctest.DocTestFinder(recurse=False).find(function, globs={**vars(inspect.getmodule(function))})
    exec("\n".join(one.source for one in test.examples), test.globs)
    return next(one for one in test.globs.values() if isinstance(one, Displayed))


RESULTS = {
    "Ledger": (hostile_ledger, "Pretraining"), "ServingResult": (served, "/Mtok"),
    "PretrainingResult": (trained, "MFU"), "RLResult": (lambda: example(estimate_rl), "beta"),
    "DisaggregatedResult": (lambda: example(estimate_disaggregated), "in flight"),
    "ServingClockResult": (lambda: example(simulate_serving), "end to end"),
    "RLClockResult": (lambda: example(simulate_rl), "per RL step"),
}  # fmt: skip
#: Answers show the tiles of their views.
ANSWERS = {
    "InvertAnswer": (lambda: cl.invert(input=2, output=12, samples=2_000), "active parameters"),
    "AllocateAnswer": (lambda: cl.allocate(budget="3M GPU-hours", inference_tokens="100T", samples=64), "Loss"),
    "RouteAnswer": (lambda: cl.route("examples/money/route-support.toml"), " each"),
    "BacktestAnswer": (cl.backtest, "90 % interval"),
    "ScheduleAnswer": (lambda: cl.schedule(start="2025-01-15"), "2025-08-16"),
}


@pytest.mark.parametrize("name", [*RESULTS, *ANSWERS])
def test_a_result_is_a_small_table(name: str) -> None:
    make, part = {**RESULTS, **ANSWERS}[name]
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
    assert f"{hours['p50'] / 1e6:.2g}M<br><small>{hours['p05'] / 1e6:.2g}M – {hours['p95'] / 1e6:.2g}M</small>" in text
    assert "64 samples" in text


def known_kinds() -> set[str]:
    importlib.import_module("computeledger.stores.books.store")
    for module in pkgutil.walk_packages(answers.__path__, f"{answers.__name__}."):
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
