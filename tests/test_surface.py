"""The public surface: what ``import computeledger as cl`` offers, and what it must not drag in."""

from __future__ import annotations

import importlib
import json
import pkgutil
import re
import subprocess
import sys
from collections.abc import Callable
from types import ModuleType

import numpy as np
import pytest

import computeledger as cl
from computeledger.interfaces.cli import COMMANDS
from computeledger.questions import answers
from computeledger.questions.answer import Answer
from rntp.interfaces.cli import COMMANDS as RNTP_COMMANDS

HEAVY = ("nicegui", "pandas", "playwright", "scipy", "starlette", "torch")


def test_all_is_sorted() -> None:
    assert list(cl.__all__) == sorted(set(cl.__all__))


@pytest.mark.parametrize("name", cl.__all__)
def test_every_public_name_resolves(name: str) -> None:
    assert getattr(cl, name) is not None


def test_dir_offers_all_and_nothing_else() -> None:
    for name in cl.__all__:
        getattr(cl, name)
    public = {name for name in dir(cl) if not name.startswith("_")}
    modules = {name for name in public if isinstance(getattr(cl, name), ModuleType)}
    assert sorted(public - modules | set(cl.__all__)) == sorted(cl.__all__)


def test_star_import() -> None:
    namespace: dict[str, object] = {}
    exec("from computeledger import *", namespace)
    assert set(cl.__all__) <= set(namespace)


def test_a_name_that_does_not_exist_is_refused() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = cl.no_such_name


def test_public_names_are_documented() -> None:
    undocumented = [name for name in cl.__all__ if callable(getattr(cl, name)) and not getattr(cl, name).__doc__]
    assert undocumented == []


def loaded_by(code: str) -> set[str]:
    """Top-level packages that a fresh interpreter has loaded after some code."""
    report = "import json, sys; print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))"
    done = subprocess.run([sys.executable, "-c", f"{code}\n{report}"], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_import_is_light() -> None:
    loaded = loaded_by("import computeledger")
    assert "computeledger" in loaded
    assert loaded.isdisjoint(HEAVY)


def test_all_names_load_nothing_heavy() -> None:
    loaded = loaded_by("import computeledger as cl\nfor name in cl.__all__: getattr(cl, name)")
    assert loaded.isdisjoint({*HEAVY, "jinja2", "plotly"})


def test_help_is_light() -> None:
    code = (
        "import sys\n"
        "sys.argv = ['computeledger', '--help']\n"
        "from computeledger.interfaces.cli import main\n"
        "try:\n    main()\nexcept SystemExit as stop:\n    assert stop.code in (0, None)\n"
    )
    loaded = loaded_by(code)
    assert "click" in loaded
    assert loaded.isdisjoint({*HEAVY, "plotly", "numpy", "rich", "computeledger.fields", "computeledger.questions"})


def test_an_answer_of_serve_loads_what_it_needs_alone() -> None:
    """Each of these is a tenth of a second before an assistant's first answer, and before that of the command."""
    asked = '{"model": "llama-3.1-8b", "system": "h100-nvl8"}'
    code = f"from computeledger.interfaces.mcp.tools import call\ncall('serve', {asked})"
    report = "import sys; print(*(name for name in sys.modules if name.startswith('computeledger.')))"
    done = subprocess.run([sys.executable, "-c", f"{code}\n{report}"], capture_output=True, text=True, check=True)
    loaded = {name.removeprefix("computeledger.") for name in done.stdout.split()}
    assert "interfaces.views.serve" in loaded
    others = {"frontier.steps", "economics.plan.ledger", "validation.tables", "validation.rl.rows",
              "validation.claims.expressions", "questions.answers.validate"}  # fmt: skip
    assert loaded.isdisjoint(others), loaded & others


@pytest.mark.parametrize("homes", [COMMANDS, RNTP_COMMANDS], ids=["computeledger", "rntp"])
def test_the_list_of_commands_names_each_and_fits_a_narrow_terminal(homes) -> None:
    for name, (home, words) in homes.items():
        module, attribute = home.split(":")
        assert getattr(importlib.import_module(module), attribute).name == name
        assert len(words) <= 65, words


def test_the_installed_command_is_the_package(installed_command) -> None:
    done = subprocess.run([installed_command, "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Usage: ")


def test_version_is_the_distribution_s(installed_command) -> None:
    version = importlib.import_module("importlib.metadata").version("computeledger")
    done = subprocess.run([installed_command, "--version"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert version in done.stdout


_WRONG: dict[str, tuple[Callable[[], object], str]] = {
    "a number for words": (lambda: cl.search_facts(3), "expected words"),  # type: ignore[arg-type]
    "a number for an id": (lambda: cl.load_model(3), "expected an id, or the path of a file"),  # type: ignore[arg-type]
    "a number for a plan": (lambda: cl.load_plan(3), "the path of a plan"),  # type: ignore[arg-type]
    "a number for a layout": (lambda: cl.parse_layout(3), "expected a layout"),  # type: ignore[arg-type]
    "text for samples": (lambda: cl.quantiles("x"), "expected a number"),  # type: ignore[arg-type]
    "no samples": (lambda: cl.quantiles(np.array([])), "one number at least"),
    "text for a count": (lambda: cl.sample({"a": 1.0}, n_samples="3"), "samples = '3'"),  # type: ignore[arg-type]
    "one sample": (lambda: cl.sample({"a": 1.0}, n_samples=1), "at least 2"),
    "no names": (lambda: cl.bill(names=[], input_tokens=3), "names: at least one"),
    "another question": (lambda: cl.rl(published=True), "a question to rl_returns"),
    "another device": (lambda: cl.calibrate(device="gpu"), "did you mean 'cuda'?"),
    "an option's spelling": (lambda: cl.route(check_attempts=True), "check_attempts needs attempts,"),
    "an argument's spelling": (lambda: cl.schedule(start="2025-13-15"), "start: '2025-13-15'"),
}


@pytest.mark.parametrize("case", _WRONG)
def test_a_python_mistake_gets_one_line(case: str) -> None:
    ask, said = _WRONG[case]
    with pytest.raises(cl.InputError, match=re.escape(said)) as caught:
        ask()
    assert "\n" not in str(caught.value) and "--" not in str(caught.value)


def test_an_answer_shows_its_name_its_headline_figures_and_its_schema() -> None:
    answer = cl.serve(
        model="llama-3.1-8b", system="h100-nvl8", layout="tp1", batch=8, input_tokens="1K..4K", samples=16
    )
    assert re.match(r"ServeAnswer\(.*tpot_s=[\d.]+ s.*\)$", repr(answer)) and len(repr(answer)) < 300
    assert answer.to_dict()["input_tokens"]["p95"] > 3 * answer.to_dict()["input_tokens"]["p05"]
    assert answer.to_dict()["schema"] == "computeledger/serve/1"
    assert len(repr(cl.bill(names="examples/money/price-sheet.toml", input_tokens=3))) < 300
    for module in pkgutil.walk_packages(answers.__path__, f"{answers.__name__}."):
        importlib.import_module(module.name)
    assert [one.__name__ for one in _kinds(Answer) if {"__repr__", "to_dict"} & set(vars(one))] == []
    homes: dict[str, set[str]] = {}
    for one in _kinds(Answer):
        homes.setdefault(one.schema(), set()).add(one.__qualname__)
    assert [names for names in homes.values() if len(names) > 1] == [], "a schema has one kind of document"


def _kinds(kind: type[Answer]) -> list[type[Answer]]:
    out: list[type[Answer]] = []
    for child in kind.__subclasses__():
        out += [child, *_kinds(child)]
    return out
