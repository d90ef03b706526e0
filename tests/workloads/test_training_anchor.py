"""Anchors of training: logs of seven tools, what several of them teach together, and what is refused."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest

from computeledger.arrays import Range, sample
from computeledger.economics.plan.read import load_plan
from computeledger.errors import InputError, PlanError
from computeledger.facts.load import load_model, load_system
from computeledger.interfaces.render.html import report
from computeledger.interfaces.web.pages.pretrain import PAGE
from computeledger.physics.calibration.anchors import StepSpread, load_anchor_calibration
from computeledger.physics.calibration.training import load_training_factors, training_efficiency
from computeledger.physics.parallelism import Layout
from computeledger.physics.roofline import Machine, Precision
from computeledger.physics.training.batch import Batch
from computeledger.questions.answers.plan import plan
from computeledger.questions.answers.pretraining.answer import pretrain
from computeledger.workloads.anchor_fit import posterior
from computeledger.workloads.pretraining.anchor import (
    anchored_result,
    log_width,
    place_of,
    read_training_anchors,
    seen_steps,
    step_lesson,
)
from computeledger.workloads.pretraining.estimate import PretrainingScenario, estimate_pretraining
from computeledger.workloads.pretraining.step_logs import log_of, read_step_log
from tests.actuals import samples

H100 = load_system("h100-nvl8")
LLAMA = load_model("llama-3.1-8b")
#: Lines as tools print them. NeMo: a DGX Cloud recipe's README (NVIDIA/dgxc-benchmarking, Nemotron 4 15B) and a public
#: workshop's notes on NeMo 2 (repository and licence not known). Megatron-Bridge: the line of its ``training_log``
#: (NVIDIA-NeMo/Megatron-Bridge) around made-up figures. MaxText: a tpu-recipes README (AI-Hypercomputer) and a public
#: log of its configuration. DeepSpeed: a public console of a fine-tuning run and ``config.py``'s print of another.
#: nanoGPT: the line of its ``train.py`` around made-up figures.
LOGS = {
    "Megatron-LM": (samples.megatron_log(), {"step": 11.4545}, {"gpus": 64, "sequence": 4096, "sequences": 64}),
    "torchtitan": (samples.torchtitan_log(), {"tokens_per_s_per_gpu": 9982}, {"gpus": 8, "zero": 3, "sequences": 1280}),
    "NeMo": (
        ("seq_length: 4096\nEpoch 0: : 100%|##| 100/100 [10:48<00:00, reduced_train_loss=0.0172, global_step=99.00, "
        "consumed_samples=25600.0, train_step_timing in s=3.130]"),
        {"step": 3.13}, {"sequence": 4096},
    ),
    "NeMo 2": (
        ("Training epoch 0, iteration 1/249 | lr: 3.922e-06 | global_batch_size: 8 | global_step: 1 | "
        "reduced_train_loss: 1.653 | train_step_timing in s: 2.505 | consumed_samples: 16"),
        {"step": 2.505}, {"sequences": 8},
    ),
    "Megatron-Bridge": ("Step Time : 12.30s GPU utilization: 512.3MODEL_TFLOP/s/GPU", {"step": 12.3}, {}),
    "MaxText": (
        ("Config param per_device_batch_size: 24.0\nConfig param max_target_length: 2048\n"
        "Config param remat_policy: full\nNum_devices: 64, shape (1, 1, 64)\n"
        "completed step: 11, seconds: 31.652, TFLOP/s/device: 225.491, Tokens/s/device: 2070.487, total_weights: "
        "33554432, loss: 11.825"),
        {"step": 31.652, "tokens_per_s_per_gpu": 2070.487}, {"gpus": 64, "sequence": 2048, "sequences": 1536},
    ),
    "DeepSpeed": (
        ("[2025-02-20 02:13:50,590] [INFO] [config.py:1003:print]   train_batch_size ............. 14\n"
        "[2025-02-20 02:13:50,590] [INFO] [config.py:1003:print]   train_micro_batch_size_per_gpu  1\n"
        "[2023-07-18 18:07:50,078] [INFO] [config.py:964:print]   zero_optimization_stage ...... 3\n"
        "[2023-11-07 01:55:23,714] [INFO] [timer.py:260:stop] epoch=0/micro_step=40/global_step=10, "
        "RunningAvgSamplesPerSec=25.025771473496132, CurrSamplesPerSec=25.704280480541442, MemAllocated=4.32GB"),
        {"samples_per_s": 25.704280480541442}, {"sequences": 14, "microbatch": 1, "zero": 3},
    ),
    "MFU": ("iter 10: loss 4.0123, time 250.10ms, mfu 38.21%", {"mfu": 0.3821}, {}),
}  # fmt: skip


def asked(layout: Layout, sequences: float = 1024.0) -> PretrainingScenario:
    return PretrainingScenario(LLAMA, layout, Precision(), Batch(4096.0, sequences), 1e12)


def machine() -> Machine:
    draws = sample({f"efficiency.{name}": one.value for name, one in load_training_factors().items()}, 512)
    return Machine(H100, training=training_efficiency(draws=draws))


def written(folder: Path, text: str) -> str:
    path = folder / "run.log"
    path.write_text(text, "utf-8")
    return str(path)


@pytest.mark.parametrize("name", LOGS)
def test_a_log_is_told_by_its_lines(name: str, tmp_path: Path) -> None:
    text, measures, settings = LOGS[name]
    found = read_step_log(written(tmp_path, text))
    assert found.tool == name.removesuffix(" 2")
    assert found.measures == pytest.approx(measures)
    assert {key: found.settings.get(key) for key in settings} == settings


def test_warm_up_is_dropped_by_a_rule_that_the_answer_states(tmp_path: Path) -> None:
    slow = [samples.megatron_line(step, 90_000.0) for step in range(1, 11)]
    steady = [samples.megatron_line(step, 10_000.0 + step) for step in range(11, 91)]
    found = read_step_log(written(tmp_path, samples.megatron_head() + "\n".join(slow + steady)))
    assert found.measures["step"] == pytest.approx(10.0505)
    assert found.rule == "the median of 80 of 90 lines, the first 10 dropped as warm-up"
    ranks = "\n".join(f"[default{rank}]:{line}" for line in steady for rank in range(8))
    assert read_step_log(written(tmp_path, ranks)).n_lines == 80


def test_a_log_states_its_layout_and_what_stands_behind_it_wins(tmp_path: Path) -> None:
    head = "".join(
        f"  {name} {'.' * 30} {value}\n"
        for name, value in {
            "world_size": 64, "tensor_model_parallel_size": 4, "pipeline_model_parallel_size": 2, "seq_length": 8192,
            "micro_batch_size": 1, "virtual_pipeline_model_parallel_size": "None", "fp8": "hybrid",
            "recompute_granularity": "full", "num_layers": 32, "hidden_size": 4096,
        }.items()
    )  # fmt: skip
    path = written(tmp_path, head + samples.megatron_line(100, 5000.0, batch=128))
    (one,) = read_training_anchors([path])
    assert one.said["layout"] == "tp4-pp2-dp8" and one.said["precision"] == "fp8" and one.said["recompute"] == "full"
    assert one.said["global_batch"] == 128 * 8192 and one.said["step"] == 5.0
    (other,) = read_training_anchors([f"{path}, layout=tp8-dp8"])
    assert other.said["layout"] == "tp8-dp8"
    (pasted,) = read_training_anchors([f"{samples.megatron_line(7, 5000.0)} layout=dp8, global_batch=1M"])
    assert pasted.said == {"step": 5.0, "layout": "dp8", "global_batch": 1e6}


@pytest.mark.parametrize(
    ("head", "behind", "message"),
    [
        ("  hidden_size ............... 8192\n", ",layout=dp8,global_batch=1M", "a width of 8192.*has 4096"),
        ("  num_layers ................ 80\n", ",layout=dp8,global_batch=1M", "80 layers.*has 32"),
        ("  num_experts ............... 64\n", ",layout=dp8,global_batch=1M", "number of experts of 64"),
        ("", "", "does not state layout and sequence: say it behind"),
        ("", ",layout=dp8,global_batch=16M", "faster than the physical limit"),
        ("", ",layout=dp64,global_batch=256K,step=60s", "far above what the model gives"),
    ],
)
def test_a_log_of_something_else_is_refused(head: str, behind: str, message: str, tmp_path: Path) -> None:
    path = written(tmp_path, head + samples.megatron_line(100, 6000.0))
    with pytest.raises(InputError, match=message) as caught:
        anchored_result([path + behind], asked(Layout(dp=64)), machine())
    assert "\n" not in str(caught.value)


def test_a_log_of_another_model_is_refused(tmp_path: Path) -> None:
    text = "Config param model_name: llama3.1-70b\n" + LOGS["MaxText"][0]
    with pytest.raises(InputError, match=r"it trained .*70B.*, the question is .*8B"):
        anchored_result([written(tmp_path, text)], asked(Layout(dp=64)), machine())


def test_no_training_log_says_which_are_known(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="known are Megatron-LM, Megatron-Bridge, NeMo"):
        read_training_anchors([written(tmp_path, "hello\n")])
    assert log_of(["iteration 5/10 | elapsed time per iteration (ms): 0.0 | global batch size: 8 |"]) is None


def test_several_small_runs_shift_narrow_and_show_what_is_left() -> None:
    small = [asked(Layout(dp=8), 64.0), asked(Layout(tp=2, dp=8), 128.0)]
    steps = [1.2 * float(np.median(estimate_pretraining(one, machine()).step_s)) for one in small]
    texts = [
        f"step={step}s,layout={one.layout},global_batch={4096 * one.batch.global_sequences:.0f}"
        for step, one in zip(steps, small, strict=True)
    ]
    target = asked(Layout(tp=2, dp=512), 4096.0)
    before = np.median(estimate_pretraining(target, machine()).step_s)
    shifts, widths = [], []
    for count in (1, 2):
        result, found = anchored_result(texts[:count], target, machine())
        assert found.lesson.ratios == pytest.approx([1.2] * count)
        assert all(abs(one) < 0.05 for one in found.lesson.residuals)
        shifts.append(float(np.median(result.step_s) / before))
        widths.append(float(np.quantile(result.step_s, 0.95) / np.quantile(result.step_s, 0.05)))
        assert widths[-1] == pytest.approx(found.lesson.after.high / found.lesson.after.low, rel=0.02)
    assert 1.1 < shifts[0] < shifts[1] < 1.2
    assert widths[1] < widths[0]


def test_an_interval_widens_with_distance_and_contradictions_widen_it() -> None:
    spread, before = load_anchor_calibration().step, Range(0.77, 1.3)
    here = place_of(asked(Layout(dp=8)))
    far = [place_of(asked(layout, 8192.0)) for layout in (Layout(dp=8), Layout(dp=64), Layout(tp=8, pp=8, dp=64))]
    widths = [log_width(step_lesson(before, [1.1], [here], at, spread).after) for at in far]
    assert widths == sorted(widths) and widths[0] < widths[-1]
    others = [here, place_of(asked(Layout(dp=16)))]
    agree, differ = (step_lesson(before, ratios, others, far[1], spread) for ratios in ([1.1, 1.1], [0.7, 1.7]))
    assert agree.widening == 1.0 < differ.widening and log_width(differ.after) > log_width(agree.after)


def test_the_measured_run_and_the_next_differ_by_what_repeats_do() -> None:
    """Against the formula: with nothing else known, a repeat of the measured run has twice the variance of one."""
    spread = StepSpread(9.0, 0.05, 0.1, 0.02, 0.05, dict.fromkeys(load_anchor_calibration().step.per_doubling_sd, 0.01),
                        (-1.645, -1.282, 1.282, 1.645))  # fmt: skip
    where = place_of(asked(Layout(dp=8)))
    seen, prior = seen_steps(Range(0.5, 2.0), [1.3], ([where], where), spread)
    wide = posterior(seen, prior.__class__((9.0,), prior.slopes, prior.scatter))
    assert wide[0] == pytest.approx(math.log(1.3), rel=1e-3)
    assert wide[1] == pytest.approx(math.sqrt(2) * prior.scatter, rel=1e-2)


def test_a_plan_and_the_page_take_the_same_measurement(tmp_path: Path) -> None:
    (tmp_path / "run.log").write_text(samples.megatron_line(100, 4600.0), "utf-8")
    anchor = "run.log,layout=dp8,global_batch=256K"
    text = (
        'model = "llama-3.1-8b"\nsystem = "h100-nvl8"\n[rl]\nskip = "-"\n[inference]\nskip = "-"\n[pretraining]\n'
        'tokens = "1T tokens"\ngpus = 64\nlayout = "tp2"\nglobal_batch_tokens = "4M tokens"\n'
    )
    (tmp_path / "plan.toml").write_text(f'{text}anchor = ["{anchor}"]\n', "utf-8")
    (tmp_path / "bare.toml").write_text(text, "utf-8")
    found, bare = (plan(load_plan(tmp_path / name), samples=64) for name in ("plan.toml", "bare.toml"))
    answer = pretrain(
        model="llama-3.1-8b", system="h100-nvl8", gpus=64, layout="tp2", tokens="1T", global_batch_tokens="4M",
        anchor=f"{tmp_path}/{anchor}", samples=64,
    )  # fmt: skip
    shift = answer.to_dict()["anchor"]["carried_over"]
    hours = [one.ledger.phases["pretraining"].gpu_hours for one in (found, bare)]
    assert np.median(hours[0]) / np.median(hours[1]) == pytest.approx(shift, rel=0.02) and shift > 1.05
    assert "1 measurement" in found.ledger.phases["pretraining"].choices["layout"]
    page = PAGE.answer(
        {"model": "llama-3.1-8b", "system": "h100-nvl8", "gpus": "64", "layout": "tp2", "tokens": "1T",
         "global-batch-tokens": "4M", "anchor": "step=4.6s,layout=dp8,global_batch=256K"}, False,
    )  # fmt: skip
    assert page.document["anchor"]["n"] == 1 and "--anchor=" in page.command
    (tmp_path / "plan.toml").write_text(f'{text}anchor = ["step=1us"]\n', "utf-8")
    with pytest.raises(PlanError, match=r"\[pretraining\] anchor = .*physical limit"):
        plan(load_plan(tmp_path / "plan.toml"), samples=16)


def test_the_answer_shows_what_the_measurements_taught() -> None:
    answer = pretrain(
        model="llama-3.1-8b", system="h100-nvl8", layout="tp2-dp64", samples=64,
        anchor=("tokens_per_s_per_gpu=7000,layout=dp8,global_batch=256K", "step=4.9s,layout=dp8,global_batch=256K"),
    )  # fmt: skip
    table = next(one for one in answer.view().tables if one.title == "Your measurements")
    assert len(table.rows) == 2 and "residual #" in table.columns
    assert any("carries over" in words for _, words in answer.view().facts)
    assert "Your measurements" in report(answer.view())


def test_a_console_in_colours_reads_as_one_without(tmp_path: Path) -> None:
    text, measures, settings = LOGS["torchtitan"]
    red, off = "\x1b[31m", "\x1b[39m"
    coloured = re.sub(r"(step:|loss:|tps:|mfu:)", lambda found: f"{red}{found[1]}", text).replace("\n", f"{off}\n")
    found = read_step_log(written(tmp_path, coloured))
    assert found.tool == "torchtitan" and found.measures == pytest.approx(measures)
    assert {key: found.settings.get(key) for key in settings} == settings


def test_a_log_with_a_batch_in_sequences_lacks_their_length(tmp_path: Path) -> None:
    line = "Training epoch 0, iteration {0}/999 | lr: 3e-04 | global_batch_size: 128 | global_step: {0} | "
    lines = [line.format(step) + "reduced_train_loss: 9.1 | train_step_timing in s: 9.4" for step in range(20)]
    with pytest.raises(InputError, match=r"of NeMo does not state sequence: .*,sequence=\.\.\.$"):
        read_training_anchors([f"{written(tmp_path, chr(10).join(lines))},layout=dp8"])


def test_steps_of_two_speeds_say_so(tmp_path: Path) -> None:
    even, uneven = (
        read_step_log(
            written(tmp_path, "\n".join(samples.megatron_line(n, 9500.0 if n % 2 else other) for n in range(1, 60)))
        ).rule
        for other in (9600.0, 14000.0)
    )
    assert "factor" not in even and uneven.endswith("eight in ten lie within a factor of 1.47: look at it")
