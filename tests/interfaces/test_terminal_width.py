"""Every command of the README at 80 and 120 columns: nothing is cut, and no number loses its unit."""

from __future__ import annotations

import io
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

import computeledger as cl
from computeledger.interfaces import tables
from computeledger.interfaces.fitting import Page
from computeledger.interfaces.render.terminal import print_view
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


#: Lines that take long, each beside a shorter one with the same tables.
_LONG = {"compare examples/offers.toml": f"compare {FEW_OFFERS.name}"}


@pytest.mark.parametrize(
    "line",
    [pytest.param(one, marks=[pytest.mark.stress] * (one in _LONG)) for one in (*_README, *_MORE, *_LONG.values())],
)
def test_tables_fit_and_nothing_is_cut(
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

    def rendered(width: int) -> str:
        page = Page(file=io.StringIO(), width=width)
        page.width = width
        for objects, options in printed:
            page.print(*objects, **options)
        return str(page.file.getvalue())  # type: ignore[attr-defined]

    wide = rendered(2000)
    for width in (80, 120):
        text = rendered(width)
        assert max(map(cell_len, text.splitlines())) <= width
        assert text.count("\u2026") <= wide.count("\u2026")
        assert _words(wide) <= _words(text), sorted(_words(wide) - _words(text))[:5]
        for whole in (_PAIR, _INTERVAL):
            lost = set(whole.findall(wide)) - set(whole.findall(text))
            assert not lost, sorted(lost)[:5]


def _words(text: str) -> set[str]:
    """Ids, names and numbers; bars and rules may go."""
    return {word for word in text.split() if re.search(r"[^\W_]", word) and len(word) <= 60}


def test_piped_output_is_as_wide_as_columns_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert Page(file=io.StringIO()).width == 80
    monkeypatch.delenv("COLUMNS")
    assert Page(file=io.StringIO()).width == 120


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
