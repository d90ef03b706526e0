"""The web application: one page of HTML per question, and one call of the engine behind each. No formula here."""

from __future__ import annotations

import dataclasses
import functools
import json
import secrets
from collections.abc import Awaitable, Callable, Mapping
from importlib import resources
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from computeledger.errors import InputError, nearest, shown
from computeledger.interfaces.page import version
from computeledger.interfaces.web.attended import attended
from computeledger.interfaces.web.pages import PAGES, page_named
from computeledger.interfaces.web.shell import page_html
from computeledger.interfaces.web.spec import ControlError, Page, blamed, checked
from computeledger.interfaces.web.working import working_view

#: Answers kept: enough for going back and forth, little enough for memory to stay flat.
_KEPT = 256
#: Names under which this machine calls itself; other names are refused unless the user opened the app to others.
LOOPBACK = ("127.0.0.1", "localhost", "[::1]", "testserver")
_COOKIE = "computeledger_token"
_TYPES = {"js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
Next = Callable[[Request], Awaitable[Response]]
Render = Callable[[str, tuple[tuple[str, str], ...]], bytes]


def create_app(token: str | None = None) -> FastAPI:
    """Make the application.

    Parameters
    ----------
    token : str or None
        What a visitor from elsewhere must know; None serves this machine alone.

    Returns
    -------
    FastAPI
        To be run by a server, or called by a test.

    Examples
    --------
    >>> sorted(route.path for route in create_app().routes if route.path == "/api/serve")
    ['/api/serve']
    """
    app = FastAPI(
        title="Compute Ledger", version=version(), openapi_url="/api/openapi.json", docs_url=None, redoc_url=None
    )
    app.middleware("http")(functools.partial(_guard, token))

    @app.get("/", include_in_schema=False)
    def home() -> RedirectResponse:
        return RedirectResponse(f"/{PAGES[0].name}")

    @app.get("/static/{name}", include_in_schema=False)
    def static(name: str) -> Response:
        return _static(name)

    @app.exception_handler(404)
    def absent(request: Request, _error: Exception) -> Response:
        names = [page.name for page in PAGES]
        name = request.url.path.strip("/").rpartition("/")[2]
        return _plain(404, f"{shown(name)}: no such page; {nearest(name, names)}")

    for page in PAGES:
        app.add_api_route(f"/{page.name}", functools.partial(_shell, page), include_in_schema=False)
        app.add_api_route(
            f"/api/{page.name}", functools.partial(_document, page), summary=page.question,
            description=_described(page),
            responses=_RESPONSES, openapi_extra={"parameters": _parameters(page)}, name=f"api {page.name}",
        )  # fmt: skip
        app.add_api_route(f"/view/{page.name}", functools.partial(_view, page), include_in_schema=False)
    return app


_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {"description": "The same document as the command prints with --json."},
    422: {"description": "Bad input: which control, and one line that says what is allowed."},
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
         "schema": {"type": "string", "default": one.default, **({"enum": list(one.choices)} if one.choices else {})}}
        for one in page.controls
    ]  # fmt: skip


async def _guard(token: str | None, request: Request, call_next: Next) -> Response:
    """Refuse strangers: other host names while only this machine is served, no token once others are."""
    if token is None:
        host = (
            request.headers.get("host", "").rsplit(":", 1)[0] if "]" not in request.headers.get("host", "") else "[::1]"
        )
        if host not in LOOPBACK:
            return _plain(403, "this app serves its own machine; start it with --host to serve others")
    else:
        given = request.query_params.get("token") or request.cookies.get(_COOKIE) or ""
        if not secrets.compare_digest(given.encode(), token.encode()):
            return _plain(401, "a token is needed: open the address that `computeledger web` printed")
    response = await call_next(request)
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Referrer-Policy"] = "no-referrer"
    response.headers["Content-Security-Policy"] = _POLICY
    if token is not None and "token" in request.query_params:
        response.set_cookie(_COOKIE, token, httponly=True, samesite="strict")
    return response


_POLICY = "default-src 'self'; img-src 'self' data: blob:; style-src 'self' 'unsafe-inline'; frame-ancestors 'none'"


def _plain(status: int, message: str) -> Response:
    return Response(json.dumps({"control": "", "message": message}), status, media_type="application/json")


@functools.cache
def _static(name: str) -> Response:
    kind = name.rpartition(".")[2]
    if name == "plotly.js":
        text = resources.files("plotly").joinpath("package_data", "plotly.min.js").read_bytes()
    else:
        folder = resources.files("computeledger.interfaces.web").joinpath("static")
        names = [one.name for one in folder.iterdir()]
        if name not in names:
            return _plain(404, f"{name!r}: no such file; {nearest(name, names)}")
        text = folder.joinpath(name).read_bytes()
    headers = {"Cache-Control": "max-age=3600"} if name == "plotly.js" else {"Cache-Control": "no-cache"}
    return Response(text, media_type=_TYPES[kind], headers=headers)


def _shell(page: Page, request: Request) -> HTMLResponse:
    """The page without an answer: it asks for one as soon as it is there."""
    del request
    return HTMLResponse(page_html(page, PAGES))


async def _document(page: Page, request: Request) -> Response:
    return await attended(functools.partial(_answered, page, request, _document_bytes), request)


async def _view(page: Page, request: Request) -> Response:
    return await attended(functools.partial(_answered, page, request, _view_bytes), request)


def _answered(page: Page, request: Request, render: Render) -> Response:
    """An answer, or one line about what was asked."""
    query = {name: text for name, text in request.query_params.items() if name != "token"}
    given = [name for name, _ in request.query_params.multi_items()]
    twice = next((name for name in given if given.count(name) > 1), None)
    if twice is not None:
        return _refused("", f"{shown(twice)} is given {given.count(twice)} times; once is read")
    try:
        body = render(page.name, tuple(sorted(query.items())))
    except ControlError as error:
        return _refused(error.control, str(error))
    except InputError as error:
        return _refused(blamed(page, str(error), query), str(error))
    return Response(body, media_type="application/json")


def _refused(control: str, message: str) -> Response:
    return Response(json.dumps({"control": control, "message": message}), 422, media_type="application/json")


@functools.lru_cache(maxsize=_KEPT)
def _document_bytes(name: str, query: tuple[tuple[str, str], ...]) -> bytes:
    page = page_named(name)
    return _json(page.answer(checked(page, dict(query)), False).document)


@functools.lru_cache(maxsize=_KEPT)
def _view_bytes(name: str, query: tuple[tuple[str, str], ...]) -> bytes:
    """What the page shows; ``working`` asks for formulas, inputs and sources instead."""
    page, asked = page_named(name), dict(query)
    working = asked.get("working") == "on"
    if working:
        del asked["working"]
    values = checked(page, asked)
    answer = page.answer(values, working)
    if working:
        return _json({"working": working_view(answer.document), "command": answer.command})
    view = _fields(page.view(answer))
    resolved = {**_resolved(page, answer.document), **view.pop("chosen")}
    return _json({**view, "command": answer.command, "plan": answer.plan, "resolved": resolved})


def _resolved(page: Page, document: Mapping[str, Any]) -> dict[str, str]:
    """What the engine chose for boxes that were left empty."""
    out = {}
    for one in page.controls:
        value = document.get(one.name.replace("-", "_"))
        if one.kind in ("text", "number") and isinstance(value, str | int | float) and not isinstance(value, bool):
            out[one.name] = value if isinstance(value, str) else f"{value:g}"
    return out


def _fields(one: Any) -> dict[str, Any]:
    """A part of a view by its fields, without copying what they hold."""
    return {field.name: getattr(one, field.name) for field in dataclasses.fields(one)}


def _json(value: Any) -> bytes:
    return json.dumps(value, allow_nan=False, separators=(",", ":"), default=_plain_value).encode()


def _plain_value(value: Any) -> Any:
    return _fields(value) if dataclasses.is_dataclass(value) else float(value)
