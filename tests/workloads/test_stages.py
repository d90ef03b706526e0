"""A run in stages, and what its tokens are worth: the critical batch, repeats, local steps."""

from __future__ import annotations

import numpy as np
import pytest

import computeledger as cl
from computeledger.economics.scaling.laws import load_loss_law
from computeledger.economics.scaling.worth import price_of_batch, price_of_local_steps
from computeledger.errors import InputError
from computeledger.fields import Given
from computeledger.physics.critical_batch import BatchPhase, critical_batch_tokens, worth_of_batches
from computeledger.workloads.pretraining.stages import read_stages

ASKED = {
    "model": "llama-3.1-8b", "system": "64xh100", "layout": "tp2-dp32", "tokens": "1T", "samples": "16",
    "sequence_tokens": "4096", "global_batch_tokens": "4M", "recompute": "selective", "microbatch_sequences": "1",
}  # fmt: skip
LAW = load_loss_law("besiroglu_2024")


def hours(**given: Given) -> float:
    asked: dict[str, Given] = {**ASKED, **given}
    return float(np.median(cl.pretrain(**asked).result.gpu_hours))


def test_the_run_is_the_sum_of_its_stages() -> None:
    whole = hours(stage=["until=100B,global_batch=1M", "from=900B,sequence=32K,layout=tp2-cp4-dp8"])
    parts = (
        hours(tokens="100B", global_batch_tokens="1M", microbatch_sequences=None, recompute=None)
        + hours(tokens="800B")
        + hours(tokens="100B", sequence_tokens="32K", layout="tp2-cp4-dp8", microbatch_sequences=None, recompute=None)
    )
    assert whole == pytest.approx(parts)
    assert hours() == pytest.approx(hours(stage=["until=500B,global_batch=4M,microbatch=1,recompute=selective"]))


def test_stages_are_in_the_answer_and_in_the_view() -> None:
    answer = cl.pretrain(**ASKED, stage=["until=100B,global_batch=1M"], unique_tokens="300B")
    document = answer.to_dict()
    assert [one["stage"] for one in document["stages"]] == ["until=100B,global_batch=1M", ""]
    assert sum(one["gpu_hours"]["p50"] for one in document["stages"]) == pytest.approx(
        document["gpu_hours"]["p50"], rel=0.01
    )
    assert [one["name"] for one in document["worth"]["parts"]] == ["batch", "repeated data"]
    assert document["worth"]["tokens"]["p50"] < 1e12
    titles = [one.title for one in answer.view().tables]
    assert "The run in stages" in titles and any(one.startswith("What the tokens are worth") for one in titles)


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        (["until=2T,global_batch=1M"], "end by 1T"),
        (["until=500B,global_batch=1M", "from=400B,sequence=8K"], "must begin at 500B"),
        (["until=500B"], "changes nothing"),
        (["until=500B,batch=1M"], "unknown key"),
        (["until=500B,layout=tp64"], "stage until=500B,layout=tp64: "),
    ],
)
def test_stages_that_cannot_be_are_refused(stages: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        cl.pretrain(**ASKED, stage=stages)


def test_the_rest_of_the_run_stands_between_stages() -> None:
    found = read_stages(["from=1T,until=2T,global_batch=1M; from=3T,sequence=8K"], 4e12)
    assert [one.tokens for one in found] == [1e12] * 4 and [bool(one.text) for one in found] == [False, True] * 2


def test_at_the_critical_batch_a_fifth_more_tokens_are_needed() -> None:
    """Zhang and others 2024: the definition; McCandlish and others 2018: in proportion beyond it."""
    at = 503e9
    thin = [BatchPhase(float(critical_batch_tokens(at)), at, 1.0001 * at)]
    assert thin[0].tokens / worth_of_batches(thin) == pytest.approx(1.2, rel=1e-3)
    far = [BatchPhase(10 * thin[0].batch_tokens, at, 1.0001 * at)]
    assert far[0].tokens / worth_of_batches(far) == pytest.approx(3.0, rel=1e-3)
    assert worth_of_batches([BatchPhase(1.0, 0.0, 1e12)]) == pytest.approx(1e12, rel=1e-3)


def test_a_batch_600_times_the_plateau_has_its_price() -> None:
    small, huge = (price_of_batch(LAW, [BatchPhase(batch, 0.0, 15e12)], 405e9) for batch in (16e6, 1e10))
    assert np.median(small.worth_fraction) > 0.9 and np.max(huge.worth_fraction) < 0.1
    assert np.all(np.asarray(huge.loss) > np.asarray(small.loss)) and np.min(small.loss) > 0


@pytest.mark.parametrize(
    ("n_params", "sites", "percent"), [(2.4e9, 4, 0.3), (35e6, 8, 3.9), (10e9, 2, 0.0), (405e9, 4, 0.29)]
)
def test_local_steps_cost_what_was_published(n_params: float, sites: int, percent: float) -> None:
    """Charles and others 2025, tables 4 and 5; beyond 10B parameters the last value holds, and no gain is counted."""
    price = price_of_local_steps(LAW, 20 * n_params, sites, 30, n_params)
    whole = LAW.E + LAW.A / n_params**LAW.alpha + LAW.B / (20 * n_params) ** LAW.beta
    assert price.loss == pytest.approx(whole * percent / 100)
    assert (price.worth_fraction < 1) == (percent > 0)
