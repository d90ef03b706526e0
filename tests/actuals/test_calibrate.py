"""The fit finds constants it was given; profiles of machines are read back; measuring works; predictions meet runs."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from computeledger.actuals.machine.files import About, machine_files
from computeledger.actuals.machine.fit import MachineFit, _layer_bytes, fit_machine
from computeledger.actuals.machine.kernels import Array, Layer, LayerShape
from computeledger.actuals.machine.microbenchmarks import (
    CPU_SCALE,
    Measurement,
    Scale,
    attention_cases,
    choose_kernels,
    gemm_cases,
    layer_cases,
    measure,
    memory_cases,
)
from computeledger.actuals.machine.on_numpy import NumpyKernels, numpy_kernels
from computeledger.actuals.machine.reductions import measure_all_reduce
from computeledger.errors import InputError
from computeledger.facts.huggingface import parse_config
from computeledger.facts.load import load_system
from computeledger.interfaces.cli import main
from computeledger.physics.calibration.efficiency import efficiency, load_factors
from computeledger.physics.collectives import ring_s
from computeledger.physics.parallelism import Layout
from computeledger.physics.roofline import Machine, Precision, total_s
from computeledger.physics.serving.operations import Step, forward
from computeledger.questions.answers import calibrate as answers_calibrate
from tests.gates import ROOT

TINY_SCALE = Scale((1, 8), 1e5, ((2, 2, 8),), (8,), (16,), (1,), (LayerShape(64, 2, 2, 32, 128),))
TRUE = {"rate": 4e11, "weights": 1.6e10, "overlap": 0.25, "attention": 4e10, "decode": 3e9, "kv": 2.4e10, "passes": 1.3}


def times_of_a_known_machine(noise: float) -> list[Measurement]:
    """What a machine with the constants ``TRUE`` would measure on the shipped cases."""
    rng = np.random.default_rng(0)
    kernels = replace(numpy_kernels(1), precisions=("bf16",))
    small = replace(CPU_SCALE, stream_bytes=1e3)  # the shapes alone matter here
    found = []
    for maker in (gemm_cases, memory_cases, attention_cases, layer_cases):
        for case in maker(kernels, small):
            if case.kind == "gemm":
                time_s = overlapped(case.flop / TRUE["rate"], case.bytes / TRUE["weights"])
            elif case.kind in ("copy", "read"):
                time_s = case.bytes / 4e10
            elif case.kind == "prefill attention":
                time_s = overlapped(case.flop / TRUE["attention"], case.bytes / 4e10)
            elif case.kind == "decode attention":
                time_s = overlapped(case.flop / TRUE["decode"], case.bytes / TRUE["kv"])
            elif case.kind == "elementwise":
                names = ("width", "heads", "kv_heads", "head_dim", "mlp_width")
                moved = case.shape["tokens"] * _layer_bytes(*(case.shape[name] for name in names))
                time_s = 7e-5 + TRUE["passes"] * moved / TRUE["weights"]
            else:
                time_s = {"mixer floor": 9e-5, "mlp floor": 4e-5, "step floor": 3e-5}[case.kind]
            time_s *= float(np.exp(noise * rng.standard_normal()))
            found.append(Measurement(case.kind, case.precision, case.shape, case.flop, case.bytes, time_s))
    return found


def overlapped(compute_s: float, memory_s: float) -> float:
    return max(compute_s, memory_s) + (1 - TRUE["overlap"]) * min(compute_s, memory_s)


@pytest.mark.parametrize(("noise", "within"), [(0.0, 0.03), (0.05, 0.12)])
def test_the_fit_finds_the_constants_of_a_known_machine(noise: float, within: float) -> None:
    fit = fit_machine(times_of_a_known_machine(noise))
    found = fit.constants
    peak, hbm = fit.peak_flop_per_s["bf16"], fit.hbm_bytes_per_s
    assert found["gemm_fraction_bf16"] * peak == pytest.approx(TRUE["rate"], rel=within)
    assert found["weight_bandwidth_fraction"] * hbm == pytest.approx(TRUE["weights"], rel=within)
    assert found["overlap_fraction"] == pytest.approx(TRUE["overlap"], abs=0.05 + within)
    assert found["attention_fraction"] * peak == pytest.approx(TRUE["attention"], rel=within)
    decode = found["attention_fraction"] * found["decode_attention_ratio"] * peak
    assert decode == pytest.approx(TRUE["decode"], rel=within)
    assert found["activation_passes"] == pytest.approx(TRUE["passes"], rel=max(within, 0.1))
    assert fit.residual_median is not None and fit.residual_median < 0.01 + noise


@dataclass(frozen=True)
class SlowKernels(NumpyKernels):
    """Kernels of a loaded machine: every call takes as long on a clock that they turn themselves."""

    each_s: float = 0.0
    turned: list[float] = field(default_factory=lambda: [0.0])

    def seconds(self, call: Callable[[], object]) -> float:
        self.turned[0] += self.each_s
        return self.each_s

    def total(self, x: Array) -> object:
        return x.size


@pytest.mark.parametrize("each_s", [0.001, 0.05, 0.5, 10.0])
def test_a_budget_bounds_the_time_whatever_the_load(each_s: float) -> None:
    one = numpy_kernels(1)
    slow = SlowKernels(**{known.name: getattr(one, known.name) for known in fields(one)}, each_s=each_s)
    small, budget_s = replace(CPU_SCALE, stream_bytes=1e3), 6.0
    found = measure(slow, small, budget_s, clock=lambda: slow.turned[0])
    needed = 10  # cases that a profile cannot do without, each called three times
    assert slow.turned[0] <= max(budget_s + 5 * each_s, 0.6 * budget_s + 3 * (needed + 1) * each_s)
    assert found.is_complete == (each_s < 0.01)
    assert fit_machine(found.cases).constants["gemm_fraction_bf16"] > 0


def test_a_missing_kind_is_named() -> None:
    found = [one for one in times_of_a_known_machine(0.0) if one.kind != "decode attention"]
    with pytest.raises(InputError, match="needs measurements of decode attention"):
        fit_machine(found)


def test_numpy_s_attention_is_attention() -> None:
    kernels, rng = numpy_kernels(1), np.random.default_rng(1)
    query, keys, values = (rng.standard_normal((2, heads, 5, 8), dtype=np.float32) for heads in (4, 2, 2))
    found = kernels.attend(query, keys, values, causal=True)
    for head in range(4):
        for token in range(5):
            scores = keys[1, head // 2, : token + 1] @ query[1, head, token] / np.sqrt(8)
            weights = np.exp(scores - scores.max())
            expected = weights / weights.sum() @ values[1, head // 2, : token + 1]
            assert found[1, head, token] == pytest.approx(expected, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_measuring_this_machine_gives_a_profile(library: str) -> None:
    if library == "torch":
        pytest.importorskip("torch")
    done: list[float] = []
    kernels = choose_kernels(library, "cpu", None)
    found = measure(kernels, TINY_SCALE, 0.0, done.append).cases
    assert done[-1] == 1
    assert done == sorted(done)
    assert {one.kind for one in found} >= {"gemm", "copy", "read", "elementwise", "mixer floor", "step floor"}
    fit = fit_machine(found)
    assert all(np.isfinite(value) and value >= 0 for value in fit.constants.values())
    assert 0 < fit.constants["gemm_fraction_bf16"] <= 1


def test_both_libraries_time_the_same_layer() -> None:
    torch = pytest.importorskip("torch")
    shape = LayerShape(32, 4, 2, 8, 64)
    layers = [Layer(choose_kernels(name, "cpu", None), shape, 6) for name in ("numpy", "torch")]
    rng = np.random.default_rng(2)
    weights = [rng.standard_normal(size[::-1], dtype=np.float32) for size in shape.products]
    x, projected = (rng.standard_normal((1, 6, n), dtype=np.float32) for n in (32, shape.projected))
    out = []
    for layer, to in zip(layers, (np.asarray, torch.from_numpy), strict=True):
        layer.x, layer.scale = to(x), to(np.ones(32, np.float32))
        layer.table = to(projected[0, :, :8])
        layer.kept = [to(np.zeros((1, 2, 7, 8), np.float32)) for _ in "kv"]
        out.append((layer.mixer((to(weights[0]), to(weights[1]))), layer.mlp((to(weights[2]), to(weights[3])))))
    for ours, theirs in zip(*out, strict=True):
        assert np.asarray(ours) == pytest.approx(np.asarray(theirs), rel=1e-3, abs=1e-3)


def test_an_all_reduce_between_processes_is_measured() -> None:
    found = measure_all_reduce(numpy_kernels(1), 2)
    fit = fit_machine([*times_of_a_known_machine(0.0), *found])
    assert fit.link is not None
    about = About("pair", "2026-11-21", "cases", "a CPU", "ideal", "", 8e9, None)
    assert fit.link.n_processes == 2
    assert f"n_gpus_scale_up = {{ value = {fit.link.n_processes}," in machine_files(fit, about)["system.toml"]


def written(folder: Path, fit: MachineFit, power_w: float | None = 65.0) -> Machine:
    about = About("desk", "2026-11-21", "n cases", 'a "CPU"', "ideal", "", 8e9, power_w)
    for name, text in machine_files(fit, about).items():
        (folder / name).write_text(text, "utf-8")
    return Machine(load_system(str(folder / "system.toml")), efficiency(str(folder / "profile.toml")))


def test_written_files_give_the_machine_that_was_fitted(tmp_path: Path) -> None:
    fit = fit_machine(times_of_a_known_machine(0.0))
    machine = written(tmp_path, fit)
    assert machine.system.accelerator.chip_tdp_w.value == 65
    for name, value in fit.constants.items():
        assert getattr(machine.efficiency, name) == pytest.approx(value, rel=1e-5)
    factor = load_factors(str(tmp_path / "profile.toml"))["decode_attention_ratio"]
    assert factor.kind == "calibration"
    assert "cases of decode attention" in factor.why
    # by hand: one layer's products do not overlap with their bytes
    config = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 512, "num_hidden_layers": 1,
              "num_attention_heads": 8, "num_key_value_heads": 8, "intermediate_size": 2048, "vocab_size": 512,
              "torch_dtype": "bfloat16"}  # fmt: skip
    operations = forward(parse_config(config, "x"), Step(64.0, 1.0), Layout(), Precision(), machine)
    mlp = next(one for one in operations if one.name == "dense and shared MLP")
    weights = 3 * 512 * 2048
    by_hand = overlapped(2 * 64 * weights / TRUE["rate"], 2 * weights / TRUE["weights"])
    assert float(mlp.time_s) == pytest.approx(by_hand, rel=0.03)
    assert float(total_s(operations)) > float(mlp.time_s)


def test_a_link_that_was_measured_is_what_a_collective_takes(tmp_path: Path) -> None:
    sizes, n = (1e3, 1e6, 1e8), 4
    link = [
        Measurement("all-reduce", "fp32", {"processes": n}, 0.0, size, 2 * (n - 1) / n * size / 5e9 + 2e-5)
        for size in sizes
    ]
    machine = written(tmp_path, fit_machine([*times_of_a_known_machine(0.0), *link]))
    for size in sizes:
        assert float(ring_s(size, n, machine)) == pytest.approx(2 * (n - 1) / n * size / 5e9 + 2e-5, rel=0.03)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("like = ", "lik = "), "like: missing"),
        (('"ideal"', '"vlm"'), "did you mean 'vllm'"),
        (("mlp_floor_s = ", "mlp_flor_s = "), "did you mean 'mlp_floor_s'"),
        (("overlap_fraction = { value = ", "overlap_fraction = { value = 7"), "must lie in 0..1"),
        (('residual = "', 'resid = "'), "a table of value, unit, residual"),
    ],
)
def test_a_damaged_profile_is_refused_with_its_line(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    written(tmp_path, fit_machine(times_of_a_known_machine(0.0)))
    path = tmp_path / "profile.toml"
    path.write_text(path.read_text("utf-8").replace(*change), "utf-8")
    with pytest.raises(InputError, match=r"profile\.toml:\d+: ") as caught:
        load_factors(str(path))
    assert message in str(caught.value)


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    """Run a command in this process; its JSON document."""
    with pytest.raises(SystemExit) as ended:
        main([*arguments, "--json"])
    out = capsys.readouterr()
    assert ended.value.code == 0, out.err
    return dict(json.loads(out.out))


def test_the_command_writes_what_serve_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(answers_calibrate, "CPU_SCALE", TINY_SCALE)
    folder = tmp_path / "desk"
    # time for every case even on a busy machine: a residual of one case is none
    options = ("--backend", "numpy", "--budget", "30s", "--write", str(folder), "--power", "65 W")
    document = answer(capsys, "calibrate", "--name", "desk", *options)
    assert document["residual_median"] > 0
    assert document["factors"]["activation_passes"]["value"] > 0
    assert sorted(path.name for path in folder.iterdir()) == ["accelerator.toml", "profile.toml", "system.toml"]
    served = answer(
        capsys, "serve", "--model", "Qwen/Qwen3-0.6B", "--system", str(folder / "system.toml"), "--profile",
        str(folder / "profile.toml"), "--batch", "1", "--layout", "tp1", "--price", "$1/h",
    )  # fmt: skip
    assert served["interval"]["class"] == "own profile"
    assert served["efficiency_profile"].endswith("profile.toml")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("calibrate", "--like", "vlm"), "did you mean 'vllm'"),
        (("calibrate", "--accelerator", "h100"), "h100"),
        (("calibrate", "--write", "README.md"), "is a file; a folder is needed"),
        (("calibrate", "--backend", "numpy", "--device", "cuda"), "NumPy runs on the CPU only"),
        (("calibrate", "--name", 'a"b'), "expected letters"),
        (("serve", "--model", "qwen3-8b", "--system", "h100-nvl8", "--profile", "nowhere.toml"), "no such file"),
    ],
)
def test_bad_input_is_one_line(computeledger, arguments: tuple[str, ...], message: str) -> None:
    done = computeledger(*arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.stress
def test_predicted_times_meet_measured_ones(tmp_path: Path) -> None:
    """At least 40 shapes that no constant was fitted to: median error at most 15 %."""
    pytest.importorskip("torch")
    script = ROOT / "examples" / "predict_then_run" / "run.py"
    done = subprocess.run([sys.executable, str(script), "--json"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["n"] >= 40
    assert found["median_abs_error"] <= 0.15, f"spread of the repeats {found['spread_fraction']:.0%}"


def test_constants_that_meet_as_few_cases_leave_no_residual() -> None:
    """Two constants go through two points: a residual of 0 would say that they predict, which nothing shows."""
    full = times_of_a_known_machine(0.05)
    seen: dict[str, int] = {}
    few = []
    for one in full:
        seen[one.kind] = seen.get(one.kind, 0) + 1
        if one.kind != "decode attention" or seen[one.kind] <= 2:
            few.append(one)
    fit = fit_machine(few)
    known = {kind: one.median_abs_error for kind, one in fit.residuals.items()}
    assert known["decode attention"] is None and known["prefill attention"] and fit.residual_median
    about = About("desk", "2026-11-23", "some cases", "CPU", "ideal", "", 1e9, None)
    profile = tomllib.loads(machine_files(fit, about)["profile.toml"])
    assert profile["factors"]["kv_bandwidth_fraction"]["residual"] == "not determined: 2 cases of decode attention"
    assert profile["residuals"]["decode attention"] == {"n": 2}
    elementwise = [one for one in full if one.kind == "elementwise"][:2]
    alone = fit_machine([next(one for one in full if one.kind == kind) for kind in seen] + elementwise[1:])
    assert alone.residual_median is None
