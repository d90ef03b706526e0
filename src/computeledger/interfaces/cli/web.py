"""The command ``web``."""

from __future__ import annotations

import click

from computeledger.errors import InputError
from computeledger.interfaces.options import COUNT

_MOST_WORKERS = 64
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


@click.command()
@click.option("--port", default=8765, show_default=True, help="Port to listen on; 0 takes a free one.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on; others than this machine's "
              "own need a token.")  # fmt: skip
@click.option("--token", metavar="WORD", help="What visitors from elsewhere must know; made up when left out.")
@click.option(
    "--workers", type=COUNT, metavar="N", help="Processes that answer; as many as cores, 4 at most, when left out."
)
@click.option("--no-browser", is_flag=True, help="Do not open the browser.")
def web(port: int, host: str, token: str | None, workers: int | None, no_browser: bool) -> None:
    """The app in the browser: pages that answer while you drag; nothing leaves this machine."""
    if not 0 <= port <= 65535:
        raise InputError(f"--port {port}: from 0 to 65535")
    if workers is not None and not 1 <= workers <= _MOST_WORKERS:
        raise InputError(f"--workers {workers}: from 1 to {_MOST_WORKERS}")
    try:
        import fastapi  # noqa: F401 - absent without the extra, and then said plainly
        import uvicorn  # noqa: F401
    except ImportError:
        raise InputError("the app needs fastapi and uvicorn: pip install 'computeledger[web]'") from None
    import os
    import secrets

    from computeledger.interfaces.web.copies import copies_of_a_loaded_process

    copies_of_a_loaded_process()  # begun here, it loads while this process loads the server
    from computeledger.interfaces.web.serve import MOST_WORKERS, run

    if host in _LOOPBACK:
        if token is not None:
            raise InputError("--token: only with --host; this machine alone is served without one")
    else:
        token = token or secrets.token_urlsafe(16)
        click.echo(f"warning: {host} can be reached by others; whoever has the token can ask this app", err=True)
    run(host, port, token, workers or min(os.cpu_count() or 1, MOST_WORKERS), not no_browser)
