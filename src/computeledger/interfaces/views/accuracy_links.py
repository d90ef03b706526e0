"""Addresses in the app of the measurements behind an answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from computeledger.questions.wording import accuracy_slice


def workload_address(workload: str) -> str:
    """Address in the app of all measurements of a workload."""
    return f"/accuracy?{urlencode({'workload': workload})}"


def accuracy_address(alike: Mapping[str, Any]) -> str:
    """Address in the app of the measurements that are most like a question."""
    return f"/accuracy?{urlencode(accuracy_slice(alike))}"
