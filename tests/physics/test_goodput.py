"""Goodput: the failure process by simulation, the limits of the closed form, and published runs."""

from __future__ import annotations

import numpy as np
import pytest

from computeledger.arrays import Range, sample
from computeledger.errors import QuantityError
from computeledger.facts.reliability import load_reliability, published_interruptions_per_gpu_s, reliability_record
from computeledger.physics.critical_batch import critical_batch_range, critical_batch_tokens, growing_batch
from computeledger.physics.goodput import (
    ASSUMED_ELASTIC,
    ASSUMED_STOPS,
    Reliability,
    checkpoint_interval_daly_s,
    checkpoint_interval_young_s,
    elastic_goodput_fraction,
    goodput,
    mean_time_between_failures_s,
)
from computeledger.units import DAY_S, HOUR_S, MINUTE_S

SHARES = ("useful", "straggler", "pause", "lost", "restart", "planned")


def simulated(one: Reliability, n_gpus: int, interval_s: float, pieces: int) -> float:
    """Useful share of a run in which failures strike at random, restarts included, played out."""
    rng = np.random.default_rng(0)
    mean = 1 / (n_gpus * float(one.interruptions_per_gpu_s))
    now = 0.0
    failure = rng.exponential(mean)
    for _ in range(pieces):
        need = interval_s + float(one.pause_s)
        while failure < now + need:  # all since the last checkpoint is lost
            now = failure
            failure = now + rng.exponential(mean)
            while failure < now + float(one.restart_s) + float(one.write_s):  # a failure while coming up starts it anew
                now = failure
                failure = now + rng.exponential(mean)
            now += float(one.restart_s) + float(one.write_s)
        now += need
    return pieces * interval_s / now


def test_the_closed_form_is_the_played_out_process() -> None:
    one = Reliability(1 / (1000 * 3000.0), pause_s=30.0, write_s=60.0, restart_s=400.0, interval_s=500.0)
    assert float(goodput(one, 1000).goodput_fraction) == pytest.approx(simulated(one, 1000, 500.0, 20_000), rel=0.01)


def test_shares_add_up_over_samples() -> None:
    drawn = sample({name: value for name, (value, _) in ASSUMED_STOPS.items()}, 512)
    run = goodput(Reliability(published_interruptions_per_gpu_s().high, **drawn), 8192)
    total = sum(np.asarray(getattr(run, f"{name}_fraction")) for name in SHARES)
    assert np.allclose(total, 1.0)


def test_limits_of_goodput() -> None:
    """Nothing fails: only the pause is lost; more GPUs never raise goodput; Daly's interval is the best one."""
    calm = goodput(Reliability(1e-30, pause_s=2.0, write_s=98.0, interval_s=98.0), 8)
    assert float(calm.goodput_fraction) == pytest.approx(0.98)
    rates = [float(goodput(Reliability(5e-9), n).goodput_fraction) for n in (8, 512, 8192, 65536)]
    assert rates == sorted(rates, reverse=True)
    one = Reliability(5e-9, pause_s=20.0, write_s=20.0)
    best = goodput(one, 16384)
    around = [
        float(goodput(Reliability(5e-9, 20.0, 20.0, interval_s=factor * best.interval_s), 16384).goodput_fraction)
        for factor in (0.5, 0.8, 1.25, 2.0)
    ]
    assert max(around) < float(best.goodput_fraction)


def test_intervals_agree_where_failures_are_rare() -> None:
    young, daly = (f(10.0, 1e6) for f in (checkpoint_interval_young_s, checkpoint_interval_daly_s))
    assert float(young) == pytest.approx(float(daly), rel=0.005)


def test_a_job_that_never_advances_is_refused() -> None:
    with pytest.raises(QuantityError, match="does not advance"):
        goodput(Reliability(1e-6, restart_s=HOUR_S), 100_000)


def test_the_54_days_of_llama_3_405b() -> None:
    """Published: 419 unexpected and 47 planned stops of 16,384 GPUs, more than 90 % effective training time."""
    facts = reliability_record("llama-3.1-405b-54-days").facts
    n_gpus, elapsed_s = facts["n_gpus"].value, facts["elapsed_s"].value
    drawn = sample({name: value for name, (value, _) in ASSUMED_STOPS.items()}, 4096)
    drawn["planned_stops_per_s"] = facts["n_planned"].value / elapsed_s
    rate = reliability_record("llama-3.1-405b-54-days").interruptions_per_gpu_s
    assert rate is not None
    run = goodput(Reliability(rate, **drawn), n_gpus)
    low, middle, high = np.quantile(np.asarray(run.effective_fraction), [0.05, 0.5, 0.95])
    assert elapsed_s / float(run.mean_time_between_failures_s) == pytest.approx(facts["n_interruptions"].value)
    assert facts["effective_fraction"].value < middle < 0.96
    assert low > 0.85 and high < 0.97


def test_elastic_recovery_is_that_of_gemini_and_beats_restarts_of_large_jobs_alone() -> None:
    """Gemini 2.5's report: tens of seconds lost, 97 % of the speed, against 10 minutes or more without elasticity."""
    facts = reliability_record("gemini-2.5").facts
    lost, speed = (ASSUMED_ELASTIC[name][0] for name in ("lost_s", "slowed_fraction"))
    known = facts["recover_s"]
    assert isinstance(lost, Range) and (lost.low, lost.high) == (known.low, known.high)
    assert speed == facts["slowed_fraction"].value
    often = Reliability(6.3e-9, restart_s=facts["restart_s"].value)
    rides = {n: float(elastic_goodput_fraction(often, n, 40.0, 0.97)) for n in (256, 16_384, 524_288)}
    whole = {n: float(goodput(often, n).goodput_fraction) for n in rides}
    assert rides[256] < whole[256] and rides[16_384] > whole[16_384] and rides[524_288] > 4 * whole[524_288]
    assert elastic_goodput_fraction(often, 16_384, 0.0, 1.0) == 1.0


def test_the_97_percent_of_byterobust_is_inside_the_interval() -> None:
    """Published: 97 % over three months on 9,600 GPUs, whose own failure rate is not stated."""
    facts = reliability_record("byterobust").facts
    drawn = sample(
        {"rate": published_interruptions_per_gpu_s(), **{name: value for name, (value, _) in ASSUMED_STOPS.items()}},
        4096,
    )
    run = goodput(Reliability(drawn.pop("rate"), **drawn), facts["n_gpus"].value)
    low, high = np.quantile(np.asarray(run.effective_fraction), [0.05, 0.95])
    assert low < facts["effective_fraction"].value < high + 0.01


def test_published_rates() -> None:
    """RSC-1: 1.8 h between failures of 16,384 GPUs, 0.23 h of 131,072 (arXiv 2410.21680); BLOOM loses 1.5 of 3 h."""
    rate = load_reliability()["rsc-1"].interruptions_per_gpu_s
    assert rate is not None
    for n_gpus, hours in ((16_384, 1.8), (131_072, 0.23)):
        assert mean_time_between_failures_s(n_gpus, rate) / HOUR_S == pytest.approx(hours, rel=0.03)
    bloom = load_reliability()["bloom-176b"]
    interval = bloom.facts["checkpoint_interval_s"].value
    rate = bloom.interruptions_per_gpu_s
    assert rate is not None
    run = goodput(Reliability(rate, write_s=0.001, restart_s=MINUTE_S, interval_s=interval), 384)
    failures_per_s = 1 / float(run.mean_time_between_failures_s)
    assert float(run.lost_fraction) / failures_per_s == pytest.approx(bloom.facts["lost_s"].value, rel=0.05)


def test_critical_batch_grows_and_a_growing_batch_covers_the_run() -> None:
    seen = np.geomspace(1e9, 1e13, 50)
    batch = critical_batch_tokens(seen)
    assert np.all(np.diff(batch) > 0)
    assert float(critical_batch_tokens(168e9)) == pytest.approx(2048 * 4096, rel=1e-6)
    phases = growing_batch(2e6, 64e6, 15e12)
    assert phases[0].start_tokens == 0 and phases[-1].end_tokens == 15e12
    assert [one.end_tokens for one in phases[:-1]] == [one.start_tokens for one in phases[1:]]
    for one in phases[1:]:
        assert one.batch_tokens <= 1.001 * float(critical_batch_tokens(one.start_tokens))
    assert growing_batch(16e6, 16e6, 1e12)[0].tokens == 1e12


def test_the_critical_batch_holds_what_labs_use_and_widens_beyond_what_was_measured() -> None:
    """Published batches of large runs lie inside the interval, which is exact where it was measured and then widens."""
    assert critical_batch_range(400e9) == pytest.approx(float(critical_batch_tokens(400e9)))
    widths = []
    for seen, used in ((14.8e12, 15_360 * 4096.0), (15.6e12, 16.8e6), (350e12, None)):
        found = critical_batch_range(seen)
        assert isinstance(found, Range)
        assert used is None or found.low <= used <= found.high
        widths.append(found.high / found.low)
    assert widths == sorted(widths)


def test_days_are_days() -> None:
    assert reliability_record("llama-3.1-405b-54-days").facts["elapsed_s"].value == 54 * DAY_S
