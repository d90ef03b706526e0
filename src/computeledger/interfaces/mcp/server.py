"""A server of the Model Context Protocol over standard input and output, or over HTTP on this machine alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from importlib.metadata import version
from typing import Any

import anyio
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError

from computeledger.errors import ComputeLedgerError, InputError
from computeledger.progress import Progress, StoppedError, listening

# Tools and resources load with the first question about them: an assistant that starts this process is answered before.
#: Calls that are worked out at once; others wait their turn.
AT_ONCE = 2
#: How often a client that wants to know is told how far a call is [s].
TELLS_S = 1.0
_INSTRUCTIONS = """Compute Ledger answers what a language model costs to train, tune and serve, in GPU-time and money,
with 90 % intervals and sources. Quantities may be texts with a unit ("50ms", "$2/h", "15T") or ranges
("10M..100M": a 90 % interval); a bare number is in the SI unit that its description names (30 is 30 s, not 30 ms).
Ask `guide` in plain words when unsure which tool answers; give `working` for formulas,
inputs and sources. Quote intervals with the figures."""

_Context = ServerRequestContext[Any, Any]


def server(*, has_files: bool = False) -> Server[Any]:
    """The server, with every question as a tool and every fact as a resource.

    Parameters
    ----------
    has_files : bool
        Whether arguments may name files of this machine, to be read.

    Returns
    -------
    Server
        Of the official SDK; not yet running.

    Examples
    --------
    >>> "Quote intervals" in (server().instructions or "")
    True
    """
    turn = anyio.Semaphore(AT_ONCE)

    async def call_tool(context: _Context, asked: types.CallToolRequestParams) -> types.CallToolResult:
        token = (context.meta or {}).get("progress_token")
        tell = None if token is None else partial(context.session.send_progress_notification, token)
        async with turn:
            try:
                document, text = await _in_thread(asked.name, asked.arguments or {}, has_files, tell)
            except ComputeLedgerError as error:
                return types.CallToolResult(content=[types.TextContent(text=str(error))], is_error=True)
        return types.CallToolResult(content=[types.TextContent(text=text)], structured_content=document)

    return Server(
        "computeledger",
        version=version("computeledger"),
        title="Compute Ledger",
        instructions=_INSTRUCTIONS,
        on_list_tools=_list_tools,
        on_call_tool=call_tool,
        on_list_resources=_list_resources,
        on_list_resource_templates=_list_templates,
        on_read_resource=_read_resource,
    )


async def _in_thread(name: str, given: Mapping[str, Any], has_files: bool, tell: Any) -> tuple[dict[str, Any], str]:
    """Work an answer out in a thread; who stops waiting stops the work."""
    progress = Progress()

    def work() -> tuple[dict[str, Any], str] | ComputeLedgerError:
        from computeledger.interfaces.mcp.tools import call

        with listening(progress):
            try:
                document, text = call(name, given, has_files=has_files)
            except StoppedError:
                return InputError(f"{name}: stopped")
            except ComputeLedgerError as error:
                return error
            return json.loads(json.dumps(document, default=float, allow_nan=False)), text

    async with anyio.create_task_group() as group:
        if tell is not None:
            group.start_soon(_report_progress, progress, tell)
        try:
            found = await anyio.to_thread.run_sync(work, abandon_on_cancel=True)
        finally:
            progress.is_stopped = True
            group.cancel_scope.cancel()
    if isinstance(found, ComputeLedgerError):
        raise found
    return found


async def _report_progress(progress: Progress, tell: Any) -> None:
    said = -1
    while True:
        await anyio.sleep(TELLS_S)
        if progress.done > said:
            said = progress.done
            await tell(float(said), float(progress.total) or None, progress.what or None)


async def _list_tools(context: _Context, asked: types.PaginatedRequestParams | None) -> types.ListToolsResult:  # noqa: ARG001
    from computeledger.interfaces.mcp.tools import tools

    reads = types.ToolAnnotations(read_only_hint=True, open_world_hint=False)
    return types.ListToolsResult(
        tools=[
            types.Tool(name=one.name, description=one.description, input_schema=dict(one.schema), annotations=reads)
            for one in tools().values()
        ]
    )


async def _list_resources(context: _Context, asked: types.PaginatedRequestParams | None) -> types.ListResourcesResult:  # noqa: ARG001
    from computeledger.interfaces.mcp import resources

    return types.ListResourcesResult(
        resources=[
            types.Resource(name=id_, uri=resources.address_of(one.name, id_), mime_type="application/json")
            for one in resources.kinds().values()
            for id_ in one.ids()
        ]
    )


async def _list_templates(
    context: _Context,  # noqa: ARG001
    asked: types.PaginatedRequestParams | None,  # noqa: ARG001
) -> types.ListResourceTemplatesResult:
    from computeledger.interfaces.mcp import resources

    return types.ListResourceTemplatesResult(
        resource_templates=[
            types.ResourceTemplate(
                name=one.name, uri_template=f"computeledger://{one.name}/{{id}}", description=one.description,
                mime_type="application/json",
            )
            for one in resources.kinds().values()
        ]
    )  # fmt: skip


async def _read_resource(context: _Context, asked: types.ReadResourceRequestParams) -> types.ReadResourceResult:  # noqa: ARG001
    from computeledger.interfaces.mcp import resources

    uri = str(asked.uri)
    try:
        text = await anyio.to_thread.run_sync(resources.read, uri)
    except ComputeLedgerError as error:
        raise MCPError(types.INVALID_PARAMS, str(error)) from None
    contents = types.TextResourceContents(uri=uri, mime_type="application/json", text=text)
    return types.ReadResourceResult(contents=[contents])


def run_stdio(*, has_files: bool) -> None:
    """Serve an assistant that started this process, until it closes standard input."""

    async def serve() -> None:
        one = server(has_files=has_files)
        async with stdio_server() as (read, write):
            await one.run(read, write, one.create_initialization_options())

    anyio.run(serve)


def run_http(port: int, *, has_files: bool, begun: Callable[[], None]) -> None:
    """Serve assistants of this machine at ``http://127.0.0.1:PORT/mcp``, until it is interrupted.

    Raises
    ------
    InputError
        Where the port cannot be listened on.
    """
    import socket

    import uvicorn

    with socket.socket(proto=socket.IPPROTO_TCP) as listener:  # named, so that small answers are sent at once
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
            listener.listen()
        except OSError as error:
            raise InputError(f"--port {port}: {(error.strerror or 'cannot be listened on').lower()}") from None
        begun()
        app = server(has_files=has_files).streamable_http_app(host="127.0.0.1")
        uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listener])
