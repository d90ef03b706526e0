"""The ledger of a plan: identities, three rings, sampling."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from computeledger.arrays import Range, median, sample
from computeledger.economics.hosting.cost import Ownership, annuity_fraction, owned_usd_per_gpu_hour
from computeledger.economics.plan import ledger as ledger_module
from computeledger.economics.plan.ledger import Ledger, estimate_ledger
from computeledger.economics.plan.read import read_plan
from computeledger.errors import LayoutError, PlanError
from computeledger.facts.editions import load_prices
from computeledger.facts.load import load_model, load_system
from computeledger.physics.blackboard.ledgers import pretraining_flop
from computeledger.physics.calibration.efficiency import efficiency
from computeledger.physics.calibration.training import training_efficiency
from computeledger.physics.parallelism import parse_layout
from computeledger.physics.roofline import Machine, parse_precision
from computeledger.physics.training.batch import Batch
from computeledger.physics.training.step import step_time
from computeledger.physics.transformer import n_params_active
from computeledger.questions.answers.plan import plan_document

BASE: dict[str, Any] = {
    "model": "llama-3.1-8b",
    "system": "h100-nvl8",
    "price": "$2/h",
    "pretraining": {
        "tokens": "15T tokens",
        "gpus": 1024,
        "layout": "tp2-dp512",
        "sequence": "8192 tokens",
        "global_batch": "8388608 tokens",
        "microbatch": 1,
        "recompute": "selective",
    },
    "rl": {
        "gpus": 64,
        "steps": 1000,
        "prompts_per_step": 128,
        "group_size": 8,
        "rollout": "4K tokens",
        "prompt": "300 tokens",
    },
    "inference": {"tokens": "1T tokens", "input": "2000 tokens", "output": "500 tokens"},
}


def ledger(n_samples: int = 64, **changes: Any) -> Ledger:
    return estimate_ledger(read_plan({**BASE, **changes}), n_samples)


def test_three_rings_agree() -> None:
    """The plan's GPU-hours rebuilt by hand from public functions."""
    plan = ledger(n_samples=8)
    factors = {f"efficiency.{name}": one for name, one in _draws(8).items()}
    machine = Machine(load_system("h100-nvl8"), efficiency(draws=factors), training_efficiency(draws=factors))
    model = load_model("llama-3.1-8b")
    step = step_time(model, Batch(8192.0, 1024.0), parse_layout("tp2-dp512"), parse_precision("bf16"), machine)
    by_hand = 15e12 * 1024 * step.step_s / (1024 * 8192) / 3600
    phase = plan.phases["pretraining"]
    np.testing.assert_allclose(phase.gpu_hours, by_hand, rtol=1e-9)
    assert phase.flop == pytest.approx(pretraining_flop(n_params_active(model), 15e12))


def _draws(n: int) -> dict[str, Any]:
    from computeledger.physics.calibration.training import load_all_factors

    drawn = sample({f"efficiency.{name}": one.value for name, one in load_all_factors().items()}, n)
    return {name.removeprefix("efficiency."): value for name, value in drawn.items()}


def test_identities() -> None:
    plan = ledger()
    for phase in plan.phases.values():
        spent = phase.gpu_hours * 3600 * phase.peak_flop_per_s * phase.utilization_fraction
        np.testing.assert_allclose(spent, phase.flop, rtol=1e-9)
        np.testing.assert_allclose(phase.usd, 2 * phase.gpu_hours, rtol=1e-12)
    for quantity in ("flop", "gpu_hours"):
        np.testing.assert_allclose(sum(plan.shares(quantity).values()), 1.0, rtol=1e-9)
    np.testing.assert_allclose(plan.total("usd"), 2 * plan.total("gpu_hours"), rtol=1e-12)


def test_balanced_inference_is_three_e() -> None:
    """D_inf = 3 e D_pre exactly where GPU-time is equal on one chip."""
    plan = ledger(pretraining={**BASE["pretraining"], "tokens": "balanced"})
    pre, inference = plan.phases["pretraining"], plan.phases["inference"]
    np.testing.assert_allclose(pre.gpu_hours, inference.gpu_hours, rtol=1e-9)
    e = plan.balance["inference_efficiency"][0]
    np.testing.assert_allclose(inference.tokens, 3 * e * pre.tokens, rtol=1e-9)


def test_balanced_rl_is_six_over_beta() -> None:
    rl = {key: value for key, value in BASE["rl"].items() if key != "steps"}
    plan = ledger(rl={**rl, "tokens": "balanced"})
    pre, phase = plan.phases["pretraining"], plan.phases["rl"]
    np.testing.assert_allclose(pre.gpu_hours, phase.gpu_hours, rtol=1e-9)
    beta = plan.balance["beta_gpu_time"][0]
    np.testing.assert_allclose(phase.tokens, 6 / beta * pre.tokens, rtol=1e-9)
    assert median(beta) > median(plan.balance["beta_flop"][0])


def test_stated_utilisation_and_hours_agree() -> None:
    """Two of FLOP, utilisation and GPU-hours give the third."""
    stated = ledger(pretraining={"tokens": "15T tokens", "utilization": "40%"}).phases["pretraining"]
    again = ledger(pretraining={"tokens": "15T tokens", "gpu_hours": f"{stated.gpu_hours} GPU-hours"}).phases[
        "pretraining"
    ]
    assert again.utilization_fraction == pytest.approx(0.4)


def test_stated_gpu_hours_of_rl_stand_beside_the_models_own() -> None:
    modelled = ledger().phases["rl"]
    stated = ledger(rl={**BASE["rl"], "gpu_hours": "1M GPU-hours"}).phases["rl"]
    assert median(stated.gpu_hours) == 1e6
    np.testing.assert_allclose(stated.details["modelled_gpu_hours"][0], modelled.gpu_hours, rtol=1e-9)


def test_overtraining() -> None:
    ratio = ledger().balance["overtraining_ratio"][0]
    assert ratio == pytest.approx(15e12 / (20 * n_params_active(load_model("llama-3.1-8b"))))


def test_kinds_and_whole_agree() -> None:
    """Tokens by kind in the proportions of a request cost what the whole costs."""
    whole = ledger().phases["inference"]
    kinds = {"system_prompt": "0.3T tokens", "user_input": "0.5T tokens", "output": "0.2T tokens"}
    inference = {"input": "2000 tokens", "output": "500 tokens", "kinds": kinds}
    by_kind = ledger(inference=inference).phases["inference"]
    np.testing.assert_allclose(by_kind.gpu_hours, whole.gpu_hours, rtol=1e-9)
    shares = {**BASE["inference"], "kinds": {"user_input": "80%", "output": "20%"}}
    np.testing.assert_allclose(ledger(inference=shares).phases["inference"].usd, whole.usd, rtol=1e-9)


def test_streams_add_up() -> None:
    half = {"tokens": "0.5T tokens", "name": "a"}
    two = ledger(inference={"input": "2000 tokens", "output": "500 tokens", "traffic": [half, {**half, "name": "b"}]})
    np.testing.assert_allclose(two.phases["inference"].gpu_hours, ledger().phases["inference"].gpu_hours, rtol=1e-9)


def test_streams_are_told_apart() -> None:
    """Streams without a name keep figures of their own; what is assumed for both is listed once."""
    half = {"tokens": "0.5T tokens"}
    inference = {"input": "2000 tokens", "output": "500 tokens", "traffic": [half, {**half, "output": "50 tokens"}]}
    plan = ledger(inference=inference)
    phase = plan.phases["inference"]
    assert list(phase.choices) == ["stream 1", "stream 2"]
    assert median(phase.details["stream 1: ttft_s"][0]) != median(phase.details["stream 2: ttft_s"][0])
    assert len({term.name for term in plan.assumptions}) == len(plan.assumptions)


STREAM = {"tokens": "1T tokens", "input": "2000 tokens", "output": "500 tokens"}
TAIL, SPEED, IDLE = "rl.longest_over_mean", "inference.tpot", "inference.occupancy"
STEP = {"pretraining.sequence_tokens", "pretraining.global_batch_tokens"}
SILENT: dict[str, tuple[dict[str, Any], set[str]]] = {
    "as BASE": ({}, {TAIL, SPEED, IDLE}),
    "nothing of the step": (
        {"pretraining": {"tokens": "1T tokens", "gpus": 64, "layout": "tp2"}}, {TAIL, SPEED, IDLE, *STEP}
    ),
    "no step modelled": ({"pretraining": {"tokens": "1T tokens", "utilization": "40%"}}, {TAIL, SPEED, IDLE}),
    "a tail": ({"rl": {**BASE["rl"], "rollout_p95": "9K tokens"}}, {SPEED, IDLE}),
    "asynchronous": ({"rl": {**BASE["rl"], "mode": "asynchronous"}}, {TAIL, "rl.steps_in_flight", SPEED, IDLE}),
    "a lag": ({"rl": {**BASE["rl"], "mode": "asynchronous", "max_lag": 2}}, {TAIL, SPEED, IDLE}),
    "verdicts": ({"rl": {**BASE["rl"], "verifier_time": "1 s"}}, {TAIL, "rl.verifier_cores", SPEED, IDLE}),
    "a batch": ({"inference": {**STREAM, "batch": 16}}, {TAIL, IDLE}),
    "a batch of one stream": (
        {"inference": {"traffic": [{**STREAM, "batch": 16, "name": "a"}, {**STREAM, "name": "b"}]}},
        {TAIL, SPEED, IDLE},
    ),
    "limits of both streams": (
        {"inference": {"traffic": [{**STREAM, "tpot": "40ms", "name": one} for one in "ab"]}}, {TAIL, IDLE}
    ),
    "idle GPUs": ({"inference": {**STREAM, "occupancy": "60%"}}, {TAIL, SPEED}),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "silent"), SILENT.values(), ids=SILENT)
def test_the_record_lists_each_default_that_a_plan_takes(changes: dict[str, Any], silent: set[str]) -> None:
    """No more and no fewer, whether its phases were modelled now or came from the cache; asking changes nothing."""
    ledger_module._modelled.cache_clear()
    listed = [term.name for term in ledger(n_samples=8, **changes).assumptions]
    assert set(listed) == silent and len(listed) == len(silent)
    hits = ledger_module._modelled.cache_info().hits
    assert [term.name for term in ledger(n_samples=8, **changes).assumptions] == listed
    assert ledger_module._modelled.cache_info().hits > hits


def test_a_layout_and_batch_of_the_plan_are_no_search() -> None:
    """Also where a stream takes them from its section."""
    inference = {"input": "2000 tokens", "output": "500 tokens", "layout": "tp2", "batch": 16}
    plan = ledger(inference={**inference, "traffic": [{"tokens": "1T tokens", "name": "a"}]})
    assert plan.phases["inference"].choices == {"a": "tp2, batch 16 (plan)"}


def test_balance_shows_the_working_of_the_reported_figure() -> None:
    """Also where a stream runs another model, whose tokens are not 3 e D_pre."""
    inference = {**BASE["inference"], "model": "llama-3.1-70b"}
    plan = ledger(inference=inference)
    working = next(one for one in plan.figures if one.name == "balance.tokens_inference_balanced")
    np.testing.assert_allclose(working.value, plan.balance["tokens_inference_balanced"][0])
    pre, phase = plan.phases["pretraining"], plan.phases["inference"]
    np.testing.assert_allclose(working.value, phase.tokens * pre.gpu_hours / phase.gpu_hours, rtol=1e-9)


def test_a_balanced_run_keeps_its_stated_utilisation() -> None:
    rl = {key: value for key, value in BASE["rl"].items() if key != "steps"}
    plan = ledger(rl={**rl, "tokens": "balanced", "utilization": "5%"})
    pre, phase = plan.phases["pretraining"], plan.phases["rl"]
    np.testing.assert_allclose(pre.gpu_hours, phase.gpu_hours, rtol=1e-9)
    np.testing.assert_allclose(phase.utilization_fraction, 0.05, rtol=1e-9)


def test_a_layout_that_leaves_gpus_idle_is_refused() -> None:
    with pytest.raises(LayoutError, match="uses 16 of 1,024 GPUs"):
        ledger(pretraining={**BASE["pretraining"], "layout": "tp2-dp8"})


def test_cached_tokens_are_read_not_multiplied() -> None:
    kinds = {"user_input": "0.8T tokens", "output": "0.2T tokens"}
    shape = {"input": "2000 tokens", "output": "500 tokens"}
    without = ledger(inference={**shape, "kinds": kinds}).phases["inference"]
    cached = ledger(inference={**shape, "kinds": {**kinds, "cached": "5T tokens"}}).phases["inference"]
    np.testing.assert_allclose(cached.flop, without.flop)
    assert np.all(cached.gpu_hours > without.gpu_hours)


def test_fermi_range_spreads_and_drives() -> None:
    """Seed C167: 10M..100M tokens/s for 30..90 days is 3.97e13 / 1.42e14 / 5.09e14 at 5/50/95 %."""
    inference = {"rate": "10M..100M tokens/s", "life": "30..90 days", "input": "2000 tokens", "output": "500 tokens"}
    plan = ledger(4096, inference=inference)
    tokens = np.quantile(plan.phases["inference"].tokens, [0.05, 0.5, 0.95])
    np.testing.assert_allclose(tokens, [3.97e13, 1.42e14, 5.09e14], rtol=0.03)
    assert plan.drivers[0].name == "inference.rate"


@pytest.mark.parametrize(("key", "ends"), [("life", ("30 days", "90 days")), ("occupancy", ("40%", "80%"))])
def test_what_one_input_moves_the_total_by(key: str, ends: tuple[str, str]) -> None:
    """Regressed on the samples it is what the plan costs with that input at either end, the others as they are."""
    others = {"rate": "10M..20M tokens/s", "input": "2000 tokens", "output": "500 tokens", "life": "30..90 days",
              "occupancy": "40%..80%"}  # fmt: skip
    (driver,) = [one for one in ledger(4096, inference=others).drivers if one.name == f"inference.{key}"]
    for found, end in zip(driver.usd_ends, ends, strict=True):
        at_end = ledger(4096, inference={**others, key: end})
        assert found == pytest.approx(median(at_end.total("usd")), rel=0.05)
    assert driver.gpu_hours_ends == pytest.approx([one / 2 for one in driver.usd_ends], rel=1e-9), "at 2 USD an hour"


def test_samples_are_stable_under_new_inputs() -> None:
    alone = sample({"a": Range(1.0, 2.0)}, 100)["a"]
    beside = sample({"b": Range(3.0, 4.0), "a": Range(1.0, 2.0)}, 100)["a"]
    np.testing.assert_array_equal(alone, beside)


def test_ranges_cover_ninety_per_cent() -> None:
    for one in (Range(1e7, 1e8), Range(0.2, 0.6, bounded=True), Range(-1.0, 2.0)):
        drawn = sample({"x": one}, 4096)["x"]
        inside = np.mean((drawn >= one.low) & (drawn <= one.high))
        assert inside == pytest.approx(0.9, abs=0.002)
        if one.bounded:
            assert 0 < np.min(drawn) < np.max(drawn) < 1


def test_annuity_returns_the_loan() -> None:
    """Present value of the payments is the loan; at zero interest it is divided evenly."""
    rate, years = 0.12, 6
    payment = float(annuity_fraction(rate, float(years)))
    assert sum(payment / (1 + rate) ** year for year in range(1, years + 1)) == pytest.approx(1)
    assert float(annuity_fraction(1e-12, 6.0)) == pytest.approx(1 / 6)


def test_idle_owned_gpus_cost_more() -> None:
    full, half = (owned_usd_per_gpu_hour(Ownership(4e4, 5.0, 0.1, 1800.0, 0.08, 500.0, share)) for share in (1.0, 0.5))
    assert float(half) == pytest.approx(2 * float(full))


IMPOSSIBLE: dict[str, tuple[dict[str, Any], str]] = {
    "faster than the chips": ({"pretraining": {"tokens": "1T tokens", "gpu_hours": "1 GPU-hours"}}, "faster than"),
    "rollout beyond the context": ({"rl": {**BASE["rl"], "rollout": "500K tokens"}}, "exceed the context"),
    "request beyond the context": ({"inference": {**BASE["inference"], "input": "200K tokens"}}, "exceed the context"),
    "speed nobody reaches": ({"inference": {**BASE["inference"], "tpot": "1 us"}}, "fastest layout is slower"),
    "tail below the mean": ({"rl": {**BASE["rl"], "longest_over_mean": 0.2}}, "must be at least 1"),
}


@pytest.mark.parametrize("case", IMPOSSIBLE)
def test_impossible_plans_are_refused(case: str) -> None:
    changes, names = IMPOSSIBLE[case]
    with pytest.raises(PlanError, match=names):
        ledger(**changes)


def test_a_facts_own_value_is_the_median_of_its_range() -> None:
    """Sources that disagree spread the samples around the value that was chosen, and do not move it."""
    fact = load_prices().usd_per_gpu_hour["b200-sxm"]["rent"]
    drawn = sample({"price": fact.uncertain}, 4096)["price"]
    assert float(np.median(drawn)) == pytest.approx(fact.value, rel=1e-2)
    assert fact.low is not None and fact.high is not None
    np.testing.assert_allclose(np.quantile(drawn, [0.05, 0.95]), [fact.low, fact.high], rtol=2e-2)


def test_a_kept_model_is_the_one_that_would_be_worked_out() -> None:
    """Whatever was asked before, a plan's answer is the same: what is kept depends on all that it follows from."""
    base = BASE | {"price": "2..3 $/h", "rl": {**BASE["rl"], "rollout": "2K..4K tokens"}}
    changes: list[dict[str, Any]] = [
        {}, {"price": "$5/h"}, {"model": "qwen3-8b"}, {"system": "h200-nvl8"}, {"precision": "fp8"},
        {"efficiency": {"host_step_s": "2 ms"}},
        {"inference": {"traffic": [
            {"name": "chat", "rate": "1M tokens/s", "life": "90 days", "input": "2000 tokens", "output": "500 tokens"},
            {"name": "agents", "tokens": "1T tokens", "input": "9000 tokens", "output": "300 tokens", "paid": "no"},
        ]}},
    ]  # fmt: skip
    changes += [
        {name: {**base[name], **one}} for name, one in (
            ("rl", {"steps": 5000}), ("rl", {"rollout": "3K..5K tokens"}), ("rl", {"group_size": 16}),
            ("rl", {"gpus": 32}), ("rl", {"longest_over_mean": 2.0}), ("rl", {"price": "$9/h"}),
            ("rl", {"layout": "tp2"}), ("rl", {"verifier_time": "1 s", "verifier_cores": 8}),
            ("inference", {"tokens": "2T..3T tokens"}), ("inference", {"occupancy": "50%"}),
            ("inference", {"price": "1..4 $/h"}), ("inference", {"output": "500..900 tokens"}),
            ("inference", {"tpot": "20 ms"}), ("inference", {"layout": "tp2"}), ("inference", {"batch": 16}),
            ("pretraining", {"tokens": "1T..2T tokens"}), ("pretraining", {"tokens": "balanced"}),
            ("pretraining", {"sequence": "4096 tokens"}), ("pretraining", {"utilization": "40%"}),
        )
    ]  # fmt: skip
    plans = [read_plan({**base, **change}) for change in changes]
    asked = [(plan, 0) for plan in plans] + [(plan, 1) for plan in plans[:4]]
    ledger_module._modelled.cache_clear()
    kept = [plan_document(estimate_ledger(plan, 64, seed), True) for plan, seed in asked]
    assert ledger_module._modelled.cache_info().hits >= 2
    fresh = []
    for plan, seed in asked:
        ledger_module._modelled.cache_clear()
        fresh.append(plan_document(estimate_ledger(plan, 64, seed), True))
    assert kept == fresh


def test_goodput_is_counted_where_stated_and_named_where_not() -> None:
    bare = ledger()
    hours = median(bare.phases["pretraining"].gpu_hours)
    said = bare.phases["pretraining"].choices["failures and stops"]
    assert "goodput =" in said and "GPU-hours" in said
    counted = ledger(pretraining=BASE["pretraining"] | {"goodput": "80%"})
    assert median(counted.phases["pretraining"].gpu_hours) == pytest.approx(hours / 0.8)
    assert "failures and stops" not in counted.phases["pretraining"].choices
    with pytest.raises(PlanError, match="hold their stops already"):
        ledger(pretraining=BASE["pretraining"] | {"gpu_hours": "1M GPU-hours", "goodput": "80%"})
