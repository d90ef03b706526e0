"""5,000 hostile requests to the app as users start it: memory and time are bounded, nothing outlives its visitor."""

from __future__ import annotations

import http.client
import itertools
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, urlencode

import psutil
import pytest

from computeledger.interfaces.web.pages import PAGES
from computeledger.units import GIGA, MIB

pytestmark = pytest.mark.stress

REQUESTS, CONNECTIONS, HALF_OPEN = 5000, 12, 60
#: The bars: memory of all processes together, an answer, work after its visitor left, Ctrl-C.
MOST_PSS_BYTES, MOST_ANSWER_S, MOST_AFTER_S, MOST_CTRL_C_S = GIGA, 10.0, 0.5, 2.0
#: Processor time within a second that is no work on a question: looking at pipes, starting a fresh process [s].
IDLE_CPU_S = 0.1
ALLOWED = {200, 307, 400, 404, 405, 413, 414, 422, 431, 503}
TEXTS = (
    "/dev/zero", "/etc/passwd", "PIPE", "~/.bashrc", "~root", "file:///etc/passwd", "http://127.0.0.1:1/x",
    "//example.org/x.toml", "../" * 20 + "etc/passwd", "400 MW facility of /dev/zero", "16 x PIPE", "/proc/self/mem",
    "1" + "0" * 18, "1e18", "1e308", "1e999", "nan", "inf", "-inf", "-1", "0", "1e-300", "9" * 190, "1..1e18",
    "1e18..1", "nan..nan", "1e18T", "10^400", "1/0", "0x10", "[" * 150, "{" * 150, "(" * 190, "1," * 90,
    "tp1000000000-dp1000000000-pp1000000000", "tp8" * 60, "\x00", "\u202e", "\U0001f4a5" * 50, "%s%n", "' OR 1=1 --",
    "<script>alert(1)</script>", "a" * 200, "a" * 201, "a" * 20000, "__import__('os')", "65536", "1e6", "", " ",
)  # fmt: skip
#: Questions of seconds, NUMBER another one each time so that no answer is kept; the first takes the longest.
LONG = (
    "/view/frontier?about=a+run&flop=1.NUMBERe26",
    "/view/prices?input=1.NUMBER",
    "/view/rl?max-lag=1&steps=NUMBER",
    "/api/pretrain?gpus=4096&tokens=1.NUMBERT",
)


@dataclass
class Found:
    """What the visitors met."""

    answers: list[tuple[float, str]] = field(default_factory=list)
    statuses: Counter[int | str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    pss_bytes: int = 0


@contextmanager
def served() -> Iterator[tuple[psutil.Process, int]]:
    command = [sys.executable, "-m", "computeledger", "web", "--port", "0", "--no-browser"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - one thread starts it
    )  # fmt: skip
    assert process.stdout is not None
    found = re.search(r"http://\S+:(\d+)", process.stdout.readline())
    assert found is not None
    try:
        yield psutil.Process(process.pid), int(found[1])
    finally:
        process.kill()
        _, errors = process.communicate()
    assert "Traceback" not in errors, errors


def family_of(server: psutil.Process) -> list[psutil.Process]:
    with suppress(psutil.NoSuchProcess):
        return [server, *server.children(recursive=True)]
    return []


def is_running(process: psutil.Process) -> bool:
    """Whether it is there and not merely kept until its parent asks how it ended."""
    with suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def watch(server: psutil.Process, found: Found, ended: threading.Event) -> None:
    """The most memory that all processes hold together, pages that they share counted once."""
    while not ended.wait(0.05):
        held = 0
        for one in family_of(server):
            with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
                held += one.memory_full_info().pss
        found.pss_bytes = max(found.pss_bytes, held)


def long_question(chance: random.Random, path: str = "") -> str:
    """One that nobody has asked."""
    return (path or chance.choice(LONG)).replace("NUMBER", str(chance.randrange(1000, 10**6)))


def address(chance: random.Random, pipe: str) -> str:
    """A hostile address."""
    if chance.random() < 0.01:
        return long_question(chance)
    page = chance.choice(PAGES)
    kind = chance.choice(("api", "view", "view", "csv", "line", "report", "sweep", "figure"))
    items = [(chance.choice(page.controls).name, chance.choice(TEXTS).replace("PIPE", pipe)) for _ in range(3)]
    items = list(dict(items[: chance.choice((1, 1, 2, 3))]).items())
    shape = chance.random()
    if shape < 0.02:
        items += [(chance.choice(TEXTS[:40]), "1")]
    elif shape < 0.04:
        items = [(f"{name}{number}" if shape < 0.03 else name, "1" * 20) for number in range(500) for name, _ in items]
    elif shape < 0.06:
        return quote(chance.choice(("/static/../../../etc/passwd", "/static//dev/zero", "/api/" + "a/" * 2000, "/%00")))
    elif shape < 0.08:
        items.append(("working", "on"))
    elif shape < 0.1:
        return f"/{chance.choice(('list', 'docs', 'static'))}/{quote(chance.choice(TEXTS), safe='')}"
    if kind == "sweep":
        items += [
            (name, chance.choice((*TEXTS, "batch", "price")).replace("PIPE", pipe)) for name in ("sweep", "figure")
        ]
    key = f"/{quote(chance.choice(TEXTS), safe='')}" if kind == "figure" else ""
    return f"/{kind}/{page.name}{key}?{urlencode(items)}"


def asked(port: int, chance: random.Random, pipe: str, found: Found) -> None:
    """One request and its answer."""
    path = address(chance, pipe)
    method = chance.choices(("GET", "POST", "PUT", "HEAD"), (90, 6, 2, 2))[0]
    if method == "POST" and chance.random() < 0.5:  # a text that is pasted
        path = f"/{chance.choice(('read', 'config'))}/{chance.choice(PAGES).name}"
    body = os.urandom(chance.choice((0, 1000, 300_000))) if method in ("POST", "PUT") else None
    started, line = time.monotonic(), http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        line.request(method, path, body)
        answer = line.getresponse()
        said, status = answer.read(), answer.status
    except (http.client.HTTPException, OSError) as error:
        found.statuses[type(error).__name__] += 1
        if body is None:
            found.wrong.append(f"{method} {path[:300]}: {error!r}")
        return
    finally:
        line.close()
    found.answers.append((time.monotonic() - started, path[:300]))
    found.statuses[status] += 1
    if status not in ALLOWED and b"it needs more than" not in said:
        found.wrong.append(f"{method} {path[:300]}: {status}: {said[:200]!r}")


def begun(port: int, path: str) -> socket.socket:
    """A question that was asked and not yet answered."""
    line = socket.create_connection(("127.0.0.1", port), timeout=60)
    line.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n".encode())
    return line


def left(port: int, chance: random.Random) -> None:
    """A visitor who goes before the answer."""
    with begun(port, long_question(chance)):
        time.sleep(chance.uniform(0, 0.3))


def junk(port: int, chance: random.Random) -> None:
    """Bytes that are no request."""
    said = chance.choice(
        (b"\x16\x03\x01" + os.urandom(300), b"GET / HTTP/9.9\r\n\r\n", b"A" * 100_000, b"GET\r\n" * 99)
    )
    with socket.create_connection(("127.0.0.1", port), timeout=60) as line, suppress(OSError):
        line.sendall(said)
        line.recv(1000)


def visitor(port: int, seed: int, pipe: str, found: Found) -> None:
    """One connection after another; some leave, some say nothing that is a request."""
    chance = random.Random(seed)  # noqa: S311 - a seeded choice
    for _ in range(REQUESTS // CONNECTIONS + 1):
        draw = chance.random()
        if draw < 0.02:
            left(port, chance)
        elif draw < 0.04:
            junk(port, chance)
        else:
            asked(port, chance, pipe, found)


def at_once(count: int, work: Callable[[int], None]) -> None:
    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def cpu_s_of(server: psutil.Process) -> dict[int, float]:
    """Processor time of each process but the server's own."""
    out = {}
    for one in family_of(server)[1:]:
        with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
            out[one.pid] = sum(one.cpu_times()[:2])
    return out


def _more(early: dict[int, float], late: dict[int, float]) -> float:
    return sum(late[one] - early.get(one, 0.0) for one in late)


def worked_s(server: psutil.Process, port: int, paths: list[str], stay_s: float) -> tuple[float, float]:
    """Processor time while visitors stay, and in the second that begins 0.5 s after all of them left [s]."""
    before, lines = cpu_s_of(server), [begun(port, path) for path in paths]
    time.sleep(stay_s)
    meanwhile = cpu_s_of(server)
    for line in lines:
        line.close()
    time.sleep(MOST_AFTER_S)
    left_at = cpu_s_of(server)
    time.sleep(1.0)
    after = cpu_s_of(server)
    return _more(before, meanwhile), _more(left_at, after)


def test_five_thousand_hostile_requests(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.toml")
    pipe, found, ended, started = str(tmp_path / "pipe.toml"), Found(), threading.Event(), time.monotonic()
    with served() as (server, port):
        watcher = threading.Thread(target=watch, args=(server, found, ended))
        watcher.start()
        half = [socket.create_connection(("127.0.0.1", port)) for _ in range(HALF_OPEN)]
        for line in half[::2]:
            line.sendall(b"GET /view/serve HT")
        at_once(CONNECTIONS, lambda number: visitor(port, number, pipe, found))
        for line in half:
            line.close()
        chance = random.Random(0)  # noqa: S311 - a seeded choice
        worked = [
            worked_s(server, port, [long_question(chance, path) for _ in range(count)], stay_s)
            for count, stay_s, path in itertools.product((1, 2, 24), (0.1, 0.5, 2.0), LONG[:2])
        ]
        under_load = [begun(port, long_question(chance, path)) for path in LONG * 4]
        time.sleep(0.5)
        ended.set()
        watcher.join()
        family, interrupted = family_of(server), time.monotonic()
        server.send_signal(signal.SIGINT)
        while interrupted + 60 > time.monotonic() and any(is_running(one) for one in family):
            time.sleep(0.01)
        ctrl_c_s = time.monotonic() - interrupted
        for line in under_load:
            line.close()
    longest_s, slowest = max(found.answers)
    sys.stdout.write(
        f"{len(found.answers)} answers in {time.monotonic() - started:.0f} s: {dict(found.statuses)}\n"
        f"longest {longest_s:.2f} s ({slowest}); memory at most {found.pss_bytes / MIB:.0f} MiB; "
        "processor time with and after visitors "
        f" {[(round(a, 2), round(b, 2)) for a, b in worked]} s; Ctrl-C {ctrl_c_s:.2f} s\n"
    )
    assert found.wrong == []
    assert found.pss_bytes < MOST_PSS_BYTES
    assert longest_s < MOST_ANSWER_S
    assert max(stayed for stayed, _ in worked) > 1.0  # they had been at work
    assert max(gone for _, gone in worked) < IDLE_CPU_S
    assert ctrl_c_s <= MOST_CTRL_C_S
