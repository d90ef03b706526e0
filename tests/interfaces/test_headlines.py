"""Headlines obey their tables: every figure of a sentence on top stands in the tables of the same answer."""

from __future__ import annotations

import html
import json
import math
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from computeledger.fields import question_from
from computeledger.interfaces.cli import main
from computeledger.interfaces.views import view_of
from computeledger.interfaces.views.display_names import in_names
from computeledger.interfaces.views.frontier_words import (
    critical_row,
    span_ends,
    step_months,
    system_headline,
    system_sentence,
)
from computeledger.interfaces.web.app import create_app
from computeledger.interfaces.web.pages import PAGES, page_named
from computeledger.questions.answers.accuracy import errors_by_workload
from computeledger.questions.answers.frontier.systems import answer_systems
from computeledger.questions.frontier import SystemsQuestion
from computeledger.questions.wording import percent, words
from computeledger.units import MONTH_S
from tests.gates import ROOT
from tests.interfaces.headlines import figures, unsupported
from tests.interfaces.test_web import SMALL

_VIEWS = [*((page.name, SMALL.get(page.name, {})) for page in PAGES),
          *(("frontier", {"about": about}) for about in ("a run", "sites", "growth")),
          ("frontier", {"spec": "1 GW facility of gb300-gpu", "duration": "6 months"}),
          ("rl", dict(page_named("rl").presets["Asynchronous, two steps behind"])),
          ("frontier", {"about": "labs"}), ("prices", {"about": "quality"}),
          ("prices", {"about": "quality", "at": "0.6"}),
          ("prices", {"about": "quality", "size-of": "gpt-oss-120b"}), ("prices", {"threshold": "200K"})]  # fmt: skip
_COMMANDS = (
    "plan examples/deepseek-v3.toml", "plan examples/small-team-rl.toml",
    "serve --model llama-3.1-8b --system h100-nvl8 --layout tp1 --batch 16",
    "serve --model llama-3.1-8b --system h100-nvl8 --requests-per-s 50 --tpot 50ms",
    "pretrain --model llama-3.1-8b --system h100-nvl8 --gpus 64 --tokens 1T --layout dp64",
    "rl --model qwen3-8b --system h100-nvl8 --gpus 16 --layout tp2 --training-layout tp2-dp8 --rollout 4K --gold 128",
    "simulate serve --model llama-3.1-8b --system h100-nvl8 --layout tp1 --requests 200 --arrivals poisson:5",
    "allocate --budget '3e25 FLOP' --inference-tokens 100T", "invert --input 2 --output 12 --threshold 200K",
    "sheet --price 3/15 --date 2025-02-24 --flop 1e28",
    "route examples/money/route-support.toml", "claims", "frontier systems '2K chips of gb200-gpu'",
    "frontier sites --site Colossus", "frontier sites --site 'Stargate Abilene' --claim '400 MW' --date 2025-12-31",
    "frontier growth", "frontier forecast 1e28 --by 2028-12-31 --scenario power-limited", "frontier backtest",
    "frontier spread --params 405B --step 6s --exchange 1s", "frontier sheet deepseek-v3 --claim 5e24",
    "frontier schedule 2025-01-15 --delivery '1..2 months' --installation '2..3 months'",
    "prices bill google/gemini-3.1-pro-preview openai/gpt-5 --input-tokens 200001 --output-tokens 1000",
    "cost --system h100-nvl8", "simulate rl examples/rl-async.toml --steps 4",
    "reconcile examples/reconcile/plan.toml examples/reconcile/megatron.log --calibration {folder}/calibration.toml",
    "validate --samples 64 --worst 0",
)  # fmt: skip
#: Commands whose report's lead is read too.
_REPORTS = (
    "plan examples/small-team-rl.toml", "serve --model llama-3.1-8b --system h100-nvl8 --layout tp1 --batch 16",
    "pretrain --model llama-3.1-8b --system h100-nvl8 --gpus 64 --tokens 1T --layout dp64",
    "frontier systems '2K chips of gb200-gpu'", "frontier growth",
    *(one for one in _COMMANDS if one.startswith(("simulate", "reconcile", "validate", "claims", "frontier forecast"))),
)  # fmt: skip


@pytest.fixture(scope="module")
def client() -> TestClient:
    return TestClient(create_app(), base_url="http://localhost")


@pytest.mark.parametrize(("name", "query"), _VIEWS, ids=str)
def test_the_headline_and_tiles_of_a_page(name: str, query: dict[str, str], client: TestClient) -> None:
    view, document = (client.get(f"/{kind}/{name}", params=query).json() for kind in ("view", "api"))
    page = next(one for one in PAGES if one.name == name)
    asked = [*query.values(), *(one.default for one in page.controls)]
    assert all(len(row) == len(table["columns"]) for table in view["tables"] for row in table["rows"])
    cells = [f"{one['text']}; {one['below'] or ''}" if isinstance(one, dict) else one for table in view["tables"]
             for row in table["rows"] for one in row]  # fmt: skip
    cells += [in_names(one) for one in cells]  # as sentences say it
    cells += [str(len(table["rows"])) for table in view["tables"]]
    tiles = [f"{one['text']}; {one['band'] or ''}" for one in view["tiles"]]
    for said in (view["headline"], view["context"]):
        assert unsupported(said, [*cells, *tiles], asked, document) == [], said
    for tile in tiles:
        assert unsupported(tile, cells, asked, document) == [], tile


def _said(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> str:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert not stopped.value.code
    return capsys.readouterr().out


@pytest.mark.parametrize("command", _COMMANDS)
def test_the_sentences_of_a_command_and_the_lead_of_its_report(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Sentences are the first line, and every line that is not set in columns."""
    monkeypatch.setenv("COLUMNS", "240")
    file = tmp_path / "report.html"
    written = ["--html", str(file)] if command in _REPORTS else []
    asked = command.format(folder=tmp_path)
    printed = [line for line in _said(capsys, shlex.split(asked)).splitlines() if line.strip()]
    document = json.loads(_said(capsys, [*shlex.split(asked), "--json", *written]))
    # what is set in columns, or below a row of them, is a table's
    is_set = re.compile(r"\S  +\S|^   ")
    prose = [line for place, line in enumerate(printed) if place == 0 or not is_set.search(line.rstrip())]
    tables = [line for line in printed if line not in prose]
    tables += [percent(one.median_abs_error) for one in errors_by_workload().values()]  # of `computeledger accuracy`
    shown = {name: part for name, part in document.items() if name != "working"}  # which a report has with it
    tables += [f"a factor of {factor:.2g}" for factor in _factors(shown)]
    for line in prose:
        assert unsupported(line, tables, [asked], shown) == [], line
    if written:
        text = file.read_text("utf-8")
        (lead,) = re.findall(r'<p class="lead">(.*?)</p>', text, re.DOTALL)
        cells = [_plain(cell) for cell in re.findall(r"<td[^>]*>(.*?)</td>", text, re.DOTALL)]
        assert unsupported(_plain(lead), cells, [asked], document) == [], _plain(lead)


def _factors(part: Any) -> Iterator[float]:
    """Half the width of every interval of a document, as a factor."""
    if isinstance(part, dict) and {"p05", "p95"} <= part.keys():
        ends = part["p05"], part["p95"]
        if all(isinstance(one, int | float) and one > 0 for one in ends):  # dates have no factor
            yield math.sqrt(ends[1] / ends[0])
    elif isinstance(part, dict | list):
        for one in part.values() if isinstance(part, dict) else part:
            yield from _factors(one)


def test_every_report_is_that_of_a_command() -> None:
    assert set(_REPORTS) <= set(_COMMANDS)


def _plain(markup: str) -> str:
    return html.unescape(re.sub(r"<[^>]*>", "", markup))


def test_a_training_system_says_what_its_table_says(capsys: pytest.CaptureFixture[str]) -> None:
    """1 GW of GB300 for 6 months: headline, sentence and tile have the table's months at the critical batch."""
    asked = ["frontier", "systems", "1 GW facility of gb300-gpu", "--duration", "6 months", "--json"]
    document = json.loads(_said(capsys, asked))
    (row,) = [one for one in document["trains"]["dense"]["batches"] if one["batch_over_critical"] == 1]
    view = view_of(
        answer_systems(question_from(SystemsQuestion, {"spec": "1 GW facility of gb300-gpu", "duration": "6 months"}))
    )
    assert system_sentence(document) in view.context
    assert view.headline == in_names(system_headline(document))
    months = words(row["calendar_s"] / MONTH_S, "", 2)
    rides = words(row["elastic_s"] / MONTH_S, "", 2)
    assert f" in {rides} to {months} months" in view.headline.replace("\u00a0", " ")
    (tile,) = [one for one in view.tiles if one.key == "dense.calendar_months"]
    said = (tile.text.replace("\u00a0", " "), tile.band.replace("\u00a0", " "))
    busy = words(row["busy_s"] / MONTH_S, "", 2)
    lost, least = (words(float(one) - float(busy), "", 2) for one in (months, rides))
    fewer = words(6 - float(busy), "", 2)
    ends = span_ends(row)
    made_of = f"{ends}; 6 asked, {fewer} less for faster steps, {least} to {lost} for failures"
    assert said == (f"{rides} – {months} months", made_of)
    low, high = ends.split(";")
    assert f"(90 %: {low} months;{high})" in view.headline.replace("\u00a0", " ")
    assert row["elastic_low_s"] < row["elastic_s"] < row["calendar_s"] and row["calendar_low_s"] < row["calendar_s"]
    mixture = critical_row(document["trains"]["moe"])
    (experts,) = [one for one in view.tiles if one.key == "moe.calendar_months"]
    assert f"– {words(mixture['calendar_s'] / MONTH_S, '', 2)} months" in experts.text.replace("\u00a0", " ")
    (steps,) = [table.rows for table in view.tables if table.title.startswith("The step")]
    assert any(tuple(map(str, one[5:7])) == step_months(row) for one in steps)


def test_small_things_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    """RL on text says GPU-hours and dollars, a plan what nobody pays for, a search finds the frontier's sites."""
    rl = _said(capsys, shlex.split(next(one for one in _COMMANDS if one.startswith("rl "))))
    assert re.search(r"and \S+ GPU-hours .* (days|years) .*on these GPUs,\s+\$\S+", " ".join(rl.split()))
    plan = (ROOT / "examples" / "rl-heavy.toml").read_text("utf-8")
    assert 'paid = "no"' in plan
    printed = _said(capsys, ["plan", str(ROOT / "examples" / "rl-heavy.toml")])
    assert re.search(r"Inference  of its GPU-time nobody pays for \d", printed)
    found = json.loads(_said(capsys, ["facts", "search", "huawei", "--json"]))["results"]
    assert {"facility_w", "h100e_8bit"} <= {one["name"] for one in found if one["id"] == "Huawei Horinger"}
    shown = json.loads(_said(capsys, ["facts", "show", "Huawei Horinger", "--json"]))
    assert shown["kind"] == "site"


def test_a_figure_that_is_wrong_is_noticed() -> None:
    """Of what is said, asked and shown, a change of the last digit is found; names and dates are no figures."""
    tables, document = ["37.4 % 6.51 20.1", "$1.27"], {"days": 60.5, "bytes": 640e9, "claims": [{"v": "yes"}] * 12}
    right = "37.4 % MFU, 6.51 months, 60.5 days, 640 GB, 12 claims, $1.27, asked 4 months on 2028-02-10 of gb300-nvl72"
    assert unsupported(right, tables, ["4 months"], document) == []
    for said, wrong in (("37.4", "37.5"), ("6.51", "6.52"), ("60.5", "60.4"), ("640", "641"), ("12 c", "13 c"),
                        ("1.27", "1.28"), ("asked 4", "asked 5")):  # fmt: skip
        assert len(unsupported(right.replace(said, wrong), tables, ["4 months"], document)) == 1, wrong
    low, high = figures("728 – 1.05K GPU-hours")
    assert low.is_stated_by(728.4) and high.is_stated_by(1049.0) and not high.is_stated_by(1044.0)
