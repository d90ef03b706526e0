"""Figures show the digits that their intervals deserve, sentences the names of what they are about."""

from __future__ import annotations

import io
import re

import pytest

from computeledger.interfaces.fitting import Page
from computeledger.interfaces.render.terminal import print_view
from computeledger.interfaces.view import Evidence, Tile, View, with_interval
from computeledger.questions.wording import figure_words, headline_words, interval_words

_UNITS = {"USD": "USD", "days": "days", "FLOP": "FLOP", "tokens/s": "tokens/s"}


@pytest.mark.parametrize("unit", _UNITS)
@pytest.mark.parametrize("value", [1.004, 1.96, 3.4817, 9.44, 218.0, 1_460.0, 79_200.0])
@pytest.mark.parametrize("width", [0.01, 0.1, 0.4, 1.5])
def test_the_last_digit_counts_at_least_a_twentieth_of_half_the_interval(unit: str, value: float, width: float) -> None:
    """Two digits at least, three at most, and never one more than the interval bears, but for the zero of cents."""
    low, high = value * (1 - width / 3), value * (1 + width * 2 / 3)
    said = figure_words({"p05": low, "p50": value, "p95": high}, unit)
    (printed,) = re.findall(r"\d+(?:\.\d+)?", said.partition("e")[0])
    shown = float(printed)
    scale = 10.0 ** (len(printed.partition(".")[0]) - 1)
    third, half = scale / 100, shown * width / 2
    is_third_digit_shown = abs(shown / (scale / 10) - round(shown / (scale / 10))) > 1e-9
    assert not is_third_digit_shown or third >= half / 20 * 0.95
    said_exactly = (f"{shown:g}", f"{shown:.2f}") if unit == "USD" else (f"{shown:g}",)  # $3.50: money has its cents
    assert printed in said_exactly and len(printed.replace(".", "").strip("0")) <= 3


def test_an_interval_takes_the_digits_of_its_figure() -> None:
    cost = {"p05": 1.998, "p50": 3.4817, "p95": 6.583}
    assert (figure_words(cost, "USD"), interval_words(cost, "USD")) == ("$3.50", "$2 – $6.60")
    exact = {"p05": 3.4802, "p50": 3.4817, "p95": 3.4829}
    assert figure_words(exact, "USD") == "$3.48" and figure_words(3.4817, "USD") == "$3.48"
    tile = with_interval(Tile("Output", ""), 3.4817, "USD", cost)
    assert (tile.text, tile.band, tile.value) == ("$3.50", "$2 – $6.60", 3.4817)


def test_the_answer_comes_first_and_what_limits_it_last() -> None:
    """At 80 columns the interval stays in one piece beside the word before it, and a command is never cut."""
    cost = {"p05": 1.998, "p50": 3.4817, "p95": 6.583}
    said = "$3.50 per million output tokens at 21 tokens/s for each of its users"
    command = "computeledger accuracy --engine vllm --accelerator h100-sxm5-80gb --load clients --workload serving"
    view = View(
        headline_words("Model on 8 H200", said, cost, "USD"), title="model on h200-nvl8, tp8", asked=("1 replica",),
        tiles=(with_interval(Tile("Output", ""), cost, "USD/Mtok"),), notes=("a note",), warnings=("a warning",),
        evidence=Evidence("12 measurements.", command=command),
    )  # fmt: skip
    page = Page(file=io.StringIO(), width=80)
    page.is_open_ended, page.width = False, 80
    print_view(view, page)
    lines = [line.strip() for line in page.file.getvalue().splitlines() if line.strip()]  # type: ignore[attr-defined]
    assert lines[0].startswith("Model on 8 H200: $3.50") and lines[1].endswith("users (90 %: $2 to $6.60)")
    assert lines[2] == "model on h200-nvl8, tp8; 1 replica" and command in lines
    assert lines[-2:] == ["a warning", "a note"]
