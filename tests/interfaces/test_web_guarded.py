"""The app against strangers: no text is a path, no question outlives its budget or its visitor, no token is guessed."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
import uvicorn
from fastapi import FastAPI
from fastapi.testclient import TestClient

from computeledger.errors import InputError
from computeledger.files import read_user_text, without_user_files
from computeledger.interfaces.web import loaded, serve
from computeledger.interfaces.web.answers import Question, Reply, failed
from computeledger.interfaces.web.app import create_app
from computeledger.interfaces.web.engines import Budget, Engines
from computeledger.interfaces.web.guard import Guard
from computeledger.interfaces.web.pages import PAGES
from computeledger.interfaces.web.spec import Control
from computeledger.progress import Progress
from tests.interfaces import engine_answers

# ---- no text of a visitor is a path


@pytest.fixture(scope="module")
def client() -> TestClient:
    return TestClient(create_app(), base_url="http://localhost")


@pytest.fixture
def pipe() -> Iterator[Path]:
    """A named pipe; its path is short, so that messages quote it whole."""
    with tempfile.TemporaryDirectory() as folder:
        os.mkfifo(f"{folder}/pipe.toml")
        yield Path(folder, "pipe.toml")


#: Around a path: the shapes of text in which an engine might look for one.
_SHAPES = ("{}", "400 MW facility of {}", "16 x {}", "{} ")


def _texts(there: str, absent: str) -> Iterator[tuple[str, str]]:
    for shape in _SHAPES:
        yield shape.format(there), shape.format(absent)


_CONTROLS = [pytest.param(page.name, one, id=f"{page.name}-{one.name}") for page in PAGES for one in page.controls]


def _same_but_for_the_name(client: TestClient, page: str, control: Control, there: str, absent: str) -> None:
    """A file that exists is answered like one that does not: it is neither opened nor looked for."""
    key, _, values = control.only.partition("=")
    where = {key: values.partition("|")[0]} if key else {}
    first, second = (client.get(f"/view/{page}", params={**where, control.name: text}) for text in (there, absent))
    assert first.status_code == second.status_code
    if first.status_code != 200:
        said, other = (answer.json()["message"].lower() for answer in (first, second))
        # a message may quote a part of what was typed
        names = [text.lower().split()[-1] for text in (there, absent)]
        assert said.replace(*names) == other


@pytest.fixture
def twins() -> Iterator[tuple[str, str]]:
    """A file that describes an accelerator, and beside it a name of the same length that is nothing; short."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "chip.toml").write_text('id = "secret-key"\n', "utf-8")
        yield f"{folder}/chip.toml", f"{folder}/chap.toml"


@pytest.mark.parametrize(("page", "control"), _CONTROLS)
def test_no_parameter_of_any_route_reads_or_finds_a_file(
    page: str, control: Control, client: TestClient, twins: tuple[str, str]
) -> None:
    _same_but_for_the_name(client, page, control, *twins)


@pytest.mark.stress
@pytest.mark.parametrize(("page", "control"), _CONTROLS)
def test_no_parameter_reads_devices_pipes_folders_addresses_or_homes(
    page: str, control: Control, client: TestClient, twins: tuple[str, str], pipe: Path
) -> None:
    pairs = [*_texts(*twins), *_texts(str(pipe), str(pipe)[:-9] + "nope.toml")]
    pairs += [
        *_texts("/dev/zero", "/dev/zerp"),
        *_texts("~/.bashrc", "~/.bashrd"),
        *_texts("/etc/passwd", "/etc/passwe"),
    ]
    pairs += [*_texts("file:///etc/passwd", "file:///etc/passwe"), *_texts("../../etc", "../../etd")]
    for first, second in pairs:
        _same_but_for_the_name(client, page, control, first, second)


def test_inside_a_strangers_question_no_user_file_opens(twins: tuple[str, str]) -> None:
    there, _ = twins
    assert "secret-key" in read_user_text(Path(there))
    with without_user_files(), pytest.raises(InputError, match="files cannot be named here"):
        read_user_text(Path(there))


@pytest.mark.parametrize("name", ["/dev/zero", "pipe", "folder", "socket"])
def test_only_regular_files_are_read(name: str, pipe: Path, tmp_path: Path) -> None:
    folder = tmp_path / "folder.toml"
    folder.mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket.toml"))
        path = {"pipe": pipe, "folder": folder, "socket": tmp_path / "socket.toml"}.get(name, Path(name))
        with pytest.raises(InputError) as caught:
            read_user_text(path)
    assert str(caught.value).startswith(f"{path}: ") and "\n" not in str(caught.value)


# ---- budgets


def _engines(**changes: Any) -> Engines:
    return Engines(Budget(**{"engines": 1, "time_s": 60.0, **changes}), engine_answers.by_name)


@pytest.fixture
def engines(request: pytest.FixtureRequest) -> Iterator[Engines]:
    made = _engines(**getattr(request, "param", {}))
    yield made
    made.close()


def _ask(engines: Engines, page: str, heard: Progress | None = None, **items: str) -> Reply | None:
    return engines.ask(Question("view", page, tuple(items.items())), heard or Progress())


@pytest.mark.parametrize("engines", [{"time_s": 1.0}], indirect=True)
@pytest.mark.parametrize("page", ["deaf", "hearing"])
def test_a_question_ends_with_its_time_and_the_next_is_answered(page: str, engines: Engines) -> None:
    reply = _ask(engines, page)
    assert reply is not None and reply.status == 503 and b"a question may take 1 s here" in reply.body
    engines.budget = replace(engines.budget, time_s=60.0)  # on a busy machine a fresh process takes long to start
    after = _ask(engines, "plain")
    assert after is not None and after.status == 200


@pytest.mark.parametrize("engines", [{"turn_s": 0.3}], indirect=True)
def test_a_question_of_parts_ends_between_two_of_them_and_goes_on_in_the_same_process(engines: Engines) -> None:
    question = Question("sweep", "in_parts", ())
    assert question.goes_on and Question("view", "compare", ()).goes_on and not Question("view", "serve", ()).goes_on
    replies, done = list[Reply | None](), [0]
    while len(replies) < 4 and (not replies or (replies[-1] is not None and replies[-1].status == 503)):
        heard = Progress()
        replies.append(engines.ask(question, heard))
        done.append(heard.done)
    assert done == sorted(set(done)), "each time it says that a part more is done"
    assert len(replies) > 1 and replies[-1] is not None and replies[-1].status == 200
    assert replies[-1].body == b"4", "what was done before is kept"


def test_what_takes_long_says_by_which_command_it_may_be_asked(engines: Engines) -> None:
    heard = Progress()
    thread = threading.Thread(target=_ask, args=(engines, "hearing", heard))
    thread.start()
    while not heard.command:
        assert thread.is_alive()
        time.sleep(0.005)
    heard.is_stopped = True
    thread.join(30)
    assert heard.command == "computeledger think"
    assert json.loads(failed(503, "stopped", heard.command).body)["command"] == heard.command


@pytest.mark.parametrize("engines", [{"time_s": 0.0}], indirect=True)
def test_what_was_answered_ahead_is_there_at_once_and_without_a_budget(engines: Engines) -> None:
    engines.work_ahead([Question("view", "plain", ())], engine_answers.by_name)
    engines.ahead.wait()
    ready, again, other = (_ask(engines, page) for page in ("plain", "plain", "deaf"))
    assert ready is not None and ready.status == 200 and ready is again
    assert other is not None and other.status == 503 and json.loads(other.body)["is_worth_another_try"]


@pytest.mark.parametrize("engines", [{"memory_bytes": 2**27}], indirect=True)
def test_what_earlier_questions_left_in_memory_stops_no_answer(engines: Engines) -> None:
    replies = [engines.ask(Question("view", "leaving", ()), Progress()) for _ in range(12)]
    assert [one.status for one in replies if one is not None] == [200] * 12
    assert 1 < max(int(one.body) for one in replies if one is not None) < 4


@pytest.mark.parametrize("engines", [{"memory_bytes": 2**27}], indirect=True)
def test_a_question_ends_with_its_memory_and_the_next_is_answered(engines: Engines) -> None:
    reply = _ask(engines, "hungry")
    assert reply is not None and reply.status == 500 and b"128 MiB" in reply.body
    after = _ask(engines, "plain")
    assert after is not None and after.status == 200


def _begun(file: Path) -> psutil.Process:
    while not file.exists():
        time.sleep(0.005)
    return psutil.Process(int(file.read_text("ascii")))


# one that hears is given the time to: on a busy machine the fraction of a second that it gets otherwise may not do
@pytest.mark.parametrize(
    ("page", "same", "engines"), [("deaf", False, {}), ("hearing", True, {"grace_s": 30.0})], indirect=["engines"]
)
def test_a_question_ends_with_its_visitor_even_where_it_does_not_hear(
    page: str, same: bool, engines: Engines, tmp_path: Path
) -> None:
    heard, replies = Progress(), list[Reply | None]()
    file = tmp_path / "begun"
    thread = threading.Thread(target=lambda: replies.append(_ask(engines, page, heard, file=str(file))))
    thread.start()
    worker = _begun(file)
    heard.is_stopped = True
    thread.join(30)
    assert replies == [None]
    after = _ask(engines, "plain")
    assert after is not None and (int(after.body) == worker.pid) is same
    if not same:
        worker.wait(30)


@pytest.mark.parametrize("engines", [{"waiting": 2}], indirect=True)
def test_more_questions_than_may_wait_are_told_so(engines: Engines, tmp_path: Path) -> None:
    visitors = [Progress() for _ in range(3)]
    first = threading.Thread(
        target=_ask, args=(engines, "hearing", visitors[0]), kwargs={"file": str(tmp_path / "begun")}
    )
    first.start()
    _begun(tmp_path / "begun")
    others = [threading.Thread(target=_ask, args=(engines, "plain", one)) for one in visitors[1:]]
    for one in others:
        one.start()
    while engines.waiting < 2:
        time.sleep(0.005)
    reply = _ask(engines, "plain")
    assert reply is not None and reply.status == 503 and b"1 are answered at once and 2 may wait" in reply.body
    for visitor in visitors:
        visitor.is_stopped = True
    for one in (first, *others):
        one.join(30)
    after = _ask(engines, "plain")
    assert after is not None and after.status == 200


@pytest.mark.parametrize("engines", [{"engines": 4}], indirect=True)
def test_what_is_asked_while_the_server_ends_is_answered_and_nothing_fails(engines: Engines, tmp_path: Path) -> None:
    replies = list[Reply | None]()
    asking = [
        threading.Thread(target=lambda n=n: replies.append(_ask(engines, "deaf", file=str(tmp_path / str(n)))))
        for n in range(engines.budget.engines)
    ]
    for one in asking:
        one.start()
    workers = [_begun(tmp_path / str(n)) for n in range(len(asking))]
    engines.close()  # a pipe closed by this thread and by the one that asks was closed twice
    for one in asking:
        one.join(30)
    assert [reply.status for reply in replies if reply is not None] == [500] * len(asking)
    _, alive = psutil.wait_procs(workers, timeout=30)
    assert not alive
    late = _ask(engines, "plain")
    assert late is not None and late.status == 500


def test_a_process_that_answers_has_read_its_facts_before_it_is_asked(engines: Engines) -> None:
    first = _ask(engines, "known")
    _ask(engines, "hungry")  # ends it
    second = _ask(engines, "known")
    assert first is not None and second is not None
    assert int(first.body) == int(second.body) == len(loaded.READ_BY)


def test_progress_comes_from_the_process(engines: Engines) -> None:
    heard = Progress()
    thread = threading.Thread(target=_ask, args=(engines, "hearing", heard))
    thread.start()
    while heard.done < 3:
        time.sleep(0.005)
    assert (heard.total, heard.what) == (10**6, "blocks")
    heard.is_stopped = True
    thread.join(30)


# ---- the server as users start it


@pytest.fixture
def served() -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [sys.executable, "-m", "computeledger", "web", "--port", "0", "--no-browser", "--workers", "1"]
    process = subprocess.Popen(  # Ctrl-C is heard also where the tests themselves run in the background
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - one thread starts it
    )  # fmt: skip
    assert process.stdout is not None
    found = re.search(r"http://\S+:\d+", process.stdout.readline())
    assert found is not None
    yield process, found[0]
    process.kill()
    process.wait()


def test_the_address_answers_as_soon_as_it_is_printed_and_ctrl_c_ends_everything_under_load(
    served: tuple[subprocess.Popen[str], str],
) -> None:
    process, address = served
    assert httpx.get(f"{address}/static/icon.svg", timeout=60).status_code == 200  # no wait for the server
    family = psutil.Process(process.pid).children(recursive=True)
    assert family
    left = threading.Thread(
        target=_abandoned, args=(f"{address}/api/life?pretraining.tokens=1e18&pretraining.gpus=65536",)
    )
    left.start()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert "Traceback" not in errors and "interrupted" in errors
    left.join(60)
    _, alive = psutil.wait_procs(family, timeout=30)
    assert not alive


def _abandoned(address: str) -> None:
    try:
        httpx.get(address, timeout=60)
    except httpx.HTTPError:  # the server ends meanwhile, as it should
        return


def test_connections_that_ask_nothing_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "_SILENT_S", 0.3)
    config = uvicorn.Config(
        create_app(), port=0, log_level="error", ws="none", http=serve._Protocol, timeout_keep_alive=60
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
    port = server.servers[0].sockets[0].getsockname()[1]
    for said in (b"", b"GET /facts HT", b"GET /static/icon.svg HTTP/1.1\r\nHost: localhost\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", port), timeout=60) as half:
            half.sendall(said)
            while half.recv(2**16):  # ends when the server closes
                pass
    server.should_exit = True
    thread.join(30)


# ---- who may ask


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200), ("localhost:8765", 200), ("127.0.0.1:1", 200), ("[::1]:8765", 200), ("[::1]", 200),
        ("example.org", 403), ("testserver", 403), ("", 403), ("x]", 403), ("[::1].example.org", 403),
        ("localhost.example.org", 403), ("localhost:8765.example.org", 403), ("evil@localhost", 403),
        ("127.0.0.1:", 403),
    ],
)  # fmt: skip
def test_only_this_machines_own_names_are_served(host: str, status: int, client: TestClient) -> None:
    assert client.get("/facts", headers={"host": host}).status_code == status


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": "http://localhost"}, 200),
        ({"origin": "http://example.org"}, 403),
        ({"origin": "null"}, 403),
        ({"sec-fetch-site": "same-origin", "sec-fetch-mode": "cors"}, 200),
        ({"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}, 403),
        ({"sec-fetch-site": "same-site", "sec-fetch-mode": "cors"}, 403),
        ({"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}, 200),
        ({"sec-fetch-site": "cross-site"}, 403),
    ],
)
def test_pages_of_other_sites_ask_nothing(headers: dict[str, str], status: int, client: TestClient) -> None:
    assert client.get("/facts", headers=headers).status_code == status


def test_the_token_moves_from_the_address_into_a_cookie() -> None:
    visitor = TestClient(create_app("secret"), base_url="http://example.org")
    assert visitor.get("/facts").status_code == 401
    moved = visitor.get("/facts?words=h200&token=secret", follow_redirects=False)
    assert moved.status_code == 303 and moved.headers["location"] == "http://example.org/facts?words=h200"
    assert (
        "httponly" in moved.headers["set-cookie"].lower() and "samesite=strict" in moved.headers["set-cookie"].lower()
    )
    answer = visitor.get("/facts")
    assert answer.status_code == 200 and answer.headers["referrer-policy"] == "no-referrer"


def test_tokens_cannot_be_guessed_without_end() -> None:
    clock: list[float] = [0.0]
    app = FastAPI()
    app.middleware("http")(Guard("secret", lambda: clock[0]))
    app.add_api_route("/", _hello)
    visitor = TestClient(app)
    tries = [visitor.get(f"/?token={number}").status_code for number in range(12)]
    assert tries == [401] * 10 + [429] * 2
    assert visitor.get("/?token=secret").status_code == 429
    clock[0] = 61.0
    assert visitor.get("/?token=secret").status_code == 200


def _hello() -> str:
    return "hello"
