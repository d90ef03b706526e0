"""Processes that answer questions, each with a budget of time and memory; a question ends with its visitor.

Work stops at its next block when it is told to. Work that does not hear is ended with its process, and a fresh
process takes its place, so no question can hold a processor or memory for longer than its budget.
"""

from __future__ import annotations

import functools
import math
import os
import queue
import signal
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

from computeledger.interfaces.web.ahead import Ahead, Answer
from computeledger.interfaces.web.answers import Question, Reply, answered, failed
from computeledger.interfaces.web.copies import Context, copies_of_a_loaded_process
from computeledger.progress import Progress, StoppedError, listening
from computeledger.simulation.serving.clock import compile_ahead
from computeledger.units import KIB, MIB

#: How often each side looks at the other [s].
_LOOK_S = 0.02
#: How often a process says how far it is [s].
_SAY_S = 0.1
_BUSY, _FAILED = 503, 500


class _Said(NamedTuple):
    """How far work is."""

    done: int
    total: int
    what: str
    command: str


def _said(heard: Progress) -> _Said:
    return _Said(heard.done, heard.total, heard.what, heard.command)


Send = Callable[[int, Reply | _Said | None], None]


@dataclass(frozen=True, slots=True)
class Budget:
    """What a question may take. One of parts ends between two of them after ``turn_s``: the same process goes on."""

    engines: int = 2
    waiting: int = 32
    time_s: float = 20.0
    turn_s: float = 8.0
    memory_bytes: int = int(512 * MIB)
    grace_s: float = 0.3


class _Engine:
    """One process that answers, and the pipe to it."""

    def __init__(self, context: Context, budget: Budget, answer: Answer) -> None:
        self.page = ""
        self._budget = budget
        self._asked = 0
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_work, args=(theirs, answer, budget), daemon=True)
        self._process.start()
        theirs.close()

    @property
    def is_fresh(self) -> bool:
        """Whether it was asked no more than once, so that nothing of other questions is held in it."""
        return self._asked <= 1

    @property
    def is_alive(self) -> bool:
        """Whether it can be asked again."""
        return not self._pipe.closed

    def kill(self) -> None:
        """End the process whatever it does; the thread that asks it, if any, sees its pipe end."""
        self._process.kill()

    def _end(self) -> None:
        """End the process and close the pipe: only the thread that asks may, for another would close it twice."""
        self.kill()
        self._pipe.close()

    def ask(self, question: Question, heard: Progress, deadline_s: float) -> Reply | None:
        """Its answer; a refusal past the deadline; None where the visitor has gone."""
        self._asked += 1
        self.page = question.page
        told_s = None
        try:
            self._pipe.send((self._asked, question))
            while True:
                if told_s is None and (heard.is_stopped or time.monotonic() > deadline_s):
                    told_s = time.monotonic()
                    self._pipe.send((self._asked, None))
                if self._pipe.poll(_LOOK_S):
                    number, found = self._pipe.recv()
                    if number == self._asked and not isinstance(found, _Said):
                        return found if found is not None or heard.is_stopped else self._too_long(heard.command)
                    if number == self._asked:
                        heard.done, heard.total, heard.what, heard.command = found
                elif told_s is not None and time.monotonic() > told_s + self._budget.grace_s:
                    self._end()
                    return None if heard.is_stopped else self._too_long(heard.command)
        except (EOFError, OSError):  # the process has died, or the server is ending
            self._end()
            return None if heard.is_stopped else self._died(heard.command)

    def _too_long(self, command: str) -> Reply:
        most = f"{self._budget.time_s:g} s"
        return failed(_BUSY, f"stopped: a question may take {most} here; narrow it, or ask the command", command)

    def _died(self, command: str) -> Reply:
        most = f"{self._budget.memory_bytes / MIB:.0f} MiB"
        said = f"no answer: it needs more than the {most} that a question may take here, or failed"
        return failed(_FAILED, said, command)


class Engines:
    """A few processes that answer.

    Each starts as a copy of one that has loaded the package and read its facts, in about ten milliseconds; the first
    as soon as that one has, while the server goes on.
    """

    def __init__(self, budget: Budget, answer: Answer = answered) -> None:
        self.budget = budget
        self._start = functools.partial(_Engine, copies_of_a_loaded_process(), budget, answer)
        self._changed = threading.Condition()
        self._all: list[_Engine] = []
        self._idle: list[_Engine] = []
        self.waiting = 0
        self._closed = False
        self.ahead: Ahead | None = None
        self._starting = threading.Thread(target=self._start_all, daemon=True)
        self._starting.start()

    def _start_all(self) -> None:
        for _ in range(self.budget.engines):
            engine = self._start()
            with self._changed:
                if self._closed:
                    engine.kill()
                    return
                self._all.append(engine)
                self._idle.append(engine)
                self._changed.notify()

    def work_ahead(self, questions: Sequence[Question], answer: Answer = answered) -> None:
        """Have questions answered before anybody asks, behind everything else and without a budget.

        It waits until those that answer have started: a server calls it beside its loop.
        """
        self._starting.join()
        if not self._closed:
            self.ahead = Ahead(copies_of_a_loaded_process(), questions, answer)

    def ask(self, question: Question, heard: Progress) -> Reply | None:
        """Have a question answered; called in a thread of its visitor's."""
        if self.ahead is not None and (known := self.ahead.replies.get(question)) is not None:
            return known
        while self._starting.is_alive() and not heard.is_stopped:  # that takes none of the question's time
            self._starting.join(_LOOK_S)
        deadline_s = time.monotonic() + self.budget.time_s
        while True:
            engine = self._taken(question.page, heard, deadline_s)
            if engine is None:
                at_once = f"{self.budget.engines} are answered at once and {self.budget.waiting} may wait"
                busy = f"too many questions: {at_once}; ask again in a moment"
                return None if heard.is_stopped else failed(_BUSY, busy)
            try:
                reply = engine.ask(question, heard, deadline_s)
            finally:
                self._give_back(engine)
            # what earlier questions left in that process may have filled its memory: a fresh one is asked instead,
            # but a server that ends starts none
            if reply is None or reply.status != _FAILED or engine.is_fresh or self._closed:
                return reply

    def close(self) -> None:
        """End every process, and whatever is under way in it."""
        with self._changed:
            self._closed = True
            for engine in self._all:
                engine.kill()
            if self.ahead is not None:
                self.ahead.stop()
            self._changed.notify_all()

    def _taken(self, page: str, heard: Progress, deadline_s: float) -> _Engine | None:
        """A free process, best the last that answered this page and holds what it needs; None where none came free."""
        with self._changed:
            if self.waiting >= self.budget.waiting:
                return None
            self.waiting += 1
            try:
                while not self._idle:
                    if heard.is_stopped or self._closed or time.monotonic() > deadline_s:
                        return None
                    self._changed.wait(_LOOK_S)
            finally:
                self.waiting -= 1
            best = next((one for one in reversed(self._idle) if one.page == page), self._idle[0])
            self._idle.remove(best)
            return best

    def _give_back(self, engine: _Engine) -> None:
        with self._changed:
            if not engine.is_alive and not self._closed:
                self._all.remove(engine)
                engine = self._start()
                self._all.append(engine)
            self._idle.append(engine)
            self._changed.notify()


def prepare() -> None:
    """Start a process without a budget that compiles the simulator, where this machine has not done so yet."""
    copies_of_a_loaded_process().Process(target=_compile_ahead, daemon=True).start()


def _compile_ahead() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    compile_ahead()


def _work(pipe: Connection, answer: Answer, budget: Budget) -> None:
    """Answer questions until the pipe ends. The main thread works; another listens to the server."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the server's
    _limit_memory(budget.memory_bytes)
    asked: queue.SimpleQueue[tuple[int, Question, Progress]] = queue.SimpleQueue()
    sending = threading.Lock()

    def send(number: int, found: Reply | _Said | None) -> None:
        with sending:
            pipe.send((number, found))

    threading.Thread(target=_listen, args=(pipe, asked, send, budget.turn_s), daemon=True).start()
    while True:
        number, question, heard = asked.get()
        with listening(heard):
            try:
                found = answer(question)
            except StoppedError:
                found = None
                send(number, _said(heard))
        heard.is_stopped = True
        send(number, found)


def _listen(
    pipe: Connection, asked: queue.SimpleQueue[tuple[int, Question, Progress]], send: Send, turn_s: float
) -> None:
    """Hear questions and that their visitors have gone, and say how far the work is."""
    number, heard, said = 0, Progress(), _Said(0, 0, "", "")
    heard.is_stopped = True
    try:
        while True:
            if pipe.poll(_SAY_S):
                number, question = pipe.recv()
                if question is None:
                    heard.is_stopped = True
                else:
                    heard = Progress(most_s=turn_s if question.goes_on else math.inf)
                    asked.put((number, question, heard))
            now = _said(heard)
            if not heard.is_stopped and now != said:
                send(number, now)
                said = now
    except (EOFError, OSError):  # the server has gone: whatever the main thread does ends with it
        os._exit(0)


def _limit_memory(memory_bytes: int) -> None:
    """Let this process hold this much more than it does, on systems that can say and limit it."""
    try:
        import resource

        status = Path("/proc/self/status").read_text("ascii")
    except (ImportError, OSError):
        return
    held_bytes = next(int(line.split()[1]) * int(KIB) for line in status.splitlines() if line.startswith("VmData:"))
    resource.setrlimit(resource.RLIMIT_DATA, (held_bytes + memory_bytes,) * 2)
