"""Workers: an executor of local processes that survives their death, and checks streamed through any executor.

A task goes to one worker. One that dies with a task is replaced, and only that task is tried again, once.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Executor, Future, wait
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any, TypeVar

from computeledger.errors import InputError, shown
from computeledger.questions.executors import cluster_client
from rntp.errors import WorkerDiedError
from rntp.verify.engine import FRESH, engine_of_thread
from rntp.verify.task import Task
from rntp.verify.verdict import INFRASTRUCTURE, Verdict, no_verdict

_T = TypeVar("_T")
#: Tries of a task whose worker or sandbox failed.
TRIES = 2
#: Tasks in hand per worker: one at work, and what keeps it from waiting for the next.
AHEAD = 4
_STOP_S = 10.0


def _work(connection: Connection, preload: Sequence[str]) -> None:
    """In a worker: answer calls until the other side closes."""
    import importlib
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C is the owner's, who closes the connection
    for name in preload:
        importlib.import_module(name)
    while True:
        try:
            function, arguments, options = connection.recv()
        except (EOFError, OSError):
            break
        try:
            answer = (True, function(*arguments, **options))
        except Exception as error:  # noqa: BLE001 - it is raised again where the answer is read
            answer = (False, error)
        try:
            connection.send(answer)
        except OSError:
            break


class _Worker:
    """A process and the connection to it."""

    def __init__(self, context: Any, preload: Sequence[str]) -> None:
        self.connection, other = context.Pipe()
        self.process = context.Process(target=_run_worker, args=(other, tuple(preload)), daemon=True)
        self.process.start()
        other.close()

    def call(self, item: tuple[Any, Any, Any]) -> tuple[bool, Any]:
        """Send one call and wait for its answer."""
        try:
            self.connection.send(item)
            answer: tuple[bool, Any] = self.connection.recv()
        except (EOFError, OSError):
            raise WorkerDiedError(f"worker {self.process.pid} died while it had a task") from None
        return answer

    def stop(self, wait_s: float) -> None:
        """Let it end; a worker that does not is killed."""
        self.connection.close()
        self.process.join(wait_s)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()


def _run_worker(connection: Connection, preload: Sequence[str]) -> None:
    """Entry of a worker; engines of all isolations end with it."""
    from rntp.verify.engine import close_engines

    try:
        _work(connection, preload)
    finally:
        close_engines()


class LocalPool(Executor):
    """Processes of this machine; the death of one fails its own task with WorkerDiedError, and no other."""

    def __init__(self, workers: int | None = None, preload: Sequence[str] = ()) -> None:
        count = len(os.sched_getaffinity(0)) if workers is None else workers
        if not 1 <= count <= 4096:
            raise InputError(f"workers {shown(workers)}: from 1 to 4096 are needed")
        self.workers, self.preload = count, tuple(preload)
        self._context = multiprocessing.get_context("forkserver")
        self._queue: queue.SimpleQueue[tuple[Future[Any], Any] | None] = queue.SimpleQueue()
        self._living: dict[int, _Worker] = {}
        self._closed = False
        self._threads = [threading.Thread(target=self._serve, args=(n,), daemon=True) for n in range(count)]
        for thread in self._threads:
            thread.start()

    def processes(self) -> list[int]:
        """Process ids of the workers that run."""
        return [worker.process.pid for worker in list(self._living.values()) if worker.process.pid is not None]

    def submit(self, fn: Callable[..., _T], /, *args: Any, **kwargs: Any) -> Future[_T]:
        """Hand a call to the next free worker."""
        if self._closed:
            raise RuntimeError("the pool is closed")
        future: Future[_T] = Future()
        self._queue.put((future, (fn, args, kwargs)))
        return future

    def _serve(self, number: int) -> None:
        """One worker's thread: keep it alive, hand it work."""
        worker: _Worker | None = None
        while (item := self._queue.get()) is not None:
            future, call = item
            if not future.set_running_or_notify_cancel():
                continue
            try:
                if worker is None:
                    worker = self._living[number] = _Worker(self._context, self.preload)
                good, answer = worker.call(call)
            except WorkerDiedError as error:
                future.set_exception(error)
                if worker is not None:
                    worker.stop(_STOP_S)
                worker = None
                self._living.pop(number, None)
                continue
            except Exception as error:  # noqa: BLE001 - a call that cannot be sent is the caller's to see
                future.set_exception(error)
                continue
            if good:
                future.set_result(answer)
            else:
                future.set_exception(answer)
        if worker is not None:
            worker.stop(_STOP_S)
            self._living.pop(number, None)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Stop: what is queued is done or cancelled, then the workers end."""
        self._closed = True
        while cancel_futures:
            try:
                item = self._queue.get_nowait()
            except queue.Empty:
                break
            if item is not None:
                item[0].cancel()
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads if wait else ():
            thread.join()


@contextlib.contextmanager
def executor_for(
    cluster: str | None = None, workers: int | None = None, preload: Sequence[str] = ()
) -> Iterator[Executor]:
    """Open an executor: local processes, or a Dask cluster.

    Examples
    --------
    >>> with executor_for(workers=1) as executor:
    ...     executor.submit(pow, 2, 5).result()
    32
    """
    if cluster is None:
        pool = LocalPool(workers, preload)
        try:
            yield pool
        finally:
            pool.shutdown(cancel_futures=True)
        return
    with cluster_client(cluster) as client:
        # a check is never repeated behind our back, and never answered from an earlier one
        yield client.get_executor(retries=0, pure=False)


@dataclass(frozen=True, slots=True)
class Record:
    """One check, as the ledger keeps it."""

    place: int
    task: Task
    verdict: Verdict
    queue_s: float = 0.0
    tries: int = 1


def check(task: Task, completion: str, isolation: str = FRESH) -> tuple[Verdict, float]:
    """Check one completion in a worker.

    Examples
    --------
    >>> check(Task("1", "text", {"answer": " fox"}), " fox")[0].score
    1.0
    """
    begun = time.time()
    return engine_of_thread(isolation).verify(task, completion), begun


@dataclass(frozen=True, slots=True)
class Plan:
    """How checks are streamed.

    Attributes
    ----------
    isolation : str
        ``fresh`` or ``warm``.
    in_hand : int
        Checks handed over and not yet answered, at most.
    ordered : bool
        Whether records come in the order of the input; else as they are done.
    stop : threading.Event
        When set, nothing more is handed over, and what is in hand is still answered.
    """

    isolation: str = FRESH
    in_hand: int = 64
    ordered: bool = False
    stop: threading.Event = field(default_factory=threading.Event)


@dataclass(frozen=True, slots=True)
class _Item:
    """A check on its way."""

    place: int
    task: Task
    completion: str
    given: float
    tries: int = 1


def stream(items: Iterable[tuple[Task, str]], executor: Executor, plan: Plan | None = None) -> Iterator[Record]:
    """Check completions through an executor; every item has exactly one record.

    The input is read as workers become free, so that a file of any length needs little memory. A check whose worker or
    sandbox failed is tried once more; after that it is an infrastructure failure. Bad input raises.

    Examples
    --------
    >>> from concurrent.futures import ThreadPoolExecutor
    >>> task = Task("1", "text", {"answer": " fox"})
    >>> with ThreadPoolExecutor(1) as threads:
    ...     [record.verdict.score for record in stream([(task, " fox"), (task, " dog")], threads, Plan(ordered=True))]
    [1.0, 0.0]
    """
    how = plan or Plan()
    if how.in_hand < 1:
        raise InputError(f"in_hand {how.in_hand}: at least 1 is needed")
    waiting: dict[Future[tuple[Verdict, float]], _Item] = {}
    ready: dict[int, Record] = {}
    source, next_place, exhausted = enumerate(items), 0, False

    def hand_over(item: _Item) -> None:
        waiting[executor.submit(check, item.task, item.completion, how.isolation)] = item

    try:
        while waiting or not exhausted:
            # in order, what is done and not yet due counts as in hand: one slow check must not fill the memory
            while not exhausted and not how.stop.is_set() and len(waiting) + len(ready) < how.in_hand:
                found = next(source, None)
                if found is None:
                    exhausted = True
                    break
                hand_over(_Item(found[0], *found[1], given=time.time()))
            exhausted |= how.stop.is_set()
            for future in wait(waiting, return_when=FIRST_COMPLETED).done if waiting else ():
                item = waiting.pop(future)
                record = _record(future, item)
                if record is None:
                    hand_over(_Item(item.place, item.task, item.completion, time.time(), item.tries + 1))
                elif how.ordered:
                    ready[item.place] = record
                else:
                    yield record
            while next_place in ready:
                yield ready.pop(next_place)
                next_place += 1
    finally:
        for future in waiting:
            future.cancel()


def _record(future: Future[tuple[Verdict, float]], item: _Item) -> Record | None:
    """The record of a finished check; None where it is to be tried again."""
    try:
        made, begun = future.result()
    except InputError:
        raise
    except (Exception, CancelledError) as error:  # noqa: BLE001 - each executor has errors of its own for a lost worker
        made, begun = no_verdict(str(error) or type(error).__name__), item.given
    if made.status == INFRASTRUCTURE and item.tries < TRIES:
        return None
    return Record(item.place, item.task, made, max(0.0, begun - item.given), item.tries)
