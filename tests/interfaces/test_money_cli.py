"""The commands about money answer their contracts, and refuse what they must in one line."""

from __future__ import annotations

import html
import json
from pathlib import Path
from typing import Any

import pytest

import computeledger as cl
from computeledger.interfaces.cli import main
from computeledger.interfaces.plots.money import failure_figure, front_figure, shares_figure
from computeledger.interfaces.plots.parts import PHASE_COLORS
from computeledger.physics.blackboard.ledgers import BETA_FLOP, rl_beta
from computeledger.questions.answers.prices.source import history, model_names
from computeledger.questions.wording import PHASE_NAMES, words
from computeledger.units import format_percent, format_si
from computeledger.validation.rl.beta import published_betas
from tests.gates import ROOT

ATTEMPTS = str(ROOT / "examples" / "money" / "attempts.csv")
ROUTE, SHEET = (
    str(ROOT / "examples" / "money" / "route-support.toml"),
    str(ROOT / "examples" / "money" / "price-sheet.toml"),
)

#: A model priced by tokens; the prompt is to be added.
PRICED = (
    '[[model]]\nname = "a"\nsuccess = 0.5\noutput_tokens = 100\n'
    "price = { input = 2.0, output = 12.0, cached_read = 0.2 }\n"
)


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    """One command's JSON."""
    with pytest.raises(SystemExit) as stopped:
        main([*arguments, "--json"])
    assert stopped.value.code == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line of a refusal."""
    with pytest.raises(SystemExit) as stopped:
        main(list(arguments))
    assert stopped.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    return line


def test_what_allocate_assumes_of_rl_is_what_published_steps_show(capsys: pytest.CaptureFixture[str]) -> None:
    """One beta, nowhere below 8, and the utilisation that the RL table has for the kind of model; both are said."""
    question = ("allocate", "--budget", "3e25 FLOP", "--inference-tokens", "100T", "--rl-tokens", "10T")
    dense, sparse = (answer(capsys, *question, *more) for more in ((), ("--sparsity-ratio", "8", "--unverified")))
    steps = published_betas()
    assert BETA_FLOP.low == rl_beta(1)
    assert all(BETA_FLOP.low < one.beta_flop < BETA_FLOP.high for one in steps)
    for found, kind in ((dense, "dense"), (sparse, "moe")):
        beta = found["flop"]["rl"]["p50"] / found["n_params_active"]["p50"] / 10e12
        assert beta == pytest.approx(BETA_FLOP.mid, rel=0.05)
        used = [0.4 * one.beta_flop / one.beta_gpu_time for one in steps if one.run.row["model_kind"] == kind]
        hours = found["flop"]["rl"]["p50"] / found["gpu_hours"]["rl"]["p50"] / 3600 / 989.4e12
        assert min(used) < hours < max(used)
        assert any(f"beta of {BETA_FLOP.mid:g} (8 to 12)" in one for one in found["assumptions"])
        assert any(format_percent(max(used)) in one for one in found["assumptions"])


def test_invert_says_what_the_ratio_tells_and_when_the_total_was_set(capsys: pytest.CaptureFixture[str]) -> None:
    equal = answer(capsys, "invert", "--input", "0.14", "--output", "0.14", "--samples", "2000")
    usual = answer(capsys, "invert", "--input", "0.14", "--output", "0.56", "--samples", "2000")
    for document in (equal, usual):
        assert any("4 times the ratio means 0.45 times the active" in one for one in document["not_identified"])
    (words,) = [one for one in equal["not_identified"] if "total parameters are set to the active ones" in one]
    assert equal["n_params_total"]["p50"] == equal["n_params_active"]["p50"]
    assert f"{format_si(equal['n_params_active']['p50'])} active" in words
    ratio = usual["n_params_active"]["p50"] / equal["n_params_active"]["p50"]
    assert ratio == pytest.approx(0.45, rel=0.02)  # what the sentence says of four times the ratio
    assert not any("are set to" in one for one in usual["not_identified"])


def test_allocate(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    page = tmp_path / "a.html"
    document = answer(
        capsys, "allocate", "--law", "besiroglu-2024", "--budget", "5.76e23 FLOP", "--inference-tokens", "0",
        "--rl-tokens", "0", "--html", str(page),
    )  # fmt: skip
    size, tokens = document["n_params_active"], document["tokens_pretraining"]
    assert size["p50"] * tokens["p50"] * 6 == pytest.approx(5.76e23, rel=1e-3)
    # the interval is that of the law's coefficients: a budget in FLOP is exact
    assert size["p05"] < 0.75 * size["p50"] and size["p95"] * tokens["p05"] * 6 == pytest.approx(5.76e23, rel=1e-3)
    assert document["warning"].startswith("besiroglu_2024 is extrapolated: parameters 4.47 times")
    assert set(document["law"]["beyond_fit_ratio"]) == {"n_params", "tokens", "flop"}
    assert f"warning: {document['warning']}" in page.read_text() and "besiroglu-2024" in document["sources"]
    # a ledger has one colour on every page
    drawn = {line["name"]: line["line"]["color"] for line in shares_figure(document)["data"]}
    assert drawn == {PHASE_NAMES[phase]: PHASE_COLORS[phase] for phase in ("pretraining", "rl", "inference")}
    assert set(document["shares"]) == {"flop", "gpu_time"}
    assert {"tokens_rl", "tokens_inference", "marginal_return", "overtraining_ratio"} <= set(document)
    assert "https://" not in page.read_text().split("<script>")[0]
    judged = answer(
        capsys, "allocate", "--n-params", "400B", "--tokens", "15T", "--inference-tokens", "1e15", "--levers",
        "llama-3.1-8b",
    )  # fmt: skip
    assert judged["diagnosis"]["under_fed"] == "pretraining"
    assert {row["lever"] for row in judged["levers"]} >= {"MoE sparsity", "KV compression", "routing"}


def test_a_law_inside_its_fit_needs_no_warning_and_may_be_exact(
    capsys: pytest.CaptureFixture[str],
) -> None:
    question = ("allocate", "--inference-tokens", "0", "--rl-tokens", "0", "--budget")
    inside = answer(capsys, *question, "1e20 FLOP")
    size = inside["n_params_active"]
    assert inside["warning"] is None and 1.05 < size["p95"] / size["p05"] < 1.25  # the data are dense here
    exact = answer(capsys, *question, "1e20 FLOP", "--law", "hoffmann-2022")
    assert isinstance(exact["n_params_active"], float) and "count as exact" in exact["assumptions"][0]
    few = answer(capsys, *question, "1e15 FLOP")
    assert "FLOP 0.00072 of the least" in few["warning"]
    with pytest.raises(SystemExit):
        main([*question, "5.76e23 FLOP"])
    said = " ".join(capsys.readouterr().out.split())
    assert "warning: besiroglu_2024 is extrapolated" in said and "Loss 1.9751 1.9559 – 1.9978" in said


def test_invert(capsys: pytest.CaptureFixture[str]) -> None:
    document = answer(capsys, "invert", "--input", "2", "--output", "12", "--samples", "20000")
    for name in ("n_params_active", "n_params_total", "kv_bytes_per_token", "decode_batch", "gross_margin_fraction"):
        assert document[name]["p05"] < document[name]["p50"] < document[name]["p95"]
    assert all({"name", "weight", "rejected"} == set(one) for one in document["hypotheses"])
    assert not document["identified"]["kv_bytes_per_token"]
    sheet = answer(capsys, "invert", SHEET, "--samples", "5000", "--premium", "3", "--premium-spread", "0.7")
    assert set(sheet["questions"]) == {
        "chip", "precision", "speed target", "price step", "margin",
        "cache lifetime, cache_write", "cache lifetime, cache_write_1h",
    }  # fmt: skip
    assert sheet["readings"]["store_or_resend_s_cache_write"] == pytest.approx(300 * (2.0 - 0.2) / (2.5 - 2.0))
    assert [one["weight"] for one in sheet["questions"]["margin"]] == [0.0, 1.0]


def test_floors_and_histories(capsys: pytest.CaptureFixture[str]) -> None:
    floor = answer(capsys, "prices", "floor", "--model", "llama-3.1-70b", "--system", "h200-nvl8", "--price", "2")
    dearer = answer(capsys, "prices", "floor", "--model", "llama-3.1-70b", "--system", "h200-nvl8", "--price", "4")
    for row in floor["providers"]:
        assert row["price_over_cost_ratio_p05"] < row["price_over_cost_ratio"] < row["price_over_cost_ratio_p95"]
        assert row["surely_below_cost"] <= row["below_cost"] == (row["price_over_cost_ratio"] < 1)
    for kind in ("input", "output"):
        assert dearer["usd_per_mtok_cost"][kind] == pytest.approx(2 * floor["usd_per_mtok_cost"][kind])
    name = next(name for name in model_names("anthropic") if len(list(history(name))) > 1)
    rows = answer(capsys, "prices", "history", name)["history"]
    assert rows[0]["since"] == "at first" and rows[1]["since"].startswith("since 20")
    first, second = (row["usd_per_mtok"]["input"] for row in rows[:2])
    assert rows[1]["ratio_to_previous"]["input"] == pytest.approx(second / first)


def test_route(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    page = tmp_path / "r.html"
    document = answer(capsys, "route", ROUTE, "--html", str(page))
    for row in [document["best"], *document["options"]]:
        assert row["usd_per_completed_task"] == pytest.approx(row["usd_per_task"] / row["success_fraction"])
        assert 0 <= row["success_fraction"] <= 1 and row["seconds"] >= 0
    enough = [row for row in document["options"] if row["success_fraction"] >= document["least_success_fraction"]]
    assert min(row["usd_per_completed_task"] for row in enough) == document["best"]["usd_per_completed_task"]
    assert page.exists()


def test_a_route_rings_the_chosen_policy_and_counts_what_a_failure_costs(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    task = ROOT / "examples" / "money" / "route-support.toml"
    free = answer(capsys, "route", str(task))
    dear = answer(capsys, "route", str(task), "--failure-usd", "$5", "--min-success", "85%")
    for document in (free, dear):
        best, figure = document["best"], front_figure(document)
        ring = next(trace for trace in figure["data"] if trace["name"] == "chosen")
        assert ring["x"] == pytest.approx([best["usd_per_completed_task"]], rel=1e-3)
        assert ring["y"] == pytest.approx([100 * best["success_fraction"]], rel=1e-3)
        assert figure["layout"]["shapes"][0]["y0"] == pytest.approx(100 * document["least_success_fraction"])
        notes = [html.unescape(note["text"]) for note in figure["layout"]["annotations"]]
        named = dict(note.rsplit("<br>", 1) for note in notes if "<br>" in note)
        assert {"small alone", "the person alone"} < set(named)
        assert f"<b>{words(best['usd_per_completed_task'], 'USD', 2)}</b>" in named.values()
        chart = failure_figure(document)
        ranges, (bars, *_) = chart["layout"]["annotations"], chart["data"]
        words_of = [note["text"] for note in ranges]
        assert any("<b>up to" in one for one in words_of) and any("<b>from" in one for one in words_of)
        assert 3 <= len(bars["base"]) <= 6 and not any("others" in one for one in words_of)
        ends = [low + long for low, long in zip(bars["base"], bars["x"], strict=True)]
        assert bars["base"][1:] == pytest.approx(ends[:-1], rel=1e-3)  # no cost of a failure is left out
    assert (dear["least_success_fraction"], dear["least_success_is"], dear["failure_usd"]) == (0.85, "stated", 5.0)
    assert dear["best"]["failure_usd_per_task"] == pytest.approx(5.0 * (1 - dear["best"]["success_fraction"]))
    told = [(row["policy"], row["failure_usd"]) for row in dear["by_failure_usd"]]
    assert told == [(row["policy"], pytest.approx(row["failure_usd"])) for row in free["by_failure_usd"]]


def test_laws_over_a_budget(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    page = tmp_path / "a.html"
    document = answer(
        capsys, "allocate", "--law", "gadre-2024-c4", "--budget", "3M GPU-hours", "--inference-tokens", "100T",
        "--rl-gain", "0.05..0.2", "--rl-recipe", "scalerl", "--beta", "4..12", "--unique-tokens", "10T",
        "--sparsity-ratio", "8", "--train-precision", "8/8", "--unverified", "--samples", "64", "--html", str(page),
    )  # fmt: skip
    assert len(document["law"]["changes"]) == 3 and document["n_params_total"]["p50"] == pytest.approx(
        8 * document["n_params_active"]["p50"]
    )
    returns = {phase: value["p50"] for phase, value in document["marginal_return"].items()}
    assert returns["rl"] == pytest.approx(returns["pretraining"], rel=1e-3)
    assert {"gadre-2024", "kumar-2024", "muennighoff-2023", "khatri-2025"} <= set(document["sources"])
    assert [row["sparsity_fraction"] for row in document["sparsities"]][-1] == 0.98 and page.exists()
    laws = answer(capsys, "allocate", "--laws")
    assert {row["name"]: row["on"] for row in laws["laws"]}["abnar_2025"] is False and laws["rl_recipes"]["scout"]


def test_route_from_attempts(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    document = answer(capsys, "route", "--attempts", ATTEMPTS, "--html", str(tmp_path / "r.html"))
    assert set(document["by_difficulty"]["policies"]) == {"django", "other"}
    for row in document["options"]:
        ends = row["interval"]["success_fraction"]
        assert ends["p05"] <= row["success_fraction"] + 0.06 and row["success_fraction"] - 0.06 <= ends["p95"]
        assert row["success_fraction"] <= row["independent_upper_bound_success_fraction"] + 1e-9
    few = tmp_path / "few.csv"
    few.write_text("\n".join(Path(ATTEMPTS).read_text().splitlines()[:150]))
    check = answer(capsys, "route", "--attempts", str(few), "--check-attempts")
    assert {"success", "success_if_independent", "cost", "retry_success", "n_tasks"} <= set(check)


def test_a_task_says_what_it_takes_for_granted(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "t.toml"
    file.write_text(PRICED + "input_tokens = 5000\ncached_tokens = 4000\nfailed_cost_ratio = 1")
    document = answer(capsys, "route", str(file))
    # the cached tokens are part of the prompt, as in a bill
    assert document["best"]["usd_per_task"] == pytest.approx((1000 * 2 + 4000 * 0.2 + 100 * 12) / 1e6)
    assert {"seconds of a 0", "checks never err", "checks cost nothing"} <= set(document["assumptions"])
    with pytest.raises(SystemExit):
        main(["route", ROUTE])
    assert "Takes" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [("a.csv", "model,task,success,cost\n", "no attempt in it"), ("a.jsonl", '{"model": "a"}\n{', "a.jsonl:2: not")],
)
def test_bad_attempts(capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str, text: str, words: str) -> None:
    (tmp_path / name).write_text(text)
    assert words in refused(capsys, "route", "--attempts", str(tmp_path / name))


def test_what_is_printed_is_an_interval_and_exact_prices(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    sheet = tmp_path / "s.toml"
    sheet.write_text("[price]\ninput = 1.875\noutput = 11.25\n")
    for arguments in (["allocate", "--budget", "$50M", "--rate", "10M..100M tokens/s", "--life", "1..3 months",
                       "--samples", "64"], ["prices", "show", str(sheet)]):  # fmt: skip
        with pytest.raises(SystemExit):
            main(arguments)
    out = capsys.readouterr().out
    assert "–" in out and "$1.875" in out and "$11.25" in out


def test_the_person_alone_is_a_policy(capsys: pytest.CaptureFixture[str]) -> None:
    rows = {row["policy"]: row for row in answer(capsys, "route", ROUTE)["options"]}
    assert rows["the person alone"]["usd_per_task"] == pytest.approx(6.0 + 0.5 * 2.0)


def test_prices_and_validate(capsys: pytest.CaptureFixture[str]) -> None:
    bills = answer(capsys, "prices", "bill", SHEET, "--input-tokens", "200001", "--output-tokens", "1000")
    assert bills["bills"][0]["usd"] == pytest.approx(1.08 * (200001 * 4 + 1000 * 18) / 1e6)
    bill = ("prices", "bill", SHEET, "--output-tokens", "1000", "--cached-tokens", "150000", "--input-tokens")
    (cached,) = answer(capsys, *bill, "50001")["bills"]  # new input, as in serve; tiers go by the whole prompt
    assert cached["parts"]["input"] == pytest.approx(0.25 * bills["bills"][0]["parts"]["input"], rel=1e-4)
    check = answer(capsys, "validate", "--prices")
    assert set(check["coverage"]) == {"50", "80", "90"} and check["n"] == 75
    assert {"median_abs_log10_error", "median_width_log10_90"} <= set(check)


def test_python_and_the_commands_price_alike(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Bills and floors of Python are the documents of the commands, and their views name every sheet."""
    asked = {"input_tokens": "200001", "output_tokens": "1000", "cached_tokens": "5K"}
    options = [f"--{name.replace('_', '-')}={text}" for name, text in asked.items()]
    page = tmp_path / "bill.html"
    bills = cl.bill(names=[SHEET, "openai/gpt-5"], **asked)
    assert bills.to_dict() == answer(capsys, "prices", "bill", SHEET, "openai/gpt-5", *options, "--html", str(page))
    assert [row[0] for row in bills.view().tables[0].rows] == ["openai/gpt-5", "a long-context model"]
    assert "a long-context model" in page.read_text("utf-8")
    model = ("--model", "llama-3.1-70b", "--system", "h200-nvl8")
    floor = cl.price_floor(model="llama-3.1-70b", system="h200-nvl8", price=2)
    assert floor.to_dict() == answer(capsys, "prices", "floor", *model, "--price", "2")
    history = cl.price_history(name="deepseek/deepseek-chat")
    assert history.to_dict() == answer(capsys, "prices", "history", "deepseek/deepseek-chat")
    with pytest.raises(cl.InputError, match=r"^input_tokens 1: fewer than the 2 "):
        cl.bill(names=SHEET, input_tokens=1, cache_write_tokens=2)


@pytest.mark.parametrize("text", ["claude-opus", "deepseek-v3"])
def test_list_names_each_sheet_that_it_counts(capsys: pytest.CaptureFixture[str], text: str) -> None:
    names = answer(capsys, "prices", "list", text)["models"]
    with pytest.raises(SystemExit):
        main(["prices", "list", text])
    assert names and [one for one in capsys.readouterr().out.split() if text in one.lower()] == names


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["allocate"], "--budget: needed"),
        (["allocate", "--budget", "3 apples"], "write '5.76e23 FLOP'"),
        (["allocate", "--budget", "1e24 FLOP", "--law", "hofman_2022"], "hoffmann_2022"),
        (["invert", "--input", "-1", "--output", "3"], "must not be negative"),
        (["invert", "--input", "0", "--output", "3"], "greater than 0"),
        (["invert", "--input", "1", "--output", "3", "--premium", "0"], "--premium '0': must be greater than 0"),
        (["invert", "--input", "1"], "--output: needed"),
        (["invert", "--output", "1"], "--input: needed"),
        (["invert", "--input", "1", "--output", "3", "--threshold", "0"], "--threshold '0': must be at least 1"),
        (["invert", "--input", "1", "--output", "3", "--fast-price", "6"], "needs both"),
        (["invert"], "give one of"),
        (["prices", "show", "claude"], "price sheets hold it: `prices list claude` names them"),
        (["prices", "bill", SHEET, "--input-tokens", "1", "--cache-write-tokens", "2"], "fewer than the 2"),
        (["prices", "bill", SHEET], "give --input-tokens"),
        (["prices", "bill", SHEET, "--input-tokens", "1K..2K"], "one whole number"),
        (["prices", "bill", SHEET, "--input-tokens", "1", "--mode", "bacth"], "did you mean 'batch'"),
        (["allocate", "--preset", "api"], "api-only"),
        (["route"], "no task: give a file such as TASK.toml, or --attempts"),
        (["route", "--check"], "--attempts"),
        (["allocate", "--budget", "1e24 FLOP", "--law", "sardana-2024"], "read in notes only"),
        (["allocate", "--budget", "1e24 FLOP", "--elasticity", "published"], "--unverified"),
        (["allocate", "--budget", "1e24 FLOP", "--train-precision", "8/2"], "leaves no parameters"),
        (["allocate", "--budget", "1e24 FLOP", "--rl-recipe", "scaler", "--rl-gain", "0.1"], "did you mean 'scalerl'"),
        (["allocate", "--budget", "1e24 FLOP", "--rl-recipe", "scalerl"], "--rl-gain goes with"),
    ],
)
def test_refusals(capsys: pytest.CaptureFixture[str], arguments: list[str], words: str) -> None:
    assert words in refused(capsys, *arguments)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[[model]]\nname = "a"\nsuccess = 1.2\nusd_per_attempt = 1', "probability must lie in 0..1"),
        ('[[model]]\nname = "a"\nsuccess = [3, 2]\nusd_per_attempt = 1', "successes, attempts"),
        ('[[model]]\nname = "a"\nsuccess = 0.5', "usd_per_attempt"),
        ('[[model]]\nname = "a"\nsuccess = 0.5\nusd_per_attempt = -1', "must not be negative"),
        ("[difficulty]\neasy = 0.5\nhard = 0.6", "add up to 1.1"),
        ('[[model]]\nname = "a"\nsuccess = 0\nusd_per_attempt = 1', "such as [0, 20]"),
        ('[[model]]\nname = "a"\nsuccess = "0.3..1.2"\nusd_per_attempt = 1', "inside 0..1"),
        ('[verifier]\nfalse_accept = [3, 2]\n[[model]]\nname = "a"\nsuccess = 0.5\nusd_per_attempt = 1', "attempts"),
        (PRICED + "input_tokens = 5000\ncached_tokens = 9000", "9,000 exceed the prompt of 5,000"),
    ],
)
def test_bad_tasks(capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "t.toml"
    file.write_text(text)
    assert words in refused(capsys, "route", str(file))


def test_a_seller_without_a_known_price_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    said = refused(capsys, "invert", "--input", "3", "--output", "15", "--provider", "deepinfr")
    assert "did you mean 'deepinfra'" in said


def test_a_bill_says_which_hours_of_the_day_it_takes(capsys: pytest.CaptureFixture[str]) -> None:
    """deepseek-chat is half as dear for eight hours at night: the standard price is that of the other sixteen."""
    asked = ("prices", "bill", "deepseek/deepseek-chat", "--input-tokens", "1M", "--output-tokens", "1M")
    (day,) = answer(capsys, *asked)["bills"]
    (night,) = answer(capsys, *asked, "--at", "20:00")["bills"]
    assert night["usd"] == pytest.approx(day["usd"] / 2) and day["usd"] == pytest.approx(0.27 + 1.1)
    assert (
        "00:30 to 16:30 UTC, which hold for most of the day" in day["notes"][0] and "x0.5 from 16:30" in day["notes"][0]
    )
    (sheet,) = answer(capsys, "prices", "bill", "anthropic/claude-3-opus-latest", "--output-tokens", "1M")["bills"]
    assert sheet["notes"] == []
