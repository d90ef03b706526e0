"""Work that somebody waits for: it says how far it is while it is long, and ends when nobody waits any more."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable

from fastapi import Request, Response
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from computeledger.progress import Progress, StoppedError, listening

#: What a page accepts that shows how far an answer is: a JSON document per line, the answer in the last.
LINES = "application/x-ndjson"
#: Work is long from here on, and a line comes as often [s].
LONG_S, EVERY_S = 0.4, 0.15
#: The reader has gone; nobody sees it.
_GONE = 499
Task = asyncio.Task[Response | None]


async def attended(work: Callable[[], Response], request: Request) -> Response:
    """Run work in a thread while its reader waits.

    Parameters
    ----------
    work : callable
        Makes the response; its loops are counted.
    request : Request
        Of the reader.

    Returns
    -------
    Response
        That of the work, or a stream of lines where it is long and the reader takes them.
    """
    heard = Progress()
    task = asyncio.create_task(run_in_threadpool(_worked, work, heard))
    gone = asyncio.create_task(_left(request, heard))
    is_streamed = LINES in request.headers.get("accept", "")
    try:
        await asyncio.wait({task, gone}, timeout=LONG_S if is_streamed else None, return_when=asyncio.FIRST_COMPLETED)
        if not task.done() and not gone.done():
            return StreamingResponse(_lines(task, gone, heard), media_type=LINES)
        found = await task
    except asyncio.CancelledError:
        heard.is_stopped = True
        raise
    gone.cancel()
    return found or Response(status_code=_GONE)


async def _left(request: Request, heard: Progress) -> None:
    """Until the reader goes; the work is told then."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
    heard.is_stopped = True


def _worked(work: Callable[[], Response], heard: Progress) -> Response | None:
    with listening(heard):
        try:
            return work()
        except StoppedError:
            return None


async def _lines(task: Task, gone: asyncio.Task[None], heard: Progress) -> AsyncIterator[bytes]:
    """How far the work is, again and again, then its response."""
    try:
        while not task.done():
            yield json.dumps({"done": heard.done, "total": heard.total, "what": heard.what}).encode() + b"\n"
            await asyncio.wait({task}, timeout=EVERY_S)
        if (found := task.result()) is not None:
            yield b'{"status":%d,"body":%b}\n' % (found.status_code, bytes(found.body))
    finally:
        heard.is_stopped = True
        gone.cancel()
