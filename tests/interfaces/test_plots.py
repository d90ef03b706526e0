"""Plots: valid for plotly, plain JSON, with the ledger's numbers in them and no markup from a plan."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest

from computeledger.arrays import median
from computeledger.economics.plan.ledger import Ledger, estimate_ledger
from computeledger.economics.plan.read import load_plan
from computeledger.interfaces.plots import palette
from computeledger.interfaces.plots import parts as plot_parts
from computeledger.interfaces.plots import plan as plots
from computeledger.interfaces.plots.dollars import money_figure
from computeledger.interfaces.plots.memory import memory_figure
from computeledger.interfaces.plots.training import timeline_figure
from computeledger.questions.answers.plan import plan_document
from computeledger.questions.wording import input_words, interval_words, meets_words, span

EXAMPLES = ("deepseek-v3", "rl-heavy", "small-team-rl")


def ledger_of(repository: Path, name: str) -> Ledger:
    return estimate_ledger(load_plan(repository / "examples" / f"{name}.toml"), n_samples=256)


@pytest.fixture(scope="module", params=EXAMPLES)
def ledger(request: pytest.FixtureRequest, repository: Path) -> Ledger:
    return ledger_of(repository, request.param)


def figures_of(ledger: Ledger) -> dict[str, dict[str, Any]]:
    document = plan_document(ledger)
    return {
        "shares": plots.shares_figure(document),
        "money": money_figure(document, ledger),
        "gpu_hours": plots.phases_figure(ledger),
        "roofline": plots.roofline_figure(ledger),
        "bounds": plots.bounds_figure(ledger),
        "speed": plots.speed_figure(ledger),
        "drivers": plots.drivers_figure(document),
    }


@pytest.fixture(scope="module")
def figures(ledger: Ledger) -> dict[str, dict[str, Any]]:
    return figures_of(ledger)


def test_plotly_accepts_every_figure_in_light_and_dark(figures: dict[str, dict[str, Any]]) -> None:
    for name, figure in figures.items():
        for dark in (False, True):
            themed = {**figure, "layout": {**figure["layout"], "template": plot_parts.template(dark)}}
            assert go.Figure(themed).data, name


def test_figures_are_plain_json(figures: dict[str, dict[str, Any]]) -> None:
    for figure in figures.values():
        assert json.loads(json.dumps(figure, allow_nan=False)) == figure


def test_plots_do_not_take_the_scroll(figures: dict[str, dict[str, Any]]) -> None:
    for figure in figures.values():
        layout = figure["layout"]
        assert layout["dragmode"] is False
        axes = [axis for name, axis in layout.items() if name.startswith(("xaxis", "yaxis"))]
        assert axes and all(axis["fixedrange"] for axis in axes)


def markers(figure: dict[str, Any]) -> list[dict[str, Any]]:
    return [trace for trace in figure["data"] if trace.get("mode") == "markers"]


def test_medians_of_the_phases_are_drawn(ledger: Ledger, figures: dict[str, dict[str, Any]]) -> None:
    drawn = [x for trace in markers(figures["gpu_hours"]) for x in trace["x"]]
    wanted = [median(phase.gpu_hours) for phase in ledger.phases.values()]
    assert drawn == pytest.approx([median(ledger.total("gpu_hours")), *wanted[::-1]], rel=1e-9)


def test_the_dollars_of_every_phase_are_drawn_with_their_interval(
    ledger: Ledger, figures: dict[str, dict[str, Any]]
) -> None:
    """The dearest first; a phase without a spread has no whisker, and says why."""
    (bars,), notes = figures["money"]["data"], figures["money"]["layout"]["annotations"]
    phases = sorted(ledger.phases.values(), key=lambda phase: -median(phase.usd))
    assert bars["x"] == pytest.approx([median(phase.usd) for phase in phases], rel=1e-3)
    highs = [None if np.ptp(phase.usd) == 0 else float(np.quantile(phase.usd, 0.95)) for phase in phases]
    drawn = [None if up is None else size + up for size, up in zip(bars["x"], bars["error_x"]["array"], strict=True)]
    for one, high in zip(drawn, highs, strict=True):
        assert (one is None) == (high is None)
        assert one is None or one == pytest.approx(high, rel=1e-2)
    for note, phase in zip(notes, phases, strict=True):
        assert ("no spread" in note["text"] or "stated in the plan" in note["text"]) is bool(np.ptp(phase.usd) == 0)


def test_a_phase_without_a_spread_says_so(ledger: Ledger, figures: dict[str, dict[str, Any]]) -> None:
    notes = [note["text"] for note in figures["gpu_hours"]["layout"]["annotations"]]
    assert "Total" in notes[0]
    for phase, note in zip(list(ledger.phases.values())[::-1], notes[1:], strict=True):
        has_none = "no spread" in note or "stated in the plan" in note
        assert has_none is (float(np.ptp(phase.gpu_hours)) == 0.0)


def test_shares_of_both_currencies_are_drawn(ledger: Ledger, figures: dict[str, dict[str, Any]]) -> None:
    (bars,) = [trace for trace in figures["shares"]["data"] if trace["type"] == "bar"]
    for row, currency in ((1, "flop"), (0, "gpu_hours")):
        medians = [median(share) for share in ledger.shares(currency).values()]
        drawn = [x for x, y in zip(bars["x"], bars["y"], strict=True) if y == row]
        assert drawn == pytest.approx([one / sum(medians) for one in medians], rel=1e-9)


def test_what_moves_the_total_most_stands_first(ledger: Ledger, figures: dict[str, dict[str, Any]]) -> None:
    """Bars go from the cheaper to the dearer total, and the words name the input's ends in that order."""
    drivers = plot_drivers(ledger)
    (bars,) = figures["drivers"]["data"]
    assert bars["x"] == sorted(bars["x"], reverse=True)
    words = [note["text"] for note in figures["drivers"]["layout"]["annotations"] if "<b>" in note["text"]]
    for one, low, size, said in zip(drivers, bars["base"], bars["x"], words, strict=True):
        ends = [one["total_at_low"]["usd"], one["total_at_high"]["usd"]]
        assert [low, low + size] == pytest.approx(sorted(ends), rel=1e-2)
        assert "→" in said and plots.input_title(one["name"]) in said


def plot_drivers(ledger: Ledger) -> list[Any]:
    return list(plots.by_swing(plan_document(ledger)["drivers"])[:8])


def test_no_operation_stands_above_its_roof(ledger: Ledger, figures: dict[str, dict[str, Any]]) -> None:
    roofs = [trace for trace in figures["roofline"]["data"] if trace["mode"] == "lines"]
    slope = max(roof["y"][0] / roof["x"][0] for roof in roofs)
    top = max(max(roof["y"]) for roof in roofs)
    points = [
        point for trace in figures["roofline"]["data"] if trace["mode"] != "lines"
        for point in zip(trace["x"], trace["y"], strict=True)
    ]  # fmt: skip
    assert points
    assert all(y <= 1.01 * min(top, slope * x) for x, y in points)


def test_bounds_add_up(figures: dict[str, dict[str, Any]]) -> None:
    parts = [trace["x"] for trace in figures["bounds"]["data"]]
    assert [sum(step) for step in zip(*parts, strict=True)] == pytest.approx([1.0] * len(parts[0]), abs=2e-3)


def test_faster_costs_more(ledger: Ledger, figures: dict[str, dict[str, Any]]) -> None:
    curves = [trace for trace in figures["speed"]["data"] if trace["mode"] == "lines+markers"]
    assert len(curves) == len(ledger.phases["inference"].curves)
    for curve in curves:
        assert curve["x"] == sorted(curve["x"], reverse=True)
        assert curve["y"][0] == max(curve["y"])


def test_text_of_a_plan_is_no_markup() -> None:
    given = "<b>bold</b><a href='javascript:alert(1)'>"
    assert "<" not in plot_parts.plain(given)


@pytest.mark.parametrize("capacity", [80e9, 40e9], ids=["fits", "does not fit"])
def test_memory_is_drawn_against_what_the_gpu_has(capacity: float) -> None:
    held = {"weights": 3e10, "gradients": 1e10, "activations": 2e10, "logits": 0.0, "total": 6e10}
    held |= {"usable": 0.9 * capacity, "capacity": capacity}
    figure = memory_figure(held)
    drawn = {trace["name"]: trace["x"][0] for trace in figure["data"]}
    assert drawn == {"weights": 3e10, "gradients": 1e10, "activations": 2e10} | (
        {"free": 2e10} if capacity > 6e10 else {}
    )
    assert [line["x0"] for line in figure["layout"]["shapes"]] == [capacity, 0.9 * capacity]
    assert figure["layout"]["xaxis"]["range"] == [0, max(capacity, 6e10)]


def test_streams_with_markup_in_their_names(repository: Path, tmp_path: Path) -> None:
    text = (
        (repository / "examples" / "rl-heavy.toml").read_text("utf-8").replace('"agents, paid"', '"<b>%{x}</b> & co"')
    )
    (tmp_path / "plan.toml").write_text(text, "utf-8")
    figures = figures_of(estimate_ledger(load_plan(tmp_path / "plan.toml"), n_samples=64))
    told = json.dumps(figures, ensure_ascii=False)
    assert "&lt;b&gt;%{x}&lt;/b&gt; &amp; co" in told
    assert "<b>%{x}" not in told
    templates = [trace.get("hovertemplate", "") for figure in figures.values() for trace in figure["data"]]
    assert not [one for one in templates if "co" in one and "%{x}" in one]


def test_plots_do_not_import_plotly() -> None:
    code = "import sys, computeledger.interfaces.plots.plan; print('plotly' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def luminance(color: str) -> float:
    channels = [int(color[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


_MEANT = {
    *palette.PHASES.values(), *palette.BOUNDS.values(), *palette.VERDICTS.values(), *palette.MEMORY.values(),
    *palette.SERIES, palette.CHOSEN, palette.OTHER, palette.GOOD_BY_ITSELF,
}  # fmt: skip


@pytest.mark.parametrize("color", sorted(_MEANT))
def test_colours_stand_out_in_light_and_dark(color: str) -> None:
    assert contrast(color, "#FBFBFA") >= 3
    assert contrast(color, "#14171A") >= 3


@pytest.mark.parametrize("color", sorted(_MEANT))
def test_text_on_bars_is_readable(color: str) -> None:
    assert contrast(plot_parts.bar_text(color)["insidetextfont"]["color"], color) >= 4.5


def test_intervals_stand_out_by_their_outline() -> None:
    """What fills an interval is faint; its outline has the whole colour."""
    marked = [({"p05": 1.0, "p10": 1.5, "p50": 2.0, "p90": 3.0, "p95": 4.0}, 0.0, palette.CHOSEN, "circle")]
    outline = plot_parts.interval_marks(marked, "", 64)[0]["marker"]["line"]
    assert outline == {"color": [palette.CHOSEN] * 2, "width": [1, 0]}
    assert plot_parts.interval_band(palette.CHOSEN)["line"] == {"color": palette.CHOSEN, "width": 1}


def test_a_colour_has_one_meaning() -> None:
    """What is neutral may mean nothing in several places; any other colour means one thing."""
    kinds = [
        palette.PHASES.values(),
        palette.BOUNDS.values(),
        palette.VERDICTS.values(),
        palette.SERIES,
        [palette.CHOSEN],
    ]
    every = [color for kind in kinds for color in kind if color != palette.OTHER]
    assert len(set(every)) == len(every)


def test_an_axis_over_one_value_has_a_tick() -> None:
    axis = plot_parts.log_axis([142e3], "{:g}".format)
    assert axis["range"][0] < axis["range"][1]
    assert plot_parts.log_axis([], "{:g}".format)["range"]


def test_intervals_write_a_shared_unit_once() -> None:
    assert span(4e9, 5e9, "w").replace("\u00a0", " ") == "4 – 5 GW"
    assert span(4e5, 5e9, "w").replace("\u00a0", " ") == "400 kW – 5 GW"
    assert span(9e17, 2e18, "flop_per_s").replace("\u00a0", " ") == "900 PFLOP/s – 2 EFLOP/s"
    assert span(1.0, 2.0, "usd_per_hour") == "$1 – $2/h"
    assert interval_words({"p05": 1.0, "p50": 1.0, "p95": 1.0}, "GPU-hours") == ""


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("plan.price", "Plan: price"),
        ("inference.kinds.cached", "Inference, kinds: cached"),
        ("inference.traffic2.life", "Inference, stream 2: life"),
        ("experiments.gpu_hours", "Experiments: GPU-hours"),
        ("price.h100-sxm5-80gb.rent", "Price of a GPU-hour: h100-sxm5-80gb rent"),
        ("power.h100-nvl8", "Facility power: h100-nvl8"),
    ],
)
def test_inputs_have_names(name: str, written: str) -> None:
    assert input_words(name) == written


def test_every_unit_of_a_driver_can_be_written(ledger: Ledger) -> None:
    for one in plan_document(ledger)["drivers"]:
        assert span(one["low"], one["high"], one["unit"])


def test_seconds_per_token_are_questioned() -> None:
    """Who writes 50 means milliseconds; the unit-less number is seconds, and the answer says so."""
    assert "50ms is another limit" in meets_words("tpot", {"meets": True, "limit_s": 50.0, "probability": 1.0})
    assert "another" not in meets_words("tpot", {"meets": True, "limit_s": 0.05, "probability": 0.6})
    assert "another" not in meets_words("ttft", {"meets": True, "limit_s": 10.0, "probability": 1.0})


def test_a_pipeline_says_where_it_fills_and_drains() -> None:
    """Lines stand where every stage goes backward and no long wait is left, and where one has no forward pass left."""
    first = [["forward", 0, 0.0, 1.0], ["forward", 1, 1.0, 2.0], ["backward", 0, 4.0, 6.0], ["forward", 2, 6.0, 7.0],
             ["backward", 1, 7.0, 9.0], ["backward", 2, 10.0, 12.0]]  # fmt: skip
    last = [["forward", 0, 1.0, 2.0], ["backward", 0, 2.0, 4.0], ["forward", 1, 4.0, 5.0], ["backward", 1, 5.0, 7.0],
            ["forward", 2, 7.0, 8.0], ["backward", 2, 8.0, 10.0]]  # fmt: skip
    bars = [[stage, kind, at, 0, start, end] for stage, own in enumerate((first, last)) for kind, at, start, end in own]
    drawn = {"bars": bars, "n_stages": 2, "n_pieces": 1, "pipeline_end_s": 12.0, "tail_s": {}}
    layout = timeline_figure(drawn)["layout"]
    assert [line["x0"] for line in layout["shapes"]] == [4.0, 7.0]
    assert [(note["text"], note["x"]) for note in layout["annotations"]] == [
        ("<b>fills</b>", 2.0), ("<b>steady</b>", 5.5), ("<b>drains</b>", 9.5),
    ]  # fmt: skip
    assert layout["yaxis"]["tickvals"] == [0, 1], "stages alone have names"
