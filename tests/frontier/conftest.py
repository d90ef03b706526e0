"""What the tests of the frontier share."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner

from computeledger.interfaces.cli import cli


@pytest.fixture
def run_json() -> Callable[..., dict[str, Any]]:
    """Run a command in this process and read its one JSON document."""

    def run(*arguments: str) -> dict[str, Any]:
        done = CliRunner().invoke(cli, list(arguments), catch_exceptions=False)
        assert done.exit_code == 0, done.output
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    return run
