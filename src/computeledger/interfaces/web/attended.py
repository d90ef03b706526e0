"""A visitor who waits: a long answer says how far it is, and work ends when its visitor has gone."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable

from fastapi import Request, Response
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from computeledger.interfaces.web.answers import Reply
from computeledger.progress import Progress

#: What a page accepts that shows how far an answer is: a JSON document per line, the answer in the last.
LINES = "application/x-ndjson"
#: Work is long from here on, and a line comes as often [s].
LONG_S, EVERY_S = 0.4, 0.15
#: The reader has gone; nobody sees it.
_GONE = Reply(499, b"")
Task = asyncio.Task[Reply | None]


async def attended(work: Callable[[Progress], Reply | None], request: Request) -> Response:
    """Run work in a thread while its reader waits."""
    heard = Progress()
    task = asyncio.create_task(run_in_threadpool(work, heard))
    gone = asyncio.create_task(_left(request, heard))
    is_streamed = LINES in request.headers.get("accept", "")
    try:
        await asyncio.wait({task, gone}, timeout=LONG_S if is_streamed else None, return_when=asyncio.FIRST_COMPLETED)
        if not task.done() and not gone.done():
            return StreamingResponse(_lines(task, gone, heard), media_type=LINES)
        reply = await task or _GONE
    except asyncio.CancelledError:
        heard.is_stopped = True
        raise
    gone.cancel()
    return Response(reply.body, reply.status, media_type=reply.media)


async def _left(request: Request, heard: Progress) -> None:
    """Until the reader goes; the work is told then."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
    heard.is_stopped = True


def _line(heard: Progress) -> bytes:
    """How far the work is, as a line."""
    return json.dumps({"done": heard.done, "total": heard.total, "what": heard.what}).encode() + b"\n"


async def _lines(task: Task, gone: asyncio.Task[None], heard: Progress) -> AsyncIterator[bytes]:
    """How far the work is, again and again, then its reply."""
    try:
        while not task.done():
            yield _line(heard)
            await asyncio.wait({task}, timeout=EVERY_S)
        yield _line(heard)  # as far as it has come: a question of parts goes on behind them
        if (reply := task.result()) is not None:
            yield b'{"status":%d,"body":%b}\n' % (reply.status, reply.body)
    finally:
        heard.is_stopped = True
        gone.cancel()
