"""The command ``mcp``."""

from __future__ import annotations

import gc

import click

from computeledger.errors import InputError


@click.command()
@click.option("--port", type=int, metavar="PORT", help="Serve over HTTP at 127.0.0.1:PORT/mcp in place of "
              "standard input and output.")  # fmt: skip
@click.option("--files", "has_files", is_flag=True, help="Let arguments name files of this machine, to be read.")
def mcp(port: int | None, has_files: bool) -> None:
    """Every question as a tool of an assistant, over the Model Context Protocol."""
    if port is not None and not 1 <= port <= 65535:
        raise InputError(f"--port {port}: from 1 to 65535")
    gc.disable()  # what is loaded stays: collections between would take a fifth of the start
    try:
        import mcp as _  # noqa: F401 - absent without the extra, and then said plainly
    except ImportError:
        raise InputError("assistants need the package mcp: pip install 'computeledger[mcp]'") from None
    from computeledger.interfaces.mcp.server import run_http, run_stdio

    gc.freeze()
    gc.enable()
    if port is None:
        run_stdio(has_files=has_files)
        return
    said = f"http://127.0.0.1:{port}/mcp; Ctrl-C ends it"
    run_http(port, has_files=has_files, begun=lambda: click.echo(said, err=True))
