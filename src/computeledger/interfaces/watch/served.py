"""The small server of ``computeledger watch``: a page for people and metrics for programs, on this machine alone."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from importlib import import_module
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from computeledger.errors import InputError
from computeledger.interfaces.watch.exposition import Collector
from computeledger.interfaces.watch.page import Board

#: Seconds that a visitor may take to say what is wanted.
_PATIENCE_S = 10.0
_HERE = ("127.0.0.1", "localhost")
Start = Callable[[str, list[tuple[str, str]]], Any]
App = Callable[[dict[str, Any], Start], Iterable[bytes]]


class _Server(ThreadingMixIn, WSGIServer):
    """A thread for each visitor."""

    daemon_threads = True


class _Handler(WSGIRequestHandler):
    timeout = _PATIENCE_S

    def log_message(self, *_: object) -> None:
        """Say nothing: the terminal shows the server that is watched."""


def application(board: Board) -> App:
    """The page at ``/``, what is new of it at ``/now``, metrics at ``/metrics``; other hosts' names are refused."""
    client = import_module("prometheus_client")
    registry = client.CollectorRegistry()
    registry.register(Collector(board))
    metrics = client.make_wsgi_app(registry)
    pages = {"/": True, "/now": False}

    def app(environ: dict[str, Any], start: Start) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        if environ.get("HTTP_HOST", "").rpartition(":")[0] not in _HERE:
            return _plain(start, "403 Forbidden", "only for this machine, by its own name")
        if path == "/metrics":
            said: Iterable[bytes] = metrics(environ, start)
            return said
        if path not in pages or environ.get("REQUEST_METHOD") != "GET":
            return _plain(start, "404 Not Found", "the page is at /, metrics are at /metrics")
        body = board.page(is_whole=pages[path]).encode()
        start("200 OK", [("Content-Type", "text/html; charset=utf-8"), ("Cache-Control", "no-store")])
        return [body]

    return app


def _plain(start: Start, status: str, text: str) -> list[bytes]:
    start(status, [("Content-Type", "text/plain; charset=utf-8")])
    return [f"{text}\n".encode()]


def serve_board(board: Board, port: int) -> tuple[int, Callable[[], None]]:
    """Serve a board at ``http://127.0.0.1:PORT/``, or at a free port for 0; gives the port, and how to stop."""
    try:
        server = make_server("127.0.0.1", port, application(board), _Server, _Handler)
    except OSError as error:
        raise InputError(f"--serve {port}: {(error.strerror or 'cannot be listened on').lower()}") from None
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()

    def stop() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return server.server_port, stop
