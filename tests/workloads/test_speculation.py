"""Speculation planned: published acceptance, the length of the draft, what drafting takes, and when it stops paying."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import computeledger as cl
from computeledger.errors import DoesNotFitError, InputError
from computeledger.facts.load import load_model, load_system
from computeledger.facts.speculation import draft_vocabulary, load_acceptance
from computeledger.interfaces.cli import main
from computeledger.physics.calibration.efficiency import IDEAL, efficiency
from computeledger.physics.parallelism import Layout, parse_layout
from computeledger.physics.roofline import Machine, Precision
from computeledger.physics.serving.acceptance import fitted_curve, published_acceptance
from computeledger.physics.serving.drafting import MOST_DRAFTS, Acceptance, acceptance_of, drafting_head
from computeledger.workloads.serving.estimate import ServingScenario, estimate_serving
from computeledger.workloads.serving.scenario import Speculation
from computeledger.workloads.serving.search import search_serving
from computeledger.workloads.serving.speculation import batches_that_fit, drafts_by_load, undrafted
from tests.commands import call

MACHINE = Machine(load_system("h100-nvl8"), efficiency("vllm"))
ASKED: dict[str, Any] = {"model": "llama-3.1-8b", "system": "h100-nvl8", "layout": "tp1", "samples": 64}

CURVED = {"mtp", "eagle", "eagle3", "ngram", "draft"}


def scenario(method: str, model: str = "llama-3.1-8b", batch: float = 8.0) -> ServingScenario:
    """A model with what drafts beside it, the length still open."""
    one = load_model(model)
    drafter = drafting_head(one, draft_vocabulary()) if method == "eagle3" else None
    chances = published_acceptance(method, one.id).at_median
    with_drafter = replace(one, drafter=drafter)
    guess = Speculation(method, chances, is_open=True)
    return ServingScenario(with_drafter, Layout(), Precision(), 512.0, 512.0, batch, 0.0, 2.0, speculation=guess)


def test_a_sure_drafter_yields_every_draft_and_one_that_fails_none() -> None:
    drafts = np.arange(MOST_DRAFTS + 1.0)
    assert np.array_equal(Acceptance(1.0).tokens_of_step(drafts), drafts + 1)
    assert np.array_equal(Acceptance(0.0).tokens_of_step(drafts), np.ones(len(drafts)))
    some = np.asarray(Acceptance(0.7, 0.95).tokens_of_step(drafts))
    assert (np.diff(some) > 0).all()
    assert (np.diff(some, 2) < 0).all()


@pytest.mark.parametrize("chance", [0.1, 0.5, 0.83])
def test_tokens_of_a_step_follow_the_geometric_sum_and_back(chance: float) -> None:
    for drafts in (1, 3, 7):
        tokens = float(Acceptance(chance).tokens_of_step(drafts))
        assert tokens == pytest.approx((1 - chance ** (drafts + 1)) / (1 - chance))
        assert float(acceptance_of(tokens, drafts).first) == pytest.approx(chance, abs=1e-9)


def test_published_curves_are_possible_and_two_numbers_describe_them() -> None:
    assert {one.method for one in load_acceptance()} == CURVED
    left = {}
    for curve in load_acceptance():
        tokens = np.array(curve.tokens_per_step)
        assert ((tokens > 1) & (tokens <= np.array(curve.draft_tokens) + 1)).all(), curve
        assert (np.diff(tokens) > -0.01 * tokens[1:]).all(), curve
        left[curve] = fitted_curve(curve)[1]
    assert max(left.values()) < 0.03
    assert max(published_acceptance(method, "none").residual_fraction for method in CURVED) < 0.03


def test_a_source_left_out_lies_in_the_interval_of_the_others() -> None:
    held, errors = [], []
    for curve in load_acceptance():
        if curve.method not in ("eagle3", "mtp") or curve.source == "specdecode-bench-simulator":
            continue
        known = published_acceptance(curve.method, "a model that nobody measured", without=curve.source)
        others = [one for one in load_acceptance() if one.method == curve.method and one.source != curve.source]
        longest = max(one.draft_tokens[-1] for one in others)  # beyond it the ratio is extrapolated
        pairs = zip(curve.draft_tokens, curve.tokens_per_step, strict=True)
        drafts, measured = [one for one in pairs if one[0] <= longest][-1]
        low, middle, high = (
            float(np.asarray(Acceptance(float(known.first.quantile(z)), known.ratio).tokens_of_step(drafts)))
            for z in (-1.645, 0.0, 1.645)
        )
        held.append(low <= measured <= high)
        errors.append(abs(middle / measured - 1))
    assert np.mean(held) >= 0.85
    assert np.median(errors) < 0.15


def test_no_draft_is_no_speculation_exactly() -> None:
    plain = estimate_serving(undrafted(scenario("ngram")), MACHINE)
    for method in ("ngram", "eagle3"):
        found = estimate_serving(scenario(method).drafting(0.0), MACHINE)
        assert float(found.step_s) == float(plain.step_s)
        assert float(found.tpot_s) == float(plain.tpot_s)
    assert float(found.memory.weights_bytes) > float(plain.memory.weights_bytes)
    assert cl.serve(**ASKED, batch=8, speculation="none").tpot_s == cl.serve(**ASKED, batch=8).tpot_s


def test_the_users_figures_override_and_the_own_module_costs_a_layer_as_before() -> None:
    asked: dict[str, Any] = {
        "model": "deepseek-v3",
        "system": "h200-nvl8",
        "layout": "tp8-ep8",
        "batch": 16,
        "samples": 32,
    }
    given: dict[str, Any] = {"draft_tokens": 2, "tokens_per_step": 2.4}
    assert cl.serve(**asked, **given, speculation="mtp").tpot_s == cl.serve(**asked, **given).tpot_s
    document = cl.serve(**asked, **given, speculation="mtp").to_dict()
    assert document["tokens_per_step"] == 2.4
    assert document["speculation"]["acceptance"]["origin"] == "given"
    ratio = document["speculation"]["next_draft_ratio"]
    first = document["speculation"]["first_draft_accepted_fraction"]
    assert float(np.asarray(Acceptance(first, ratio).tokens_of_step(2.0))) == pytest.approx(2.4)


@pytest.mark.parametrize(
    ("method", "model"), [("eagle3", "llama-3.1-8b"), ("ngram", "llama-3.1-8b"), ("eagle3", "qwen3-32b")]
)
def test_the_best_length_falls_with_the_batch_until_drafting_stops_paying(method: str, model: str) -> None:
    one = scenario(method, model)
    one = replace(one, layout=Layout(tp=2)) if model == "qwen3-32b" else one
    found = drafts_by_load(one, MACHINE, np.array([2.0**power for power in range(13)]))
    assert (np.diff(found.draft_tokens) <= 0).all()
    assert (found.speedup_ratio[:3] > 1.1).all()
    assert found.draft_tokens[0] >= 3
    # drafting that is free pays without end on a machine without limits
    free = drafts_by_load(replace(scenario("ngram"), speculation=Speculation("ngram", Acceptance(1.0), True)),
                          replace(MACHINE, efficiency=IDEAL), np.array([1.0]))  # fmt: skip
    assert free.draft_tokens[0] == MOST_DRAFTS


def test_a_search_over_lengths_is_the_best_of_searches_at_each() -> None:
    one, layouts = scenario("eagle3"), [Layout(), Layout(tp=2)]
    together = search_serving(one, layouts, MACHINE, [1, 32, 256])
    apart = [search_serving(one.drafting(float(drafts)), layouts, MACHINE, [1, 32, 256]) for drafts in range(9)]
    for place, option in enumerate(together):
        best = min((found[place].tpot_s, drafts) for drafts, found in enumerate(apart))
        assert option.tpot_s == pytest.approx(best[0])
        assert option.draft_tokens == best[1]
        assert float(estimate_serving(option.placed(one), MACHINE).tpot_s) == pytest.approx(option.tpot_s)


def measured() -> list[dict[str, str]]:
    """Published speed-ups."""
    file = Path(__file__).with_name("speculation_speedups.csv")
    return list(csv.DictReader(file.read_text("utf-8").splitlines()))


def predicted(row: dict[str, str]) -> float:
    """Speed-up of a row, by acceptance that its own authors did not publish; of n-grams by their record of the text."""
    model, method, layout = load_model(row["model"]), row["method"], parse_layout(row["layout"])
    without = {"Speculative Decoding: Performance or Illusion?": "specdecode-bench-simulator"}.get(
        row["source"], "vllm-issue-20780"
    )
    known = published_acceptance(method, model.id, without=without if method != "ngram" else "")
    chances = known.at_median
    if method == "ngram":
        task = next(one for one in load_acceptance() if one.method == "ngram" and one.task == row["task"])
        chances = Acceptance(fitted_curve(task)[0].first, known.ratio)
    drafter = load_model(row["drafter"]) if row["drafter"] else None
    if method.startswith("eagle"):
        drafter = drafting_head(model, draft_vocabulary() if method == "eagle3" else None)
    lengths = (float(row["input_tokens"]), float(row["output_tokens"]), float(row["batch"]))
    one = ServingScenario(
        replace(model, drafter=drafter), layout, Precision(), *lengths, speculation=Speculation(method, chances)
    )
    drafted = estimate_serving(one.drafting(float(row["draft_tokens"])), MACHINE)
    return float(estimate_serving(undrafted(one), MACHINE).tpot_s / drafted.tpot_s)


def test_published_speedups_by_batch_are_met() -> None:
    rows = measured()
    errors = np.array([predicted(row) / float(row["value"]) - 1 for row in rows])
    of_paper = np.array([row["id"] <= "d0128" for row in rows])
    assert len(rows) == 140
    assert np.median(abs(errors[of_paper])) < 0.09
    assert abs(np.median(errors[of_paper])) < 0.04
    assert np.quantile(abs(errors[of_paper]), 0.9) < 0.26
    assert np.median(abs(errors[~of_paper])) < 0.2
    for batch in ("1", "16", "64", "128"):
        at = of_paper & np.array([row["batch"] == batch for row in rows])
        assert np.median(abs(errors[at])) < 0.15


def test_the_simulation_agrees_with_the_closed_form() -> None:
    asked = {**ASKED, "input_tokens": 256, "output_tokens": 256}
    given: dict[str, Any] = {"speculation": "eagle3", "draft_tokens": 3}
    load: dict[str, Any] = {"arrivals": "poisson:4", "requests": 2000}
    del asked["samples"]
    plain, drafted = (cl.simulate_serve(**asked, **load, **more) for more in ({}, given))
    simulated = plain.percentiles["tpot_s"]["p50"] / drafted.percentiles["tpot_s"]["p50"]
    closed = [cl.serve(**asked, samples=32, requests_per_s=4.0, **more).tpot_s.p50 for more in ({}, given)]
    assert simulated == pytest.approx(closed[0] / closed[1], rel=0.1)
    free = cl.simulate_serve(**asked, **load, speculation="eagle3")
    assert free.percentiles["tpot_s"]["p50"] <= 1.02 * drafted.percentiles["tpot_s"]["p50"]


def test_every_way_to_ask_plans_the_draft(tmp_path: Path) -> None:
    command = ["serve", "--model", "llama-3.1-70b", "--system", "h100-nvl8", "--speculation", "draft:llama-3.2-1b"]
    found = call(main, command, tmp_path)
    assert found.returncode == 0, found.stderr
    assert "Drafting pays" in found.stdout
    promise = cl.serve(model="llama-3.1-8b", system="h100-nvl8", requests_per_s=6, ttft="p95:2s", tpot="p95:40ms",
                       input_tokens=512, output_tokens=256, speculation="eagle3", samples=32).to_dict()  # fmt: skip
    assert promise["speculation"]["speedup_ratio"]["p50"] > 1
    pools = cl.serve(model="llama-3.1-8b", system="h100-nvl8", mode="disaggregated", speculation="eagle3", samples=32)
    assert pools.to_dict()["speculation"]["draft_tokens"] > 0
    swept = call(
        main, ["sweep", "--model", "llama-3.1-8b", "--system", "h100-nvl8", "--speculation", "ngram"], tmp_path
    )
    assert swept.returncode == 0, swept.stderr


def test_launch_commands_name_what_drafts(tmp_path: Path) -> None:
    for method, said in (("ngram", '"method":"ngram"'), ("draft:llama-3.2-1b", '"method":"draft_model"')):
        found = cl.serve(**ASKED, batch=2, speculation=method, emit="vllm").to_dict()["launch"]["text"]
        assert said in found
    assert (
        "STANDALONE"
        in cl.serve(**ASKED, batch=2, speculation="draft:llama-3.2-1b", emit="sglang").to_dict()["launch"]["text"]
    )
    with pytest.raises(InputError, match="not written for it"):
        cl.serve(**ASKED, batch=2, speculation="ngram", emit="trtllm").to_dict()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"speculation": "eagle4"}, "eagle3"),
        ({"speculation": "mtp"}, "no module for next tokens"),
        ({"speculation": "draft:qwen3-0.6b"}, "vocabulary"),
        ({"speculation": "none", "draft_tokens": 2}, "leave out one"),
        ({"speculation": "eagle3", "tokens_per_step": 2.0}, "add"),
        ({"speculation": "eagle3", "draft_tokens": 2, "tokens_per_step": 4.0}, "one more than the drafted"),
    ],
)
def test_what_cannot_be_drafted_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        cl.serve(**ASKED, batch=8, **given)


def test_batches_end_where_memory_does() -> None:
    found = batches_that_fit(scenario("eagle3"), MACHINE)
    assert found[0] == 1
    assert found[-1] == float(estimate_serving(scenario("eagle3"), MACHINE).memory.largest_batch)


def test_a_drafter_that_does_not_fit_is_named() -> None:
    asked = {"model": "llama-3.1-8b", "system": "1xl40s", "layout": "tp1", "speculation": "draft:llama-3.1-70b"}
    with pytest.raises(DoesNotFitError, match="those of its drafter meta-llama/Meta-Llama"):
        cl.serve(**asked, samples=16)
