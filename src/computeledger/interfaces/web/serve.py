"""Running the application: a socket, a server, and the browser when it is ready."""

from __future__ import annotations

import socket
import sys
import threading
import webbrowser

import uvicorn

from computeledger.errors import InputError
from computeledger.interfaces.web.app import create_app


def run(host: str, port: int, token: str | None, is_browser_wanted: bool) -> None:
    """Serve until interrupted.

    Parameters
    ----------
    host : str
        Address to listen on.
    port : int
        Port [-]; 0 takes a free one.
    token : str or None
        What visitors must know.
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
    except (OSError, UnicodeError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise InputError(f"--host {host} --port {port}: cannot listen there ({reason}); try another --port") from None
    name = f"[{host}]" if ":" in host else host
    address = f"http://{name}:{listener.getsockname()[1]}/{f'?token={token}' if token else ''}"
    sys.stdout.write(f"Compute Ledger: {address}\nCtrl-C ends it\n")
    sys.stdout.flush()
    server = uvicorn.Server(uvicorn.Config(create_app(token), log_level="warning", access_log=False))
    if is_browser_wanted:
        threading.Timer(0.5, webbrowser.open, (address,)).start()
    server.run(sockets=[listener])
