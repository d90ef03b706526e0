"""The published table of accuracy: of the shipped constants, of the shipped rows, and what is told from it."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import numpy as np
import pytest

import computeledger as cl
from computeledger.errors import InputError
from computeledger.facts.load import load_system
from computeledger.interfaces.cli import main
from computeledger.interfaces.view import Cell
from computeledger.physics.calibration.efficiency import efficiency
from computeledger.physics.roofline import Machine
from computeledger.validation.accuracy import publish
from computeledger.validation.accuracy.peers import beside
from computeledger.validation.accuracy.table import (
    PARTS,
    QUANTILE_COLUMNS,
    constants_key,
    published,
    read_part,
    shipped_key,
    shipped_part,
)
from computeledger.validation.compare import Comparison, comparison_document
from computeledger.validation.measured_table import curated_rows, shipped_names
from computeledger.validation.published.rows import Unpredictable
from computeledger.validation.serving import tails
from computeledger.validation.serving.open_points import open_case, predict_open
from computeledger.validation.tables import compare_table
from computeledger.workloads.engines import constants_of
from tests.commands import call

AGAIN = "computeledger accuracy --data FOLDER --write src/computeledger/validation/accuracy writes the table anew"
OTHERS = {row["id"]: row for row in curated_rows("serving_elsewhere.csv")}


@pytest.mark.parametrize("name", PARTS)
def test_the_table_is_of_the_shipped_constants(name: str) -> None:
    assert shipped_key(name) == constants_key(name), AGAIN


def test_every_figure_of_a_shipped_source_stands_in_the_table_as_it_was_measured() -> None:
    rows = {row["id"]: row for row in shipped_part("serving").rows if row["id"] in OTHERS}
    assert len(rows) > 0.9 * len([one for one in OTHERS.values() if one["engine"] != "llama.cpp"])
    for name, row in rows.items():
        case = open_case(OTHERS[name])
        assert (row["source"], row["engine"]) == (OTHERS[name]["source"], OTHERS[name]["engine"])
        assert float(row["measured"]) == pytest.approx(case.measured, rel=1e-3)
        levels = [float(row[level]) for level in QUANTILE_COLUMNS]
        assert levels == sorted(levels) and levels[0] > 0


def test_a_source_left_out_is_predicted_near_what_the_shipped_constants_say() -> None:
    rows = [row for row in shipped_part("serving").rows if row["id"] in OTHERS][::12]
    ratios = []
    for row in rows:
        case = open_case(OTHERS[row["id"]])
        system = load_system(case.system)
        central = {"efficiency.serving_ratio": 1.0, "efficiency.first_token_ratio": 1.0}
        constants = efficiency(constants_of(case.engine, system.accelerator), central, case.years)
        ratios.append(float(np.ravel(predict_open(case, Machine(system, constants)))[0]) / float(row["p50"]))
    assert len(ratios) > 30
    assert abs(np.log(np.median(ratios))) < 0.15, AGAIN
    assert np.mean(np.abs(np.log(ratios)) < 0.5) > 0.8, AGAIN


def test_other_peoples_figures_leave_out_whole_sources_and_the_recipes_a_fifth() -> None:
    assert {row["left_out"] for row in published("serving", "usual").rows} == {"source"}
    assert {row["left_out"] for row in published("serving", "recipe").promised().rows} == {"a fifth"}
    assert len({row["source"] for row in published("serving", "usual").rows}) >= 45


def test_slices_add_up_and_say_coverage_and_width() -> None:
    document = cl.accuracy(quantity="tpot").to_dict()
    assert 0 < document["tpot"]["coverage_90"] < 1 < document["tpot"]["width_90"]
    assert list(document["by"]) == ["engine", "accelerator", "family", "load", "statistic", "source", "class"]
    for values in document["by"].values():
        assert sum(one["tpot"]["n"] for one in values.values()) == document["tpot"]["n"]


@pytest.mark.parametrize("workload", ["local", "training", "rl", "memory"])
def test_every_workload_has_its_slices(workload: str) -> None:
    document = cl.accuracy(workload=workload, by="source,accelerator").to_dict()
    assert document["workload"] == workload and document["n_sources"] >= 2
    assert all(document["by"].values())


def test_a_value_that_nobody_measured_is_refused_with_the_nearest() -> None:
    with pytest.raises(InputError, match=r"accelerator 'h100-sxm-80gb': .*did you mean 'h100-sxm5-80gb'"):
        cl.accuracy(accelerator="h100-sxm-80gb")
    with pytest.raises(InputError, match="no published figure has all of these"):
        cl.accuracy(engine="tgi", accelerator="h100-sxm5-80gb")
    with pytest.raises(InputError, match="data: needs write beside it"):
        cl.accuracy(data=".")


def test_the_other_tool_is_compared_on_the_same_figures_alone() -> None:
    document = cl.accuracy().to_dict()
    peer = document["peers"]["aiconfigurator"]
    assert peer["version"] == "0.12.0" and peer["date"].startswith("2026-")
    rows = published("serving", "usual").rows
    known = {(row["id"], row["quantity"]) for row in rows}
    answered = beside(rows)["aiconfigurator"].predicted
    assert set(answered) <= known and all(value > 0 for value in answered.values())
    for quantity in ("tpot", "ttft"):
        n = sum(one == quantity for _, one in answered)
        assert peer[quantity]["n"] == n > 50
        assert sum(one.get(quantity, {"n": 0})["n"] for one in peer["by"]["engine"].values()) == n
    assert sum(peer["skipped"].values()) > 100


ASKED: dict[str, Any] = {"model": "llama-3.1-8b", "system": "h100-nvl8", "layout": "tp1", "batch": 8, "samples": 64}


@pytest.mark.parametrize("backend", ["vllm", "llama.cpp"])
def test_an_answer_counts_the_figures_that_its_slice_lists(backend: str, tmp_path: Path) -> None:
    asked = ASKED | ({"precision": "gguf-q4_k_m", "batch": 1} if backend == "llama.cpp" else {})
    answer = cl.serve(**asked, backend=backend)
    alike = answer.to_dict()["measured_alike"]
    evidence = answer.view().evidence
    assert evidence is not None
    assert all(f"in half of {one['n']:,} figures" in evidence.details for one in alike["by"].values())
    done = call(main, [*shlex.split(evidence.command)[1:], "--json"], tmp_path)
    assert done.returncode == 0, done.stderr
    listed = json.loads(done.stdout)
    assert listed["n_sources"] == alike["sources"]
    assert sum(one["n"] for name, one in listed.items() if isinstance(one, dict) and "bias" in one) == alike["n"]
    assert listed["tpot"]["median_abs_error"] == pytest.approx(alike["tpot"], rel=1e-6)


def test_the_page_leads_to_the_slice_and_the_report_holds_it() -> None:
    answer = cl.serve(**ASKED)
    evidence = answer.view().evidence
    assert evidence is not None
    asked = dict(parse_qsl(urlsplit(evidence.address).query))
    assert cl.accuracy(**asked).to_dict()["n_sources"] == answer.to_dict()["measured_alike"]["sources"]
    table = next(one for one in answer.view(working=True).tables if one.title.startswith("Measurements like this one"))
    first = table.rows[0][0]
    assert isinstance(first, Cell) and first.href.startswith("https://")
    assert sum(int(row[1]) for row in table.rows if isinstance(row[1], str)) == answer.to_dict()["measured_alike"]["n"]


#: Tables that take long to predict: what adds up in the others adds up there.
_LONG = {"serving_elsewhere.csv", "serving_curated.csv"}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(one, marks=[pytest.mark.stress] if one in _LONG else [])
        for one in shipped_names()
        if one != tails.SHIPPED
    ],
)
def test_a_shipped_table_is_told_by_any_of_its_columns(name: str) -> None:
    """The table of percentiles, which is simulated, in the file that simulates it anyway."""
    told_by_any_column(compare_table(name, n_samples=8))


def told_by_any_column(comparison: Comparison) -> None:
    """Figures of a comparison, divided by any column, add up."""
    columns = sorted(set().union(*(row.keys() for row in comparison.rows)))
    document = comparison_document(comparison, columns)
    for column in columns:
        for quantity in comparison.measured:
            counted = sum(one.get(quantity, {"n": 0})["n"] for one in document["by"][column].values())
            assert counted == document[quantity]["n"], (column, quantity)
    known = [one for one in comparison.measured if document[one]["n"]]
    assert all(document[one]["width_90"] is None or document[one]["width_90"] >= 1 for one in known)


def test_a_number_that_is_none_is_said_with_its_row() -> None:
    row = next(one for one in OTHERS.values() if one["concurrency"])
    with pytest.raises(InputError, match=rf"row {row['id']}: concurrency 'many'"):
        open_case(row | {"concurrency": "many"})
    with pytest.raises(InputError, match=r"value '-1'"):
        open_case(row | {"value": "-1"})
    with pytest.raises(Unpredictable, match="nothing measured"):
        open_case(row | {"value": "0"})


def test_nothing_is_predicted_anew_where_constants_and_tables_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publish, "_MADE", {("memory",): publish.memory_lines})
    assert publish.write_parts(tmp_path, tmp_path) == ["memory"]
    assert publish.write_parts(tmp_path, tmp_path) == []
    written = (tmp_path / "memory.csv").read_text("utf-8").splitlines()
    (tmp_path / "memory.csv").write_text(
        "\n".join([written[0].replace('"constants": "', '"constants": "0'), *written[1:]])
    )
    assert publish.write_parts(tmp_path, tmp_path) == ["memory"]
    assert read_part((tmp_path / "memory.csv").read_text("utf-8")).rows == shipped_part("memory").rows, AGAIN


def test_training_is_judged_by_the_interval_that_pretrain_gives() -> None:
    """Around the prediction, as far up as down; nothing moves its median."""
    for row in published("training").rows:
        p05, p50, p95 = (float(row[name]) for name in ("p05", "p50", "p95"))
        assert p95 / p50 == pytest.approx(p50 / p05, rel=0.004)


def test_families_are_spelt_once_and_sizes_alone_are_none() -> None:
    """gemma-4 stood twice, and sizes that stand for a shape were families of one row each."""
    for workload in ("training", "serving", "rl", "local"):
        families = {row["family"] for row in published(workload).rows}
        assert len({one.casefold() for one in families}) == len(families)
        assert not [one for one in families if re.fullmatch(r"[\d.]+[MBT]", one)]


def test_tables_of_one_quantity_say_it_in_their_titles() -> None:
    view = cl.accuracy(workload="training").view()
    by = [one for one in view.tables if one.title.startswith("Error by ")]
    assert {len(one.columns) for one in by} == {7} and all("step time" in one.title for one in by)
    assert not [one for one in by if [row[0] for row in one.rows] == ["not stated"]]


def test_figures_of_serving_add_up_where_every_workload_is_told() -> None:
    said = cl.accuracy().view(working=False).asked[1]
    n, sources, *parts = (int(one.replace(",", "")) for one in re.findall(r"\d[\d,]*(?= )", said))
    assert said.startswith("serving alone is") and n == sum(parts) and sources < n and len(parts) == 3


def test_the_beginning_of_an_id_names_what_begins_so() -> None:
    with pytest.raises(InputError, match=r"did you mean 'h100-.*' or 'h100-sxm5-80gb'\?$"):
        cl.accuracy(accelerator="h100")
