"""The guide: every question of the source documents leads to a command that parses, a page that exists, or a reason."""

from __future__ import annotations

import shlex
from pathlib import Path

import click
import pytest

from computeledger.errors import InputError
from computeledger.interfaces.cli import cli, main
from computeledger.questions.answers.guide import guide, guide_entries
from rntp.interfaces.cli import cli as rntp_cli
from rntp.interfaces.cli import main as rntp_main
from tests.commands import call
from tests.gates import ROOT

GROUPS = {"computeledger": cli, "rntp": rntp_cli}
MAINS = {"computeledger": main, "rntp": rntp_main}
COMMANDS = sorted({one.command for one in guide_entries() if one.command})
#: Cheap ones of several kinds; the rest runs under `make stress`.
SAMPLE = (
    "computeledger facts show gb200-gpu",
    "computeledger claims C102 C103 C104 C105",
    "computeledger allocate --laws",
)


def test_every_item_is_asked_once_and_answered() -> None:
    entries = guide_entries()
    assert sorted(one.item for one in entries if one.item is not None) == list(range(1, 173))
    assert len({one.ask for one in entries}) == len(entries)
    for one in entries:
        assert one.ask.endswith("?") and len(one.ask.split()) < 20, one.ask
        assert not (one.command and (one.page or one.scope)), one.ask
        assert one.command or one.page or one.scope or one.limit, one.ask


def parsed(line: str) -> click.Context:
    """A command line as its parser reads it, not run."""
    name, *arguments = shlex.split(line)
    command: click.Command = GROUPS[name]
    context = click.Context(command, info_name=name, **command.context_settings)
    while isinstance(command, click.Group):
        said, found, arguments = command.resolve_command(context, arguments)
        assert found is not None and said is not None, line
        command = found
        if isinstance(command, click.Group):
            context = click.Context(command, parent=context, info_name=said, **command.context_settings)
    return command.make_context(command.name, arguments, parent=context)


def test_every_command_parses_and_its_files_exist() -> None:
    assert len(COMMANDS) > 100
    for line in COMMANDS:
        context = parsed(line)
        files = [one for one in shlex.split(line) if one.startswith(("examples/", "docs/", "recipes/"))]
        assert not context.args and all((ROOT / one).exists() for one in files), line
    with pytest.raises(click.UsageError, match="--no-such"):
        parsed("computeledger serve --no-such 1")


@pytest.mark.parametrize(
    "line",
    [pytest.param(one, marks=() if one in SAMPLE else pytest.mark.stress) for one in COMMANDS],
    ids=lambda line: line[:60],
)
def test_a_command_answers(line: str, tmp_path: Path) -> None:
    for name in ("examples", "docs", "recipes"):
        (tmp_path / name).symlink_to(ROOT / name)
    name, *arguments = shlex.split(line)
    done = call(MAINS[name], arguments, tmp_path)
    assert done.returncode == 0 and done.stdout.strip(), f"{line}\n{done.stderr[-1000:]}"


def test_two_steps_lead_to_every_question() -> None:
    """From the help to the guide, from both indices to the page."""
    assert "computeledger guide" in cli.get_help(click.Context(cli, info_name="computeledger", **cli.context_settings))
    for page, link in (("index.md", "(questions.md)"), ("book/index.md", "(../questions.md)")):
        assert link in (ROOT / "docs" / page).read_text("utf-8")
    assert len(guide().found) == len(guide_entries())


@pytest.mark.parametrize(
    ("query", "item"),
    [("cached prefix", 157), ("flat funding slower", 86), ("how many users fill a replica", 137), ("GB200 32 MW", 78),
     ("superchip die", 77), ("finished task", 34), ("retire", 36), ("kv-tiers", 157), ("payback", 36),
     ("when will a 1e28 model", 122), ("laptop", 169), ("what does a data center of 48 MW hold", 83)],
)  # fmt: skip
def test_words_find_a_question(query: str, item: int) -> None:
    assert item in [one.item for one in guide(query).found[:3]]


def test_what_no_question_holds() -> None:
    assert guide("xyzzy ciphers").missed == ("xyzzy",)
    with pytest.raises(InputError, match="no question holds that; subjects are: The three ledgers"):
        guide("xyzzy")


def test_the_terminal_keeps_commands_whole(tmp_path: Path) -> None:
    done = call(main, ["guide", "cached", "prefix"], tmp_path)
    assert any(one.strip() == guide("cached prefix").found[0].command for one in done.stdout.splitlines())
