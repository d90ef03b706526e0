"""Why a step takes longer: traces of PyTorch and summaries of nsys read, kernels classed, and the gap split exactly."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from computeledger.actuals.gap import explain_step
from computeledger.actuals.profiles.kineto import read_trace
from computeledger.actuals.profiles.profile import StepProfile, load_parts, part_of, united, without
from computeledger.actuals.profiles.profiles import read_profile, split_profiles
from computeledger.actuals.sums import Actual
from computeledger.economics.plan.read import Plan, read_plan
from computeledger.errors import InputError
from computeledger.questions.answers.reconcile import reconcile
from computeledger.workloads.pretraining.step_logs import StepLog
from tests.actuals import samples
from tests.gates import ROOT

EXAMPLE = ROOT / "examples" / "reconcile"
MS = 1000.0


def event(kind: str, name: str, start_ms: float, ms: float, lane: int = 7) -> dict[str, Any]:
    """A complete event as Kineto writes it [us]."""
    return {
        "ph": "X",
        "cat": kind,
        "name": name,
        "pid": 0,
        "tid": lane,
        "ts": start_ms * MS,
        "dur": ms * MS,
        "args": {},
    }


def cuda_trace(data_ms: float = 20.0, loss: str = "vectorized_elementwise_kernel") -> dict[str, Any]:
    """Two steps of 200 ms: products, attention, a half hidden reduce-scatter, the optimizer, and a data loader."""
    events: list[dict[str, Any]] = [{"ph": "M", "name": "process_name", "pid": 0, "args": {"name": "python"}}]
    for step in range(2):
        at = 200.0 * step
        events += [
            event("user_annotation", f"ProfilerStep#{step}", at, 200.0, 1),
            event("user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", at, data_ms, 1),
            event("kernel", "nvjet_tst_256x128_64x4_1x2_h_bz_coopA_NNT", at + 20, 60),
            event("kernel", "void flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<Flash_bwd_kernel_traits>", at + 80, 30),
            event("kernel", f"void at::native::{loss}<4, at::native::CUDAFunctor>", at + 110, 10),
            event("kernel", "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage)", at + 90, 60, 20),
            event("kernel", "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<Adam>", at + 150, 20),
            event("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", at + 170, 5),
        ]
    return {"schemaVersion": 1, "deviceProperties": [], "traceEvents": events}


def written(folder: Path, content: str | bytes, name: str = "trace.json") -> str:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


def plan(**pretraining: object) -> Plan:
    section = {"tokens": "1B tokens", "gpus": 8, "layout": "dp8", "global_batch_tokens": "1M tokens"} | pretraining
    return read_plan({"model": "llama-3.1-8b", "system": "h100-nvl8", "price": "$2/h", "pretraining": section,
                      "rl": {"skip": "none"}, "inference": {"skip": "none"}})  # fmt: skip


def took(step_s: float, n_steps: int = 10, **more: float) -> Actual:
    """Steps of the plan's batch on its eight GPUs."""
    parts = {"step": 8 * step_s * n_steps, **more}
    return Actual("pretraining", ("a",), n_steps, n_steps * 2.0**20, parts, None, None, (8,), (), None)


@pytest.mark.parametrize("packed", [False, True])
def test_a_trace_of_cuda_is_divided_by_part(packed: bool, tmp_path: Path) -> None:
    raw = json.dumps(cuda_trace(), indent=2).encode()
    path = written(tmp_path, gzip.compress(raw) if packed else raw)
    found = read_profile(path, None)
    assert split_profiles([path]) == ((), (path,))
    assert found.n_steps == 2 and found.step_s == pytest.approx(0.2) and not found.is_host
    expected = {
        "matrix products": 60, "attention": 30, "elementwise and the rest": 10, "reduce-scatter": 30, "optimizer": 20,
        "copies": 5, "data loader": 20, "host-bound launches": 25,
    }  # fmt: skip
    assert {name: 1000 * seconds for name, seconds in found.exposed_s.items()} == pytest.approx(expected)
    assert sum(found.exposed_s.values()) == pytest.approx(found.step_s)
    assert found.busy_s["reduce-scatter"] == pytest.approx(0.06)


def test_a_real_trace_of_torch_on_a_cpu_adds_up(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from torch.profiler import ProfilerActivity, profile, schedule

    layer = torch.nn.TransformerEncoderLayer(32, 2, 64, batch_first=True)
    optimizer = torch.optim.AdamW(layer.parameters())
    loader = iter(torch.utils.data.DataLoader(torch.randn(40, 8, 32), batch_size=8))
    path = str(tmp_path / "cpu.json")
    when = schedule(wait=1, warmup=1, active=3)
    with profile(activities=[ProfilerActivity.CPU], schedule=when,
                 on_trace_ready=lambda ready: ready.export_chrome_trace(path)) as running:  # fmt: skip
        for _ in range(5):
            layer(next(loader)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            running.step()
    found = read_trace(path)
    assert found.n_steps == 3 and found.is_host and not found.recomputes
    assert sum(found.exposed_s.values()) == pytest.approx(found.step_s)
    assert {"matrix products", "attention", "optimizer", "data loader"} <= {
        name for name, seconds in found.exposed_s.items() if seconds > 0
    }


#: Names of kernels as public profiles show them.
KERNELS = {
    "nvjet_tst_192x192_64x4_2x1_v_bz_coopB_TNN": "matrix products",
    "void cutlass::device_kernel<at::cuda::detail::enable_3x_kernel_for_sm9x<cutlass::gemm::k>>": "matrix products",
    "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_cublas": "matrix products",
    "Cijk_Alik_Bljk_BBS_BH_MT256x256x64": "matrix products",
    "aten::addmm": "matrix products",
    "cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma_f16": "attention",
    "void flash_fwd_kernel<Flash_fwd_kernel_traits<(int)128>>": "attention",
    "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)": "all-gather",
    "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL": "reduce-scatter",
    "ncclDevKernel_AllReduce_Sum_f32_TREE_LL": "all-reduce",
    "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)": "send and receive",
    "void deep_ep::intranode::dispatch<8>": "all-to-all",
    "Memcpy DtoD (Device -> Device)": "copies",
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<Adam>": "optimizer",
    "triton_poi_fused_mul_silu_0": "elementwise and the rest",
    "void transformer_engine::normalization::rmsnorm_fwd_tuned_kernel": "elementwise and the rest",
}


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_are_told_by_name(name: str) -> None:
    assert part_of(name) == KERNELS[name]


def test_a_kernel_without_a_name_or_a_time_does_no_harm(tmp_path: Path) -> None:
    trace = cuda_trace()
    trace["traceEvents"] += [event("kernel", "", 0, 1), event("kernel", "a", 0, float("nan")),
                             {**event("kernel", "a", 0, 1), "ts": 1e999}, "no event"]  # fmt: skip
    found = read_profile(written(tmp_path, json.dumps(trace)), None)
    assert found.busy_s["elementwise and the rest"] == pytest.approx(0.0105)
    assert sum(found.exposed_s.values()) == pytest.approx(found.step_s)


def test_every_part_has_a_fix_and_a_name_of_its_own() -> None:
    every = [one for group in (load_parts().kernels, load_parts().waits, load_parts().log) for one in group]
    assert len({one.name for one in every}) == len(every) and all(one.fix for one in every)


def test_spans_are_sets() -> None:
    rng = np.random.default_rng(0)
    starts, lengths = rng.uniform(0, 100, (2, 40)), rng.uniform(0, 5, (2, 40))
    one, two = (united(zip(a, a + b, strict=True)) for a, b in zip(starts, lengths, strict=True))
    points = rng.uniform(0, 105, 2000)

    inside = [
        np.any((spans[:, 0] <= points[:, None]) & (points[:, None] < spans[:, 1]), axis=1)
        for spans in (one, two, without(one, two))
    ]
    assert (inside[2] == (inside[0] & ~inside[1])).all()


SUMMARY = (
    "Generating SQLite file\nTime (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name\n"
    '60.0,1200000000,20,0,0,0,0,0,"nvjet_tst_256x128_64x4"\n30.0,600000000,4,0,0,0,0,0,"void flash_fwd_kernel<a, b>"\n'
    '10.0,400000000,4,0,0,0,0,0,"ncclDevKernel_AllGather_RING_LL"\n'
)


def test_a_summary_of_nsys_tells_computing_and_not_what_is_hidden(tmp_path: Path) -> None:
    path = written(tmp_path, SUMMARY, "kernels.csv")
    with pytest.raises(InputError, match="give --profiled-steps"):
        read_profile(path, None)
    found = read_profile(path, 2)
    assert found.busy_s == pytest.approx({"matrix products": 0.6, "attention": 0.3, "all-gather": 0.2})
    assert found.step_s is None and "all-gather" not in found.exposed_s
    gap = explain_step(plan(), took(25.0), None, found)
    assert gap is not None and sum(one.excess_s for one in gap.parts) == pytest.approx(gap.total_s)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"traceEvents": 3}', "no list of traceEvents"),
        ('{"traceEvents": []}', "without a kernel or an operator"),
        (json.dumps(cuda_trace())[:900], r"trace.json:1: damaged or cut off"),
        (json.dumps({"traceEvents": [event("kernel", "a", 0, 1)]}), "give --profiled-steps"),
        (gzip.compress(b"{}", mtime=0)[:10] + b"\0\0\0\0\0\0", "not a whole gzip file"),
        (SUMMARY[:-30], "damaged or cut off"),
    ],
    ids=["no list", "empty list", "cut", "no steps", "damaged gzip", "cut summary"],
)
def test_a_damaged_profile_gets_one_line(content: str | bytes, message: str, tmp_path: Path) -> None:
    path = written(tmp_path, content)
    steps = 1 if isinstance(content, str) and content.startswith("Gen") else None
    with pytest.raises(InputError, match=message) as caught:
        read_profile(path, steps)
    assert "\n" not in str(caught.value)


def test_the_gap_is_split_exactly_and_each_cause_is_found(tmp_path: Path) -> None:
    base = explain_step(plan(), took(1.0))
    assert base is not None
    step = base.modelled_s
    causes = {
        "pauses between steps": (took(step, idle=8 * step * 3), None, None),
        "slow steps": (took(1.3 * step), StepLog("Megatron-LM", measures={"step": step}, settings={
            "sequences": 256.0, "sequence": 4096.0, "gpus": 8.0}), None),
        "recomputation": (took(1.3 * step), StepLog("Megatron-LM", words={"recompute": "full"}), None),
        "not told apart": (took(1.3 * step), None, None),
    }  # fmt: skip
    for name, (actual, log, profile) in causes.items():
        gap = explain_step(plan(recompute="none", microbatch_sequences=1), actual, log, profile)
        assert gap is not None and gap.best is not None and gap.best.name == name, name
        assert sum(one.excess_s for one in gap.parts) == pytest.approx(gap.total_s)


@pytest.mark.parametrize(
    ("slow", "part"),
    [("data loader", "data loader"), ("nccl", "reduce-scatter"), ("elementwise", "elementwise and the rest")],
)
def test_the_part_of_a_profile_that_is_slow_pays_most(slow: str, part: str, tmp_path: Path) -> None:
    """A trace whose every part takes what the model says, but for one that is made longer."""
    base = explain_step(plan(), took(1.0), None, read_profile(written(tmp_path, json.dumps(cuda_trace())), None))
    assert base is not None
    modelled = {one.name: one.modelled_s for one in base.parts}
    exposed = dict.fromkeys(modelled, 0.0) | modelled
    exposed[part] = exposed.get(part, 0.0) + 0.2 * base.modelled_s
    profile = StepProfile("p", "t", 1, sum(exposed.values()), exposed, exposed)
    gap = explain_step(plan(), took(sum(exposed.values())), None, profile)
    assert gap is not None and gap.best is not None and gap.best.name == part, slow
    assert gap.best.fix


def test_reconcile_shows_what_pays_most(tmp_path: Path) -> None:
    trace = written(tmp_path, json.dumps(cuda_trace()))
    files = [str(EXAMPLE / "megatron.log"), trace]
    answer = reconcile(str(EXAMPLE / "plan.toml"), files, calibration=str(tmp_path / "c.toml"))
    document = answer.to_dict()["gap"]
    assert sum(one["excess_s"] for one in document["parts"]) == pytest.approx(
        document["measured_step_s"] - document["modelled_step_s"]
    )
    assert document["profile"]["n_steps"] == 2 and document["pays_most"]
    view = answer.view()
    assert any(one.title == "Why a step takes longer" for one in view.tables)
    assert "of the difference comes from" in dict(view.facts)["Step time"]
    with pytest.raises(InputError, match="give the run's log beside it"):
        reconcile(str(EXAMPLE / "plan.toml"), [trace])
    with pytest.raises(InputError, match="give one profile"):
        reconcile(str(EXAMPLE / "plan.toml"), [*files, written(tmp_path, json.dumps(cuda_trace()), "two.json")])
    bare = written(tmp_path, samples.megatron_log(), "run.log")
    no_gpus = tmp_path / "plan.toml"
    text = (EXAMPLE / "plan.toml").read_text("utf-8").replace("gpus = 64\n", 'utilization = "30%"\n')
    no_gpus.write_text(text.replace('layout = "tp1-pp8-dp8-ep8"\n', ""), "utf-8")
    with pytest.raises(InputError, match="models no step"):
        reconcile(str(no_gpus), [bare, trace])
    assert reconcile(str(no_gpus), [bare], calibration=str(tmp_path / "d.toml")).to_dict()["gap"] is None


def test_logs_of_other_tools_are_actuals(tmp_path: Path) -> None:
    """MaxText and DeepSpeed state all that a step needs; NeMo's batch stands in its line."""
    maxtext = "Config param per_device_batch_size: 4.0\nConfig param max_target_length: 4096\nNum_devices: 64, shape\n"
    maxtext += "".join(
        f"completed step: {step}, seconds: 11.{step:03d}, TFLOP/s/device: 225.4, Tokens/s/device: 2070.4\n"
        for step in range(5)
    )
    deepspeed = "  train_batch_size ............. 256\n  world_size ................... 64\n" + "".join(
        f"epoch=0/micro_step=4/global_step={step}, RunningAvgSamplesPerSec=25.0, CurrSamplesPerSec=25.6, Mem=1GB\n"
        for step in (10, 20, 30)
    )
    nemo = "seq_length: 4096\nnum_nodes: 8\ndevices: 8\n" + "".join(
        f"Training epoch 0, iteration {step}/9 | lr: 1e-06 | global_batch_size: 256 | global_step: {step} | "
        f"reduced_train_loss: 1.3 | train_step_timing in s: 10.5\n"
        for step in range(4)
    )
    for text, n_steps, step_s in ((maxtext, 5, 11.002), (deepspeed, 30, 10.0), (nemo, 4, 10.5)):
        path = written(tmp_path, text, "run.log")
        answer = reconcile(
            str(EXAMPLE / "plan.toml"), [path], sequence_tokens=4096, calibration=str(tmp_path / "c.toml")
        )  # fmt: skip
        actual = answer.phases["pretraining"].took
        assert actual.tokens == pytest.approx(n_steps * 256 * 4096, rel=0.5)
        assert actual.gpu_s_by_phase["step"] / actual.tokens == pytest.approx(64 * step_s / 256 / 4096, rel=1e-3)
        assert answer.gap is not None and answer.gap.measured_s > 0
