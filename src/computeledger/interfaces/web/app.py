"""The web application: one page of HTML per question, and one call of the engine behind each. No formula here."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import FileResponse, HTMLResponse

from computeledger.errors import nearest, shown
from computeledger.interfaces.page import version
from computeledger.interfaces.web.answers import Question, Reply, answered
from computeledger.interfaces.web.attended import attended
from computeledger.interfaces.web.docs_site import DOCS, docs_file, docs_problem
from computeledger.interfaces.web.guard import FIGURE, Guard, plain
from computeledger.interfaces.web.listed import LISTS, MODELS, list_of
from computeledger.interfaces.web.pages import PAGES
from computeledger.interfaces.web.shell import absent_html, figure_html, page_html
from computeledger.interfaces.web.spec import LONGEST, Page
from computeledger.interfaces.web.start import start_html
from computeledger.interfaces.web.static_files import static_file
from computeledger.progress import Progress, StoppedError, listening
from computeledger.units import KIB

#: Addresses that programs ask; the others are for people.
_DATA = ("/api/", "/csv/", "/view/", "/line/", "/static/", "/read/", "/list/", "/config/", "/sweep/", "/named/")
#: Most of a text that is pasted.
MOST_PASTED_BYTES = int(256 * KIB)
Ask = Callable[[Question, Progress], Reply | None]


def answered_here(question: Question, heard: Progress) -> Reply | None:
    """Answer in this process, without a budget: for tests and programs that call the app themselves.

    Examples
    --------
    >>> answered_here(Question("api", "claims", (("id", "C9999"),)), Progress()).status
    422
    """
    with listening(heard):
        try:
            return answered(question)
        except StoppedError:
            return None


def create_app(token: str | None = None, ask: Ask = answered_here) -> FastAPI:
    """Make the application.

    Examples
    --------
    >>> sorted(route.path for route in create_app().routes if route.path == "/api/serve")
    ['/api/serve']
    """
    app = FastAPI(
        title="Compute Ledger", version=version(), openapi_url="/api/openapi.json", docs_url=None, redoc_url=None
    )
    app.middleware("http")(Guard(token))

    @app.get("/", include_in_schema=False)
    def home() -> HTMLResponse:
        return HTMLResponse(start_html(PAGES))

    @app.get(f"{DOCS}/{{name:path}}", include_in_schema=False)
    def docs(name: str) -> Response:
        file = docs_file(name)
        return FileResponse(file) if file else HTMLResponse(absent_html(docs_problem(name), PAGES), 404)

    @app.get("/static/{name}", include_in_schema=False)
    def static(name: str, request: Request) -> Response:
        return static_file(name, request.headers)

    @app.exception_handler(404)
    def absent(request: Request, _error: Exception) -> Response:
        names = [page.name for page in PAGES]
        name = request.url.path.strip("/").rpartition("/")[2]
        message = f"{shown(name)}: no such page; {nearest(name, names)}"
        if request.url.path.startswith(_DATA):
            return plain(404, message)
        return HTMLResponse(absent_html(message, PAGES), 404)

    for page in PAGES:
        app.add_api_route(f"/{page.name}", functools.partial(_shell, page), include_in_schema=False)
        app.add_api_route(f"{FIGURE}/{page.name}/{{key}}", functools.partial(_figure, page), include_in_schema=False)
        app.add_api_route(
            f"/api/{page.name}", functools.partial(_answer, ask, "api", page.name), summary=page.question,
            description=_described(page),
            responses=_RESPONSES, openapi_extra={"parameters": _parameters(page)}, name=f"api {page.name}",
        )  # fmt: skip
        for kind in ("csv", "report", "view", "line", "sweep", "named"):
            reply = functools.partial(_answer, ask, kind, page.name)
            app.add_api_route(f"/{kind}/{page.name}", reply, include_in_schema=False)
        _add_pasting(app, ask, page)
    for name in LISTS:
        app.add_api_route(f"/list/{name}", functools.partial(_listed, ask, name), include_in_schema=False)
    return app


def _add_pasting(app: FastAPI, ask: Ask, page: Page) -> None:
    """Addresses that take a text: a launch, where the page reads one, and a model's configuration."""
    kinds = {
        "read": page.read is not None,
        "config": any(list_of(one) == MODELS and not one.several for one in page.controls),
    }
    for kind in (kind for kind, is_read in kinds.items() if is_read):
        pasted = functools.partial(_pasted, ask, kind, page.name)
        app.add_api_route(f"/{kind}/{page.name}", pasted, methods=["POST"], include_in_schema=False)


_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {"description": "The same document as the command prints with --json."},
    422: {"description": "Bad input: which control, and one line that says what is allowed."},
    503: {"description": "Too many questions at once, or one that takes too long; one line says which."},
}


def _described(page: Page) -> str:
    """What an answer is, for readers of the API."""
    return (
        f"{page.title}: {page.question} Parameters are the controls of the page; one that is left out takes its "
        "default. The answer is the document that the command prints with --json."
    )


def _parameters(page: Page) -> list[dict[str, Any]]:
    return [
        {"name": one.name, "in": "query", "required": False, "description": f"{one.label}. {one.help}".strip(),
         "schema": {"type": "string", "default": one.default,
                    **({"enum": list(one.choices)} if one.kind == "choice" else {})}}
        for one in page.controls
    ]  # fmt: skip


def _shell(page: Page, request: Request) -> HTMLResponse:
    """The page without an answer: it asks for one as soon as it is there."""
    del request
    return HTMLResponse(page_html(page, PAGES))


def _figure(page: Page, key: str) -> HTMLResponse:
    """One figure alone; whether there is one of that name its script finds out."""
    del key
    return HTMLResponse(figure_html(page))


async def _listed(ask: Ask, name: str, request: Request) -> Response:
    """What stands beside the names in a box."""
    return await attended(functools.partial(ask, Question("list", name, ())), request)


async def _pasted(ask: Ask, kind: str, name: str, request: Request) -> Response:
    """Read a text that a visitor pasted, as far as texts go."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MOST_PASTED_BYTES:
            return plain(413, f"more than {MOST_PASTED_BYTES / KIB:.0f} KiB: paste the {_PASTED[kind]} alone")
    system = request.query_params.get("system", "")[:LONGEST]
    items = (("system", system), ("text", body.decode("utf-8", "replace")))
    return await attended(functools.partial(ask, Question(kind, name, items)), request)


#: What a text that is pasted is.
_PASTED = {"read": "launch", "config": "config.json"}


async def _answer(ask: Ask, kind: str, name: str, request: Request) -> Response:
    items = tuple((key, text) for key, text in request.query_params.multi_items() if key != "token")
    return await attended(functools.partial(ask, Question(kind, name, items)), request)
