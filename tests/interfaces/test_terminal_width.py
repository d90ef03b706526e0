"""Every command of the README at 80 and 120 columns: what is shown is whole, and what is left out is named."""

from __future__ import annotations

import io
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

import computeledger as cl
from computeledger.facts.load import load_accelerator
from computeledger.interfaces import options as command_options
from computeledger.interfaces import tables
from computeledger.interfaces.fitting import FittingTable, Page
from computeledger.interfaces.render.terminal import print_view
from computeledger.questions.wording import PHASE_NAMES, figure_words
from tests.gates import ROOT
from tests.interfaces.json_keys import FEW_OFFERS

#: Beside those of the README: one of every command whose tables are its own.
_MORE = (
    "rl --model qwen3-8b --system h100-nvl8 --gpus 16 --layout tp2 --training-layout tp2-dp8 --rollout 4K --steps 10",
    "pretrain --model llama-3.1-8b --system h100-nvl8 --gpus 64 --tokens 1T --samples 64",
    (
        "pretrain --model llama-3.1-8b --system h100-nvl8 --layout dp64 --samples 64 --anchor step=4.6s,layout=dp8,"
        "global_batch=256K --anchor mfu=35%,layout=dp32"
    ),
    "serve --model llama-3.1-8b --system h100-nvl8 --layout tp1 --batch 16 --samples 64 --working",
    "facts model deepseek-v3",
    "facts show h200-sxm5-141gb",
    "facts diff h100-sxm5-80gb h200-sxm5-141gb",
    "facts search llama",
    "claims C030",
    "frontier sites",
    'frontier systems "400 MW facility of gb200-gpu"',
    "reconcile examples/reconcile/plan.toml examples/reconcile/megatron.log",
    "plan examples/deepseek-v3.toml",
    "serve --model llama-3.1-70b --system b200-nvl8 --tpot 20ms",
    "facts diff 2025-03 2026-11",
    "claims --verdict fails",
    'allocate --budget "3M GPU-hours" --inference-tokens 100T',
    "invert --input 2 --output 12",
    "sheet --price 3/15 --speed 80 --date 2025-02-24 --flop 1e28 --power '20..40 MW' --duration 3months",
    "route examples/money/route-support.toml",
)
_README = [
    line
    for line in re.findall(r"^\$ computeledger (.*)$", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE)
    if not re.search(
        r"--html|--json|\bweb\b|--help|--emit|\bbooks\b|\bcite\b|PLAN.toml|--data|\bcalibrate\b|[|>]", line
    )
]
_PAIR = re.compile(r"(?<![\w.])\d[\d.,]*[KMBT]? (?:%|[kMGTµm]?(?:s|B|W|Wh|FLOP)|days|x)(?![\w/])")
_UNIT = r"(?: ?[kMGTµm]?(?:s|B|W|%))?"
_INTERVAL = re.compile(rf"(?<![\w.])-?\d[\d.]*{_UNIT} \u2013 -?\d[\d.]*{_UNIT}(?![\w/])")


_LEFT_OUT = "left out at this width"
_NAMED = re.compile(rf"{_LEFT_OUT}: .*?--json\)", re.DOTALL)

#: Lines that take long, each beside a shorter one with the same tables.
_LONG = {"compare examples/offers.toml": f"compare {FEW_OFFERS.name}"}


@pytest.mark.parametrize(
    "line",
    [pytest.param(one, marks=[pytest.mark.stress] * (one in _LONG)) for one in (*_README, *_MORE, *_LONG.values())],
)
def test_what_is_shown_is_whole_and_what_is_not_is_named(
    line: str, computeledger: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    printed: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    class Recorder(Page):
        def print(self, *objects: Any, **options: Any) -> None:
            printed.append((objects, options))

    monkeypatch.setattr(tables, "Page", Recorder)
    (tmp_path / "examples").symlink_to(ROOT / "examples")  # what a command writes stays out of the tree
    (tmp_path / FEW_OFFERS.name).symlink_to(FEW_OFFERS)
    ended = computeledger(*shlex.split(line), cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert printed
    for table in (one for objects, _ in printed for one in objects if isinstance(one, FittingTable)):
        assert {*table.drops} <= {str(column.header) for column in table.columns}

    def rendered(width: int | None) -> str:
        if width is None:
            monkeypatch.delenv("COLUMNS", raising=False)
        else:
            monkeypatch.setenv("COLUMNS", str(width))
        page = Page(file=io.StringIO())
        for objects, options in printed:
            page.print(*objects, **options)
        return str(page.file.getvalue())  # type: ignore[attr-defined]

    wide, piped = rendered(2000), rendered(None)
    assert _LEFT_OUT not in wide + piped
    assert _words(wide) <= _words(piped), sorted(_words(wide) - _words(piped))[:5]
    for width in (80, 120):
        text = rendered(width)
        lines = [one for one in text.splitlines() if cell_len(one) > width]
        assert all(len(one.split()) == 1 or one.startswith("    computeledger") for one in lines), lines
        shown = _words(_NAMED.sub("", text))
        assert shown <= _words(wide), sorted(shown - _words(wide))[:5]
        for whole in (_PAIR, _INTERVAL):
            torn = {*whole.findall(text)} - {*whole.findall(wide)}
            assert not torn, sorted(torn)[:5]
            if _LEFT_OUT not in text:
                assert {*whole.findall(wide)} <= {*whole.findall(text)}
        if _LEFT_OUT not in text:
            assert _words(wide) <= _words(text), sorted(_words(wide) - _words(text))[:5]


def _words(text: str) -> set[str]:
    """Ids, names and numbers; bars and rules may go."""
    return {word for word in text.split() if re.search(r"[^\W_]", word) and len(word) <= 60}


def test_piped_output_is_as_wide_as_columns_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert Page(file=io.StringIO()).width == 80
    monkeypatch.delenv("COLUMNS")
    assert Page(file=io.StringIO()).width == 120


def _drawn(table: FittingTable, monkeypatch: pytest.MonkeyPatch, columns: int | None) -> list[str]:
    if columns is None:
        monkeypatch.delenv("COLUMNS", raising=False)
    else:
        monkeypatch.setenv("COLUMNS", str(columns))
    page = Page(file=io.StringIO())
    page.print(table)
    return [line for line in page.file.getvalue().splitlines() if line]  # type: ignore[attr-defined]


def _layouts(name: str = "tp8-pp2-dp4") -> FittingTable:
    table = tables.new_table("", "layout", ">batch", ">TPOT", ">cost", "bound", drops=("batch", "bound"))
    table.add_row(name, "64", "17.4 ms", "$2.73", "memory")
    table.add_row("tp2", "128", "8 ms", "$11.2", "network")
    return table


def test_columns_go_in_the_declared_order_and_a_line_names_them(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = {width: _drawn(_layouts(), monkeypatch, width) for width in (60, 42, 34)}
    assert [lines[0].split() for lines in shown.values()] == [
        ["layout", "batch", "TPOT", "cost", "bound"],
        ["layout", "TPOT", "cost", "bound"],
        ["layout", "TPOT", "cost"],
    ]
    assert " ".join(shown[42][-2:]) == "left out at this width: batch (wider terminal or --json)"
    assert " ".join(shown[34][-2:]) == "left out at this width: batch, bound (wider terminal or --json)"
    assert len(shown[60]) == 4  # heads, a rule, two rows and no more


def test_without_a_declaration_the_last_column_goes_first_and_names_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    table = _layouts()
    table.drops = ()
    lines = _drawn(table, monkeypatch, 22)
    assert lines[0].split() == ["layout", "batch"] and lines[2].split() == ["tp8-pp2-dp4", "64"]
    assert "TPOT, cost, bound" in " ".join(lines)


def test_a_pipe_of_no_stated_width_gets_every_column(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "x" * 130
    lines = _drawn(_layouts(name), monkeypatch, None)
    assert [line.split() for line in lines[2:]] == [
        [name, "64", "17.4", "ms", "$2.73", "memory"], ["tp2", "128", "8", "ms", "$11.2", "network"]
    ]  # fmt: skip


def test_decimal_points_and_dashes_stand_below_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    table = tables.new_table("", "", ">time", "90 % interval")
    for name, time, band in (
        ("a", "9.87 ms", "8 – 12.5 ms"),
        ("b", "161 ms  98.2 – 300 ms", "100 – 200 ms"),
        ("c", "none", ""),
    ):
        table.add_row(name, time, band)
    rows = _drawn(table, monkeypatch, 100)[2:]
    assert rows[0].index(".87") == rows[1].index(" ms")
    assert rows[0].rindex("–") == rows[1].rindex("–")


def test_long_words_go_below_their_row_and_long_names_above(monkeypatch: pytest.MonkeyPatch) -> None:
    why = "a sentence of some words that would be shredded beside the others"
    table = tables.new_table("", "layout", ">tokens/s per GPU", "source of the figure", "why")
    table.add_row("tp8-pp2-dp4-cp2-ep32", "1,234", "published", why)
    *_, below, rest = _drawn(table, monkeypatch, 56)
    assert below.startswith("    a sentence") and f"{below} {rest.strip()}".strip() == why
    models = tables.new_table("", "of", "fact", ">value")
    for fact, value in (("total parameters", "400 B params"), ("active parameters", "17 B params")):
        models.add_row("meta-llama/Llama-4-Maverick-17B-128E-Instruct", fact, value)
    lines = _drawn(models, monkeypatch, 60)
    assert [line.split()[0] for line in lines[3:]] == [*lines[3].split(), "total", "active"]


@pytest.mark.parametrize("layout", ["tp1", "tp8"])
def test_what_a_step_takes_stays_in_one_table(
    layout: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What binds an operation stands beside it, not in a table of its own below."""
    monkeypatch.setenv("COLUMNS", "80")
    asked = {"model": "llama-3.1-8b", "system": "h100-nvl8", "layout": layout}
    print_view(cl.serve(**asked, batch=16, samples=64).view(working=True))
    heads = [line for line in capsys.readouterr().out.splitlines() if line.startswith(" operation ")]
    assert len(heads) == 2 and all("bound" in line for line in heads)


@pytest.mark.parametrize("plan", ["deepseek-v3", "small-team-rl"])
def test_a_ledger_keeps_every_phase_and_the_total_at_80_columns(
    plan: str, computeledger: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    printed = computeledger("plan", str(ROOT / "examples" / f"{plan}.toml")).stdout
    heads, *rows = printed.partition("The ledger\n")[2].partition("Shares")[0].splitlines()
    document = json.loads(computeledger("plan", str(ROOT / "examples" / f"{plan}.toml"), "--json").stdout)
    phases = [PHASE_NAMES[name] for name in document["phases"]] + ["Experiments"] * bool(document["experiments"])
    assert heads.split() == [*phases, "Total"]
    assert max(map(len, rows)) <= 80
    (chip,) = {one["accelerator"] for one in document["phases"].values()}
    assert f"all on {load_accelerator(chip).short_name};" in printed
    hours = next(row.split() for row in rows if row.startswith(" GPU-hours"))
    assert hours[-1] == figure_words(document["total"]["gpu_hours"], "")


def test_a_long_answer_is_printed_whole_where_all_is_asked_for(computeledger: Any) -> None:
    short, whole = (computeledger("accuracy", *more).stdout for more in ((), ("--all",)))
    assert "Error by engine" in short and "Error by source" not in short and "--all prints every table" in short
    assert "Error by engine" in whole and "Error by source" in whole and "--all" not in whole
    assert len(short.splitlines()) < 80 < len(whole.splitlines())
    assert "Error by source" in computeledger("accuracy", "--by", "source").stdout
    assert "..." not in computeledger("claims").stdout


def test_a_message_is_broken_between_words_for_people_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A terminal has it at its width; a pipe has one line."""
    message = "no such option; " + "--rollout-p50-tokens or " * 8 + "none"
    lines: dict[bool, list[str]] = {}
    monkeypatch.setenv("COLUMNS", "50")
    for is_terminal in (True, False):
        monkeypatch.setattr("sys.stderr.isatty", lambda said=is_terminal: said, raising=False)
        with pytest.raises(SystemExit):
            command_options._fail("computeledger", message, 2)
        lines[is_terminal] = capsys.readouterr().err.splitlines()
    assert lines[False] == [f"computeledger: {message}"]
    assert " ".join(lines[True]) == lines[False][0] and max(map(len, lines[True])) <= 50 < len(lines[False][0])
