"""An RL step: what is conserved, who waits, what asynchrony, verifiers and tails do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from computeledger.arrays import Num
from computeledger.errors import DoesNotFitError, QuantityError
from computeledger.facts.load import load_model, load_system
from computeledger.physics.calibration.efficiency import efficiency
from computeledger.physics.calibration.rl import rl_factors
from computeledger.physics.calibration.training import training_efficiency
from computeledger.physics.parallelism import Layout
from computeledger.physics.roofline import Machine, Precision
from computeledger.physics.transformer import n_params_active
from computeledger.questions.answers.rl.answer import rl as ask_rl
from computeledger.workloads.rl.estimate import RLResult, estimate_rl
from computeledger.workloads.rl.generation import Generation, generate, steady
from computeledger.workloads.rl.lengths import empirical_lengths, exact_lengths, lengths_of_mean, lognormal_lengths
from computeledger.workloads.rl.levers import levers
from computeledger.workloads.rl.pace import decode_step_s
from computeledger.workloads.rl.scale_up import domain_use
from computeledger.workloads.rl.scenario import Algorithm, Domain, RLMachines, RLScenario, Split, TextReward
from computeledger.workloads.rl.search import next_gpu, rl_machine, search_generation, search_split
from computeledger.workloads.rl.training import Trainer
from computeledger.workloads.rl.turns import Sampling
from computeledger.workloads.serving.estimate import ServingScenario

MODEL = load_model("llama-3.1-8b")
MACHINE = rl_machine(Machine(load_system("h100-nvl8"), efficiency(), training_efficiency()))
MACHINES = RLMachines(MACHINE, MACHINE, rl_factors())
ENGINE = ServingScenario(MODEL, Layout(), Precision(), 200.0, 2000.0, 1024.0)
RUN = RLScenario(
    engine=ENGINE,
    sampling=Sampling(lengths_of_mean(2000.0, 8000.0), 200.0, 8.0),
    algorithm=Algorithm(128.0, 8.0),
    trainer=Trainer(Layout(dp=16)),
    split=Split(16.0, 16.0),
)
APART = replace(RUN, trainer=Trainer(Layout(dp=8)), split=Split(8.0, 8.0, is_colocated=False))


def rl(run: RLScenario = RUN) -> RLResult:
    return estimate_rl(run, MACHINES)


def lagged(lag: int, in_flight: bool = False) -> RLScenario:
    return replace(APART, split=replace(APART.split, max_lag=lag, is_in_flight=in_flight))


def test_ideal_flop_count() -> None:
    """Generation 2, one log-prob pass 2, one update 6: 10 per token where the prompt is short."""
    short = replace(RUN, sampling=replace(RUN.sampling, prompt_tokens=0.0))
    assert float(rl(short).beta_flop) == pytest.approx(10)
    half = replace(RUN.algorithm, logprob_passes=0.0, kept_fraction=0.5)
    assert float(rl(replace(short, algorithm=half)).beta_flop) == pytest.approx(5)


def test_flop_of_rl_on_text_by_hand() -> None:
    """8 thoughts of 2000 at a place, context 200 read once per group by the generators and once by the scorer."""
    text = TextReward(32.0, plain_tokens=1e6)
    bare = replace(RUN, algorithm=replace(RUN.algorithm, logprob_passes=0.0), text=text)
    n = n_params_active(MODEL)
    found = rl(bare).flop_by_phase
    assert found["generation"] == pytest.approx(2 * n * 128 * (8 * 2000 + 200))
    assert found["thought scoring"] == pytest.approx(2 * n * 128 * (200 + 8 * (2000 + 32)))
    assert found["baseline"] == pytest.approx(2 * n * 128 * 32)
    assert found["update"] == pytest.approx(6 * n * (128 * 8 * 2200 + 1e6))
    with_gold = rl(replace(bare, text=replace(text, is_gold_trained=True))).flop_by_phase
    assert with_gold["update"] == pytest.approx(6 * n * (128 * 8 * 2232 + 1e6))
    alone = rl(replace(bare, sampling=replace(RUN.sampling, is_prefix_shared=False))).flop_by_phase
    assert alone["generation"] == pytest.approx(2 * n * 128 * 8 * 2200)
    passed = rl(replace(bare, algorithm=replace(bare.algorithm, logprob_passes=1.0))).flop_by_phase
    assert passed["log-probs"] == pytest.approx(2 * n * 128 * (8 * 2000 + 200))


RUNS = {
    "in turns": RUN,
    "apart, waiting": APART,
    "one step off": lagged(1),
    "in flight": lagged(8, in_flight=True),
    "over-sampled": replace(RUN, algorithm=replace(RUN.algorithm, started_ratio=1.5)),
    "partial": replace(RUN, algorithm=replace(RUN.algorithm, started_ratio=1.5, keeps_partial=True)),
    "rounds": replace(RUN, algorithm=replace(RUN.algorithm, sampling_rounds=2.0, kept_fraction=0.6)),
    "slow verdicts": replace(RUN, domains=(Domain(0.5, 30.0, 64.0), Domain(0.5, 1.0, 8.0))),
    "a text": replace(RUN, text=TextReward(32.0, is_gold_trained=True, plain_tokens=1e5)),
    "a text, apart": replace(APART, text=TextReward(32.0)),
    "samples": replace(RUN, sampling=replace(RUN.sampling, lengths=lengths_of_mean(np.array([1e3, 2e3, 3e3]), 9e3))),
}


@pytest.mark.parametrize("name", RUNS)
def test_gpu_time_and_tokens_are_conserved(name: str) -> None:
    result = rl(RUNS[name])
    parts = np.array(np.broadcast_arrays(*result.phases_gpu_s.values()))
    assert np.all(parts >= -1e-9)
    assert parts.sum(axis=0) == pytest.approx(np.asarray(result.step_s * RUN.split.n_gpus), rel=1e-9)
    assert result.kept_tokens + result.dropped_tokens == pytest.approx(result.sampled_tokens, rel=1e-12)
    assert np.all(np.asarray(result.dropped_tokens) >= -1e-6 * np.asarray(result.sampled_tokens))


def test_a_larger_lag_never_raises_the_step() -> None:
    for in_flight in (False, True):
        steps = [float(rl(lagged(lag, in_flight and lag > 0)).step_s) for lag in (0, 1, 2, 3, 4, 8, 32)]
        assert all(later <= earlier * (1 + 1e-9) for earlier, later in pairwise(steps))


@settings(max_examples=25, deadline=None)
@given(st.floats(0.1, 60.0), st.integers(1, 4096), st.integers(1, 4096))
def test_more_verifiers_never_slow(verdict_s: float, few: int, more: int) -> None:
    few, more = sorted((few, more))
    for run in (RUN, lagged(4)):
        steps = [rl(replace(run, domains=(Domain(1.0, verdict_s, float(n)),))).step_s for n in (few, more)]
        assert steps[1] <= steps[0]


def test_heavier_tail_idles_more() -> None:
    """With the same mean, the longer the longest rollout the more places stand empty and the longer the step."""
    results = [
        rl(replace(RUN, sampling=replace(RUN.sampling, lengths=lengths_of_mean(2000.0, 2000.0 * tail))))
        for tail in (1.0, 2.0, 4.0, 8.0)
    ]
    live = [float(one.generation.live) for one in results]
    walls = [float(one.generation.wall_s) for one in results]
    assert live == sorted(live, reverse=True)
    assert walls == sorted(walls)


def test_equal_rollouts_take_their_length_times_a_step() -> None:
    """Without a tail and a queue: length x step at the mean context, to a trapezoid's accuracy."""
    lengths = exact_lengths(1000.0)
    one = generate(ENGINE, Sampling(lengths, 1.0), (64.0, 1.0), (MACHINE, MACHINES.factors))
    middle = float(decode_step_s(ENGINE, 64.0, 501.0, (MACHINE, MACHINES.factors)))
    assert float(one.wall_s - one.prefill_s) == pytest.approx(1000 * middle, rel=1e-3)
    assert float(one.live) == pytest.approx(64)


def test_many_batches_flow_as_the_steady_state() -> None:
    """Generated together, endless batches have no tail: the rate of continuous starting."""
    engine, sampling = replace(ENGINE, batch=64.0), RUN.sampling
    made_of = (MACHINE, MACHINES.factors)
    many = generate(engine, sampling, (1e6, 1.0), made_of)
    flow = steady(engine, sampling, (1e6, 64.0, 1.0), made_of)
    assert float(many.wall_s / flow.wall_s) == pytest.approx(1.0, rel=2e-3)


def test_lengths() -> None:
    """A log-normal's mean, one observed in numbers, and the longest of many."""
    assert float(lognormal_lengths(1000.0, 1000.0 * np.exp(1.6448536), 1e9).mean_tokens) == pytest.approx(
        1000 * np.exp(0.5), rel=5e-3
    )
    drawn = np.random.default_rng(0).lognormal(7.0, 0.8, 20_000)
    seen = empirical_lengths(drawn)
    assert float(seen.mean_tokens) == pytest.approx(drawn.mean(), rel=5e-3)
    groups = drawn.reshape(-1, 50).max(axis=1).mean()
    assert float(seen.expected_longest_tokens(50.0)) == pytest.approx(groups, rel=0.02)
    assert float(lengths_of_mean(3000.0, 4000.0).mean_tokens) == pytest.approx(3000, rel=1e-6)


@pytest.mark.parametrize("rollouts", [256.0, 20_000.0], ids=["room for all", "a queue of its own"])
def test_samples_are_worked_out_as_each_alone(rollouts: float) -> None:
    """What all samples share is worked out once: with it and without, each is what it would be by itself."""
    made_of, means = (MACHINE, MACHINES.factors), np.array([30.0, 2000.0, 6000.0, 9000.0])

    def asked(mean_tokens: Num) -> Generation:
        lengths = lengths_of_mean(mean_tokens, 3.0 * mean_tokens)
        return generate(ENGINE, Sampling(lengths, 200.0, 8.0), (rollouts, 4.0), made_of)

    together, alone = asked(means), [asked(float(one)) for one in means]
    for name in ("wall_s", "busy_s", "live", "tokens"):
        found = np.broadcast_to(getattr(together, name), means.shape)
        np.testing.assert_allclose(found, [float(getattr(one, name)) for one in alone], rtol=1e-5)


def test_beta_in_gpu_time_exceeds_beta_in_flop() -> None:
    """Decode is slower per FLOP than training: no published row reaches the FLOP count."""
    result = rl()
    assert float(result.beta_gpu_time(6 * 8.03e9 / (0.4 * 989e12))) > 2 * float(result.beta_flop)


def test_searches_find_what_enumeration_finds() -> None:
    layouts = [Layout(), Layout(tp=2), Layout(tp=4), Layout(tp=8)]
    best = search_generation(RUN, layouts, MACHINES)
    walls = {str(one): float(rl(replace(RUN, engine=replace(ENGINE, layout=one))).generation.wall_s) for one in layouts}
    assert walls[str(best)] == min(walls.values())
    found = search_split(lagged(4, in_flight=True), MACHINES, 4)
    by_hand = min(
        float(rl(replace(RUN, engine=replace(ENGINE, layout=one.layout), split=one.split, trainer=one.trainer)).step_s)
        for one in found
        if not one.split.is_colocated
    )
    assert found[0].step_s <= by_hand * (1 + 1e-9)


def test_the_next_gpu_goes_where_the_pace_is_set() -> None:
    slow_trainer = replace(APART, trainer=Trainer(Layout(dp=2)), split=Split(14.0, 2.0, False, 8, True))
    saved = next_gpu(slow_trainer, MACHINES)
    assert saved["training"].of_each_fraction > saved["generation"].of_each_fraction
    # a trainer of tp1-dp2-cp4 takes four GPUs more, not one
    asked: dict[str, Any] = {"model": "qwen3-8b", "system": "h100-nvl8", "rollout_tokens": "4K", "max_lag": 4}
    few, more = (ask_rl(**asked, samples=16, gpus=24 + n, training_gpus=n) for n in (8, 12))
    told = few.next_gpu["training"]
    assert told.added == 4 and told.saved_fraction == pytest.approx(1 - more.typical.step_s / few.typical.step_s)
    assert ("The next GPUs", f"4 more GPUs for training save {100 * told.saved_fraction:.1f} % of a step") in few.view(
        working=False
    ).facts


def test_levers_and_domains() -> None:
    names = {one.name: one.gpu_time_ratio for one in levers(RUN, MACHINES)}
    assert names["asynchrony"] < 1 and names["more concurrency"] < 1
    h200 = rl_machine(replace(MACHINE, system=load_system("h200-nvl8")))
    engine = replace(RUN.engine, model=load_model("llama-3.1-405b"), precision=Precision())
    use = domain_use(engine, RUN.sampling, RLMachines(h200, h200, rl_factors()))
    assert use.fits and use.weights_bytes == pytest.approx(0.81e12, rel=0.02)


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (lambda: lagged(-1), "max_lag -1: must not be negative"),
        (lambda: replace(RUN, split=replace(RUN.split, max_lag=2)), "training"),
        (lambda: replace(RUN, algorithm=replace(RUN.algorithm, started_ratio=0.5)), "started_ratio 0.5: .* at least 1"),
        (lambda: replace(RUN, domains=(Domain(1.0, 1.0, 0.0),)), "n_cores 0: .* at least 1"),
    ],
)
def test_contradictions_are_refused(run: Callable[[], RLScenario], message: str) -> None:
    with pytest.raises(QuantityError, match=message):
        rl(run())


def test_no_room_is_refused() -> None:
    with pytest.raises(DoesNotFitError, match="replica"):
        search_generation(replace(RUN, split=Split(4.0, 4.0)), [Layout(tp=8)], MACHINES)
    long = replace(RUN.sampling, lengths=exact_lengths(2e6))
    with pytest.raises(DoesNotFitError, match="one rollout"):
        search_generation(replace(RUN, sampling=long), [Layout()], MACHINES)
