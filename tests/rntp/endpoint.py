"""A double of an OpenAI-compatible endpoint, on this machine's own address, through real HTTP."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

#: From what is asked, and its number, to a status and a reply: a text that the model says, or the body itself.
Says = Callable[[str, int], tuple[int, str | bytes | dict[str, Any]]]


@dataclass
class Endpoint:
    """What a double has been asked."""

    address: str = ""
    requests: list[dict[str, Any]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)


@contextmanager
def endpoint(says: Says) -> Iterator[Endpoint]:
    """Serve until the block ends."""
    found, lock = Endpoint(), threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with lock:
                number = len(found.requests)
                found.requests.append(body)
                found.paths.append(self.path)
                found.keys.append(self.headers.get("Authorization"))
            is_chat = self.path.endswith("/chat/completions")
            asked = body["messages"][-1]["content"] if is_chat else body["prompt"]
            status, reply = says(asked, number)
            if isinstance(reply, str):
                said = {"message": {"role": "assistant", "content": reply}} if is_chat else {"text": reply}
                usage = {"prompt_tokens": len(asked.split()), "completion_tokens": len(reply.split())}
                reply = {"object": "chat.completion", "choices": [{"index": 0, **said}], "usage": usage}
            sent = reply if isinstance(reply, bytes) else json.dumps(reply).encode()
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("Location", "http://127.0.0.1:9/elsewhere")
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(sent)))
            self.end_headers()
            with suppress(ConnectionError):  # who asked may be gone
                self.wfile.write(sent)

        def log_message(self, *given: Any) -> None:
            """Nothing on standard error."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    found.address = f"http://127.0.0.1:{server.server_port}/v1"
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
