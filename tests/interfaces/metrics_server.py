"""A server of metrics for tests: it answers as it is told, well or badly, and counts who asks."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

#: Answers one connection, after its request was read.
Answer = Callable[[socket.socket], None]


def text(body: str, status: str = "200 OK", **headers: str) -> Answer:
    """A whole answer."""
    data = body.encode()
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(data)}", "Connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return lambda one: one.sendall("\r\n".join([*lines, "", ""]).encode() + data)


def drip(first: bytes, part: bytes, stop: threading.Event) -> Answer:
    """An answer that never ends: a part every 20 ms, or as fast as it goes where the part is large."""

    def answer(one: socket.socket) -> None:
        one.sendall(first)
        while not stop.wait(0.0 if len(part) > 1000 else 0.02):
            one.sendall(part)

    return answer


def silence(stop: threading.Event) -> Answer:
    """No answer at all, while the connection stands."""
    return lambda _one: (stop.wait(5.0), None)[1]


@dataclass
class MetricsServer:
    """The answers to come, the last for ever, and how often somebody asked."""

    port: int
    answers: list[Answer] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/metrics"

    def serve(self, listening: socket.socket) -> None:
        while not self.stop.is_set():
            try:
                one, _ = listening.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(one,), daemon=True).start()

    def _answer(self, one: socket.socket) -> None:
        with one, contextlib.suppress(OSError):
            asked = b""
            while b"\r\n\r\n" not in asked:
                part = one.recv(65536)
                if not part:
                    return
                asked += part
            self.asked.append(asked.split(b" ", 2)[1].decode())
            answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
            answer(one)


@contextlib.contextmanager
def metrics_server(*answers: Answer) -> Iterator[MetricsServer]:
    """A server on a free port of this machine."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = MetricsServer(listening.getsockname()[1], list(answers))
        thread = threading.Thread(target=server.serve, args=(listening,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.stop.set()
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()
