"""Running the application: a socket, a server, processes that answer, and the browser when it is ready."""

from __future__ import annotations

import asyncio
import socket
import sys
import threading
import webbrowser
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from computeledger.errors import InputError
from computeledger.interfaces.web.app import create_app
from computeledger.interfaces.web.engines import Budget, Engines, prepare
from computeledger.interfaces.web.start import asked_first

#: More processes than this bring nothing to people who drag.
MOST_WORKERS = 4
#: A connection on which no whole request has come for so long is dropped [s].
_SILENT_S = 10.0
#: Connections at once; beyond them the server says that it is busy.
_CONNECTIONS = 256
#: Most time that answers under way have to be sent once the server ends [s]: on a busy machine they take some.
_LAST_ANSWERS_S = 5


class _Protocol(H11Protocol):
    """Drops connections that are held open without asking anything."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.loop.call_later(_SILENT_S, self._drop_if_silent, self.cycle)

    def _drop_if_silent(self, before: Any) -> None:
        """Close where no request has begun since the last look; look again while the connection lasts."""
        if self.transport.is_closing():
            return
        is_answered = before is None or before.response_complete
        if is_answered and self.cycle is before:
            self.transport.close()
        else:
            self.loop.call_later(_SILENT_S, self._drop_if_silent, self.cycle)


class _Server(uvicorn.Server):
    """Says where it listens once it does, and ends what is under way when it ends."""

    def __init__(self, config: uvicorn.Config, engines: Engines, address: str, is_browser_wanted: bool) -> None:
        super().__init__(config)
        self._engines, self._address, self._is_browser_wanted = engines, address, is_browser_wanted

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        sys.stdout.write(f"Compute Ledger: {self._address}\nCtrl-C ends it\n")
        sys.stdout.flush()
        threading.Thread(target=self._prepare, daemon=True).start()
        if self._is_browser_wanted:
            threading.Thread(target=webbrowser.open, args=(self._address,), daemon=True).start()

    def _prepare(self) -> None:
        """Start what works behind the questions; it waits for those that answer, as nobody else has to."""
        self._engines.work_ahead(asked_first())
        prepare()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._engines.close()
        await super().shutdown(sockets)


def run(host: str, port: int, token: str | None, workers: int, is_browser_wanted: bool) -> None:
    """Serve until interrupted."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sends small answers at once only where the protocol is named: 40 ms sooner each
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except (OSError, UnicodeError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise InputError(f"--host {host} --port {port}: cannot listen there ({reason}); try another --port") from None
    name = f"[{host}]" if ":" in host else host
    address = f"http://{name}:{listener.getsockname()[1]}/{f'?token={token}' if token else ''}"
    engines = Engines(Budget(engines=workers))
    config = uvicorn.Config(
        create_app(token, engines.ask), http=_Protocol, ws="none", lifespan="off", log_level="error", access_log=False,
        limit_concurrency=_CONNECTIONS, timeout_graceful_shutdown=_LAST_ANSWERS_S,
    )  # fmt: skip
    _Server(config, engines, address, is_browser_wanted).run([listener])
