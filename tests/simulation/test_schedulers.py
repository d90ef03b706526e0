"""Schedulers do what their engines document; locators are those of ``simulation/schedulers.py``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from computeledger.errors import InputError, QuantityError
from computeledger.fields import fields_of
from computeledger.questions.simulate import SimulateServeQuestion
from computeledger.simulation.measures import gap_quantile_s
from computeledger.simulation.schedulers import SCHEDULERS
from computeledger.simulation.serving.clock import ServingClock, ServingClockResult, simulate_serving
from computeledger.simulation.serving.traces import Trace
from computeledger.simulation.state import Q_CACHED, Q_ORDER, Limits, Pool, constant_step_times
from computeledger.workloads.engines import engines

#: Of a decode step, and of a step's prompts beside it [s].
STEP_S, READ_S = 1.0, 0.25
ASKED: dict[str, Any] = {"model": "llama-3.1-8b", "system": "h100-nvl8", "arrivals": "poisson:1"}


def served(scheduler: str, requests: list[tuple[float, int, int]], **limits: int) -> ServingClockResult:
    """One replica of eight places under (arrival, prompt, output)."""
    first = Limits(8, 10_000, 0, 0, 100, 1, 1, 0, *SCHEDULERS[scheduler])._replace(**limits)
    arrival, prompt, output = (np.array(column) for column in zip(*requests, strict=True))
    pool = Pool(1, constant_step_times(8, STEP_S, READ_S), first)
    return simulate_serving(ServingClock((pool,)), Trace(arrival.astype(float), prompt, output))


def test_every_engine_and_option_names_a_scheduler() -> None:
    assert {one.scheduler for one in engines().values()} <= SCHEDULERS.keys()
    assert set(fields_of(SimulateServeQuestion)["scheduler"].choices) == SCHEDULERS.keys()


@pytest.mark.parametrize(("scheduler", "steps"), [("vllm", 10), ("plain", 5)])
def test_decoding_sequences_count_against_the_tokens_of_a_step(scheduler: str, steps: int) -> None:
    """vLLM: running requests take from the token budget first; 40 tokens at 8 - 4 a step, or at 8."""
    result = served(scheduler, [*[(0.0, 1, 100)] * 4, (10.1, 40, 2)], chunk_tokens=8)
    boundary_s = READ_S + 10 * STEP_S  # the step that is under way when the prompt comes
    expected_s = boundary_s + steps * (STEP_S + READ_S) - 10.1
    assert float(result.times_s["ttft_s"][-1]) == pytest.approx(expected_s)


def test_sglang_decodes_nothing_while_prompts_are_read() -> None:
    """Three chunks: one gap of the running request holds all of them; vLLM's request goes on beside each."""
    requests = [(0.0, 1, 20), (3.1, 300, 1)]
    alone, mixed = (served(name, requests, chunk_tokens=101) for name in ("sglang", "vllm"))
    assert gap_quantile_s(alone.world.gaps, 1.0) == pytest.approx(STEP_S + 3 * READ_S, rel=0.002)
    assert gap_quantile_s(mixed.world.gaps, 1.0) == pytest.approx(STEP_S + READ_S, rel=0.002)
    assert float(alone.times_s["ttft_s"][1]) == pytest.approx(3 * READ_S + 0.15)
    assert float(mixed.times_s["ttft_s"][1]) > float(alone.times_s["ttft_s"][1]) + 2 * STEP_S
    # the same work is done: the running request loses the time of the chunks, and no step
    assert float(alone.times_s["end_to_end_s"][0]) == pytest.approx(float(mixed.times_s["end_to_end_s"][0]))


def test_tensorrt_llm_never_puts_back_what_it_let_in_unless_it_packs() -> None:
    crowd = [(0.0, 50, 60)] * 12
    safe, packed = (served(name, crowd, kv_tokens=300) for name in ("trtllm", "trtllm-max-utilization"))
    assert safe.n_put_back == 0 and packed.n_put_back > 0
    in_first = [int(np.sum(one.world.when[:, 1] == 0.0)) for one in (safe, packed)]
    assert in_first == [300 // 110, 300 // 50]


def test_sglang_believes_in_fewer_tokens_the_longer_all_goes_well() -> None:
    """Let in at first: prompts with all of their outputs. Then nobody, though ever less is kept free, until one leaves;
    of what runs 0.7 is kept then, less 0.602 by 600 steps, and one more fits (all of it would have kept it out).
    """
    result = served("sglang", [(0.0, 10, 150), *[(0.0, 10, 700)] * 8], kv_tokens=3000)
    admitted_s, left_s = np.sort(result.world.when[:, 1]), result.world.when[0, 4]
    share, used = 0.7 - 149 * 0.602 / 600, 4 * (10 + 149)
    more = (3000 - used - share * 4 * (700 - 1 - 149)) // 710
    assert (160 + 4 * 710, more, (3000 - used - 4 * 550) // 710) == (3000, 1, 0)
    assert np.sum(admitted_s == 0.0) == 5 and np.sum(admitted_s == left_s) == more
    assert not np.any((admitted_s > 0.0) & (admitted_s < left_s))


def test_vllm_reads_a_threshold_of_a_long_prompt_at_once() -> None:
    """A short prompt behind a long one: after it, or beside it."""
    requests = [(0.0, 300, 1), (0.05, 50, 1)]
    whole, shared = (served("vllm", requests, long_tokens=most).times_s["ttft_s"] for most in (0, 40))
    assert whole == pytest.approx([3 * READ_S, 4 * READ_S - 0.05])
    assert shared == pytest.approx([8 * READ_S, 3 * READ_S - 0.05])
    with pytest.raises(InputError, match="a limit of vLLM"):
        SimulateServeQuestion(**ASKED, backend="sglang", long_prefill_tokens=512)


def test_the_longest_output_is_first_in_line() -> None:
    """`lof`, within classes; the first comes in before there is a line."""
    requests = [(0.0, 1, 5), (0.1, 1, 2), (0.2, 1, 9), (0.3, 1, 4), (0.4, 1, 9)]
    result = served("sglang-lof", requests, live=1)
    assert np.argsort(result.world.when[:, 1]).tolist() == [0, 2, 4, 3, 1]


@pytest.mark.parametrize(
    ("scheduler", "order", "cached"), [("sglang", [0, 1, 2, 3, 4], 0), ("sglang-lpm", [0, 4, 1, 3, 2], 48)]
)
def test_the_prompt_that_the_cache_has_most_of_is_first_in_line(scheduler: str, order: list[int], cached: int) -> None:
    """`lpm`: the fourth is in the cache; of the two that begin alike one waits until the other has been read."""
    blocks = [[0, 1, 2, 3], [4, 5, 6, 7], [4, 5, 6, 8], [9, 10, 11, 12], [0, 1, 2, 13]]
    arrival = np.array([0.0, 0.3, 0.3, 0.3, 0.3])
    prompts = [np.array(one, np.int32) for one in blocks]
    trace = Trace(arrival, np.full(5, 64), np.full(5, 9), tuple(prompts), 16)
    limits = Limits(8, 10_000, 0, 0, 144, 1, 1, 0, *SCHEDULERS[scheduler])
    fleet = ServingClock((Pool(1, constant_step_times(8, STEP_S, READ_S), limits),))
    world = simulate_serving(fleet, trace).world
    assert np.argsort(world.when[:, 1] + 1e-6 * world.req[:, Q_ORDER]).tolist() == order
    assert world.req[2, Q_CACHED] == cached
    with pytest.raises(QuantityError, match="no classes"):
        ServingClock((Pool(1, fleet.pools[0].times, Limits(8, 1, 0, 0, 1, order=2)),), class_shares=(0.5, 0.5))
    for given, said in (({"priority": ("a:50%", "b:50%")}, "no classes"), ({"no_prefix_cache": True}, "prefix cache")):
        with pytest.raises(InputError, match=said):
            SimulateServeQuestion(**ASKED, scheduler="sglang-lpm", **given)
