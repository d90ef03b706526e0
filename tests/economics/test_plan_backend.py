"""The engine of a plan's inference: the key that ``serve`` has as ``--backend``, with the same figures."""

from __future__ import annotations

from typing import Any

import pytest

import computeledger as cl
from computeledger.errors import InputError
from computeledger.interfaces.web.answers import Question, answered

REQUEST = {"input_tokens": "4K tokens", "output_tokens": "1K tokens", "tpot": "50 ms"}


def tables(**inference: str) -> dict[str, Any]:
    return {
        "model": "llama-3.1-70b", "system": "h100-nvl8", "price": "$2/h", "rl": {"skip": "-"},
        "pretraining": {"skip": "-"},
        "inference": {"rate": "100M tokens/day", "life": "100 days", **REQUEST, **inference},
    }  # fmt: skip


def cost(**inference: str) -> float:
    found = cl.plan(tables(**inference), samples=512).to_dict()["phases"]["inference"]["details"]
    value = found["inference: usd_per_mtok_output"]
    return float(value["p50"] if isinstance(value, dict) else value)


@pytest.mark.parametrize("engine", ["sglang", "trtllm", "generic", "llama.cpp", "ideal"])
def test_a_plan_serves_with_the_engine_that_it_states(engine: str) -> None:
    asked: dict[str, str | int] = {"model": "llama-3.1-70b", "system": "h100-nvl8", "price": "$2/h", "samples": 512}
    alone = cl.serve(**asked, input_tokens=4000, output_tokens=1000, tpot="50ms", backend=engine)
    assert cost(backend=engine) == pytest.approx(alone.usd_per_mtok_output.p50, rel=0.02)
    assert engine == "vllm" or cost(backend=engine) != cost()


def test_the_default_engine_stated_changes_nothing() -> None:
    silent, stated = (cl.plan(tables(**one), samples=64) for one in ({}, {"backend": "vllm"}))
    assert silent.usd == stated.usd


def test_rl_and_pretraining_keep_the_default_engine() -> None:
    rl = {"rollout_tokens": "2K tokens", "prompt_tokens": "200 tokens", "prompts_per_step": 64, "group_size": 8,
          "gpus": 16, "steps": 100}  # fmt: skip
    plans = [{**tables(**one), "model": "llama-3.1-8b", "rl": rl} for one in ({}, {"backend": "sglang"})]
    hours = [cl.plan(one, samples=64).to_dict()["phases"]["rl"]["gpu_hours"] for one in plans]
    assert hours[0] == hours[1]


def test_an_engine_that_is_none_is_refused() -> None:
    with pytest.raises(InputError, match="unknown engine 'vlm': did you mean 'vllm'"):
        cl.plan(tables(backend="vlm"))


def test_working_shows_the_engine_s_own_factors() -> None:
    document = cl.plan(tables(backend="sglang"), samples=16).to_dict(working=True)
    assert "sglang" in document["editions"]["efficiency"]
    own, usual = document["efficiency_of_inference"], document["efficiency"]
    assert own.keys() <= usual.keys() and own != {name: usual[name] for name in own}


def test_the_app_asks_for_the_engine_of_inference() -> None:
    given = (("inference.backend", "trtllm"),)
    plain, served = (answered(Question("api", "life", one)) for one in ((), given))
    assert plain.status == served.status == 200 and plain.body != served.body
