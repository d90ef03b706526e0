"""What an answer says in one place it does not deny in another: rows and sums, classes, costs, loads, commands."""

from __future__ import annotations

from typing import Any

import pytest

import computeledger as cl
from computeledger.errors import DoesNotFitError, InputError
from computeledger.questions.wording import percent

ONE: dict[str, Any] = {"model": "llama-3.1-8b", "system": "1xh100-sxm5-80gb", "layout": "tp1", "samples": 64}


def rows_s(document: dict[str, Any], phase: str) -> float:
    """Sum of a table's times, at their medians."""
    times = (one["time_s"] for one in document["components"][phase])
    return float(sum(one["p50"] if isinstance(one, dict) else one for one in times))


@pytest.mark.parametrize("tuning", ["usual", "recipe"])
@pytest.mark.parametrize("lengths", [(1024, 1024), (16_000, 50)])
def test_the_rows_of_a_token_sum_to_its_time(tuning: str, lengths: tuple[int, int]) -> None:
    given, written = lengths
    found = cl.serve(**ONE, batch=16, input_tokens=given, output_tokens=written, tuning=tuning)
    document = found.to_dict()
    assert rows_s(document, "decode") == pytest.approx(found.tpot_s.p50, rel=1e-9)
    names = {one["name"]: one["share_fraction"] for one in document["components"]["decode"]}
    assert ("usual tuning" in names) == (tuning == "usual")
    assert sum(names.values()) == pytest.approx(1, rel=1e-9)
    text = found.view().context
    assert ("prefills of other requests" in text) == (names["prefills of other requests"] > 0.5)


def test_the_rows_of_a_drafted_step_sum_to_the_tokens_that_it_yields() -> None:
    found = cl.serve(**ONE, batch=8, draft_tokens=3, tokens_per_step=2.5)
    assert rows_s(found.to_dict(), "decode") == pytest.approx(2.5 * found.tpot_s.p50, rel=1e-9)


@pytest.mark.parametrize("rate", [0.05, 3.0, 40.0])
def test_tokens_of_a_load_pay_for_its_fleet(rate: float) -> None:
    """Cost per token times tokens per hour is what the replicas cost per hour, however little they have to do."""
    given, written = 2000, 500
    found = cl.serve(**ONE, input_tokens=given, output_tokens=written, requests_per_s=rate, price=3.0, backend="ideal")
    assert found.fleet is not None
    costs = given * found.usd_per_mtok_input.p50 + written * found.usd_per_mtok_output.p50
    assert 3600 * rate * costs / 1e6 == pytest.approx(3.0 * found.fleet.n_gpus, rel=1e-3)
    assert found.output_tokens_per_s_per_gpu.p50 == pytest.approx(rate * written / found.fleet.n_gpus, rel=1e-3)
    document = found.to_dict()
    assert document["batch"] <= document["fleet"]["replica"]["batch"]
    assert "mrequests" not in str(found.view()), "half a request, no millirequest"


def test_a_quiet_fleet_is_faster_and_dearer_than_a_full_one() -> None:
    found = cl.serve(**ONE, input_tokens=2000, output_tokens=500, requests_per_s=0.5)
    fleet = found.to_dict()["fleet"]
    full = fleet["replica"]
    assert found.tpot_s.p50 < full["tpot_s"] / 3 and found.usd_per_mtok_output.p50 > 10 * full["usd_per_mtok_output"]
    text = dict(found.view().facts)["Fleet"]
    assert f"{percent(fleet['load_fraction'])} loaded" in text and f"fully loaded: batch {full['batch']}" in text


@pytest.mark.parametrize("tuning", ["usual", "recipe"])
def test_no_class_denies_the_measurements_beside_it(tuning: str) -> None:
    for system in ("8xmi300x", "8xgaudi2", "h100-nvl8", "1xrtx-4090", "tpu-v6e-pod"):
        found = cl.serve(model="llama-3.1-8b", system=system, layout="tp1", batch=8, samples=16, tuning=tuning)
        document = found.to_dict()
        chip, alike = found.setting.system.accelerator.id, document["measured_alike"]["what"]
        if alike.endswith(chip):
            assert "never measured" not in document["interval"]["class"]
        is_recipe = document["interval"]["class"] in ("known deployment", "new pair or model")
        assert alike.startswith("recipe") == is_recipe == (tuning == "recipe" and system == "h100-nvl8")
        is_said = any("no public recipe" in one for one in document["remarks"])
        assert is_said == (tuning == "recipe" and not is_recipe)


def test_an_answer_names_engine_and_release() -> None:
    newest = cl.serve(**ONE, batch=8)
    assert newest.to_dict()["backend_release"] == {"given": None, "release": "0.30.0", "month": "2026-09"}
    assert "engine vllm 0.30.0 (2026-09)" in newest.view().asked
    old = cl.serve(**ONE, batch=8, backend_version="0.12.3")
    assert "engine vllm 0.12.0 (2025-12) for 0.12.3" in old.view().asked
    assert "engine llama.cpp" in cl.serve(**ONE, batch=1, backend="llama.cpp").view().asked


@pytest.mark.parametrize("said", ["99.0", "0.34.0", "1.0"])
def test_a_release_of_the_future_is_no_newest_one(said: str) -> None:
    with pytest.raises(InputError, match=rf"'{said}': no such release of vllm is known; the newest here is 0\.33\.0"):
        cl.serve(**ONE, batch=8, backend_version=said)


def test_development_builds_and_later_patches_are_known() -> None:
    for said in ("0.34.0.dev7", "0.33.4", "v0.12.0rc1"):
        assert cl.serve(**ONE, batch=8, backend_version=said).to_dict()["backend_release"]["given"] == said


@pytest.mark.parametrize("precision", ["bf16", "fp8", "int4", "gguf-q4_k_m"])
def test_memory_starts_what_serve_starts(precision: str) -> None:
    (fit,) = cl.memory(model="qwen3-14b", system="h100-nvl8", precision=precision).fits
    asked: dict[str, Any] = {"model": "qwen3-14b", "system": "h100-nvl8", "layout": str(fit.layout), "batch": 1}
    answer = cl.serve(**asked, precision=precision, emit=fit.engine, samples=16)
    assert bool(fit.launch) == (precision != "int4") == (not fit.launch_problem)
    if fit.launch:
        assert answer.to_dict()["launch"]["text"]
        return
    with pytest.raises(InputError) as refused:
        answer.to_dict()
    assert str(refused.value) == f"--emit vllm: {fit.launch_problem}"


@pytest.mark.parametrize(("system", "engine"), [("1xm4-max", "llama.cpp"), ("1xxeon-6980p", "llama.cpp"),
                                                ("1xrtx-4090", "vllm"), ("1xgb10", "vllm")])  # fmt: skip
def test_an_engine_that_is_not_named_is_one_that_runs_there(system: str, engine: str) -> None:
    asked = {"model": "qwen3-8b", "system": system}
    found = cl.serve(**asked, batch=1, samples=16)
    assert found.question.engine == engine
    assert any("no engine was named: llama.cpp" in one for one in found.to_dict()["remarks"]) == (engine != "vllm")
    assert cl.sweep(**asked).combinations[0].engine == engine == cl.memory(**asked).fits[0].engine
    assert cl.serve(**asked, batch=1, samples=16, backend="vllm").question.engine == "vllm"


def test_gpus_that_no_replica_can_use_are_said() -> None:
    with pytest.raises(DoesNotFitError, match=r"does not fit on 3 x h200.*: its heads and layers divide over 1 or 2"):
        cl.serve(model="llama-3.1-405b", system="3xh200-sxm5-141gb")
    with pytest.raises(DoesNotFitError, match=r"no layout on 8 x h100-sxm5-80gb or fewer holds its weights"):
        cl.serve(model="llama-3.1-405b", system="h100-nvl8", gpus=8)


def test_the_rows_of_two_pools_sum_to_their_time_per_token() -> None:
    found = cl.serve(model="deepseek-v3", system="h200-nvl8", gpus=16, mode="disaggregated", samples=16)
    assert rows_s(found.to_dict(), "decode") == pytest.approx(found.tpot_s.p50, rel=1e-6)


def test_a_plan_says_how_much_of_its_replica_a_small_load_keeps_busy() -> None:
    """Hours that are modelled are those of work: a replica that waits is paid for too."""
    plan: dict[str, Any] = {
        "model": "llama-3.1-70b", "system": "h100-nvl8", "price": "$2/h", "pretraining": {"skip": "open weights"},
        "rl": {"skip": "none"},
        "inference": {"rate": "0.01 B tokens/h", "life": "1 year", "input_tokens": "4K tokens",
                      "output_tokens": "1K tokens"},
    }  # fmt: skip
    quiet = cl.plan(plan, samples=16).ledger.phases["inference"]
    assert "of one replica's time; occupancy prices the rest" in quiet.choices["inference"]
    told = {**plan, "inference": {**plan["inference"], "occupancy": "40 %"}}
    assert "of one replica's time" not in cl.plan(told, samples=16).ledger.phases["inference"].choices["inference"]
    busy = {**plan, "inference": {**plan["inference"], "rate": "1 B tokens/h"}}
    assert "of one replica's time" not in cl.plan(busy, samples=16).ledger.phases["inference"].choices["inference"]
