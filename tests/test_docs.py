"""The documentation runs: every Python block and every command of the README and of docs/.

A block below the comment ``<!-- no-test: reason -->`` is shown and not run; it counts as skipped, with its reason. A
block of text right below a Python block or a command is what that prints (``docs/outputs.py`` writes it).
"""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import shlex
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from computeledger.economics.plan.ledger import estimate_ledger
from computeledger.economics.plan.read import read_plan
from computeledger.interfaces.cli import main as computeledger_main
from rntp.interfaces.cli import main as rntp_main
from tests.commands import call
from tests.gates import ROOT, docs_module, project_files

OUTPUTS = docs_module("outputs")
PAGES = [
    path
    for path in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    if path.exists()
]
#: pages that exist while the site is built
GENERATED = {ROOT / "docs" / "reference" / f"{name}.md" for name in ("api", *docs_module("reference").ROOMS)}
NO_TEST = re.compile(r"<!-- no-test: (.+?) -->")
PRINTED = re.compile(r"\n```text\n(.*?)^```", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: Path
    line: int
    language: str
    code: str
    skipped: str
    printed: str = ""

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks_of(page: Path, text: str) -> Iterator[Block]:
    """Every fenced block, with the reason not to run it where one stands in the line above, and what it prints."""
    before, opened, language = "", 0, ""
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        if line.startswith("```") and not opened:
            opened, language = number, line[3:].strip()
            reason = NO_TEST.search(before)
        elif line.startswith("```"):
            code = "".join(f"{inner}\n" for inner in lines[opened : number - 1])
            shows = language in ("python", "console")
            printed = PRINTED.match("\n".join(lines[number:]) + "\n") if shows else None
            yield Block(page, opened, language, code, reason[1] if reason else "", printed[1] if printed else "")
            opened = 0
        before = line


def commands_of(block: Block) -> list[str]:
    """Commands of a block that call computeledger or rntp, continued lines joined."""
    joined = re.sub(r"\s*\\\n\s*", " ", block.code)
    prompt = r"\$ " if block.language == "console" else r"(?:\$ )?"
    return re.findall(rf"^{prompt}((?:computeledger|rntp)\b.*)$", joined, re.MULTILINE)


BLOCKS = [block for page in PAGES for block in blocks_of(page, page.read_text("utf-8"))]
PYTHON = [block for block in BLOCKS if block.language == "python"]


def asked_once() -> list[tuple[str, list[Block]]]:
    """Every command once, with the blocks that show it: in a folder of its own it would do the same again."""
    found: dict[tuple[str, str], list[Block]] = {}
    for block in BLOCKS:
        for line in commands_of(block) if block.language in ("console", "sh", "bash") else ():
            found.setdefault((line, block.skipped), []).append(block)
    return [(line, blocks) for (line, _), blocks in found.items()]


COMMANDS = asked_once()


#: A line that needs no shell: outside of its quotes stands nothing that a shell would read.
PLAIN = re.compile(r"""(?:[\w\s./,:=%@+-]|'[^']*'|"[^"$`\\]*")*""")
TRAINS = re.compile(r"rntp train (\S+(?: --set \S+)*)")
MAINS = {"computeledger": computeledger_main, "rntp": rntp_main}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder that looks like the repository's root; what a block writes there stays there."""
    for name in {path.relative_to(ROOT).parts[0] for path in project_files()}:
        if not name.startswith("."):
            (tmp_path / name).symlink_to(ROOT / name)
    return tmp_path


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders that the commands trained: the same training again finds its run ended, as a reader's would."""
    return tmp_path_factory.mktemp("trained")


def run_python(block: Block, namespace: dict[str, Any]) -> None:
    """Execute a block; one written with prompts also has its answers compared."""
    if ">>> " in block.code:
        test = doctest.DocTestParser().get_doctest(block.code, namespace, str(block), str(block.page), block.line)
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
        report: list[str] = []
        runner.run(test, out=report.append, clear_globs=False)
        namespace.update(test.globs)
        assert runner.summarize(verbose=False).failed == 0, "".join(report)
        return
    padded = "\n" * block.line + block.code
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile(padded, str(block.page), "exec"), namespace)
    if block.printed:
        assert OUTPUTS.tidy(out.getvalue()) == block.printed, (
            f"{block}: it prints something else; `make docs-pages` writes it anew"
        )


@pytest.mark.parametrize(
    "item",
    [*sorted({b.page for b in PYTHON}), *(b for b in PYTHON if b.skipped)],
    ids=lambda item: str(item) if isinstance(item, Block) else str(item.relative_to(ROOT)),
)
def test_python(item: Path | Block, checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of a page run in order and share their names, as a reader types them."""
    if isinstance(item, Block):
        pytest.skip(item.skipped)
    monkeypatch.chdir(checkout)
    monkeypatch.setenv("COLUMNS", str(OUTPUTS.COLUMNS))
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for block in PYTHON:
        if block.page == item and not block.skipped:
            run_python(block, namespace)


def run_line(line: str, folder: Path, installed_command: Path) -> subprocess.CompletedProcess[str]:
    """A line as a shell runs it, up to its first failure; only what needs a shell is given to one."""
    path = f"{installed_command.parent}{os.pathsep}{os.environ['PATH']}"
    for part in line.split(" && "):
        command, _, file = part.partition(" > ")
        name, *arguments = shlex.split(command)
        if name in MAINS and PLAIN.fullmatch(command):
            done = call(MAINS[name], arguments, folder)
            if file:
                (folder / file).write_text(done.stdout, "utf-8")
        else:
            done = subprocess.run(
                ["bash", "-o", "pipefail", "-c", part],
                cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=300, check=False,
            )  # fmt: skip
        if done.returncode:
            break
    return done


@pytest.mark.parametrize(
    ("line", "blocks"), COMMANDS, ids=lambda value: value[:60] if isinstance(value, str) else str(value[0])
)
def test_command(
    line: str,
    blocks: list[Block],
    checkout: Path,
    trained: Path,
    installed_command: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if any(block.printed for block in blocks):
        monkeypatch.setenv("COLUMNS", str(OUTPUTS.COLUMNS))
    if blocks[0].skipped:
        pytest.skip(blocks[0].skipped)
    if line.startswith("rntp verify run") and shutil.which("bwrap") is None:
        pytest.skip("no bubblewrap on the path (Debian: apt-get install bubblewrap)")
    training = TRAINS.match(line)
    kept = trained / re.sub(r"\W+", "-", re.sub(r" --set output=\S+", "", training[1])) if training else trained
    output = checkout / re.findall(r"--set output=(\S+)", line)[0] if training else checkout
    if training and kept.exists():
        shutil.copytree(kept, output)
    done = run_line(line, checkout, installed_command)
    assert done.returncode == 0, f"{blocks[0]}: {line}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
    for block in blocks:
        if block.printed:
            now = OUTPUTS.excerpt(done.stdout, block.printed)
            assert now == block.printed, f"{block}: it prints something else; `make docs-pages` writes it anew"
    if training and not kept.exists():
        shutil.copytree(output, kept)


def test_plans_on_pages_are_plans() -> None:
    """TOML that looks like a plan is read as one."""
    plans = [block for block in BLOCKS if block.language == "toml" and "[inference]" in block.code]
    assert plans
    for block in plans:
        ledger = estimate_ledger(read_plan(tomllib.loads(block.code)), n_samples=16)
        assert set(ledger.phases) == {"pretraining", "rl", "inference"}, str(block)


def test_files_that_a_change_touches_are_where_the_page_says() -> None:
    """Paths of the page on extending exist; the toy command's lie in folders that do."""
    page = (ROOT / "docs" / "extending.md").read_text("utf-8")
    named = {one for one in re.findall(r"`([\w/]+/[\w.]+\.(?:py|toml))`", page) if "/ID." not in one}
    roots = (ROOT, ROOT / "src", ROOT / "src" / "computeledger")
    missing = {
        one
        for one in named
        if not any((root / one).exists() or ("drain" in one and (root / one).parent.is_dir()) for root in roots)
    }
    assert len(named) >= 15 and missing == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_and_anchors_exist(page: Path) -> None:
    """Relative links point at a file, and at a heading where they name one."""
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    missing = []
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if target in GENERATED:
            continue  # the strict build and the links of the built site are tested in tests/test_site.py
        if not target.exists() or (anchor and anchor not in anchors(target)):
            missing.append(link)
    assert missing == []


def test_addresses_of_the_app_are_answered() -> None:
    """What a page says to open shows an answer there."""
    from fastapi.testclient import TestClient

    from computeledger.interfaces.web.app import create_app

    found = {
        one for page in PAGES for one in re.findall(r"in the app \(`computeledger web`\): `(/\w[^`]*)`",
                                                    page.read_text("utf-8"), re.IGNORECASE)
    }  # fmt: skip
    client = TestClient(create_app(), base_url="http://localhost")
    refused = {one: answer.text for one in sorted(found) if (answer := client.get(f"/view{one}")).status_code != 200}
    assert len(found) >= 8 and refused == {}


def anchors(page: Path) -> set[str]:
    """Names under which a page's headings can be linked to."""
    headings = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


PAGE = """
# A page
```python
x = 1
print(x)
```

```text
1
```
<!-- no-test: needs a GPU -->
```console
$ computeledger plan \\
    a.toml
three ledgers
```
```console
$ computeledger --help
```
"""


def test_blocks_are_found() -> None:
    found = list(blocks_of(ROOT / "README.md", PAGE))
    assert [(block.language, block.line, block.skipped) for block in found] == [
        ("python", 3, ""),
        ("text", 8, ""),
        ("console", 12, "needs a GPU"),
        ("console", 17, ""),
    ]
    assert [block.printed for block in found] == ["1\n", "", "", ""]
    assert [commands_of(block) for block in found] == [[], [], ["computeledger plan a.toml"], ["computeledger --help"]]


def test_a_failing_block_fails() -> None:
    with pytest.raises(ZeroDivisionError):
        run_python(Block(ROOT / "README.md", 1, "python", "1 / 0\n", ""), {})
    with pytest.raises(AssertionError, match="Expected"):
        run_python(Block(ROOT / "README.md", 1, "python", ">>> 1 + 1\n3\n", ""), {})
    with pytest.raises(AssertionError, match="something else"):
        run_python(Block(ROOT / "README.md", 1, "python", "print(1 + 1)\n", "", "3\n"), {})
