"""What one accelerator is called: answers about chips that are no GPU never say GPU, and no chip's memory is HBM."""

from __future__ import annotations

import re

import pytest

import computeledger as cl
from computeledger.facts.catalog import accelerator_ids
from computeledger.facts.load import load_accelerator
from computeledger.interfaces.cli import main

ASKED = {
    "serve": ["--model", "llama-3.1-8b", "--batch", "4"],
    "memory": ["--model", "llama-3.1-8b"],
    "sweep": ["--model", "llama-3.1-8b"],
    "simulate serve": ["--model", "llama-3.1-8b", "--arrivals", "poisson:1", "--requests", "20"],
    "pretrain": ["--model", "llama-3.2-1b", "--tokens", "1B", "--gpus", "8"],
    "rl": ["--model", "llama-3.2-1b", "--gpus", "8", "--rollout-tokens", "1K"],
}


@pytest.mark.parametrize("command", ASKED)
@pytest.mark.parametrize(("system", "unit"), [("8xtpu-v5e", "chip"), ("8xh100", "GPU")])
def test_an_accelerator_is_called_what_it_is(
    command: str, system: str, unit: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([*command.split(), "--system", system, *ASKED[command]])
    printed = capsys.readouterr().out
    launch = printed.partition("--gpu-memory-utilization")
    assert stopped.value.code == 0 and "HBM" not in printed
    assert bool(re.search(r"\bGPUs?\b", launch[0] + launch[2])) == (unit == "GPU")
    assert unit in printed


def test_every_chip_has_a_name_for_one_of_it() -> None:
    names = {one: load_accelerator(one).unit_name for one in accelerator_ids()}
    assert {names[one] for one in ("tpu-v6e", "trainium2", "m4-max", "gaudi3", "gb10")} == {"chip"}
    assert names["epyc-9755"] == names["xeon-8480"] == "processor"
    assert {names[one] for one in names if one.startswith(("h100", "b200", "mi355x", "rtx", "arc", "l40"))} == {"GPU"}


def test_a_plan_on_chips_that_are_no_gpu_says_so() -> None:
    phases = {"pretraining": {"tokens": "1T tokens", "gpus": 256, "utilization": 0.4}}
    skipped = {name: {"skip": "-"} for name in ("rl", "inference")}
    answer = cl.plan(
        {"model": "llama-3.1-8b", "system": "tpu-v5p-pod", "price": "$2/h", **phases, **skipped}, samples=8
    )
    view = answer.view()
    assert "chip-hours" in view.headline and "GPU" not in view.headline
    assert "chip-hours" in [one.label for one in view.tiles]


@pytest.mark.parametrize(("system", "crosses"), [("1xh100", False), ("h100-nvl8", True)])
def test_a_cached_entry_crosses_the_network_where_there_is_one(system: str, crosses: bool) -> None:
    asked: dict[str, str | float] = {"model": "llama-3.2-1b", "input_tokens": 60000, "cached_tokens": 1000, "batch": 1}
    answer = cl.serve(**asked, system=system, layout="tp1", samples=2)
    (said,) = (one for one in answer.to_dict()["remarks"] if one.startswith("cached read above input"))
    assert ("crosses the network" in said) == crosses


def test_a_format_is_multiplied_in_what_the_chip_has_for_it() -> None:
    """4-bit floats on a chip with 4-bit units are not wider there; on Hopper they are multiplied in 16 bits."""
    found = {one: cl.serve(model="gpt-oss-120b", system=one, samples=2).to_dict() for one in ("b200-nvl8", "h100-nvl8")}
    assert found["b200-nvl8"]["multiplied_in"] == {} and found["h100-nvl8"]["multiplied_in"] == {"mxfp4": "bf16"}
    assert any("fp4 rate of b200-sxm" in one for one in found["b200-nvl8"]["remarks"])
    assert any("no fp4 units; products run in bf16" in one for one in found["h100-nvl8"]["remarks"])
