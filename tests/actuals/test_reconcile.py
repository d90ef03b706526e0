"""Budget against actuals: the variance adds up, physics is held to, and what a run teaches predicts the next one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from computeledger.actuals.plan_calibration import (
    PlanCalibration,
    calibrated,
    calibration_of,
    calibration_text,
    read_calibration,
)
from computeledger.actuals.readers.tally import Observed, Tally
from computeledger.actuals.reconcile import Money, settle_plan, split_variance
from computeledger.actuals.run_ledger import Entry, line_of
from computeledger.actuals.sums import REPEATED, Actual, Sums
from computeledger.economics.plan.ledger import estimate_ledger
from computeledger.economics.plan.read import Plan, load_plan, read_plan
from computeledger.errors import InputError
from computeledger.facts.load import load_model, load_system
from computeledger.interfaces.cli import cli
from computeledger.physics.transformer import n_params_active, training_flop_per_token
from computeledger.questions.wording import MFU_WORDS, UTILIZATION_WORDS
from computeledger.units import HOUR_S
from tests.actuals import samples
from tests.gates import ROOT

EXAMPLE = ROOT / "examples" / "reconcile"
PLAN = """
title = "Settled"
model = "Qwen/Qwen3-8B"
system = "h100-nvl8"
price = "$2..$3/h"
[pretraining]
tokens = "40M tokens"
utilization = "30%..45%"
[rl]
tokens = "1M tokens"
utilization = "5%..8%"
gpus = 8
prompts_per_step = 32
group_size = 8
rollout = "1000 tokens"
prompt = "300 tokens"
[inference]
tokens = "2M..3M tokens"
utilization = "15%"
input = "1000 tokens"
output = "1000 tokens"
"""


def plan(**pretraining: object) -> Plan:
    """A plan of one phase."""
    section = {"tokens": "1B tokens", "utilization": "40%"} | pretraining
    return read_plan({"model": "llama-3.1-8b", "system": "h100-nvl8", "price": "$2/h", "pretraining": section,
                      "rl": {"skip": "none"}, "inference": {"skip": "none"}})  # fmt: skip


def took(gpu_s: float, tokens: float = 1e9, name: str = "pretraining", devices: int = 8, **more: float) -> Actual:
    """What a phase took, all of it planned work."""
    return Actual(name, ("a",), 1, tokens, {"step": gpu_s, **more}, None, None, (devices,), ((tokens, gpu_s),), None)


amounts = st.floats(1e-3, 1e9)


@given(amounts, amounts, amounts, amounts, amounts, amounts, st.floats(0.0, 1.0))
def test_variance_adds_up_exactly(d0, h0, p0, d1, h1, p1, planned):
    budget = Money(d0, 0.0, h0, 0.4, h0 * p0, p0, None)
    actual = Money(d1, 0.0, h1, 0.4, h1 * p1, p1, None)
    usd, hours = split_variance(budget, actual, planned * h1)
    size = max(abs(part) for part in (usd.volume, usd.utilization, usd.price, usd.unplanned, actual.usd, budget.usd))
    assert abs(usd.total - (actual.usd - budget.usd)) <= 1e-9 * size
    assert abs(hours.total - (h1 - h0)) <= 1e-9 * max(h0, h1, abs(hours.volume), abs(hours.utilization))
    # each part is nothing where its cause is absent
    same = split_variance(budget, Money(d0, 0.0, h0, 0.4, h0 * p0, p0, None), h0)[0]
    assert [abs(part) <= 1e-9 * budget.usd for part in (same.volume, same.utilization, same.price, same.unplanned)]


def test_each_part_of_the_variance_has_its_cause():
    budget = 6 * 7504924672 * 1e9 / (0.4 * 989e12)
    one = settle_plan(plan(), {"pretraining": took(budget)}, {}).phases["pretraining"]
    whole = one.budget.gpu_hours * HOUR_S
    cases = {
        "volume": (took(2 * whole, 2e9), None), "utilization": (took(1.5 * whole), None),
        "unplanned": (took(whole, idle=0.25 * whole), None), "price": (took(whole), 3.0),
    }  # fmt: skip
    for part, (actual, price) in cases.items():
        usd = settle_plan(plan(), {"pretraining": actual}, {}, price).phases["pretraining"].usd
        assert getattr(usd, part) > 0.1 * one.budget.usd
        others = {"volume", "utilization", "unplanned", "price"} - {part}
        assert all(abs(getattr(usd, other)) < 1e-9 * one.budget.usd for other in others)


def test_mfu_and_utilisation_are_two_shares_of_one_run():
    """A run at 12 % MFU: attention's FLOP and unplanned time tell the two apart, and the page quotes the example's."""
    budget = load_plan(str(EXAMPLE / "plan.toml"))
    flop = training_flop_per_token(load_model("qwen3-30b-a3b"), 4096.0)
    counted = float(6 * n_params_active(load_model("qwen3-30b-a3b")) / flop)
    gpu_s = float(flop) * 1e9 / (0.12 * load_system("h100-nvl8").accelerator.peak("bf16"))
    found = settle_plan(budget, {"pretraining": took(gpu_s, devices=64, idle=gpu_s / 4)}, {}).phases["pretraining"]
    assert found.actual.mfu_fraction == pytest.approx(0.12, rel=1e-9)
    assert found.actual.utilization_fraction == pytest.approx(0.12 * counted * 4 / 5, rel=1e-9)
    modelled = estimate_ledger(budget).phases["pretraining"]
    assert found.budget.mfu_fraction == pytest.approx(float(np.median(modelled.details["mfu_fraction"][0])), rel=1e-9)
    page = " ".join((ROOT / "docs" / "actuals.md").read_text("utf-8").split())
    assert f"this model's run at 12 % MFU has a utilisation of {12 * counted:.2g} %" in page


def test_each_command_says_what_its_share_of_the_peak_counts(tmp_path):
    """Reconcile, plan and pretrain print the definitions; the page's ratio of GPU-hours is the command's."""
    files = [str(EXAMPLE / "plan.toml"), str(EXAMPLE / "megatron.log")]
    options = ["--calibration", str(tmp_path / "c.toml")]
    settled = CliRunner().invoke(cli, ["reconcile", *files, *options])
    plain = CliRunner().invoke(cli, ["plan", files[0], "--samples", "8"])
    trained = CliRunner().invoke(
        cli, ["pretrain", "--model", "llama-3.1-8b", "--system", "h100-nvl8", "--gpus", "64", "--tokens", "1T",
              "--layout", "tp2", "--samples", "8"]
    )  # fmt: skip
    for said, expected in ((settled, (UTILIZATION_WORDS, MFU_WORDS)), (plain, (UTILIZATION_WORDS,)),
                           (trained, (UTILIZATION_WORDS, MFU_WORDS))):  # fmt: skip
        assert said.exit_code == 0, said.output
        assert all(words in " ".join(said.output.split()) for words in expected), said.output
    assert "utilisation reached" in " ".join(settled.output.split())
    document = json.loads(CliRunner().invoke(cli, ["reconcile", *files, *options, "--json"]).output)
    total = document["total"]
    page = " ".join((ROOT / "docs" / "actuals.md").read_text("utf-8").split())
    assert f"spent {total['actual']['gpu_hours'] / total['budget']['gpu_hours']:.0f} times the GPU-hours" in page


def test_a_phase_that_was_not_planned_is_unplanned():
    found = settle_plan(plan(), {"pretraining": took(1e5), "inference": took(3600.0, 1e6, "inference")}, {})
    one = found.phases["inference"]
    assert not one.is_planned and one.usd.unplanned == one.actual.usd == pytest.approx(2.0)
    assert "inference: the plan has no such phase, so everything is unplanned" in found.remarks


@pytest.mark.parametrize(
    ("actual", "observed", "what"),
    [
        (took(30_000.0), {}, "utilisation above 1"),
        (took(2e5), {"mfu_fraction": 1.2}, "MFU above 1, as the tool states it"),
        (took(2e5), {"flop_per_s": 1.2e15}, "faster than the peak"),
        (took(2e5), {"tpot_s": 0.0003}, "faster than the memory's bandwidth allows"),
        (took(2e5), {"chip_w": 900.0}, "more power than the chip takes"),
    ],
)
def test_physics_is_held_to(actual, observed, what):
    tally = Tally()
    for name, value in observed.items():
        tally.observe(name, value)
    found = settle_plan(plan(), {"pretraining": actual}, {"pretraining": tally})
    assert [one.what for one in found.contradictions] == [what]
    # 15.0 GB of active weights over 8 x 3.35 TB/s: 0.56 ms
    fine = Tally(observed={"mfu_fraction": Observed(1, 0.4, 0.4, 0.4), "tpot_s": Observed(1, 0.0006, 0.0006, 0.0006)})
    assert not settle_plan(plan(), {"pretraining": took(2e5)}, {"pretraining": fine}).contradictions


def test_work_done_again_after_a_restart_is_unplanned():
    sums = Sums()
    entry = [Entry("a", "pretraining", "step", 1.0, 8, step, attempt, {"trained": 100.0})
             for attempt, steps in enumerate([range(1, 6), range(4, 8)]) for step in steps]  # fmt: skip
    sums.add(entry)
    one = sums.actuals()["pretraining"]
    assert one.tokens == 700.0 and one.gpu_s_by_phase == {"step": 56.0, REPEATED: 16.0}


def test_calibration_survives_its_file_and_gives_back_the_run(tmp_path):
    draw = np.random.default_rng(7)
    sums = Sums()
    sums.add(
        Entry("a", "pretraining", "step", float(draw.normal(10, 0.5)), 8, step, 0, {"trained": 5e5})
        for step in range(400)
    )
    found = settle_plan(plan(), sums.actuals(), {})
    path = tmp_path / "c.toml"
    path.write_text(calibration_text(calibration_of(found, {"pretraining": ['a "b"\\c.log']}, str(path))))
    back = read_calibration(path)
    assert back.phases["pretraining"].data == ('a "b"\\c.log',)
    again = estimate_ledger(calibrated(plan(tokens="200M tokens"), back), 256).phases["pretraining"]
    assert np.median(again.gpu_hours) == pytest.approx(found.phases["pretraining"].actual.gpu_hours, rel=1e-3)
    low, high = np.quantile(again.gpu_hours, (0.05, 0.95))
    assert low < 0.98 * np.median(again.gpu_hours) and high > 1.02 * np.median(again.gpu_hours)


def test_a_calibration_holds_for_its_model_and_chip_only(tmp_path):
    found = settle_plan(plan(), {"pretraining": took(2e5)}, {})
    calibration = calibration_of(found, {}, "c.toml")
    with pytest.raises(
        InputError, match=r"c.toml: \[pretraining\] is of accelerator h100-sxm5-80gb, the plan's is h200"
    ):
        calibrated(plan(system="h200-nvl8"), calibration)
    with pytest.raises(InputError, match=r"is of model meta-llama/Meta-Llama-3\.1-8B, the plan's is Qwen/Qwen3-8B"):
        calibrated(plan(model="qwen3-8b"), calibration)
    with pytest.raises(InputError, match="which the plan does not have"):
        calibrated(plan(), PlanCalibration("c.toml", "", {"rl": calibration.phases["pretraining"]}))
    for text, words in (
        ("[rl]\n", "says 'plan-calibration/1'"),
        ('schema = "plan-calibration/1"\n', "holds no phase"),
        ("[", "not valid TOML"),
        ('schema = "plan-calibration/1"\n[rl]\nutilization = {value = 2, low = 1, high = 3}', "high < 1 is needed"),
        ('schema = "plan-calibration/1"\n[r]\n', "unknown section"),
    ):
        (tmp_path / "x.toml").write_text(text)
        with pytest.raises(InputError, match=words):
            read_calibration(tmp_path / "x.toml")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, str]]:
    """Exit code and output of a command beside a plan and logs."""
    log = samples.megatron_head(8) + "".join(f"{samples.megatron_line(step, 4200.0)}\n" for step in range(1, 61))
    files = {"plan.toml": PLAN, "a": log, "b": samples.verl_console(), "c": samples.vllm_result(),
             "d": samples.power_csv(), "other.toml": "a = 1\n"}  # fmt: skip
    files["e"] = line_of(Entry("e", "pretraining", "step", 1.0, 8, 1, tokens_by_kind={"trained": 1e3}, energy_j=5.0))
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)

    def invoked(*arguments: str) -> tuple[int, str]:
        result = CliRunner().invoke(cli, arguments)
        if isinstance(result.exception, InputError):
            return 2, str(result.exception)
        return result.exit_code, result.output

    return invoked


def test_command_keeps_its_contract(run, tmp_path):
    code, text = run("reconcile", "plan.toml", "a", "b", "c", "--gpus", "16", "--calibration", "out.toml",
                     "--html", "out.html", "--json")  # fmt: skip
    document = json.loads(text)
    assert (
        code == 0 and set(document["phases"]) == {"pretraining", "rl", "inference"} and document["contradictions"] == []
    )
    for phase in document["phases"].values():
        assert set(phase["variance"]) == {"volume", "utilization", "price", "unplanned"}
        assert sum(phase["variance"].values()) == pytest.approx(phase["actual"]["usd"] - phase["budget"]["usd"])
        assert sum(one["fraction"] for one in phase["parts"].values()) == pytest.approx(1.0)
    rl = document["phases"]["rl"]
    assert rl["actual"]["tokens"] == pytest.approx(sum(32 * response for _, _, response, *_ in samples.VERL), rel=1e-3)
    assert rl["actual"]["beta_gpu_time"] > rl["budget"]["beta_gpu_time"] > 10
    assert set(read_calibration(tmp_path / "out.toml").phases) == set(document["phases"])
    page = (tmp_path / "out.html").read_text()
    assert page.count('data-plot="') == 7 and "What was read" in page and "://" not in page.partition("<script>")[0]


def test_the_page_names_files_and_no_folder(run, tmp_path):
    code, _ = run("reconcile", str(tmp_path / "plan.toml"), str(tmp_path / "a"), "--html", "out.html")
    page = (tmp_path / "out.html").read_text()
    assert code == 0
    assert "plan.toml" in page
    assert str(tmp_path) not in page


def test_the_next_command_keeps_the_folders_that_were_given(run, tmp_path):
    (tmp_path / "P").mkdir()
    (tmp_path / "P" / "plan.toml").write_text((tmp_path / "plan.toml").read_text())
    _, text = run("reconcile", "P/plan.toml", "a", "--calibration", "P/c.toml")
    assert "computeledger plan P/plan.toml --calibration P/c.toml." in " ".join(text.split())
    _, text = run("reconcile", f"{tmp_path}/P/plan.toml", "a", "--calibration", "P/c.toml")
    assert f"next: computeledger plan {tmp_path}/P/plan.toml --calibration P/c.toml" in text


def test_plan_takes_what_reconcile_wrote(run):
    code, text = run("reconcile", "plan.toml", "a", "--json")
    actual = json.loads(text)["phases"]["pretraining"]["actual"]
    assert code == 0
    code, text = run("plan", "plan.toml", "--calibration", "calibration.toml", "--json")
    document = json.loads(text)
    assert code == 0 and document["editions"]["utilisation"].startswith("calibration.toml of 20")
    utilization = document["phases"]["pretraining"]["utilization_fraction"]
    assert utilization["p50"] == pytest.approx(actual["utilization_fraction"], rel=1e-3)
    assert utilization["p05"] < 0.98 * utilization["p50"] and utilization["p95"] > 1.02 * utilization["p50"]
    assert run("plan", "plan.toml", "--calibration", "other.toml")[0] == 2


def test_power_is_booked_to_the_workload_beside_it(run):
    code, text = run("reconcile", "plan.toml", "a", "d", "--calibration", "out.toml", "--json")
    one = json.loads(text)["phases"]["pretraining"]
    watts = one["actual"]["energy_measured_j"] / (one["actual"]["gpu_hours"] * HOUR_S)
    assert code == 0 and watts == pytest.approx(22.85, abs=0.1)
    assert any("the power log covers 0 % of the GPU-time" in remark for remark in json.loads(text)["remarks"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("plan.toml", "d"), "give the workload's own log beside it"),
        (("plan.toml", "a", "b", "d"), "a power log of which of pretraining, rl"),
        (("plan.toml", "c"), "does not say how many GPUs it held: give --gpus"),
        (("plan.toml", "c", "--gpus", "2..4"), "--gpus 2..4: expected one whole number, at least 1"),
        (("plan.toml", "e", "d"), "'d': 'e' counts energy itself: leave one of them out"),
        (("plan.toml", "plan.toml"), "of no tool that is known here"),
        (("plan.toml", "a", "--calibration", "other.toml"), "it is left as it is: give another name"),
        (("plan.toml", "nowhere"), "nowhere: no such file"),
        (("plan.toml", "a", "./a"), "'./a': is given twice, and would count twice"),
    ],
)
def test_bad_input_is_one_line(arguments, words, run):
    code, text = run("reconcile", *arguments)
    assert code == 2 and words in text and "\n" not in text.strip()


def test_the_next_run_of_a_recipe_is_predicted():
    """A ledger of unsteady steps and checkpoints calibrates a plan, which then tells the next run's GPU-time."""

    def ledger(seed: int, n_steps: int) -> Sums:
        draw, sums = np.random.default_rng(seed), Sums()
        for step in range(n_steps):
            took_s = float(draw.lognormal(np.log(10), 0.2))
            sums.add([Entry("a", "pretraining", "step", took_s, 8, step, 0, {"trained": 5e5})])
            if step % 50 == 49:
                sums.add([Entry("a", "pretraining", "checkpoint", 60.0, 8, step)])
        return sums

    found = settle_plan(plan(), ledger(1, 400).actuals(), {})
    actual = ledger(2, 900).actuals()["pretraining"]
    next_plan = calibrated(plan(tokens=f"{actual.tokens} tokens"), calibration_of(found, {}))
    predicted = np.median(estimate_ledger(next_plan, 256).phases["pretraining"].gpu_hours)
    assert predicted == pytest.approx(actual.gpu_hours, rel=0.10)


def test_python_and_the_command_settle_alike(run, tmp_path):
    """Paths, a plan that was read and texts ask the same question; nothing is written until it is asked for."""
    import computeledger as cl

    found = cl.reconcile(load_plan("plan.toml"), tmp_path / "a", price="$4/h", calibration="own.toml")
    code, text = run(
        "reconcile", "plan.toml", str(tmp_path / "a"), "--price", "4", "--calibration", "own.toml", "--json"
    )
    assert code == 0 and json.loads(json.dumps(found.to_dict())) == json.loads(text)
    (tmp_path / "own.toml").unlink()
    assert found.phases["pretraining"].usd.price > 0 and not (tmp_path / "own.toml").exists()
    found.write_calibration()
    assert read_calibration(tmp_path / "own.toml").phases["pretraining"].data == ("a",)
    with pytest.raises(InputError, match=r"^gpus 2\.5: expected one whole number"):
        cl.reconcile(found.question, gpus=2.5)
