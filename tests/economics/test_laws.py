"""Loss laws as their authors published them, what is laid over them, and what is off by default."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from computeledger.economics.plan.levers import judge_feeding, ledger_levers, return_curves
from computeledger.economics.scaling.allocation import AllocationScenario, PhaseCosts, RLGain, allocate, phase_gpu_hours
from computeledger.economics.scaling.confidence import beyond_fit, sampled_law
from computeledger.economics.scaling.forms import (
    dense_params_clark_2022,
    kept_params_kumar_2024,
    loss_clark_2022,
    loss_of_quantising_kumar_2024,
    pass_rate_khatri_2025,
    with_precision,
)
from computeledger.economics.scaling.laws import (
    law_names,
    load_loss_law,
    loss_law_names,
    pretraining_loss,
    read_law,
    tokens_per_param_at_optimum,
    worth_of_tokens,
)
from computeledger.economics.scaling.sparsity import moe_multipliers, sparsity_table, with_sparsity
from computeledger.errors import InputError

HOURS = phase_gpu_hours(989.4e12, PhaseCosts(0.4, 0.4, 0.4))
BASE = load_loss_law("besiroglu_2024")


def test_over_training_predicts_the_run_of_its_abstract() -> None:
    """Gadre et al., section 4: N = 1.4B, M = 640 on RedPajama, in their form and in ours; their optimum (eq. 10)."""
    law, flop, m = load_loss_law("gadre-2024-redpajama"), 6 * 1.4e9 * 640 * 1.4e9, 640.0
    own = 1.84 + (212 * m**0.136 + 367 * m**-0.136) * flop**-0.136
    assert pretraining_loss(1.4e9, 640 * 1.4e9, law) == pytest.approx(own, rel=1e-12)
    for name, optimum in (("c4", 3.36), ("redpajama", 7.42), ("refinedweb", 5.85)):
        assert tokens_per_param_at_optimum(1e22, f"gadre_2024_{name}") == pytest.approx(
            optimum, rel=0.03
        )  # printed with three digits


def test_sampled_coefficients_have_the_published_intervals_and_stay_together() -> None:
    """Besiroglu et al.: 95 % intervals of resamples; what is normal in logarithms has their width, not their skew."""
    law, table = sampled_law(BASE, 20_001), read_law("besiroglu_2024")[0]["uncertainty"]["interval_95"]
    for name, published in table.items():
        scale = np.log if name in "ABE" else np.array
        ends = np.quantile(scale(getattr(law, name)), [0.025, 0.975])
        assert np.ptp(ends) == pytest.approx(float(np.ptp(scale(np.array(published)))), rel=0.1), name
        assert np.median(getattr(law, name)) == pytest.approx(getattr(BASE, name), rel=1e-9)
    # drawn apart, A and alpha alone would move the loss where the runs are by 0.3
    assert np.ptp(np.quantile(pretraining_loss(1e9, 2e10, law), [0.05, 0.95])) < 0.015
    assert sampled_law(load_loss_law("hoffmann_2022")) == load_loss_law("hoffmann_2022")


def test_every_law_says_where_it_was_fitted() -> None:
    for name in loss_law_names():
        law = load_loss_law(name, unverified=True)
        assert law.fitted and beyond_fit(law, 1e13, 1e16)["tokens" if "tokens" in law.fitted else "n_params"] > 100
        assert set(beyond_fit(law, 2e8, 2e10)) <= {"tokens_per_param"}


def test_few_bits_cost_parameters() -> None:
    """Kumar et al.: 3 bits of activations or cache diverged, 3 bits of weights did not; more data quantise worse."""
    assert kept_params_kumar_2024(3.0) > 0.5
    for bits in ({"bits_activations": 3.0}, {"bits_kv": 2.0}):
        with pytest.raises(InputError, match="leaves no parameters"):
            kept_params_kumar_2024(16.0, **bits)
    full = load_loss_law("kumar_2024")
    kept = float(kept_params_kumar_2024(4.0))
    assert pretraining_loss(1e8, 1e10, with_precision(full, 4.0)) == pytest.approx(
        float(pretraining_loss(kept * 1e8, 1e10, full))
    )
    more, less = (loss_of_quantising_kumar_2024(1e8, d, 4.0) for d in (2e10, 1e10))
    assert more / less == pytest.approx(2**0.5068)


def test_routed_models_have_the_loss_of_their_dense_equal() -> None:
    for router in ("clark_2022", "clark_2022_rl_r", "clark_2022_hash"):
        same = dense_params_clark_2022(3.7e8, 64.0, router)
        assert loss_clark_2022(same, 1.0, router) == pytest.approx(float(loss_clark_2022(3.7e8, 64.0, router)))
    rows = moe_multipliers(1e20)
    fine = next(row for row in rows if row["multiplies"] == "compute, granularity 16")
    assert (
        15 < float(fine["multiplier"]) < 30 and not fine["in_fit"]
    )  # Krajewski et al.: 20 times at 1e20, routing paid


def test_repeated_data_and_their_return() -> None:
    """Muennighoff et al.: 0.931 and 0.661 of fresh tokens at 4 and 16 epochs; the slope is the derivative."""
    worth, slope = worth_of_tokens(np.array([4e12, 16e12]), 1e12)
    assert worth / np.array([4e12, 16e12]) == pytest.approx([0.931, 0.661], abs=5e-4)
    step = worth_of_tokens(np.array([4e12, 16e12]) * 1.0001, 1e12)[0]
    assert np.log(step / worth) / np.log(1.0001) == pytest.approx(slope, rel=1e-3)
    few = allocate(AllocationScenario(replace(BASE, unique_tokens=1e12), 1e25, PhaseCosts(), HOURS, 0.0, 0.0))
    free = allocate(AllocationScenario(BASE, 1e25, PhaseCosts(), HOURS, 0.0, 0.0))
    assert few.ledgers.n_params_active > 1.1 * free.ledgers.n_params_active and few.loss > free.loss
    sizes = few.ledgers.n_params_active * np.linspace(0.5, 2, 201)
    around = pretraining_loss(sizes, 1e25 / 6 / sizes, replace(BASE, unique_tokens=1e12))
    assert around.min() >= few.loss - 1e-12


def test_sparsity_is_worth_its_multiplier_and_scarce_data_shrink_the_lead() -> None:
    sparse = with_sparsity(BASE, 3.0)
    at = allocate(AllocationScenario(sparse, 1e24, PhaseCosts(), HOURS, 0.0, 0.0))
    dense = allocate(AllocationScenario(BASE, 3e24, PhaseCosts(), HOURS, 0.0, 0.0))
    assert at.loss == pytest.approx(float(dense.loss), abs=2e-3)
    rows = sparsity_table(1e26, 2e12, BASE)
    leads = [rows[2][key] - rows[4][key] for key in ("loss_unlimited", "loss_limited")]
    assert 0 < leads[1] < leads[0]


def test_scalerl_reads_as_its_table() -> None:
    """Khatri et al., table 1: half of the gain at C_mid, the asymptote beyond."""
    assert pass_rate_khatri_2025(4242.0, 0.5, "scout") == pytest.approx(0.605)
    assert pass_rate_khatri_2025(1e9, 0.5, "scout") == pytest.approx(0.71, abs=1e-6)


def test_what_was_read_in_notes_is_off() -> None:
    off = {name for name in law_names() if read_law(name, unverified=True)[0]["read"] == "notes"}
    assert {"sardana_2024", "abnar_2025", "sparsity_multiplier", "demand_elasticity"} <= off
    for name in off:
        with pytest.raises(InputError, match="--unverified"):
            read_law(name)


def test_elastic_demand_above_one() -> None:
    """A larger model costs less to serve in all; the condition is still eN / eD = (dC / d ln N) / C_pre."""
    one = AllocationScenario(BASE, 3e25, PhaseCosts(), HOURS, 1e14, 0.0, 6.0, 1.5, 1e11)
    best = allocate(one)
    served = best.flop["inference"] / best.flop["pretraining"]
    assert best.exponent_ratio == pytest.approx(1 + (1 - 1.5) * served, rel=1e-6)
    assert best.marginal_return["inference"] == pytest.approx(float(best.marginal_return["pretraining"]), rel=1e-6)


def test_levers_hold_the_loss_and_returns_meet() -> None:
    rows = {row["lever"]: row for row in ledger_levers("deepseek-v3", "h100-nvl8")}
    sparse, bits = rows["MoE sparsity"], rows["training in 8 bits"]
    assert 0.15 < float(sparse["pretraining"]) < 0.34 and sparse["pretraining"] == sparse["inference"]
    assert float(bits["pretraining"]) < 1 < float(bits["inference"])
    assert "already" in str(rows["quantised serving"]["how"]) and rows["quantised serving"]["inference"] == 1.0
    asked = AllocationScenario(BASE, 1e7, HOURS, HOURS, 1e14, rl_gain=RLGain(0.1, 1e24))
    best = allocate(asked)
    middle = return_curves(asked, best)[20]
    assert [middle["rl"], middle["inference"]] == pytest.approx([middle["pretraining"]] * 2, rel=1e-4)
    assert judge_feeding(best)["under_fed"] == "none"
