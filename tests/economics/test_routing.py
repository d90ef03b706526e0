"""Routing against simulation and against real runs: retries, cascades, best of k, attempts fitted by difficulty."""

from __future__ import annotations

import csv
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from computeledger.arrays import Range
from computeledger.economics.routing.choice import best_policy, cheapest_by_failure
from computeledger.economics.routing.fit import Attempt, fit_attempts, read_attempts
from computeledger.economics.routing.model import Fallback, RouteModel, RouteTask, Step, Verifier, evaluate_policies
from computeledger.economics.routing.task import MODEL_RANGE, ModelQuestion, RouteCase, route_task
from computeledger.errors import InputError
from computeledger.validation.routing import check_attempts
from tests.gates import ROOT

TASK = RouteTask(
    (
        RouteModel("a", 0.4, 0.01, 0.016, 5, 9, retry_odds_ratio=5.0),
        RouteModel("b", 0.6, 0.1, 0.16, 10, 20),
        RouteModel("c", 0.8, 1.0, 1.6, 30, 60),
    ),
    Verifier(0.01, 1.0, 0.1, 0.05), Fallback(5.0, 600.0, 0.9), usd_per_hour=3.0,
)  # fmt: skip


def drawn_chances(rng: np.random.Generator, n: int) -> list[np.ndarray]:
    """Chances of each model on tasks: a beta sample's own quantiles under a Gaussian copula."""
    common, out = rng.standard_normal(n), []
    for model in TASK.models:
        a, b = (share * (1 / 0.7 - 1) for share in (model.success_fraction, 1 - model.success_fraction))
        score = math.sqrt(0.6) * common + math.sqrt(0.4) * rng.standard_normal(n)
        out.append(np.sort(rng.beta(a, b, n))[np.argsort(np.argsort(score))])
    return out


@pytest.mark.parametrize(
    "policy",
    [(Step(0, 3), Step(1, 2), Step(2, 1)), (Step(1, 4, "best"),), (Step(2, 2), Step(0, 4)), ()],
    ids=["depth 3", "best of 4", "depth 2", "person"],
)
def test_enumeration_is_what_simulation_finds(policy: tuple[Step, ...]) -> None:
    """Verifier errors, a try that sees the last failure, a person at the end, the price of waiting."""
    rng, n = np.random.default_rng(5), 200_000
    exact, chances = evaluate_policies(TASK, [policy]), drawn_chances(rng, n)
    done, good, usd, s = np.zeros(n, bool), np.zeros(n, bool), np.zeros(n), np.zeros(n)
    for step in policy:
        model, waited = TASK.models[step.model], np.zeros(n)
        best = step.kind == "best"
        open_before = ~done
        for k in range(step.tries):
            p = chances[step.model]
            p = p if k == 0 or best else p * model.retry_odds_ratio / (1 - p + p * model.retry_odds_ratio)
            right, paid = rng.random(n) < p, open_before if best else ~done
            usd += paid * (np.where(right, model.solved_usd, model.failed_usd) + 0.01)
            waited += paid * (np.where(right, model.solved_s, model.failed_s) + 1.0)
            passed = np.where(right, rng.random(n) < 0.95, rng.random(n) < 0.1) & ~done
            good, done = good | (passed & right), done | passed
        s += waited / step.tries if best else waited  # drawn side by side
    person = rng.random(n) < 0.9
    usd, s, good = usd + ~done * 5.0, s + ~done * 600.0, good | (~done & person)
    usd += s * 3.0 / 3600
    assert exact.success_fraction[0] == pytest.approx(good.mean(), abs=0.005)
    assert exact.usd_per_task[0] == pytest.approx(usd.mean(), rel=0.012)
    assert exact.s_per_task[0] == pytest.approx(s.mean(), rel=0.012)


def test_retries_of_public_agents_are_beta_binomial() -> None:
    """74 tau2-bench submissions: pass@3 and pass@4 from pass^1 and pass^2 alone; independence is an order worse."""
    lines = (Path(__file__).parent / "data" / "tau2_pass_k.csv").read_text().splitlines()[1:]
    found = []
    for row in csv.DictReader(lines):
        p1, p2, p3, p4 = (float(row[f"pass_{k}"]) / 100 for k in (1, 2, 3, 4))
        rho = min(max((p2 / p1 - p1) / (1 - p1), 0.0), 0.99)
        model = RouteModel("a", p1, 1.0, 1.0, retry_correlation_fraction=rho)
        tries = [(Step(0, k),) for k in (3, 4)]
        predicted = evaluate_policies(RouteTask((model,)), tries).success_fraction
        seen = np.array([3 * p1 - 3 * p2 + p3, 4 * p1 - 6 * p2 + 4 * p3 - p4])
        found.append([*(predicted - seen), *(1 - (1 - p1) ** np.array([3, 4]) - seen)])
    error = np.sqrt(np.mean(np.square(found), axis=0))
    assert len(found) == 74 and error[0] < 0.015 and error[1] < 0.025
    assert error[2] > 0.15 and error[3] > 0.18


def test_a_try_that_sees_the_failure(shared_data: Path) -> None:
    """Aider's polyglot runs, where the second try is shown the tests: odds from one half predict the other half."""
    rows = csv.DictReader((shared_data / "routing" / "aider_polyglot.csv").read_text().splitlines())
    pairs = [(float(row["pass_rate_1"]) / 100, float(row["pass_rate_2"]) / 100) for row in rows]
    p, q = np.array([(one, two) for one, two in pairs if one > 0.02 and two < 0.98]).T
    grid = np.geomspace(1.0, 300.0, 20)

    def second(share: float) -> np.ndarray:
        models = [RouteModel("a", share, 1.0, 1.0, retry_correlation_fraction=0.5, retry_odds_ratio=g) for g in grid]
        return np.array([evaluate_policies(RouteTask((m,)), [(Step(0, 2),)]).success_fraction[0] for m in models])

    reached = np.array([second(share) for share in p])
    odds = np.array([np.interp(two, curve, grid) for two, curve in zip(q, reached, strict=True)])
    typical = np.median(odds[::2])
    told = np.array([np.interp(typical, grid, curve) for curve in reached[1::2]])
    rms = [float(np.sqrt(np.mean((one - q[1::2]) ** 2))) for one in (told, 1 - (1 - p[1::2]) ** 2, reached[1::2, 0])]
    assert rms[0] < 0.08 and 0.11 < rms[1] < rms[2]


def test_cascades_of_real_runs_are_predicted() -> None:
    """SWE-bench under OpenHands, an excerpt: half of the tasks predicts the other half; independence does not."""
    check = check_attempts(read_attempts(ROOT / "examples" / "money" / "attempts.csv"), n_splits=4)
    told, bound = check.success, check.success_if_independent
    assert told.median_abs_error is not None and bound.bias is not None and told.coverage_90 is not None
    assert told.median_abs_error < 0.06 and bound.bias > 1.08 and told.coverage_90 > 0.75
    assert check.cost.median_abs_error is not None and check.cost.median_abs_error < 0.2


def test_difficulties_lean_on_each_other() -> None:
    """Two hard tasks say little: their chance leans on the model's own and on how hard others find such tasks."""
    rng = np.random.default_rng(2)
    tries = [
        Attempt(name, f"{kind}{task}", bool(rng.random() < p), 0.1, difficulty=kind)
        for name, shift in (("a", 0.0), ("b", 0.1), ("c", 0.2))
        for kind, p0, n in (("easy", 0.7, 120), ("hard", 0.2, 120 if name != "c" else 2))
        for task in range(n)
        for p in (p0 + shift,)
    ]
    fit = fit_attempts(tries)
    solved, tried = fit.models[2].chances["hard"]  # type: ignore[misc]
    assert 0.25 < solved / tried < 0.6 and tried <= 122.5
    assert fit.difficulty == pytest.approx({"easy": 0.5, "hard": 0.5})
    easy = fit.models[0].chances["easy"]
    assert isinstance(easy, tuple) and easy[0] / easy[1] == pytest.approx(0.7, abs=0.1)


def test_no_success_is_an_interval_and_repeats_count_less() -> None:
    never = fit_attempts([Attempt("a", str(task), False, 0.1) for task in range(20)]).models[0]
    question = RouteCase((never,), RouteTask((RouteModel("any", 0.5, 0, 0),)))
    draws = [route_task(question, "all", np.random.default_rng(k)).models[0].success_fraction for k in range(200)]
    assert 0 < np.quantile(draws, 0.05) < np.quantile(draws, 0.95) < 0.15
    same = fit_attempts([Attempt("a", str(t), t % 2 == 0, 0.1) for t in range(20) for _ in range(5)]).models[0]
    counts = same.chances["all"]
    assert isinstance(counts, tuple) and counts[1] == pytest.approx(20, rel=0.05)  # 100 attempts, all alike per task
    assert isinstance(same.retry_correlation_fraction, (float, Range))


def test_models_that_never_differ_tell_no_correlation() -> None:
    tries = [Attempt(name, str(task), right, 0.1) for name, right in (("a", False), ("b", True)) for task in range(6)]
    assert fit_attempts(tries).model_correlation_fraction is MODEL_RANGE


def test_a_broken_tool_is_a_failure() -> None:
    one = ModelQuestion("a", {"all": 0.8}, 0.01, tool_failure_fraction=0.25)
    task = route_task(RouteCase((one,), RouteTask((RouteModel("any", 0.5, 0, 0),))), "all")
    assert task.models[0].success_fraction == pytest.approx(0.6)


def test_costs_from_tokens_of_a_price_sheet(tmp_path: Path) -> None:
    from computeledger.economics.prices.sheets import read_sheet

    file = tmp_path / "a.csv"
    file.write_text(
        "model,task,success,input_tokens,output_tokens,patch_tokens\nm,1,1,200000,1000,1\nm,2,0,1000,1000,0\n"
    )
    sheet = read_sheet(ROOT / "examples" / "money" / "price-sheet.toml")
    first, second = read_attempts(file, lambda _: sheet)
    assert first.usd == pytest.approx(1.08 * (200001 * 4 + 1000 * 18) / 1e6) and second.usd < first.usd


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("model,task,success\nm,1,1\n", "cost"),
        ("model,task,success,cost\nm,1,maybe,1\n", "a.csv:2: success 'maybe'"),
        ("# a remark\nmodel,task,success,cost\nm,1,1,-2\n", "a.csv:3: cost -2"),
        ("model,task,success,cost,difficulty\nm,1,1,1,easy\nn,1,1,1,hard\n", "both easy and hard"),
        ("model,task,success,cost\n", "needed are the columns"),
    ],
)
def test_bad_tables_of_attempts(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "a.csv"
    file.write_text(text)
    with pytest.raises(InputError, match=words):
        fit_attempts(read_attempts(file))


def test_one_model_cannot_be_checked() -> None:
    with pytest.raises(InputError, match="two models and four tasks"):
        check_attempts([Attempt("a", str(task), True, 0.1) for task in range(9)])


def test_feedback_lifts_only_later_tries() -> None:
    plain = replace(TASK, fallback=None, verifier=Verifier())
    told = [evaluate_policies(replace(plain, models=(replace(plain.models[0], retry_odds_ratio=ratio),)),
                              [(Step(0, 1),), (Step(0, 2),)]).success_fraction for ratio in (1.0, 20.0)]  # fmt: skip
    assert told[0][0] == told[1][0] and told[1][1] > told[0][1]


def test_what_a_failure_costs_moves_the_cheapest_policy_where_the_lines_say() -> None:
    given_usd = 2.0
    steps = cheapest_by_failure(evaluate_policies(replace(TASK, failure_usd=given_usd)), given_usd)
    assert len(steps) > 3 and steps == sorted(steps)
    for (start, place), end in zip(steps, [usd for usd, _ in steps[1:]] + [10 * steps[-1][0]], strict=True):
        between = evaluate_policies(replace(TASK, failure_usd=(start + end) / 2))
        assert best_policy(between) == place
    free, dear = (evaluate_policies(replace(TASK, failure_usd=usd)) for usd in (0.0, 3.0))
    assert np.allclose(dear.usd_per_task - free.usd_per_task, 3.0 * (1 - free.success_fraction))
