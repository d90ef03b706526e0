"""What the tests of the verifiers share: sandboxes that live for the session, and a reason to skip without one."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from rntp.errors import SandboxError
from rntp.verify.engine import Engine
from rntp.verify.sandbox import Job, Sandbox


@pytest.fixture(scope="session")
def sandbox_works() -> None:
    """Skips with the reason where no sandbox can be made."""
    if shutil.which("bwrap") is None:
        pytest.skip("no bubblewrap on the path (Debian: apt-get install bubblewrap)")
    with Sandbox() as sandbox:
        try:
            outcome = sandbox.run(Job(b"print(1)"))
        except SandboxError as error:
            pytest.skip(f"this machine makes no sandbox: {error}")
    assert outcome.stdout == b"1\n", outcome


@pytest.fixture(scope="session")
def compiler(sandbox_works: None) -> None:
    """Skips without a C++ compiler."""
    if shutil.which("g++") is None:
        pytest.skip("no g++ on the path (Debian: apt-get install g++)")


@pytest.fixture(scope="session")
def fresh(sandbox_works: None) -> Iterator[Engine]:
    """An engine whose every run has a sandbox of its own."""
    with Engine("fresh") as engine:
        yield engine


@pytest.fixture(scope="session")
def warm(sandbox_works: None) -> Iterator[Engine]:
    """An engine whose runs are forked in one sandbox."""
    with Engine("warm") as engine:
        yield engine
