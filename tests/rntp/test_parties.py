"""Whose fault it is: what a program or its output causes is the program's, what the machine causes has no score."""

from __future__ import annotations

import inspect
import sys
import tomllib
from collections.abc import Callable, Mapping
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rntp.verify import launcher, lent, zygote
from rntp.verify.engine import Engine
from rntp.verify.extract import after_thoughts
from rntp.verify.programs import Runners, check_program, same_value
from rntp.verify.sandbox import Job, Outcome
from rntp.verify.task import Task, read_task
from rntp.verify.verdict import CORRECT, INFRASTRUCTURE, STATUSES, verdict
from tests.gates import ROOT
from tests.rntp.two_sides import SOLUTION, TESTS

_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.just(10**400)
    | st.just(-(10**309)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
_JUNK = st.binary(max_size=60) | st.sampled_from(
    [b'{"value": ' + b"9" * 5000 + b"}\x1e\n", b"[" * 3000 + b"\x1e\n", b'{"value": NaN}\x1e\n', b"\xff\x1e\n",
     b"null\x1e\n", b'{"raised": {"a": 1}, "message": [1]}\x1e\n', b'{"value": 1e999}\x1e\n'],
)  # fmt: skip
_ENDS = st.sampled_from(
    [("exit", 0), ("exit", 1), ("exit", 96), ("signal", 11), ("timeout", 0), ("memory", 9), ("output", 0)]
)
CASES = Task(
    "1", "code", {"function": "f", "cases": [{"args": [1], "expected": 1.5}, {"args": [2], "expected": [1, "a"]}]}
)
STDOUT = Task("1", "code", {"tests": [{"stdin": "", "stdout": "1"}], "compare": "numbers"})


@settings(max_examples=300)
@given(expected=_JSON, answer=_JSON)
def test_any_value_is_judged(expected: Any, answer: Any) -> None:
    assert same_value(expected, answer) in (True, False)
    assert not same_value(1.0, True) and not same_value(True, 1.0)


@settings(max_examples=300)
@given(parts=st.lists(_JUNK, max_size=4), errors=st.binary(max_size=30), end=_ENDS)
@pytest.mark.parametrize("task", [CASES, STDOUT], ids=["cases", "stdout"])
def test_whatever_a_program_prints_is_its_own_doing(
    task: Task, parts: list[bytes], errors: bytes, end: tuple[str, int]
) -> None:
    def run(_job: Job) -> Outcome:
        return Outcome(end[0], end[1], b"".join(parts), errors, 0.1, 0.1)

    made = check_program(task, "x = 1", Runners(run, run))
    assert made.status in STATUSES and made.status != INFRASTRUCTURE
    assert (made.score is not None and made.score < 1.0) or made.status == CORRECT


class Machine:
    """A sandbox on a machine that gives a job so much of a processor per second of wall time."""

    def __init__(self, share: float, needs_s: float, waits: bool) -> None:
        self.share, self.needs_s, self.waits = share, needs_s, waits
        self.walls: list[float] = []

    def run(self, job: Job) -> Outcome:
        wall_s = job.limits.wall_s
        self.walls.append(wall_s)
        if self.share * wall_s >= self.needs_s:
            return Outcome("exit", 0, b"1", b"", self.needs_s / self.share, self.needs_s)
        delay_s = (1 - self.share) * wall_s if self.waits else 0.0
        return Outcome("timeout", 0, b"", b"", wall_s, self.share * wall_s if self.waits else 0.0, delay_s)

    def close(self) -> None:
        """Nothing to end."""


@pytest.mark.parametrize(
    ("share", "waits", "status", "walls"),
    [
        (1.0, True, "correct", [1.0]),
        (0.05, True, "correct", [1.0, 4.0]),  # 0.2 s of work on a machine that gives it a twentieth
        (0.001, True, "infrastructure", [1.0, 4.0, 16.0]),  # never enough: the machine's fault, and said so
        (0.0, False, "timeout", [1.0]),  # it slept: its own doing, at once
    ],
)
def test_a_starved_job_gets_more_time_and_a_sleeping_one_does_not(
    share: float, waits: bool, status: str, walls: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(share, 0.2, waits)
    engine = Engine()
    monkeypatch.setattr(engine, "_fresh", lambda packages: machine)
    task = read_task({"id": "1", "domain": "code", "limits": {"wall_s": 1.0}, **STDOUT.spec})
    made = engine.verify(task, "print(1)")
    assert (made.status, machine.walls) == (status, walls)
    assert (made.score is None) is (status == "infrastructure")


def test_a_starved_job_that_used_what_an_idle_machine_gives_in_its_time_has_had_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    machine, engine = Machine(0.15, 100.0, waits=True), Engine()
    monkeypatch.setattr(engine, "_fresh", lambda packages: machine)
    task = read_task({"id": "1", "domain": "code", "limits": {"wall_s": 1.0}, **STDOUT.spec})
    made = engine.verify(task, "print(1)")
    assert (made.status, made.score, machine.walls) == ("timeout", 0.0, [1.0, 4.0, 16.0])  # 2.4 s on two processors


def test_a_job_whose_processes_wait_for_each_other_ends_with_its_processor_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine, engine = Machine(0.28, 100.0, waits=True), Engine()
    monkeypatch.setattr(engine, "_fresh", lambda packages: machine)
    task = read_task({"id": "1", "domain": "code", "limits": {"wall_s": 1.0, "cpu_s": 1.0}, **STDOUT.spec})
    made = engine.verify(task, "print(1)")
    assert (made.status, made.score, machine.walls) == ("timeout", 0.0, [1.0, 4.0])


_PROGRAMS: dict[str, tuple[str, str]] = {
    "much on standard error, the answer right": ("import sys\nsys.stderr.write('x' * 100_000)\nprint(1)", "correct"),
    "more on standard error than may be printed": (
        "import os\nos.write(2, b'x' * 3_000_000)\nprint(1)",
        "runtime_error",
    ),
    "more on standard output than may be printed": ("print('1' * 3_000_000)", "runtime_error"),
    "exactly as much as may be printed": ("print('0' * (2**20 - 2) + '1', end='\\n')", "correct"),
    "an exit code": ("print(1)\nraise SystemExit(3)", "runtime_error"),
    "a signal": (
        "import os\nprint(1, flush=True)\nos.abort()",
        "runtime_error",
    ),
    "no file of its own": (
        "import os\nprint(len(os.listdir('/tmp')) + 1)",
        "correct",
    ),
}


@pytest.mark.parametrize("module", [launcher, zygote])
@pytest.mark.parametrize(
    ("state", "is_counted"),
    [("it waits for a processor", True), ("it runs", False), ("it sleeps", False)],
)
def test_a_wait_that_lasts_is_counted_and_no_other(
    module: Any, state: str, is_counted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel adds a wait only when it ends: at nice 19 one lasts longer than a wall limit."""
    looks = iter(range(1000))

    def schedule(_pid: int) -> tuple[int, int, int, bool]:
        return next(looks) if state == "it runs" else 7, 10_000_000, 3, state != "it sleeps"

    monkeypatch.setattr(module, "_schedule", schedule)
    waited = getattr(module, "waited_s", None) or module._waited_s
    assert (waited([1], 0.05) >= 0.06) is is_counted
    assert waited([1]) == 0.01


@pytest.fixture
def both(fresh: Engine, warm: Engine) -> Callable[[Mapping[str, Any], str], set[str]]:
    def statuses(spec: Mapping[str, Any], text: str) -> set[str]:
        document = {"id": "1", "domain": "code", "limits": {"wall_s": 20, "cpu_s": 5, "output_bytes": 2**20}, **spec}
        return {engine.verify(read_task(document), text).status for engine in (fresh, warm)}

    return statuses


@pytest.mark.parametrize("name", _PROGRAMS)
def test_warm_and_fresh_give_one_status(name: str, both: Callable[[Mapping[str, Any], str], set[str]]) -> None:
    source, status = _PROGRAMS[name]
    assert both(STDOUT.spec, source) == {status}


def test_a_pytest_file_and_its_program_are_two_processes_that_exchange_values(fresh: Engine) -> None:
    task = {"id": "1", "domain": "code", "pytest": TESTS, "limits": {"wall_s": 60, "cpu_s": 30}}
    made = fresh.verify(read_task(task), SOLUTION)
    assert made.score == 1.0, made


STYLES = tomllib.loads((ROOT / "tests" / "rntp" / "styles.toml").read_text("utf-8"))["style"]


@pytest.mark.parametrize(
    "style",
    [
        pytest.param(one, id=one["name"], marks=[pytest.mark.stress] * (place > 0))
        for place, one in enumerate(STYLES[::-1])
    ],
)
def test_an_honest_program_scores_one_whatever_the_style_of_its_tests(style: dict[str, str], fresh: Engine) -> None:
    task = {"id": "1", "domain": "code", "pytest": style["tests"], "limits": {"wall_s": 60, "cpu_s": 30}}
    made = fresh.verify(read_task(task), style["solution"])
    assert made.score == 1.0, made


def test_what_a_test_lends_does_not_open_the_judge() -> None:
    generator, asked = (one for one in (1, 2)), Mock()
    frame = inspect.currentframe()
    for thing, name in (
        (generator, "gi_frame"), (generator, "gi_code"), (frame, "f_builtins"), (frame, "f_globals"), (sys, "modules"),
        (asked, "configure_mock"), (asked, "return_value"), (pytest.MonkeyPatch(), "setattr"), (asked, "__class__"),
    ):  # fmt: skip
        with pytest.raises(AttributeError):
            lent.use(thing, "get", [name], {})
    assert lent.use(asked, "get", ["anything_else"], {}) is asked.anything_else
    with pytest.raises(AttributeError):
        lent.use(asked, "set", ["assert_called_once_with", print], {})


def test_a_detail_is_one_printable_line() -> None:
    made = verdict(0.0, "got \ud800\x1b[2J\0 \n end")
    assert made.detail == r"got \ud800\x1b[2J\x00 end"
    assert made.detail.encode("utf-8")


def test_thoughts_do_not_answer(fresh: Engine) -> None:
    for text, status in (
        (r"<think>perhaps \boxed{42}</think> I give up.", "format"),
        (r"<think>perhaps \boxed{42}", "format"),
        (r"<think>perhaps \boxed{42}</think> It is \boxed{41}.", "wrong"),
        (r"<think>perhaps \boxed{41}</think> It is \boxed{42}.", "correct"),
    ):
        assert fresh.verify(read_task({"id": "1", "domain": "math", "answer": "42"}), text).status == status, text
    assert after_thoughts("<think>a</think>b<think>c") == "b"


@pytest.mark.parametrize(
    ("spec", "text", "status"),
    [
        ({"domain": "science", "answer": "9.81", "unit": "m/s^2"}, "9.81 __class__", "wrong"),
        ({"domain": "science", "answer": "9.81", "unit": "m/s^2"}, "9.81 m/s^2", "correct"),
        ({"domain": "science", "answer": "H2O", "kind": "formula"}, "H2O1C0", "format"),
        ({"domain": "science", "answer": "H2O", "kind": "formula"}, "H2O1", "correct"),
        ({"domain": "text", "answer": '"No", he said'}, '"', "wrong"),
        ({"domain": "text", "answer": '"No", he said'}, '"No"', "correct"),
    ],
)
def test_empty_answers_are_worth_nothing(spec: dict[str, Any], text: str, status: str, fresh: Engine) -> None:
    assert fresh.verify(read_task({"id": "1", **spec}), text).status == status
