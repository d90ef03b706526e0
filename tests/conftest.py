"""What every test may ask for: the repository, its installed command, a browser, the shared measurements."""

from __future__ import annotations

import gc
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from computeledger.interfaces.cli import main
from tests.commands import call
from tests.gates import ROOT, long_cases

# The same examples on every machine, and no deadline: a slow machine is not a wrong result.
settings.register_profile(
    "repeatable", deadline=None, derandomize=True, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("repeatable")


def pytest_configure(config: pytest.Config) -> None:
    """A worker of `make test` leads a group of processes: what a test finds left there is its own."""
    gc.disable()  # until everything is collected: nearly all of what that makes stays
    if hasattr(config, "workerinput"):
        os.setpgrp()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The cases of long_cases.txt are marked `stress`."""
    long = long_cases()
    for item in items:
        if re.sub(r":\d+(?=\]$)", "", item.nodeid) in long:
            item.add_marker(pytest.mark.stress)


def pytest_collection_finish() -> None:
    """The tests and what they import stay: no collection of garbage goes over them again."""
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_unconfigure() -> None:
    """At its end the interpreter frees everything again; libraries warn of what it does not."""
    gc.unfreeze()


Command = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(autouse=True, scope="session")
def plain_terminal() -> None:
    """Tables as wide as a page and without colour, whoever runs the tests."""
    os.environ.update(COLUMNS="120", NO_COLOR="1", TERM="dumb")
    os.environ.pop("FORCE_COLOR", None)


@pytest.fixture(scope="session")
def repository() -> Path:
    """Root of the checkout."""
    return ROOT


@pytest.fixture(scope="session")
def installed_command() -> Path:
    """The console script of the environment that runs the tests."""
    script = Path(sys.executable).parent / "computeledger"
    if not script.exists():
        pytest.fail(f"{script} does not exist: run the tests with `make test`")
    return script


@pytest.fixture
def computeledger() -> Command:
    """Calls the command from the repository's root; the result is returned whatever its exit code."""

    def run(*arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
        return call(main, arguments, cwd)

    return run


@pytest.fixture(scope="session")
def chromium() -> str:
    """Path of a Chromium; the test skips where there is none."""
    # the same engine without windows first: it loads a page in two thirds of the time
    for name in ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"):
        if path := shutil.which(name):
            return path
    pytest.skip("no Chromium on the path (Debian: apt-get install chromium-headless-shell)")


@pytest.fixture(scope="session")
def browser(chromium: str) -> Iterator[Any]:
    """A browser that only reads files; one for all tests."""
    from playwright.sync_api import sync_playwright

    arguments = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
                 "--disable-sync", "--no-first-run"]  # fmt: skip
    with sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=chromium, args=arguments)
        yield started
        started.close()


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder of the shared measurements, or COMPUTELEDGER_DATA; the test skips where it is absent."""
    given = os.environ.get("COMPUTELEDGER_DATA")
    for folder in [Path(given)] if given else [ROOT / "shared" / "data", ROOT.parent / "shared" / "data"]:
        if folder.is_dir():
            return folder
    pytest.skip("the shared measurements are not here (set COMPUTELEDGER_DATA to their folder)")
