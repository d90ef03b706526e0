"""Running the application: a socket, a server, and the browser when it is ready."""

from __future__ import annotations

import os
import socket
import sys
import threading
import webbrowser

import uvicorn
from fastapi import FastAPI

from computeledger.errors import InputError
from computeledger.interfaces.web.app import create_app

#: Tells processes that answer the token; a command line would show it to every user of the machine.
_TOKEN = "COMPUTELEDGER_WEB_TOKEN"  # noqa: S105 - the variable's name
#: More processes than this bring nothing to people who drag.
MOST_WORKERS = 4
#: Visitors who may wait until the server has started.
_WAITING = 128


def app() -> FastAPI:
    """The application as each answering process makes it."""
    return create_app(os.environ.get(_TOKEN))


def run(host: str, port: int, token: str | None, workers: int, is_browser_wanted: bool) -> None:
    """Serve until interrupted.

    Parameters
    ----------
    host : str
        Address to listen on.
    port : int
        Port [-]; 0 takes a free one.
    token : str or None
        What visitors must know.
    workers : int
        Processes that answer [-].
    is_browser_wanted : bool
        Whether to open the user's browser.

    Raises
    ------
    InputError
        Where the address or port cannot be had.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(_WAITING)
    except (OSError, UnicodeError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise InputError(f"--host {host} --port {port}: cannot listen there ({reason}); try another --port") from None
    name = f"[{host}]" if ":" in host else host
    address = f"http://{name}:{listener.getsockname()[1]}/{f'?token={token}' if token else ''}"
    # who opens the address now waits for the server, and is not turned away
    sys.stdout.write(f"Compute Ledger: {address}\nCtrl-C ends it\n")
    sys.stdout.flush()
    if token is not None:
        os.environ[_TOKEN] = token
    if is_browser_wanted:
        threading.Timer(0.5, webbrowser.open, (address,)).start()
    uvicorn.run(
        f"{__name__}:app", factory=True, workers=workers, fd=listener.fileno(), log_level="warning", access_log=False
    )
