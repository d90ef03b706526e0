"""Charts of *Frontier*: published runs stand at what the data say, the system's run at what its document says."""

from __future__ import annotations

from typing import Any

import pytest

import computeledger as cl
from computeledger.frontier.epoch_files import shipped_runs
from computeledger.interfaces.plots import palette
from computeledger.interfaces.view import View
from computeledger.questions.wording import point


@pytest.fixture(scope="module")
def shown() -> tuple[dict[str, Any], View]:
    answer = cl.systems(spec="2K chips of gb200-gpu", samples=16)
    return answer.to_dict(), answer.view()


def figure(view: View, name: str) -> dict[str, Any]:
    return dict(next(one.figure for one in view.plots if one.name == name))


def test_every_published_run_is_drawn_and_has_a_source(shown: tuple[dict[str, Any], View]) -> None:
    document, view = shown
    traces = figure(view, "reach")["data"]
    drawn = sorted(y for trace in traces if "hovertext" in trace for y in trace["y"])
    assert drawn == pytest.approx(sorted(one.training_flop for one in shipped_runs()), rel=1e-3)
    assert set(view.sources) == {one.source for one in shipped_runs()}
    assert traces[-1]["y"][0] == pytest.approx(point(document["trains"]["dense"]["flop"]), rel=1e-3)


def test_both_runs_stand_at_their_parameters_and_tokens(shown: tuple[dict[str, Any], View]) -> None:
    document, view = shown
    own = [trace for trace in figure(view, "text")["data"] if trace.get("marker", {}).get("color") == palette.CHOSEN]
    wanted = [document["trains"][name] for name in ("dense", "moe")]
    assert [trace["x"][0] for trace in own] == pytest.approx([point(one["n_params_total"]) for one in wanted], rel=1e-3)
    assert [trace["y"][0] for trace in own] == pytest.approx([point(one["tokens"]) for one in wanted], rel=1e-3)
    band = figure(view, "text")["data"][0]["y"]
    assert (min(band), max(band)) == (document["text"]["low"], document["text"]["high"])


def test_the_run_is_one_table_and_details_are_closed(shown: tuple[dict[str, Any], View]) -> None:
    _, view = shown
    (run,) = [one for one in view.tables if one.title == "The run"]
    assert run.columns[1:] == ("dense model #", "mixture of experts #")
    assert sum(not one.is_detail for one in view.tables) <= 3
