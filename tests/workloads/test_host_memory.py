"""Weights and cache in host memory: nothing there changes nothing, and more there is never faster."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import computeledger as cl
from computeledger.errors import InputError
from computeledger.facts.load import load_model, load_system
from computeledger.physics.calibration.efficiency import efficiency
from computeledger.physics.parallelism import Layout
from computeledger.physics.roofline import Machine, Precision, total_s
from computeledger.physics.serving.offload import HOST_FRACTION, HostMemory, offloaded
from computeledger.physics.serving.operations import Step, forward
from computeledger.workloads.serving.estimate import ServingScenario, estimate_serving

FRACTION = st.floats(0.0, 1.0)
ASKED: dict[str, Any] = {"system": "h100-nvl8", "layout": "tp1", "batch": 1, "price": "$2/h"}


def times(model: str, host: HostMemory, batch: float = 1.0) -> tuple[float, float]:
    int4 = Precision("int4", "int4", "int4")
    scenario = ServingScenario(load_model(model), Layout(), int4, 512.0, 128.0, batch, host=host)
    result = estimate_serving(scenario, Machine(load_system("h100-nvl8"), efficiency("vllm")))
    return float(np.ravel(result.tpot_s)[0]), float(np.ravel(result.ttft_s)[0])


@settings(max_examples=15, deadline=None)
@given(less=FRACTION, more=FRACTION, streamed=st.booleans(), name=st.sampled_from(["weights", "experts", "kv"]))
def test_more_in_host_memory_is_never_faster(less: float, more: float, streamed: bool, name: str) -> None:
    """While host and link are slower than the chip's memory, which they are by a factor of ten and more."""
    shares: list[dict[str, Any]] = [{f"{name}_fraction": one} for one in sorted((less, more))]
    hosts = [HostMemory(**share, is_streamed=streamed) for share in shares]
    found = [times("qwen3-30b-a3b", host, 4.0) for host in hosts]
    for before, after in zip(*found, strict=True):
        assert after >= before * (1 - 1e-9)


def test_nothing_in_host_memory_changes_nothing() -> None:
    machine = Machine(load_system("h100-nvl8"))
    operations = forward(load_model("llama-3.1-8b"), Step(1.0, 1024.0), Layout(), Precision(), machine)
    assert offloaded(operations, HostMemory(host_bytes_per_s=1.0, link_bytes_per_s=1.0)) == operations
    assert times("qwen3-8b", HostMemory(host_bytes_per_s=1.0)) == times("qwen3-8b", HostMemory())


def test_all_weights_take_their_bytes_over_the_slower_memory() -> None:
    """The limit: decode reads every layer's weights at the host's bandwidth, or over the link."""
    model, machine = load_model("llama-3.1-8b"), Machine(load_system("h100-nvl8"))
    operations = forward(model, Step(1.0, 1024.0), Layout(), Precision(), machine)
    of_layers = ("attention projections", "dense and shared MLP")
    layers = sum(float(one.bytes) for one in operations if one.name in of_layers)
    multiplied = HostMemory(1.0, host_bytes_per_s=60e9, link_bytes_per_s=20e9)
    copied = HostMemory(1.0, host_bytes_per_s=60e9, link_bytes_per_s=20e9, is_streamed=True)
    for host, rate in ((multiplied, 60e9 * HOST_FRACTION), (copied, 20e9)):
        there = total_s(one for one in offloaded(operations, host) if one.name == "weights in host memory")
        assert float(there) == pytest.approx(layers / rate, rel=1e-6)


def test_a_model_that_does_not_fit_is_served_from_host_memory() -> None:
    with pytest.raises(InputError, match="does not fit"):
        cl.serve(model="llama-3.1-70b", backend="llama.cpp", **ASKED)
    answer = cl.serve(model="llama-3.1-70b", backend="llama.cpp", host_weights=0.6, **ASKED)
    document = answer.to_dict()
    assert document["memory_bytes"]["weights"] < 60e9
    assert document["host_memory"]["weights_fraction"] == 0.6 and "host-bandwidth" in " ".join(document["remarks"])
    assert answer.tpot_s.p50 > 0.6 * 137e9 / 40e9 * 0.9


@pytest.mark.parametrize(
    ("engine", "share", "part"),
    [
        ("llama.cpp", {"host_weights": 0.75}, "--n-gpu-layers 20"),
        ("llama.cpp", {"host_kv": 1.0}, "--no-kv-offload"),
        ("vllm", {"host_weights": 0.6}, "--cpu-offload-gb 10"),
    ],
)
def test_launch_commands_keep_as_much_in_host_memory(engine: str, share: dict[str, float], part: str) -> None:
    model = "llama-3.1-70b" if "20" in part else "llama-3.1-8b"
    text = cl.serve(model=model, emit=engine, **share, **ASKED).to_dict()["launch"]["text"]
    assert part in text, text


def test_experts_in_host_memory_against_a_published_run() -> None:
    """Qwen3-30B-A3B in 4 bits, 36 of 48 layers' experts at 102 GB/s of DDR4 beside an RTX 2080: 36.7 tokens/s.

    AlexsJones/llmfit, pull request 755. Asked of its larger sister: what the host reads decides.
    """
    asked = ASKED | {"system": "1xrtx-2080-ti", "precision": "int4-g32", "input_tokens": 256, "output_tokens": 256}
    offloaded_experts: dict[str, Any] = {"host_experts": 0.75, "host_bandwidth": "102 GB/s"}
    answer = cl.serve(model="qwen3-30b-a3b", backend="llama.cpp", **offloaded_experts, **asked)
    assert answer.tpot_s.p50 == pytest.approx(1 / 36.7, rel=0.25)


def test_bandwidths_without_anything_in_host_memory_are_refused() -> None:
    with pytest.raises(InputError, match=r"host.weights"):
        cl.serve(model="qwen3-8b", host_bandwidth="100 GB/s", **ASKED)
