"""The loop of ``computeledger watch``: fetch, compare, write down, show; until it is told to stop."""

from __future__ import annotations

import asyncio
import datetime
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from computeledger.actuals.live.endpoint import Address, fetch, new_client
from computeledger.actuals.live.names import COUNTER, HISTOGRAM, KINDS
from computeledger.actuals.live.scrape import Scrape, read_scrape
from computeledger.actuals.run_ledger import LedgerWriter
from computeledger.errors import InputError, shown
from computeledger.questions.answers.watch.answer import WatchAnswer, answer_watch
from computeledger.questions.answers.watch.session import Endpoint, Session

#: Fetches the text of an address's metrics.
Fetch = Callable[[Address], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class Clock:
    """What time it is and how to wait: of this machine, or of a test.

    Attributes
    ----------
    now_s : Callable
        Time on a clock that never goes back [s].
    wait : Callable
        Waits so many seconds.
    """

    now_s: Callable[[], float] = time.monotonic
    wait: Callable[[float], None] = time.sleep


@dataclass(frozen=True, slots=True)
class Watch:
    """A session with what it is fed by and what it feeds."""

    session: Session
    fetch: Fetch
    runner: asyncio.Runner
    clock: Clock = field(default_factory=Clock)
    ledger: LedgerWriter | None = None

    def step(self) -> WatchAnswer | None:
        """One scrape of every address; None while none has answered yet."""
        taken = self.runner.run(self._fetched())
        session = self.session
        had = None if session.server is None else session.server.scrapes
        for one, got in zip(session.watched, taken, strict=True):
            if isinstance(got, Scrape):
                one.take(got)
            else:
                one.fail(str(got))
        session.look(self.clock.now_s())
        server = session.server
        if self.ledger is not None and server is not None and server.scrapes != had and server.window is not None:
            since = datetime.timedelta(seconds=server.window.duration_s)
            entry = session.entry(datetime.datetime.now(datetime.UTC) - since)
            if entry is not None:
                self.ledger.append(entry)
        return answer_watch(session) if any(one.window is not None for one in session.watched) else None

    def again_in_s(self, began_s: float) -> float:
        """Time until the next scrape is due [s]."""
        return max(self.session.question.every - (self.clock.now_s() - began_s), 0.0)

    async def _fetched(self) -> list[Scrape | InputError]:
        return list(await asyncio.gather(*(self._scrape(one.address) for one in self.session.watched)))

    async def _scrape(self, address: Address) -> Scrape | InputError:
        began_s = self.clock.now_s()
        try:
            text = await self.fetch(address)
            return read_scrape(text, (began_s + self.clock.now_s()) / 2)
        except InputError as error:
            return error


def steps(
    watch: Watch, most: int | None, silent: Callable[[Sequence[Endpoint]], None] | None = None
) -> Iterator[WatchAnswer]:
    """Scrape until there were so many, or for ever; an interrupt ends it. Whom nobody answered yet is told."""
    done = 0
    try:
        while most is None or done < most:
            began_s = watch.clock.now_s()
            answer = watch.step()
            done += 1
            if answer is not None:
                yield answer
            elif silent is not None:
                silent([one.endpoint for one in watch.session.watched])
            if most is None or done < most:
                watch.clock.wait(watch.again_in_s(began_s))
    except KeyboardInterrupt:
        return


def once(watch: Watch) -> WatchAnswer:
    """The answer of two scrapes, or of one where nothing counts up; an address that is silent then is an error."""
    answer = watch.step()
    if answer is None:
        return answer_watch(watch.session)  # says why
    if any(_counts(one.last) for one in watch.session.watched if one.last is not None):
        watch.clock.wait(watch.session.question.every)
        answer = watch.step() or answer
    return answer


def _counts(scrape: Scrape) -> bool:
    """Whether a scrape has anything but levels."""
    engine = scrape.engine
    if engine is None:
        return False
    of_time = {quantity for quantity, kind in KINDS.items() if kind in (COUNTER, HISTOGRAM)}
    names = [name for quantity, all_of_it in engine.names.items() if quantity in of_time for name in all_of_it]
    return any(name in scrape.samples or f"{name}_count" in scrape.samples for name in names)


@contextmanager
def watching(session: Session, ledger: str | None) -> Iterator[Watch]:
    """A watch of real addresses."""
    writer = None if ledger is None else _ledger(ledger)
    with asyncio.Runner() as runner:
        client: Any = runner.run(_made())

        async def get(address: Address) -> str:
            return await fetch(client, address)

        try:
            yield Watch(session, get, runner, ledger=writer)
        finally:
            runner.run(client.aclose())
            if writer is not None:
                writer.close()


async def _made() -> Any:
    return new_client()


def _ledger(path: str) -> LedgerWriter:
    """A ledger that entries are added to, which is none of another thing's files."""
    from pathlib import Path

    from computeledger.actuals.run_ledger import read_ledger

    target = Path(path)
    if not target.parent.is_dir():
        raise InputError(f"--ledger {shown(path)}: the folder {shown(str(target.parent))} does not exist")
    if target.exists():
        read_ledger(target)  # a file that is no ledger is left as it is
    return LedgerWriter(target)


def addresses_of(texts: Sequence[str]) -> list[Address]:
    """Addresses as they were given."""
    from computeledger.actuals.live.endpoint import address_of

    return [address_of(one) for one in texts]
