"""The closed forms give the source documents' numbers, and the identities between them hold everywhere."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from computeledger.arrays import Range, sample
from computeledger.errors import QuantityError
from computeledger.facts.load import load_accelerator, load_model, load_system
from computeledger.facts.schema import PRECISION_BYTES
from computeledger.physics import transformer
from computeledger.physics.blackboard.context import (
    kv_bytes_per_token,
    kv_crossover_bytes_per_token,
    kv_crossover_context_tokens,
)
from computeledger.physics.blackboard.estimates import (
    all_succeed_fraction,
    best_of_n_mean,
    grown,
    growth_per_period,
    growth_periods,
    lifetime_tokens,
    pass_at_k,
    samples_for_success,
)
from computeledger.physics.blackboard.ledgers import (
    BlackboardMachine,
    BlackboardModel,
    decode_intensity_flop_per_byte,
    decode_times,
    equal_gpu_time_flop,
    inference_flop,
    pretraining_flop,
    ridge_flop_per_byte,
    rl_beta,
    rl_flop,
    sparsity_fraction,
    sparsity_ratio,
    tokens_inference_balanced,
    tokens_pretraining_balanced,
    tokens_rl_balanced,
)
from computeledger.physics.blackboard.network import (
    bubble_fraction,
    gradient_exchange_bytes,
    gradient_exchange_bytes_per_s,
    pipeline_stage_bytes,
    scale_up_ratio,
    scale_up_time_ratio,
)
from computeledger.physics.blackboard.serving import (
    drain_s,
    fast_mode_batch_ratio,
    fast_mode_price_ratio,
    fast_mode_speed_ratio,
    fast_mode_weight_fraction,
    optimal_batch,
    price_ratio,
    queue_bound_s,
    rate_per_s,
    usd_per_mtok,
)
from computeledger.physics.blackboard.training import (
    budget_per_chip,
    chips_in_budget,
    cluster_flop,
    cluster_time_s,
    compute_optimal_params,
    compute_optimal_tokens,
    global_batch_tokens,
    h100e,
    hardware_training_flop,
    mfu_fraction,
    optimizer_steps,
    overtraining_ratio,
    rental_usd,
    rented_gpus,
    reversible_activation_bytes,
    tokens_from_flop,
)
from computeledger.physics.calibration.efficiency import IDEAL
from computeledger.physics.parallelism import parse_layout
from computeledger.physics.roofline import Machine, parse_precision
from computeledger.units import BITS_PER_BYTE, DAY_S, GIGA, KILO, MINUTE_S, MONTH_S, TERA, YEAR_S
from computeledger.workloads.serving.estimate import ServingScenario, estimate_serving

# peaks and bandwidths as the claims table states them (dense; rows C036, C062, C115, C136)
H100_BF16, H100_FP8, H100_HBM = 989.5e12, 1979e12, 3.35e12
H100_MONTH_FLOP = cluster_flop(1, MONTH_S, H100_BF16, 0.4)
EXACT = 1e-9


GOLDEN = [
    ("C002", equal_gpu_time_flop(1.0, 1 / 5), 0.2, EXACT),
    ("C003 pretraining", cluster_flop(1e5, 3 * MONTH_S, H100_BF16, 0.4), 3.12e26, 2e-3),
    ("C003 RL", equal_gpu_time_flop(cluster_flop(1e5, 3 * MONTH_S, H100_BF16, 0.4), 1 / 5), 6.24525e25, 1e-5),
    ("C007", compute_optimal_params(5e26), 2.04124e12, 1e-5),
    ("C009", inference_flop(1, 1), 2.0, EXACT),
    ("C010", pretraining_flop(1, 1) - inference_flop(1, 1), 4.0, EXACT),
    ("C011", pretraining_flop(1, 1), 6.0, EXACT),
    ("C011 recomputed", hardware_training_flop(1, 1), 8.0, EXACT),
    ("C014", tokens_inference_balanced(1.0), 3.0, EXACT),
    ("C015", tokens_inference_balanced(100 * TERA), 3e14, EXACT),
    ("C017 low", tokens_rl_balanced(1.0, 12), 0.5, EXACT),
    ("C017 high", tokens_rl_balanced(1.0, 8), 0.75, EXACT),
    ("C019", compute_optimal_tokens(1e11), 2e12, EXACT),
    ("C020", tokens_pretraining_balanced(1e14), 3.33e13, 2e-3),
    ("C021", overtraining_ratio(tokens_pretraining_balanced(6e14), 1e11), 100.0, EXACT),
    ("C023 low", lifetime_tokens(10e6, 30 * DAY_S), 2.59e13, 2e-3),
    ("C023 high", lifetime_tokens(100e6, 90 * DAY_S), 7.78e14, 2e-3),
    ("C025", tokens_pretraining_balanced(lifetime_tokens(10e6, 30 * DAY_S)), 8.64e12, EXACT),
    ("C027 few", tokens_rl_balanced(1.0, rl_beta(4)), 0.43, 4e-3),
    ("C027 many", tokens_rl_balanced(1.0, rl_beta(64)), 0.045, 6e-3),
    ("C030", budget_per_chip(500e3, 8), 62500, EXACT),
    ("C031", optimizer_steps(15.6e12, 16e6), 9.8e5, 6e-3),
    ("C034", tokens_from_flop(1e26, 1e11), 1.66667e14, 1e-5),
    ("C036", H100_MONTH_FLOP, 1.04087e21, 1e-5),
    ("C037", cluster_flop(1e5 * 2 * 2.5, MONTH_S, H100_BF16, 0.4), 5.20437e26, 1e-5),
    ("C039", mfu_fraction(3e26, 1e5, 4 * MONTH_S, H100_BF16), 0.29, 1e-2),
    ("C047", growth_per_period(14 / 6, 2), 1.53, 2e-3),
    ("C050", grown(150 * GIGA, 6, 1), 9e11, EXACT),
    ("C051", growth_periods(14, 2.2), 3.34711, 1e-5),
    ("C052", growth_periods(14, 1.4**2), 3.92166, 1e-5),
    ("C053", growth_per_period(2.2, 2), 1.48324, 1e-5),
    ("C054", grown(1.0, 1.5 / 1.4, 10), 1.99357, 1e-5),
    ("C055", growth_periods(2, 1.35), 2.30969, 1e-5),
    ("C056", growth_periods(2, 1.4), 2.06004, 1e-5),
    ("C062", h100e(1, 2.5e15, H100_BF16), 2.52653, 1e-5),
    ("C063", h100e(2e5, 2.5e15, H100_BF16), 505306, 1e-5),
    ("C066", budget_per_chip(100e6, 42.5e3), 2352.94, 1e-5),
    ("C069", chips_in_budget(400e6, 2000), 2e5, EXACT),
    ("C070", h100e(4e5, 0.65e15, H100_BF16), 262759, 1e-5),
    ("C072", chips_in_budget(7 * 65e6, 24e3 / 32), 607e3, 1e-3),
    ("C076", rental_usd(5e4, 4 * MONTH_S, 2.0), 2.922e8, EXACT),
    ("C077", rented_gpus(6 * GIGA, YEAR_S, 2.5), 273785, 1e-5),
    ("C085", sparsity_fraction(20, 1), 0.95, EXACT),
    ("C087", overtraining_ratio(15e12, 37e9, tokens_per_param=1), 405.405, 1e-5),
    ("C088", pretraining_flop(37e9, 14.8e12), 3.2856e24, EXACT),
    ("C091", sparsity_ratio(256, 8), 32, EXACT),
    ("C094", cluster_time_s(pretraining_flop(405e9, 16.8e6), 16384, H100_BF16, 0.4), 6.3, 3e-3),
    ("C095", gradient_exchange_bytes(405e9), 1.62e12, EXACT),
    ("C096", gradient_exchange_bytes_per_s(1.62e12, 1) * BITS_PER_BYTE, 1.296e13, EXACT),
    ("C097", global_batch_tokens(16384, 8, 8192), 1.67772e7, 1e-5),
    ("C102", samples_for_success(0.35, 0.9998), 19.8, 2e-3),
    ("C103", all_succeed_fraction(0.35, 10), 2.75855e-5, 1e-5),
    ("C104", all_succeed_fraction(0.9998, 10), 0.998002, 1e-5),
    ("C105", samples_for_success(0.35**10, 0.9998**10), 225315, 1e-5),
    ("C111", pretraining_flop(70e9, 15e12), 6.3e24, EXACT),
    ("C115", ridge_flop_per_byte(H100_BF16, H100_HBM), 295, 2e-3),
    ("C117", optimal_batch(300, 1, sparsity_ratio=8), 2400, EXACT),
    ("C117 by experts", optimal_batch(300, 1, sparsity_ratio=sparsity_ratio(256, 8)), 9600, EXACT),
    ("C117 by parameters", optimal_batch(300, 1, sparsity_ratio=sparsity_ratio(671, 37)), 5440, 1e-3),
    ("C120", drain_s(80e9, H100_HBM), 23.9 / KILO, 2e-3),
    ("C121", queue_bound_s(0.02), 0.04, EXACT),
    ("C122", rate_per_s(1, 0.02), 50, EXACT),
    ("C123", rate_per_s(2000, 1 / 64), 128e3, EXACT),
    ("C125", fast_mode_batch_ratio(6, 2.5), 15, EXACT),
    ("C125 weights", fast_mode_weight_fraction(15, 2.5), 0.36, 1e-2),
    ("C126", scale_up_ratio(450, 50), 9, EXACT),
    ("C129", overtraining_ratio(150e12, 1e11), 75, EXACT),
    ("C131", equal_gpu_time_flop(6.0, 1 / 0.3), 20.0, EXACT),
    ("C132", tokens_inference_balanced(1.0, 1 / 3), 1.0, EXACT),
    ("C134", rate_per_s(150e12, 2 * MONTH_S), 2.85193e7, 1e-5),
    ("C135", price_ratio(18, 12), 1.5, EXACT),
    ("C136 H100 bf16", kv_crossover_bytes_per_token(1e11, H100_BF16, H100_HBM, 2e5), 3386, 1e-3),
    ("C136 H100 fp8", kv_crossover_bytes_per_token(1e11, H100_FP8, H100_HBM, 2e5), 1693, 1e-3),
    ("C136 reverse", kv_crossover_context_tokens(37e9, H100_BF16, H100_HBM, 70.3e3), 3570, 3e-3),
    ("C137", kv_bytes_per_token(1, 8, 128, 1), 2048, EXACT),
    ("C140", drain_s(4e12, 14 * GIGA), 286, 2e-3),
    ("C140 large", drain_s(30.7e12, 7 * GIGA), 73 * MINUTE_S, 2e-3),
    ("C147", sparsity_fraction(8000, 400), 0.95, EXACT),
    ("C161", gradient_exchange_bytes_per_s(1.62e12, 6) * BITS_PER_BYTE, 2.16e12, EXACT),
    ("C164", rate_per_s(1e8, MONTH_S), 38.0257, 1e-5),
    ("C165", rate_per_s(2000, 0.02), 1e5, EXACT),
    ("C166", fast_mode_price_ratio(15, 2.5), 6, EXACT),
]


@pytest.mark.parametrize(("claim", "value", "expected", "tolerance"), GOLDEN, ids=[row[0] for row in GOLDEN])
def test_source_document_number(claim, value, expected, tolerance):
    assert float(value) == pytest.approx(expected, rel=tolerance)


def test_sampled_fermi_estimate_reproduces_quantiles():
    """C167: bounds are 90 % intervals of log-normals."""
    draws = sample({"rate": Range(10e6, 100e6), "life": Range(30 * DAY_S, 90 * DAY_S)}, n_samples=2**16)
    totals = np.quantile(lifetime_tokens(draws["rate"], draws["life"]), [0.05, 0.5, 0.95])
    assert totals == pytest.approx([3.97e13, 1.42e14, 5.09e14], rel=0.03)


def log_floats(low, high):
    return st.floats(math.log(low), math.log(high)).map(math.exp)


params = log_floats(1e8, 1e13)
tokens = log_floats(1e6, 1e16)
ratios = log_floats(0.01, 100.0)
contexts = log_floats(1.0, 1e7)
batches = log_floats(1.0, 1e6)
models = st.builds(
    lambda active, sparsity, size, kv: BlackboardModel(active, active * sparsity, size, kv),
    params, log_floats(1.0, 64.0), st.sampled_from([0.5625, 1.0, 2.0]), log_floats(100.0, 1e7),
)  # fmt: skip
machines = st.builds(BlackboardMachine, log_floats(1e13, 1e18), log_floats(1e11, 1e15))
factors = log_floats(1.01, 100.0)


def step_s(*arguments):
    return float(decode_times(*arguments).step_s)


@given(batches, contexts, models, machines, factors)
def test_step_never_slows_with_a_faster_machine_nor_speeds_with_more_work(batch, context, model, machine, factor):
    before = step_s(batch, context, model, machine)
    faster = BlackboardMachine(machine.peak_flop_per_s * factor, machine.hbm_bytes_per_s)
    wider = BlackboardMachine(machine.peak_flop_per_s, machine.hbm_bytes_per_s * factor)
    assert step_s(batch, context, model, faster) <= before
    assert step_s(batch, context, model, wider) <= before
    assert step_s(batch * factor, context, model, machine) >= before
    assert step_s(batch, context * factor, model, machine) >= before
    # a larger batch never lowers throughput
    assert rate_per_s(batch * factor, step_s(batch * factor, context, model, machine)) >= (
        rate_per_s(batch, before) * (1 - EXACT)
    )


@given(batches, contexts, models, machines, factors)
def test_work_and_rates_scale_together(batch, context, model, machine, factor):
    """Twice the work on twice the machine takes the same time."""
    larger = BlackboardModel(
        model.n_params_active * factor, model.n_params_total * factor, model.bytes_per_param,
        model.kv_bytes_per_token * factor,
    )  # fmt: skip
    both = BlackboardMachine(machine.peak_flop_per_s * factor, machine.hbm_bytes_per_s * factor)
    assert step_s(batch, context, larger, both) == pytest.approx(step_s(batch, context, model, machine), rel=EXACT)


@given(contexts, models, machines)
def test_limits_of_the_batch(context, model, machine):
    crossover = float(
        kv_crossover_context_tokens(
            model.n_params_active, machine.peak_flop_per_s, machine.hbm_bytes_per_s, model.kv_bytes_per_token
        )
    )
    small = decode_times(1e-12, context, model, machine)
    assert small.bound == "memory"
    assert float(small.step_s) == pytest.approx(float(small.weights_s), rel=1e-3)
    assert decode_times(1e30, 0.99 * crossover, model, machine).bound == "compute"
    assert decode_times(1e30, 1.01 * crossover, model, machine).bound == "memory"
    intensity = float(decode_intensity_flop_per_byte(1e30, context, model))
    assert intensity == pytest.approx(2 * model.n_params_active / (context * model.kv_bytes_per_token), rel=1e-6)


@given(models, machines)
def test_at_the_optimal_batch_computing_takes_as_long_as_reading_weights(model, machine):
    batch = optimal_batch(
        machine.peak_flop_per_s, machine.hbm_bytes_per_s, model.bytes_per_param,
        sparsity_ratio(model.n_params_total, model.n_params_active),
    )  # fmt: skip
    times = decode_times(batch, 0.0, model, machine)
    assert times.compute_s == pytest.approx(times.weights_s, rel=EXACT)
    ridge = ridge_flop_per_byte(machine.peak_flop_per_s, machine.hbm_bytes_per_s)
    assert decode_intensity_flop_per_byte(batch, 0.0, model) == pytest.approx(ridge, rel=EXACT)


@given(contexts, models, machines)
def test_crossover_round_trips_and_is_where_cache_time_equals_compute_time(context, model, machine):
    chip = (machine.peak_flop_per_s, machine.hbm_bytes_per_s)
    kv = float(kv_crossover_bytes_per_token(model.n_params_active, *chip, context))
    assert float(kv_crossover_context_tokens(model.n_params_active, *chip, kv)) == pytest.approx(context, rel=EXACT)
    at = decode_times(7.0, context, BlackboardModel(model.n_params_active, model.n_params_total, 2.0, kv), machine)
    assert at.kv_s == pytest.approx(at.compute_s, rel=EXACT)


def test_crossover_without_a_cache_is_infinite():
    assert float(kv_crossover_context_tokens(1e11, H100_BF16, H100_HBM, 0.0)) == math.inf


@pytest.mark.parametrize("precision", ["bf16", "fp8"])
def test_latent_attention_has_no_crossover_unless_its_cache_is_copied(precision):
    """484 FLOP per byte in 8 bits and 242 in 16 stand above the H200's ridge points of 412 and 206."""
    model, chip = load_model("deepseek-v3"), load_accelerator("h200-sxm5-141gb")
    rates = chip.peak_flop_per_s[precision].value, chip.hbm_bytes_per_s.value
    cached = float(transformer.kv_bytes_per_token(model, PRECISION_BYTES[precision]))
    work = transformer.attention_flop_per_cached_token(model)
    assert work == 2 * 128 * (576 + 512) * 61
    once, copied = (
        kv_crossover_context_tokens(transformer.n_params_active(model), *rates, copies * cached, work)
        for copies in (1, 8)
    )
    assert float(once) == math.inf
    assert 500 < float(copied) < 1000


def test_the_operations_find_latent_attention_bound_as_the_closed_form_says():
    """One copy of the cache: computing binds at any context. Copied over eight GPUs: the cache binds."""
    model, machine = load_model("deepseek-v3"), Machine(load_system("h200-nvl8"), IDEAL)
    for layout, computing_binds in (("tp1-dp8-ep8", True), ("tp8-ep8", False)):
        scenario = ServingScenario(
            model, parse_layout(layout), parse_precision("fp8", moe=True), 100_000.0, 1024.0, batch=8.0
        )
        decode = {one.name: one for one in estimate_serving(scenario, machine).decode}
        latent = decode["latent attention"]
        assert bool(latent.compute_s > latent.memory_s) == computing_binds


@given(ratios, ratios)
def test_fast_mode_identity(price, speed):
    """Price times throughput per GPU stays the same: what the batch loses, the price makes good."""
    assert fast_mode_price_ratio(fast_mode_batch_ratio(price, speed), speed) == pytest.approx(price, rel=EXACT)


@given(log_floats(1.5, 1000.0), st.floats(0.01, 0.99))
def test_fast_mode_in_the_linear_model(batch_ratio, weight_fraction):
    speed = fast_mode_speed_ratio(batch_ratio, weight_fraction)
    assert 1 <= speed <= min(batch_ratio, 1 / weight_fraction) * (1 + EXACT)
    assert fast_mode_weight_fraction(batch_ratio, speed) == pytest.approx(weight_fraction, rel=1e-6)
    slow_cost, fast_cost = (
        usd_per_mtok(2.0, 8, rate) for rate in (rate_per_s(batch_ratio, 1.0), rate_per_s(1, 1 / speed))
    )
    assert fast_mode_price_ratio(batch_ratio, speed) == pytest.approx(fast_cost / slow_cost, rel=EXACT)


@given(params, tokens, ratios, log_floats(6.0, 500.0))
def test_balanced_ledgers_cost_the_same(n, pretraining, utilization, beta):
    budget = pretraining_flop(n, pretraining)
    served = tokens_inference_balanced(pretraining, utilization)
    # inference does `utilization` times the FLOP of pretraining in the same GPU-time
    assert inference_flop(n, served) == pytest.approx(equal_gpu_time_flop(budget, utilization), rel=EXACT)
    assert tokens_pretraining_balanced(served, utilization) == pytest.approx(pretraining, rel=EXACT)
    assert rl_flop(n, tokens_rl_balanced(pretraining, beta), beta) == pytest.approx(budget, rel=EXACT)
    assert tokens_from_flop(budget, n) == pytest.approx(pretraining, rel=EXACT)


@given(log_floats(1.0, 1000.0), ratios)
def test_rl_coefficient_is_training_plus_sampling(samples, utilization):
    kept, n = 1e6, 1e10
    sampling = equal_gpu_time_flop(inference_flop(n, samples * kept), 1 / utilization)
    total = rl_flop(n, kept, rl_beta(samples, utilization))
    assert total == pytest.approx(pretraining_flop(n, kept) + sampling, rel=EXACT)


@given(log_floats(1e18, 1e28))
def test_compute_optimal_run_spends_its_budget(flop):
    n = compute_optimal_params(flop)
    assert pretraining_flop(n, compute_optimal_tokens(n)) == pytest.approx(flop, rel=EXACT)
    assert overtraining_ratio(compute_optimal_tokens(n), n) == pytest.approx(1.0, rel=EXACT)


@given(log_floats(1e18, 1e28), log_floats(1.0, 1e6), log_floats(1e13, 1e16), st.floats(0.01, 1.0))
def test_cluster_time_work_and_utilisation_agree(flop, n_gpus, peak, utilization):
    time = cluster_time_s(flop, n_gpus, peak, utilization)
    assert cluster_flop(n_gpus, time, peak, utilization) == pytest.approx(flop, rel=EXACT)
    assert mfu_fraction(flop, n_gpus, time, peak) == pytest.approx(utilization, rel=EXACT)
    assert rented_gpus(rental_usd(n_gpus, time, 2.0), time, 2.0) == pytest.approx(n_gpus, rel=EXACT)
    assert budget_per_chip(flop, chips_in_budget(flop, n_gpus)) == pytest.approx(n_gpus, rel=EXACT)


@given(log_floats(1.01, 1e6), log_floats(1.01, 10.0))
def test_growth_round_trips(ratio, growth):
    periods = growth_periods(ratio, growth)
    assert grown(1.0, growth, periods) == pytest.approx(ratio, rel=1e-9)
    assert growth_per_period(ratio, periods) == pytest.approx(growth, rel=1e-9)


@given(st.floats(1e-6, 0.9), st.floats(0.0, 0.999))
def test_enough_samples_reach_the_target(chance, target):
    samples = float(samples_for_success(chance, target))
    assert samples >= 1
    reached = -math.expm1(samples * math.log1p(-chance))
    assert reached >= target - 1e-12
    assert samples == 1 or reached == pytest.approx(target, rel=1e-6)


@given(st.integers(1, 60).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n))))
def test_pass_at_k_is_the_hypergeometric_chance(counts):
    n, c, k = counts
    assert float(pass_at_k(n, c, k)) == pytest.approx(1 - math.comb(n - c, k) / math.comb(n, k), abs=1e-11)


@pytest.mark.parametrize(("n", "c", "k"), [(10, 11, 1), (10, -1, 1), (10, 3, 11), (10, 3, 0), (10, 2.5, 1)])
def test_pass_at_k_refuses_impossible_counts(n, c, k):
    with pytest.raises(QuantityError, match="0 <= c <= n"):
        pass_at_k(n, c, k)


#: Expected largest of n standard normal draws; up to five in closed form, beyond as tabulated (Harter 1961).
BEST_OF_N = {1: 0.0, 2: 1 / math.sqrt(math.pi), 3: 1.5 / math.sqrt(math.pi), 10: 1.53875, 100: 2.50759}


def test_best_of_n_is_the_mean_of_the_normal_maximum():
    for n, expected in BEST_OF_N.items():
        assert float(best_of_n_mean(0.0, 1.0, n)) == pytest.approx(expected, abs=5e-6), n  # C101
    draws = np.random.default_rng(0).standard_normal((4000, 1000)).max(axis=1)
    error = 4 * draws.std() / math.sqrt(len(draws))
    assert float(best_of_n_mean(0.0, 1.0, 1000)) == pytest.approx(draws.mean(), abs=error)
    assert float(best_of_n_mean(3.0, 2.0, 1)) == pytest.approx(3.0, abs=1e-12)


@given(st.floats(1.0, 1e12))
def test_best_of_n_lies_below_its_asymptotic_bound(n):
    assert -1e-12 <= float(best_of_n_mean(0.0, 1.0, n)) <= math.sqrt(2 * math.log(n)) + 1e-9


@given(st.integers(1, 64), st.integers(1, 512))
def test_pipelining_divides_weights_but_not_cache(stages, microbatches):
    assert pipeline_stage_bytes(64.0, 0.0, stages) == pytest.approx(64.0 / stages)
    assert pipeline_stage_bytes(0.0, 5.0, stages) == 5.0
    # a step of m microbatches fills m of m + p - 1 slots
    assert bubble_fraction(stages, microbatches) == pytest.approx(1 - microbatches / (microbatches + stages - 1))
    assert bubble_fraction(stages, microbatches, 2) <= bubble_fraction(stages, microbatches)


def test_experts_need_scale_up_and_hops_do_not():
    # 8 experts there and back in 4 layers move 64 hops' bytes over links 9 times as fast
    assert scale_up_time_ratio(8, 4, 9.0) == pytest.approx(64 / 9)
    assert scale_up_time_ratio(8, 4, scale_up_ratio(450, 50)) > 1 > scale_up_time_ratio(1, 1, scale_up_ratio(450, 50))


def test_a_gpu_hour_buys_its_tokens():
    """3.6 million tokens in an hour at 1000 a second."""
    assert usd_per_mtok(7.2, 1, 1000.0) == pytest.approx(2.0)
    assert usd_per_mtok(7.2, 8, 8000.0) == pytest.approx(2.0)


def test_reversible_layers_trade_memory_for_a_forward_pass():
    share = np.linspace(0, 1, 5)
    memory, work = reversible_activation_bytes(1.0, 80, share), hardware_training_flop(1, 1, share)
    assert (memory[0], memory[-1]) == (80.0, 1.0)
    assert (work[0], work[-1]) == (6.0, 8.0)
    assert np.all(np.diff(memory) < 0)
    assert np.all(np.diff(work) > 0)


@given(st.integers(1, 16))
def test_gradient_exchange_grows_to_twice_the_gradients(sites):
    assert gradient_exchange_bytes(1.0, sites) == pytest.approx(8.0 * (1 - 1 / sites))


def test_arrays_equal_scalars():
    batch, context = np.array([1.0, 64.0, 4096.0])[:, None], np.array([0.0, 1e4, 2e5])
    model, machine = BlackboardModel(37e9, 671 * GIGA, 1.0, 70272.0), BlackboardMachine(H100_FP8, H100_HBM)
    grid = decode_times(batch, context, model, machine)
    assert grid.step_s.shape == grid.bound.shape == (3, 3)
    for i, j in np.ndindex(3, 3):
        point = decode_times(float(batch[i, 0]), float(context[j]), model, machine)
        assert (float(point.step_s), str(point.bound)) == (grid.step_s[i, j], grid.bound[i, j])


ELEMENTWISE = [
    (pretraining_flop, (1e11, 1e13)), (inference_flop, (1e11, 1e13)), (rl_flop, (1e11, 1e13, 9.0)),
    (rl_beta, (16.0, 0.2)), (tokens_inference_balanced, (1e13, 0.3)), (tokens_rl_balanced, (1e13, 9.0)),
    (compute_optimal_params, (1e25,)), (optimal_batch, (H100_BF16, H100_HBM, 1.0, 18.0)),
    (kv_crossover_context_tokens, (1e11, H100_BF16, H100_HBM, 2e4)),
    (usd_per_mtok, (2.0, 8.0, 1e4)), (fast_mode_speed_ratio, (15.0, 0.36)),
    (fast_mode_weight_fraction, (15.0, 2.5)), (growth_periods, (14.0, 2.2)), (pass_at_k, (100.0, 7.0, 10.0)),
    (samples_for_success, (0.1, 0.9)), (best_of_n_mean, (1.0, 2.0, 100.0)),
    (gradient_exchange_bytes, (4e11, 3.0)), (bubble_fraction, (8.0, 56.0, 2.0)), (cluster_flop, (8.0, 60.0, 1e15, 0.4)),
    (h100e, (1e5, 2.5e15, 1e15)), (reversible_activation_bytes, (1e8, 80.0, 0.5)),
]  # fmt: skip


@pytest.mark.parametrize(("function", "arguments"), ELEMENTWISE, ids=[row[0].__name__ for row in ELEMENTWISE])
def test_every_argument_broadcasts(function, arguments):
    scalar = float(function(*arguments))
    for position, argument in enumerate(arguments):
        varied = [np.full((2, 1), argument) if i == position else np.full(3, x) for i, x in enumerate(arguments)]
        result = function(*varied)
        assert result.shape == ((2, 3) if len(arguments) > 1 else (2, 1))
        np.testing.assert_allclose(result, scalar, rtol=1e-12)
