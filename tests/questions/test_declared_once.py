"""A thing is declared once: a field becomes option, control, schema and docs row; a tile shows on every screen."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import click
import pytest
from click.testing import CliRunner

import computeledger
from computeledger.economics.plan import keys as plan_keys
from computeledger.economics.plan.read import read_plan
from computeledger.errors import InputError, PlanError
from computeledger.fields import MOST_OF, Asked, asked, fields_of, json_schema, question_from
from computeledger.interfaces import notebook
from computeledger.interfaces.asking import asked_by, question_options
from computeledger.interfaces.render.html import report
from computeledger.interfaces.render.terminal import print_view
from computeledger.interfaces.view import Tile, View
from computeledger.interfaces.views import serve as serve_view
from computeledger.interfaces.web import plan_boxes
from computeledger.interfaces.web.answers import Question, answered
from computeledger.interfaces.web.controls import controls_of
from computeledger.questions.answers.serving.answer import serve
from computeledger.workloads.questions.serve import ServeQuestion
from tests.gates import docs_module

SERVE: dict[str, Any] = {"model": "llama-3.1-8b", "system": "h100-nvl8", "layout": "tp1", "batch": 8, "samples": 16}


@dataclass(frozen=True, kw_only=True)
class Longer(ServeQuestion):
    """The question of serve with one field more."""

    coolant_litres: float | None = asked(
        "count", "Coolant per rack.", is_open=True, metavar="L", label="Coolant", group="How", slider=(1, 9),
        aliases=("water",),
    )  # fmt: skip


@pytest.fixture
def command() -> click.Command:
    @click.command()
    @question_options(Longer)
    def show(**options: Any) -> None:
        """Show what was asked."""
        click.echo(json.dumps(asked_by(Longer, options).coolant_litres))

    return show


def test_a_field_is_an_option_with_its_help(command: click.Command) -> None:
    text = CliRunner().invoke(command, ["--help"]).output
    assert "--coolant-litres L" in text and "Coolant per rack." in text and "--water" not in text
    base = ["--model", "llama-3.1-8b", "--system", "h100-nvl8"]
    for option in ("--coolant-litres", "--water"):
        assert json.loads(CliRunner().invoke(command, [*base, option, "1.5K"]).output) == 1500.0
    refused = CliRunner().invoke(command, [*base, "--coolant-litres", "0"]).exception
    assert str(refused) == "--coolant-litres '0': must be greater than 0"


#: Its own least, and the largest of its dimension.
BOUNDS = {"exclusiveMinimum": 0.0, "maximum": MOST_OF["count"]}


def test_a_field_is_a_control_a_property_and_a_keyword() -> None:
    control = next(one for one in controls_of(Longer, {}) if one.name == "coolant-litres")
    assert (control.label, control.low, control.high, control.help) == ("Coolant", 1, 9, "Coolant per rack.")
    schema = json_schema(Longer)["properties"]["coolant_litres"]
    assert schema == {"description": "Coolant per rack.", "type": ["number", "string"], **BOUNDS}
    assert Longer(model="m", system="s", coolant_litres=2).coolant_litres == 2.0
    with pytest.raises(InputError, match=r"^coolant_litres -1: must be greater than 0$"):
        Longer(model="m", system="s", coolant_litres=-1)
    with pytest.raises(InputError, match="did you mean 'coolant_litres'"):
        question_from(Longer, {"model": "m", "system": "s", "coolant_liters": 2})


def test_a_field_is_a_key_of_a_plan_with_its_schema_and_docs_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Added to the question, it is read, bounded, described and listed as a key; its earlier name is read too."""
    keys = plan_keys.section_keys(plan_keys.PlannedInference, Longer, plan_keys.NO_KEYS["inference"])
    monkeypatch.setitem(plan_keys.SECTIONS, "inference", keys)
    skip = {"skip": "not asked"}
    base = {"model": "llama-3.1-8b", "system": "h100-nvl8", "pretraining": skip, "rl": skip}
    served = {"tokens": "1T tokens", "input_tokens": "2K tokens", "output_tokens": "500 tokens"}
    for name in ("coolant_litres", "water"):
        plan = read_plan({**base, "inference": {**served, name: "1.5K"}})
        assert plan.sections["inference"].values["coolant_litres"] == 1500.0
        with pytest.raises(PlanError, match=rf"^\[inference\] {name} = '0': must be greater than 0$"):
            read_plan({**base, "inference": {**served, name: "0"}})
    with pytest.raises(PlanError, match="did you mean 'coolant_litres'"):
        read_plan({**base, "inference": {**served, "coolant_liters": 2}})
    schema = plan_keys.json_schema()["properties"]["inference"]["properties"]
    assert schema["coolant_litres"]["description"] == "Coolant per rack." and schema["water"]["deprecated"]
    assert "| `coolant_litres` | Coolant per rack. |" in docs_module("generate").cli_page()
    box = plan_boxes.box("inference.water", "Coolant")
    assert (box.low, box.high, box.help) == (1, 9, "Coolant per rack.")


def test_every_field_of_a_workloads_question_is_a_key_or_named_as_none() -> None:
    for section, question in plan_keys.QUESTIONS.items():
        keys, none = set(plan_keys.SECTIONS[section]), plan_keys.NO_KEYS[section]
        assert set(fields_of(question)) == (keys & set(fields_of(question))) | none and not keys & none


def subclasses(one: type[Asked]) -> list[type[Asked]]:
    found: list[type[Asked]] = []
    for each in one.__subclasses__():
        found += [each, *subclasses(each)]
    return found


def test_every_field_of_every_question_says_what_it_is() -> None:
    for question in subclasses(Asked):
        for name, one in fields_of(cast("Any", question)).items():
            assert one.help.endswith((".", ":")) and one.dimension, f"{question.__name__}.{name}"


def with_a_tile(view: View) -> View:
    return replace(view, tiles=(*view.tiles, Tile("Litres of coolant", "17 L", "11 – 23 L", 17.0)))


def test_a_tile_shows_on_every_screen(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Added where the view is made, it appears on the terminal, in the report, in a notebook and in the app."""
    made = serve_view.view
    monkeypatch.setattr(serve_view, "view", lambda answer, working: with_a_tile(made(answer, working)))
    answer = serve(**SERVE)
    print_view(answer.view())
    assert "Litres of coolant" in capsys.readouterr().out
    assert "Litres of coolant" in report(answer.view()) and "11 – 23 L" in report(answer.view())
    assert "Litres of coolant" in notebook.notebook_html(answer)
    items = tuple((name.replace("_", "-"), str(text)) for name, text in SERVE.items() if name != "samples")
    reply = answered(Question("view", "serve", (*items[:2], ("gpus", "3"), *items[2:])))
    assert reply.status == 200, reply.body
    assert "Litres of coolant" in {tile["label"] for tile in json.loads(reply.body)["tiles"]}


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (
            lambda: computeledger.serve(cast(Any, "deepseek-v3")),
            "'deepseek-v3': expected keywords, such as model=..., system=...",
        ),
        (lambda: computeledger.cost(system="h100-nvl8", occupancy=1.5), "occupancy 1.5: must be at most 1"),
        (lambda: computeledger.forecast(flop="1e28", utilization=1.5), "utilization 1.5: must be at most 1"),
        (lambda: computeledger.price_floor(model="qwen3-32b", system="h200-nvl8", price=0), "price 0: must be greater"),
        (lambda: computeledger.flop_sheet(model="deepseek-v3", precision="fp9"), "unknown precision 'fp9'"),
        (lambda: computeledger.allocate(preset="consumer", budget="$5M"), "preset judges the split of an assumed lab"),
    ],
)  # fmt: skip  (one row per mistake)
def test_a_mistake_from_python_gets_one_line(asked: Callable[[], object], says: str) -> None:
    with pytest.raises(InputError) as found:
        asked()
    assert says in str(found.value)


def test_two_pools_have_a_report(tmp_path: Path) -> None:
    file = tmp_path / "pools.html"
    computeledger.serve(model="llama-3.1-8b", system="h100-nvl8", mode="disaggregated").to_html(file)
    assert "prefill" in file.read_text("utf-8")
