"""The commands over a real short run: ledger, evaluate with its rivals, soup; and the page as people see it."""

from __future__ import annotations

import contextlib
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

from computeledger.actuals.run_ledger import Entry, line_of, read_ledger
from rntp.interfaces.answers.ledger import read_parquet
from rntp.interfaces.cli import main
from tests.gates import ROOT

RECIPE = ROOT / "recipes" / "tiny_text" / "config.toml"
SETTINGS = ("rl.steps=2", "pretrain.steps=4", "report.places=0")


@pytest.fixture(autouse=True)
def _narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def command(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    capsys.readouterr()
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    out = capsys.readouterr()
    return int(stop.value.code or 0), out.out, out.err


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    code, out, err = command(capsys, *arguments, "--json")
    assert code == 0, err
    return dict(json.loads(out))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "tiny"
    settings = [part for one in (*SETTINGS, f"output={folder}") for part in ("--set", one)]
    with pytest.raises(SystemExit) as stop:
        main(["train", str(RECIPE), *settings, "--json"])
    assert not stop.value.code
    return folder


def test_ledger(run: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = answer(capsys, "ledger", str(run / "ledger.jsonl"), "--parquet", str(tmp_path / "l.parquet"))
    assert sum(part["fraction"] for part in out["phases"].values()) == pytest.approx(1)
    assert {"generation", "thought scoring", "baseline", "update", "idle"} <= set(out["phases"])
    assert out["beta_flop"] > 6 and out["beta_gpu_time"] > out["beta_gpu_time_busy"] > 0
    assert all((part["utilization_fraction"] or 0) < 1.5 for part in out["phases"].values())
    assert tuple(read_parquet(tmp_path / "l.parquet")) == read_ledger(run / "ledger.jsonl").entries
    again = answer(capsys, "ledger", str(tmp_path / "l.parquet"))
    assert again == out
    code, text, _ = command(capsys, "ledger", str(run / "ledger.jsonl"))
    assert code == 0 and max(map(len, text.splitlines())) <= 80
    assert "beta in GPU-time" in text and "energy: not measured" in text


def test_what_runs_cost_beside_the_prediction(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = answer(capsys, "ledger", str(run), str(run), "--machine", "h100-nvl8")
    one, same = out["runs"]
    assert one == same and one["steps"] == 2
    mine = answer(capsys, "ledger", str(run / "ledger.jsonl"))
    assert one["beta_flop"]["measured"] == pytest.approx(mine["beta_flop"])
    parts = one["phases"]
    counted = [part["beta_flop"]["measured"] or 0.0 for part in parts.values()]
    assert sum(counted) == pytest.approx(mine["beta_flop"])
    shapes = one["shapes"]  # the closed form by hand
    prompt, thought, gold, group = (
        shapes[name] for name in ("prompt_tokens", "thought_tokens", "gold_tokens", "group_size")
    )
    by_hand = {
        "generation": 2 * (prompt + thought),
        "thought scoring": 2 * (prompt / group + thought + gold),
        "baseline": 2 * gold / group,
    }
    for name, flop in by_hand.items():
        assert parts[name]["beta_flop"]["predicted"] == pytest.approx(flop / thought, rel=2e-3)
        assert 0.5 < parts[name]["beta_flop"]["predicted_over_measured"] < 1.3
        assert parts[name]["s_per_step"]["predicted"] > 0
    without = answer(capsys, "ledger", str(run))
    assert without["machine"] is None and without["runs"][0]["beta_gpu_time"]["predicted"] is None
    for folders in ((str(run),), (str(run), str(run))):
        code, text, _ = command(capsys, "ledger", *folders, "--machine", "h100-nvl8")
        assert code == 0 and max(map(len, text.splitlines())) <= 80 and "…" not in text


@pytest.fixture(scope="module")
def evaluated(run: Path) -> tuple[dict[str, Any], Path]:
    page = run.parent / "page.html"
    options = ("--places", "6", "--thoughts", "2", "--samples", "2", "--controls", "all", "--html", str(page))
    with contextlib.redirect_stdout(io.StringIO()) as out, pytest.raises(SystemExit) as stop:
        main(["evaluate", str(run), *options, "--json"])
    assert not stop.value.code
    return dict(json.loads(out.getvalue())), page


def test_evaluate(run: Path, evaluated: tuple[dict[str, Any], Path], capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = evaluated
    controls = {
        "ntp-equal-tokens",
        "ntp-equal-time",
        "mixed-sft",
        "frozen-scorer",
        "empty-thought",
        "overlap",
        "repeats",
    }
    assert controls <= set(out["settled"]["controls"])
    assert list(out["controls_not_measured"]) == ["independent-scorer"]
    assert (run / "controls" / "mixed-sft" / "model.safetensors").is_file()
    alone = answer(capsys, "evaluate", str(run / "final"), "--places", "6", "--thoughts", "2")
    assert alone["loss"]["policy"] == out["loss"]["policy"]


def test_the_page_fits_a_phone_and_a_desk(evaluated: tuple[dict[str, Any], Path], browser: Any) -> None:
    out, page = evaluated
    text = page.read_text("utf-8")
    assert text.count('<article class="sample">') == 2
    assert ("No gain" in text) == (not out["settled"]["reported_gain"])
    for width, scheme in ((390, "dark"), (1200, "light")):
        view = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
        view.goto(page.as_uri())
        assert view.evaluate("document.documentElement.scrollWidth") <= width
        assert view.locator("article").first.is_visible()
        view.close()


def test_soup(run: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    parts = (str(run / "base"), str(run / "final"))
    search = ("--search", str(RECIPE), "--places", "8", "--trials", "4")
    out = answer(capsys, "soup", *parts, "--out", str(tmp_path / "soup"), *search)
    assert len(out["search"]["trials"]) == 4 and sum(out["weights"]) == pytest.approx(1)
    assert min(trial["score"] for trial in out["search"]["trials"]) == out["search"]["chosen_on"]
    merged = answer(capsys, "evaluate", str(tmp_path / "soup"), "--recipe", str(RECIPE), "--places", "4")
    assert merged["places"] == 4
    code, _, err = command(capsys, "soup", *parts, "--out", str(tmp_path / "soup"))
    assert code == 2 and "there already" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("evaluate", "{run}", "--controls", "ntp-equal"), "did you mean 'ntp-equal-"),
        (("evaluate", "{tmp}"), "neither a checkpoint (config.json) nor a run"),
        (("evaluate", "{tmp}/bare"), "name its recipe with --recipe"),
        (("soup", "{run}/base", "--out", "{tmp}/x"), "at least two are needed"),
        (("soup", "{run}/base", "{run}/final", "--out", "{tmp}/x", "--weights", "1;2"), "separated by commas"),
        (("ledger", "{tmp}/none.jsonl"), "no such file"),
        (("ledger", "{tmp}/bare"), "no recipe.json"),
        (("ledger", "{run}", "--run", "mine"), "belongs to one LEDGER.jsonl"),
        (("ledger", "{run}", "--machine", "h100"), "h100-nvl8"),
        (("ledger", "{tmp}/other.jsonl", "--run", "mime"), "did you mean 'mine'"),
        (("ledger", "{tmp}/other.jsonl", "--workload", "rl"), "is not in the ledger"),
    ],
)
def test_bad_input_is_one_line(
    run: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "config.json").write_text("{}")
    (tmp_path / "other.jsonl").write_text(line_of(Entry("mine", "serving", "decode", 1.0)))
    code, out, err = command(capsys, *(one.format(run=run, tmp=tmp_path) for one in arguments))
    assert (code, out, len(err.strip().splitlines())) == (2, "", 1), err
    assert message in err


def test_a_studys_tables_keep_words_and_intervals_whole(capsys: pytest.CaptureFixture[str]) -> None:
    """At 80 columns a table goes on below itself; no word is broken, no interval is parted."""
    code, text, _ = command(capsys, "study", str(ROOT / "docs" / "experiments" / "soup.json"))
    assert code == 0 and max(map(len, text.splitlines())) <= 80
    assert "generation" in text and "baseline" in text and "familie\n" not in text
    assert not re.search(r"\bto( |$)(?!\d|-)", text.partition("\n")[2], re.MULTILINE)


def test_counts_are_written_as_everywhere(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, error = command(capsys, "evaluate", "nowhere", "--places", "6K", "--thoughts", "0")
    assert (code, error) == (2, "rntp: --thoughts '0': at least 1\n")
