"""Schedulers do what their engines document; locators are those of ``simulation/schedulers.py``."""

from __future__ import annotations

import numpy as np
import pytest

from computeledger.fields import fields_of
from computeledger.questions.simulate import SimulateServeQuestion
from computeledger.simulation.measures import gap_quantile_s
from computeledger.simulation.schedulers import SCHEDULERS
from computeledger.simulation.serving.clock import ServingClock, ServingClockResult, simulate_serving
from computeledger.simulation.serving.traces import Trace
from computeledger.simulation.state import Limits, Pool, constant_step_times
from computeledger.workloads.engines import engines

#: Of a decode step, and of a step's prompts beside it [s].
STEP_S, READ_S = 1.0, 0.25


def served(
    scheduler: str, requests: list[tuple[float, int, int]], chunk: int = 100, kv: int = 10_000
) -> ServingClockResult:
    """One replica of eight places under (arrival, prompt, output)."""
    limits = Limits(8, kv, 0, 0, chunk, 1, 1, 0, *SCHEDULERS[scheduler])
    arrival, prompt, output = (np.array(column) for column in zip(*requests, strict=True))
    pool = Pool(1, constant_step_times(8, STEP_S, READ_S), limits)
    return simulate_serving(ServingClock((pool,)), Trace(arrival.astype(float), prompt, output))


def test_every_engine_and_option_names_a_scheduler() -> None:
    assert {one.scheduler for one in engines().values()} <= SCHEDULERS.keys()
    assert set(fields_of(SimulateServeQuestion)["scheduler"].choices) == SCHEDULERS.keys()


@pytest.mark.parametrize(("scheduler", "steps"), [("vllm", 10), ("plain", 5)])
def test_decoding_sequences_count_against_the_tokens_of_a_step(scheduler: str, steps: int) -> None:
    """vLLM: running requests take from the token budget first; 40 tokens at 8 - 4 a step, or at 8."""
    result = served(scheduler, [*[(0.0, 1, 100)] * 4, (10.1, 40, 2)], chunk=8)
    boundary_s = READ_S + 10 * STEP_S  # the step that is under way when the prompt comes
    expected_s = boundary_s + steps * (STEP_S + READ_S) - 10.1
    assert float(result.times_s["ttft_s"][-1]) == pytest.approx(expected_s)


def test_sglang_decodes_nothing_while_prompts_are_read() -> None:
    """Three chunks: one gap of the running request holds all of them; vLLM's request goes on beside each."""
    requests = [(0.0, 1, 20), (3.1, 300, 1)]
    alone, mixed = (served(name, requests, chunk=101) for name in ("sglang", "vllm"))
    assert gap_quantile_s(alone.world.gaps, 1.0) == pytest.approx(STEP_S + 3 * READ_S, rel=0.002)
    assert gap_quantile_s(mixed.world.gaps, 1.0) == pytest.approx(STEP_S + READ_S, rel=0.002)
    assert float(alone.times_s["ttft_s"][1]) == pytest.approx(3 * READ_S + 0.15)
    assert float(mixed.times_s["ttft_s"][1]) > float(alone.times_s["ttft_s"][1]) + 2 * STEP_S
    # the same work is done: the running request loses the time of the chunks, and no step
    assert float(alone.times_s["end_to_end_s"][0]) == pytest.approx(float(mixed.times_s["end_to_end_s"][0]))


def test_tensorrt_llm_never_puts_back_what_it_let_in_unless_it_packs() -> None:
    crowd = [(0.0, 50, 60)] * 12
    safe, packed = (served(name, crowd, kv=300) for name in ("trtllm", "trtllm-max-utilization"))
    assert safe.n_put_back == 0 and packed.n_put_back > 0
    in_first = [int(np.sum(one.world.when[:, 1] == 0.0)) for one in (safe, packed)]
    assert in_first == [300 // 110, 300 // 50]


def test_sglang_believes_in_fewer_tokens_the_longer_all_goes_well() -> None:
    """Let in at first: prompts with all of their outputs; later by 0.7 of them, falling to 0.098 in 600 steps."""
    crowd = [(0.0, 10, 700)] * 8
    result = served("sglang", crowd, kv=1650)
    admitted_s = np.sort(result.world.when[:, 1])
    assert np.sum(admitted_s == 0.0) == 1650 // 710
    later = int((admitted_s[2] - 2 * READ_S) / STEP_S)  # decode steps until a third one fits
    share = 0.7 - later * 0.7 * 0.86 / 600
    used = 2 * (10 + later)
    assert used + 10 + 700 + share * 2 * (700 - 1 - later) == pytest.approx(1650, abs=3)
