"""Answers that misbehave, each as a process of the app would be made to by a question; importable by its name."""

from __future__ import annotations

import itertools
import os
import time

from computeledger.interfaces.web import answers
from computeledger.interfaces.web.answers import Question, Reply
from computeledger.progress import commanded, counted


def by_name(question: Question) -> Reply:
    """What the question's page names; the process is told by its number."""
    return _KINDS[question.page](dict(question.items))


def _plain(_items: dict[str, str]) -> Reply:
    return Reply(200, str(os.getpid()).encode())


def _deaf(items: dict[str, str]) -> Reply:
    """Work that never looks whether anybody waits."""
    _say(items)
    for _ in itertools.count():
        pass
    raise AssertionError


def _hearing(items: dict[str, str]) -> Reply:
    """Work in blocks."""
    commanded("computeledger think")
    _say(items)
    for _ in counted(range(10**6), "blocks"):
        time.sleep(0.01)
    raise AssertionError


_KEPT: list[int] = []


def _in_parts(_items: dict[str, str]) -> Reply:
    """Work of four parts, each kept once it is done."""
    for part in counted(range(4), "parts"):
        if part not in _KEPT:
            time.sleep(0.2)
            _KEPT.append(part)
    return Reply(200, str(len(_KEPT)).encode())


def _hungry(_items: dict[str, str]) -> Reply:
    held = [bytes(2**20) for _ in range(2**14)]
    return Reply(200, str(len(held)).encode())


def _say(items: dict[str, str]) -> None:
    """Leave the number of the process in a file, so that a test knows that the work has begun."""
    if "file" in items:
        with open(items["file"] + ".part", "w", encoding="ascii") as stream:  # noqa: PTH123
            stream.write(str(os.getpid()))
        os.rename(items["file"] + ".part", items["file"])  # noqa: PTH104


_HELD: list[bytes] = []


def _leaving(_items: dict[str, str]) -> Reply:
    """Work that leaves a part of what the process may hold behind it."""
    _HELD.append(bytes(3 * 2**24))
    return Reply(200, str(len(_HELD)).encode())


def _known(_items: dict[str, str]) -> Reply:
    """How many answers this process has worked out or inherited."""
    return Reply(200, str(answers._worked_out.cache_info().currsize).encode())


_KINDS = {"known": _known, "leaving": _leaving, "plain": _plain, "deaf": _deaf, "hearing": _hearing, "hungry": _hungry,
          "in_parts": _in_parts}  # fmt: skip
