"""What would make a model fit that does not: every remedy that an error names works, and a smaller one does not."""

from __future__ import annotations

import re

import pytest

import computeledger as cl
from computeledger.errors import DoesNotFitError, InputError
from computeledger.interfaces.cli import main

CASES = [
    {"model": "llama-3.1-70b", "system": "1xl40s"},
    {"model": "llama-3.1-70b", "system": "2xl40s", "kv_precision": "fp8"},
    {"model": "kimi-k2-instruct", "system": "h100-nvl8", "gpus": 8},
    {"model": "llama-3.1-405b", "system": "2xgb10"},
    {"model": "llama-3.1-70b", "system": "2xrtx4090", "backend": "llama.cpp"},
    {"model": "qwen3-32b", "system": "1xrtx3090", "backend": "llama.cpp", "precision": "q4_k_m", "input_tokens": 30000},
    {"model": "gpt-oss-120b", "system": "1xrtx3090", "backend": "llama.cpp", "precision": "gguf-mxfp4"},
    {"model": "llama-3.1-8b", "system": "1xrtx3090", "input_tokens": 100000, "output_tokens": 1000},
]  # fmt: skip


def answer_of(asked: dict[str, str | int], **changed: str | float) -> bool:
    """Whether a changed question is answered."""
    try:
        cl.serve(**{**asked, **changed}, samples=2)
    except DoesNotFitError:
        return False
    return True


@pytest.mark.parametrize("asked", CASES, ids=lambda one: f"{one['model']} on {one['system']}")
def test_every_remedy_works(asked: dict[str, str | int]) -> None:
    with pytest.raises(DoesNotFitError) as caught:
        cl.serve(**asked)
    said = str(caught.value)
    found = said.partition("; it would fit ")[2].split(", or ")
    assert "\n" not in said and found[0]
    for remedy in found:
        if tokens := re.fullmatch(r"with at most ([\d,]+) tokens a request", remedy):
            most = int(tokens[1].replace(",", "")) - int(asked.get("output_tokens", 1024))
            assert answer_of(asked, input_tokens=most) and not answer_of(asked, input_tokens=most + 1)
        elif cache := re.fullmatch(r"with the cache in (\w+)", remedy):
            assert answer_of(asked, kv_precision=cache[1])
        elif count := re.fullmatch(r"on (\d+) x (\S+)", remedy):
            few, many = (f"{int(count[1]) // part}x{count[2]}" for part in (2, 1))
            without = {name: value for name, value in asked.items() if name != "gpus"}
            assert answer_of(without, system=many) and not answer_of(without, system=few)
        elif host := re.fullmatch(r"with .* in host memory \((host_\w+) ([\d.]+)\)", remedy):
            assert answer_of(asked, **{host[1]: float(host[2])})
        else:
            assert remedy.startswith("in ") and answer_of(asked, precision=remedy[3:])


def test_a_stated_layout_that_does_not_fit_is_told_one_that_does() -> None:
    with pytest.raises(DoesNotFitError, match=r"it would fit as tp2$"):
        cl.serve(model="llama-3.1-70b", system="h100-nvl8", layout="tp1", batch=1)


def test_shared_memory_has_no_host_memory_beside_it() -> None:
    with pytest.raises(DoesNotFitError) as caught:
        cl.serve(model="deepseek-v3", system="1xm4-max", backend="llama.cpp", precision="gguf-q4_k_m")
    assert "host memory" not in str(caught.value)


@pytest.mark.parametrize(
    "command",
    [
        ["sweep", "--model", "llama-3.1-70b", "--system", "1xl40s"],
        ["simulate", "serve", "--model", "llama-3.1-70b", "--system", "1xl40s", "--arrivals", "poisson:1"],
        ["serve", "--model", "llama-3.1-70b", "--system", "1xl40s", "--mode", "disaggregated"],
    ],
    ids=" ".join,
)
def test_every_command_names_the_remedies(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(command)
    printed = capsys.readouterr()
    assert re.search(r"; it would fit (in int4, or )?on 4 x l40s", " ".join((printed.out + printed.err).split()))


def test_an_rl_run_that_does_not_fit_says_on_how_many_gpus_it_would() -> None:
    asked: dict[str, str | int] = {"model": "llama-3.1-70b", "system": "h100-nvl8", "rollout_tokens": "8K"}
    with pytest.raises(DoesNotFitError, match=r"it would fit on ([0-9]+) GPUs") as caught:
        cl.rl(**asked, gpus=8)
    count = re.search(r"on (\d+) GPUs", str(caught.value))
    assert count is not None and int(count[1]) > 8
    cl.rl(**asked, gpus=int(count[1]), samples=2)
    with pytest.raises(InputError):
        cl.rl(**asked, gpus=int(count[1]) // 2, samples=2)
