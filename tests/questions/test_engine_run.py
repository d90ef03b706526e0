"""How an engine is run is asked alike everywhere: release, tuning and settings have one meaning and one answer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import computeledger as cl
from computeledger.economics.plan.ledger import estimate_ledger
from computeledger.economics.plan.read import read_plan
from computeledger.errors import InputError
from computeledger.questions.answers.serving.answer import ServeAnswer
from computeledger.questions.answers.simulation.serving import SimulateServeAnswer

ON: dict[str, Any] = {"model": "llama-3.1-8b", "system": "h100-nvl8"}
LENGTHS: dict[str, Any] = {"input_tokens": 2048.0, "output_tokens": 256.0}
RUNS: list[dict[str, Any]] = [
    {"tuning": "recipe", "backend_version": "2025-03"},
    {"tuning": "usual", "backend": "sglang", "backend_version": "0.4.6"},
]


def served(**asked: Any) -> ServeAnswer:
    answer = cl.serve(**ON, **LENGTHS, **asked)
    assert isinstance(answer, ServeAnswer)
    return answer


def simulated(**asked: Any) -> SimulateServeAnswer:
    lengths = {name: f"{value:g}" for name, value in LENGTHS.items()}
    return cl.simulate_serve(**ON, **lengths, layout="tp1", arrivals="poisson:1", requests=50, **asked)


@pytest.mark.parametrize("run", RUNS)
def test_release_and_tuning_have_one_answer(run: dict[str, Any]) -> None:
    best = cl.sweep(**ON, gpus=1, **LENGTHS, **run).best[0]
    one = served(layout=str(best.layout), batch=best.batch, **run)
    assert (best.tpot_s, best.ttft_s) == pytest.approx((one.chosen.tpot_s, one.chosen.ttft_s), rel=1e-9)
    factors, other = simulated(**run).fleet.machine.efficiency, one.setting.typical.efficiency
    for name in ("step_ratio", "floor_ratio", "admission_steps", "serving_ratio", "first_token_ratio"):
        assert getattr(factors, name) == pytest.approx(getattr(other, name), rel=1e-9), name
    skipped = {name: {"skip": "not asked"} for name in ("pretraining", "rl")}
    asked = {"tokens": "1B tokens", "layout": str(best.layout), "batch": best.batch, **run}
    asked |= {name: f"{value:g} tokens" for name, value in LENGTHS.items()}
    plan = read_plan({**ON, "price": "$2/h", **skipped, "inference": asked})
    phase = estimate_ledger(plan, one.question.samples).phases["inference"]
    assert float(np.median(phase.details["inference: tpot_s"][0])) == pytest.approx(one.tpot_s.p50, rel=1e-9)
    plain = served(layout=str(best.layout), batch=best.batch, backend=run.get("backend"))
    assert abs(plain.tpot_s.p50 / one.tpot_s.p50 - 1) > 1e-3


SETTINGS: dict[str, Any] = {"chunk_tokens": 1024, "memory_fraction": 0.8, "eager": True, "max_batch": 24}


def test_settings_have_one_answer() -> None:
    one = served(layout="tp1", batch=24, **SETTINGS)
    document = one.to_dict()
    assert {name: document["engine_settings"][name]["stated"] for name in SETTINGS} == SETTINGS
    best = cl.sweep(**ON, gpus=1, **LENGTHS, **SETTINGS).best[0]
    assert best.batch == 24
    assert best.tpot_s == pytest.approx(one.chosen.tpot_s, rel=1e-9)
    pool = simulated(**SETTINGS).fleet.timed[-1].pool
    assert (pool.limits.live, pool.limits.chunk_tokens) == (24, 1024)
    held, plain = simulated(memory_fraction=0.8).fleet.timed[-1].pool.limits.kv_tokens, served(layout="tp1", batch=1)
    assert held == pytest.approx(kv_tokens(served(layout="tp1", batch=1, memory_fraction=0.8)), rel=1e-3)
    assert held < kv_tokens(plain)
    found = cl.memory(model=ON["model"], system=ON["system"], gpus=1, precision="bf16", context_tokens=2304, batch=24,
                      **{name: SETTINGS[name] for name in ("chunk_tokens", "memory_fraction", "eager")})  # fmt: skip
    mine, theirs = found.fits[0].memory, one.result.memory
    for name in ("cache_bytes", "activations_bytes", "workspace_bytes", "largest_batch"):
        assert float(getattr(mine, name)) == pytest.approx(float(getattr(theirs, name)), rel=1e-9), name
    skipped = {name: {"skip": "not asked"} for name in ("pretraining", "rl")}
    asked = {"tokens": "1B tokens", "layout": "tp1", "batch": 24, **SETTINGS, "eager": "yes"}
    asked |= {name: f"{value:g} tokens" for name, value in LENGTHS.items()}
    plan = read_plan({**ON, "price": "$2/h", **skipped, "inference": asked})
    phase = estimate_ledger(plan, one.question.samples).phases["inference"]
    assert float(np.median(phase.details["inference: tpot_s"][0])) == pytest.approx(one.tpot_s.p50, rel=1e-9)
    assert float(np.median(phase.details["inference: ttft_s"][0])) == pytest.approx(one.ttft_s.p50, rel=1e-9)


def kv_tokens(answer: ServeAnswer) -> float:
    memory = answer.result.memory
    tokens = float(LENGTHS["input_tokens"] + LENGTHS["output_tokens"])
    return float(memory.cache_bytes / memory.sequence_bytes) * tokens


def test_what_is_stated_as_it_is_by_default_changes_nothing() -> None:
    plain = served(layout="tp1", batch=32)
    for stated in ({"chunk_tokens": 8192}, {"memory_fraction": 0.92}, {"max_batch": 32}, {"chunk_tokens": 4096}):
        assert served(layout="tp1", batch=32, **stated).tpot_s == plain.tpot_s, stated
        assert served(layout="tp1", batch=32, **stated).ttft_s == plain.ttft_s, stated


def test_settings_move_what_they_should_and_no_other_way() -> None:
    """Fewer sequences never raise the time per token, smaller chunks never lower the first, memory never shrinks."""
    by_batch = [served(layout="tp1", batch=48, max_batch=most) for most in (48, 24, 8, 1)]
    assert [one.chosen.tpot_s for one in by_batch] == sorted((one.chosen.tpot_s for one in by_batch), reverse=True)
    assert [one.chosen.ttft_s for one in by_batch] == sorted(one.chosen.ttft_s for one in by_batch)
    for batch in (1, 16):
        firsts = [served(layout="tp1", batch=batch, chunk_tokens=one).chosen.ttft_s for one in (8192, 1024, 256, 64)]
        assert firsts == sorted(firsts) and firsts[-1] > 1.02 * firsts[0]
    for engine in ("vllm", "sglang", "trtllm"):
        held = [
            float(served(layout="tp1", batch=1, backend=engine, memory_fraction=one).result.memory.largest_batch)
            for one in (0.3, 0.6, 0.9, 0.99)
        ]
        assert held == sorted(held) and held[0] < held[-1], engine
    for batch in (1, 16, 64):
        graph, eager = (served(layout="tp1", batch=batch, eager=one).chosen for one in (False, True))
        assert graph.tpot_s < eager.tpot_s < graph.tpot_s + 32 * 0.5e-3
    again = served(layout="tp1", batch=8, cached_tokens=4096.0, no_prefix_cache=True).chosen
    assert again.ttft_s > 1.5 * served(layout="tp1", batch=8, cached_tokens=4096.0).chosen.ttft_s
    assert again == cl.serve(**ON, input_tokens=2048.0 + 4096.0, output_tokens=256.0, layout="tp1", batch=8).chosen


def test_the_price_of_input_follows_the_gpu_time_of_a_prompt() -> None:
    """Beside decodes smaller passes hide more weights' reading; alone there is nothing to join, and they cost more."""
    on: dict[str, Any] = {"model": "qwen3-32b", "system": "8xh100-sxm5-80gb", "layout": "tp2"}
    asked = {**on, "input_tokens": 4096.0, "output_tokens": 500.0}
    beside, alone = (
        [cl.serve(**asked, batch=batch, chunk_tokens=one).chosen for one in (2048, 8192)] for batch in (32, 1)
    )
    assert beside[0].usd_per_mtok_input < beside[1].usd_per_mtok_input and beside[0].ttft_s > beside[1].ttft_s
    assert beside[0].output_tokens_per_s_per_gpu > beside[1].output_tokens_per_s_per_gpu
    assert alone[0].usd_per_mtok_input > alone[1].usd_per_mtok_input
    assert alone[0].output_tokens_per_s_per_gpu < alone[1].output_tokens_per_s_per_gpu


@pytest.mark.parametrize("given", [0, -5, "-5", "1.5", 100_000_000])
def test_bounds_are_told_in_one_sentence(given: object) -> None:
    with pytest.raises(InputError, match=r": expected one whole number, at least 16 and at most 10,000,000$"):
        served(chunk_tokens=given)


def test_a_small_chunk_takes_as_long_on_the_clock() -> None:
    """A lone prompt in chunks: the simulation reads them one by one, the closed form counts them."""
    lengths, both = {"input_tokens": "4096", "output_tokens": "64"}, []
    for chunk in (8192, 1024, 256):
        asked = {**ON, "layout": "tp1", "chunk_tokens": chunk}
        one = cl.serve(**asked, input_tokens=4096.0, output_tokens=64.0, batch=1)
        assert isinstance(one, ServeAnswer)
        clock = cl.simulate_serve(**asked, **lengths, arrivals="even:0.01", requests=20)
        both.append((one.chosen.ttft_s, clock.percentiles["ttft_s"]["p50"]))
    whole = both[0]
    for cut in both[1:]:
        assert cut[1] / whole[1] == pytest.approx(cut[0] / whole[0], rel=0.04)
        assert cut[1] > 1.01 * whole[1]


@pytest.mark.parametrize(
    ("engine", "words"),
    [
        ("vllm", ("--max-num-seqs 24", "--max-num-batched-tokens 1024", "--gpu-memory-utilization 0.80",
                  "--enforce-eager", "--max-model-len 16384")),
        ("sglang", ("--max-running-requests 24", "--chunked-prefill-size 1024", "--mem-fraction-static 0.80",
                    "--disable-cuda-graph", "--context-length 16384")),
        ("trtllm", ("--max_batch_size 24", "--max_num_tokens 1024", "free_gpu_memory_fraction: 0.8",
                    "cuda_graph_config: null", "--max_seq_len 16384")),
    ],
)  # fmt: skip
def test_a_launch_command_carries_what_was_asked(engine: str, words: tuple[str, ...]) -> None:
    answer = served(layout="tp1", batch=8, backend=engine, emit=engine, context_tokens=16384, **SETTINGS)
    text = answer.to_dict()["launch"]["text"]
    assert not [one for one in words if one not in text], text


def test_a_setting_that_an_engine_does_not_have_is_refused() -> None:
    with pytest.raises(InputError, match=r"^eager: no such setting of llama.cpp is known: leave it out$"):
        served(layout="tp1", batch=1, backend="llama.cpp", eager=True)
    with pytest.raises(InputError, match="memory_fraction"):
        served(layout="tp1", batch=1, memory_fraction=1.2)


def test_an_engine_s_own_defaults_are_told_by_release_and_chip() -> None:
    own = {(one, version): served(layout="tp1", batch=8, backend_version=version).to_dict()["engine_settings"][one]
           for one in ("max_batch", "memory_fraction") for version in ("0.8.5", None)}  # fmt: skip
    values = {key: one["engine_default"] for key, one in own.items()}
    assert values == {
        ("max_batch", "0.8.5"): 256, ("max_batch", None): 1024,
        ("memory_fraction", "0.8.5"): 0.9, ("memory_fraction", None): 0.92,
    }  # fmt: skip
    small = cl.serve(model="qwen3-4b", system="1xl40s", layout="tp1", batch=300, input_tokens=256.0, output_tokens=64.0)
    assert any("256 sequences at once on l40s" in one for one in small.to_dict()["remarks"])


@pytest.mark.parametrize("given", [{"eager": True}, {"chunk_tokens": 8192}])
def test_formats_that_nobody_named_are_left_out_where_their_engine_lacks_a_setting(given: dict[str, Any]) -> None:
    asked = {"model": "qwen3-14b", "system": "h100-nvl8"}
    named = {fit.precision for fit in cl.memory(**asked).fits} - {
        fit.precision for fit in cl.memory(**asked, **given).fits
    }
    assert named == {"gguf-q4_k_m"}
    with pytest.raises(InputError, match=r"no such setting of llama\.cpp"):
        cl.memory(**asked, **given, precision="gguf-q4_k_m")
