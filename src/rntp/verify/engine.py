"""The one interface: ``verify(task, completion)`` gives a verdict, by the domain of the task.

An engine holds the sandboxes of one thread; the module's own functions keep one per thread and isolation.
"""

from __future__ import annotations

import atexit
import json
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

from computeledger.errors import InputError, nearest, shown
from computeledger.units import GIB, MIB
from rntp.errors import SandboxError
from rntp.verify.bubblewrap import PACKAGES, find_bubblewrap
from rntp.verify.limits import MAX_S, Limits
from rntp.verify.programs import Runners, check_program, packages_of
from rntp.verify.sandbox import Job, Outcome, Sandbox, WarmSandbox
from rntp.verify.science import check_science
from rntp.verify.task import Judge, Task, read_task, required
from rntp.verify.text import Scorer, check_text, judged, scorer_of
from rntp.verify.verdict import CORRECT, FORMAT, MEMORY, RUNTIME, TIMEOUT, WRONG, Verdict, no_verdict, verdict

FRESH, WARM = "fresh", "warm"
ISOLATIONS = (FRESH, WARM)
#: What a process that compares mathematics or scores puzzles may hold at most.
_CALLS = Limits(wall_s=60.0, cpu_s=60.0, memory_bytes=int(2 * GIB), processes=64)
#: Wall time of each try of a run that the machine starves, in its limit's.
_MORE_TIME = (1, 4, 16)
#: domain -> the modules that its process loads, and the package whose environment it sees
_SERVICES = {
    "math": (("math_verify", "rntp.verify.maths"), "math_verify"),
    "puzzle": (("reasoning_gym", "rntp.verify.puzzles"), "reasoning_gym"),
}


def has_sandbox() -> bool:
    """Tell whether bubblewrap is on this machine.

    Examples
    --------
    >>> has_sandbox() in (True, False)
    True
    """
    try:
        return bool(find_bubblewrap())
    except SandboxError:
        return False


class Engine:
    """Checks completions, one at a time, with sandboxes that are made when they are first needed.

    Parameters
    ----------
    isolation : str
        ``fresh``: every run of a program has a sandbox of its own. ``warm``: a forked child of an interpreter that
        waits in one; several times faster, and in the namespaces that the jobs before it had.
    """

    def __init__(self, isolation: str = FRESH) -> None:
        if isolation not in ISOLATIONS:
            raise InputError(f"isolation {shown(isolation)}: {nearest(isolation, ISOLATIONS)}")
        self.isolation = isolation
        self._sandboxes: dict[str, Sandbox | WarmSandbox] = {}
        self._judges: dict[Judge, Scorer] = {}

    def verify(self, task: Task, completion: str) -> Verdict:
        """Check a completion; what fails on the machine's side becomes a verdict without a score."""
        started, cpu_s = time.monotonic(), time.thread_time()
        spent = _Spent()
        try:
            made = (
                _DOMAINS[task.domain](self, task, completion, spent)
                if task.judge is None
                else judged(task.judge.name, self._judge(task.judge), task, completion)
            )
        except SandboxError as error:
            made = no_verdict(str(error))
        return made.timed(time.monotonic() - started, time.thread_time() - cpu_s + spent.cpu_s)

    def _judge(self, judge: Judge) -> Scorer:
        """A judge as it was when it was first asked for: a file that changes meanwhile changes nothing."""
        if judge not in self._judges:
            self._judges[judge] = scorer_of(judge)
        return self._judges[judge]

    def program(self, task: Task, completion: str, spent: _Spent) -> Verdict:
        """Check code."""
        packages = {}
        if task.spec.get("pytest"):
            packages = {f"{PACKAGES}/pytest": packages_of("pytest")}
        fresh = self._fresh(packages)
        runs = fresh if self.isolation == FRESH or task.spec.get("pytest") else self._warm()
        return check_program(task, completion, Runners(_counted(runs, spent), _counted(fresh, spent), packages))

    def call(self, task: Task, function: str, arguments: list[Any], spent: _Spent) -> Any:
        """Call a function of a trusted module in the process of the task's domain."""
        service = self._service(task.domain)
        outcome = _with_time(lambda limits: service.call(function, arguments, limits), task.limits, spent)
        if outcome.ended != "exit":
            return _unanswered(outcome)
        answer = json.loads(outcome.stdout)
        spent.cpu_s = max(spent.cpu_s, answer["cpu_s"])
        if "memory" in answer:
            return verdict(0.0, "used more memory than allowed", MEMORY)
        if "error" in answer:
            return verdict(0.0, f"the comparison failed: {answer['error']}", WRONG)
        return answer["value"]

    def _fresh(self, packages: Mapping[str, str]) -> Sandbox:
        name = "pytest" if packages else FRESH
        found = self._sandboxes.setdefault(name, Sandbox(packages))
        if not isinstance(found, Sandbox):
            raise SandboxError("the sandboxes of this engine were mixed up")
        return found

    def _warm(self) -> WarmSandbox:
        return self._kept(WARM, lambda: WarmSandbox(Limits(memory_bytes=int(GIB), tmp_bytes=int(256 * MIB))))

    def _service(self, domain: str) -> WarmSandbox:
        def make() -> WarmSandbox:
            preload, package = _SERVICES[domain]
            homes = dict.fromkeys(packages_of(name) for name in (package, "rntp", "computeledger"))
            folders = {f"{PACKAGES}/{place}": home for place, home in enumerate(homes)}
            # mathematics is parsed, never evaluated; puzzles are, and stay in a sandbox
            return WarmSandbox(_CALLS, preload, folders, sandboxed=domain == "puzzle" or has_sandbox())

        return self._kept(domain, make)

    def _kept(self, name: str, make: Callable[[], WarmSandbox]) -> WarmSandbox:
        found = self._sandboxes.get(name)
        if isinstance(found, WarmSandbox):
            return found
        self._sandboxes[name] = made = make()
        return made

    def close(self) -> None:
        """End every sandbox."""
        for sandbox in self._sandboxes.values():
            sandbox.close()
        self._sandboxes.clear()

    def __enter__(self) -> Self:
        """Nothing is started before the first check."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()


class _Spent:
    """Processor time of one check, as it adds up."""

    def __init__(self) -> None:
        self.cpu_s = 0.0


def _counted(sandbox: Sandbox | WarmSandbox, spent: _Spent) -> Callable[[Job], Outcome]:
    """Count the processor time of what a sandbox runs."""
    return lambda job: _with_time(lambda limits: sandbox.run(replace(job, limits=limits)), job.limits, spent)


def _with_time(run: Callable[[Limits], Outcome], limits: Limits, spent: _Spent) -> Outcome:
    """Run with the wall time that a busy machine needs for what an idle one does within the limits.

    A run that was ready and got no processor is run again, with more time each time. One that waited by its own doing
    has had its time, and so has one that used its processor time, or as much as every processor of an idle machine
    could have given it within its wall time.
    """
    enough_s = min(limits.cpu_s, limits.wall_s * len(os.sched_getaffinity(0)))
    for more in _MORE_TIME:
        outcome = run(replace(limits, wall_s=min(limits.wall_s * more, MAX_S)))
        spent.cpu_s += outcome.cpu_s
        if not outcome.is_starved or outcome.cpu_s >= enough_s:
            return outcome
    took = f"{outcome.wall_s:.1f} s, ready for {outcome.delay_s:.1f} s of them, processor time {outcome.cpu_s:.2f} s"
    raise SandboxError(f"the machine is too busy: stopped after {took}")


def _unanswered(outcome: Outcome) -> Verdict:
    """The verdict on a comparison that was ended."""
    if outcome.ended == "timeout":
        return verdict(0.0, f"no answer after {outcome.wall_s:.2f} s", TIMEOUT)
    if outcome.ended == "signal":
        return verdict(0.0, f"the answer ended its comparison by signal {outcome.code}", RUNTIME)
    return verdict(0.0, "the comparison took more memory than allowed", MEMORY)


def _check_math(engine: Engine, task: Task, completion: str, spent: _Spent) -> Verdict:
    """Mathematics; an answer with a unit is a quantity."""
    if task.spec.get("unit") or "tolerance" in task.spec:
        return check_science(task, completion)
    from rntp.verify.maths import whole_answer

    answer = str(required(task, "answer", (str, int, float)))
    whole = whole_answer(answer, completion)
    if whole is not None:
        return verdict(float(whole), "a whole number")
    relations = bool(task.spec.get("set_relations", False))
    found = engine.call(task, "rntp.verify.maths:compare", [answer, completion, relations], spent)
    if isinstance(found, Verdict):
        return found
    if found == "reference":
        raise InputError(f"task {shown(task.id)}: answer {shown(answer)} cannot be read as mathematics")
    return verdict(float(found == CORRECT), "compared as mathematics", found if found == FORMAT else None)


def _check_puzzle(engine: Engine, task: Task, completion: str, spent: _Spent) -> Verdict:
    """A procedural task, by its own rules."""
    name, seed, index = required(task, "task", str), task.spec.get("seed", 0), task.spec.get("index", 0)
    for key, value in (("seed", seed), ("index", index)):
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**31:
            raise InputError(f"task {shown(task.id)}: {key} {shown(value)}: a whole number from 0 is needed")
    config = json.dumps(task.spec.get("config", {}), sort_keys=True)
    found = engine.call(task, "rntp.verify.puzzles:score", [name, seed, index, config, completion], spent)
    if isinstance(found, Verdict):
        return found
    score, judged, known = found
    if known:
        raise InputError(f"task {shown(task.id)}: unknown puzzle {shown(name)}: {nearest(name, known)}")
    if score is None:
        return verdict(0.0, "no answer in the completion", FORMAT)
    threshold = task.spec.get("threshold", 1.0)
    return verdict(score, f"judged {judged!r}", CORRECT if score >= threshold else WRONG)


_DOMAINS: dict[str, Callable[[Engine, Task, str, _Spent], Verdict]] = {
    "code": Engine.program,
    "math": _check_math,
    "puzzle": _check_puzzle,
    "science": lambda _engine, task, completion, _spent: check_science(task, completion),
    "text": lambda _engine, task, completion, _spent: check_text(task, completion),
}
_LOCAL = threading.local()


def engine_of_thread(isolation: str = FRESH) -> Engine:
    """Keep one engine per thread and isolation, closed when the process ends.

    Examples
    --------
    >>> engine_of_thread() is engine_of_thread()
    True
    """
    kept: dict[str, Engine] = _LOCAL.__dict__.setdefault("engines", {})
    if isolation not in kept:
        kept[isolation] = Engine(isolation)
        atexit.register(kept[isolation].close)
    return kept[isolation]


def close_engines() -> None:
    """Close the engines of this thread.

    Examples
    --------
    >>> close_engines()
    """
    for engine in _LOCAL.__dict__.pop("engines", {}).values():
        engine.close()


def verify(task: Task | Mapping[str, Any], completion: str | Mapping[str, Any], isolation: str = FRESH) -> Verdict:
    r"""Check a completion against a task.

    Examples
    --------
    >>> verify({"id": "1", "domain": "math", "answer": "42"}, r"It is \boxed{42}.").status
    'correct'
    """
    read = task if isinstance(task, Task) else read_task(task)
    text = completion if isinstance(completion, str) else completion.get("text")
    if not isinstance(text, str):
        raise InputError(f"completion: a text is needed, not {shown(text)}")
    return engine_of_thread(isolation).verify(read, text)
