"""Firefox without a driver: its own remote protocol (Marionette), as messages of JSON with their length before them."""

from __future__ import annotations

import itertools
import json
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

NAME = next((name for name in ("firefox-esr", "firefox") if shutil.which(name)), "")
_START_S = 60


class Firefox:
    """One window of one Firefox."""

    def __init__(self, port: int) -> None:
        self._socket = _connected(port)
        self._file = self._socket.makefile("rb")
        self._numbers = itertools.count(1)
        self._received()  # who is there
        self.ask("WebDriver:NewSession", {"capabilities": {"alwaysMatch": {"pageLoadStrategy": "eager"}}})
        self.ask("WebDriver:SetTimeouts", {"script": 60_000, "pageLoad": 60_000})

    def ask(self, command: str, given: dict[str, Any]) -> Any:
        """Send a command and wait for its answer."""
        body = json.dumps([0, next(self._numbers), command, given])
        self._socket.sendall(f"{len(body.encode())}:{body}".encode())
        _, _, error, result = self._received()
        if error is not None:
            raise RuntimeError(f"{command}: {error['message']}")
        return result

    def go(self, address: str, width: int) -> None:
        """Open an address in a window of a width, and wait for the first answer and all plots that are not folded."""
        self.ask("WebDriver:SetWindowRect", {"width": width, "height": 900})
        self.ask("WebDriver:Navigate", {"url": address})
        self.run("""const root = document.documentElement;
          const whole = () => root.dataset.shown !== undefined && root.dataset.asking === undefined
            && [...document.querySelectorAll(".canvas:not(details:not([open]) *)")]
              .every((one) => one.querySelector(".main-svg"));
          while (!whole()) await new Promise((go) => setTimeout(go, 50));""")

    def run(self, script: str) -> Any:
        """What an asynchronous function's body returns."""
        body = f"const done = arguments[0]; (async () => {{ {script} }})().then(done, (why) => done(String(why)));"
        return self.ask("WebDriver:ExecuteAsyncScript", {"script": body, "args": []})["value"]

    def close(self) -> None:
        """Hang up."""
        self._file.close()
        self._socket.close()

    def _received(self) -> Any:
        length = b""
        while (one := self._file.read(1)) != b":":
            if not one:
                raise RuntimeError("Firefox is gone")
            length += one
        return json.loads(self._file.read(int(length)))


def _connected(port: int) -> socket.socket:
    end = time.monotonic() + _START_S
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=90)
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.2)


@contextmanager
def running(profile: Path) -> Iterator[Firefox]:
    """A Firefox without a window, with a profile of its own."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    quiet = {"marionette.port": port, "app.update.enabled": False, "datareporting.policy.dataSubmissionEnabled": False,
             "browser.shell.checkDefaultBrowser": False, "network.captive-portal-service.enabled": False,
             "network.connectivity-service.enabled": False, "services.settings.server": "data:,"}  # fmt: skip
    lines = [f"user_pref({json.dumps(name)}, {json.dumps(value)});\n" for name, value in quiet.items()]
    (profile / "user.js").write_text("".join(lines), "utf-8")
    command = [NAME, "--headless", "--marionette", "--no-remote", "--profile", str(profile)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        with closing(Firefox(port)) as one:
            yield one
    finally:
        process.terminate()
        process.wait(30)
