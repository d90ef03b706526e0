"""Who may ask: this machine's own pages, or visitors with the token."""

from __future__ import annotations

import json
import re
import secrets
import time
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

from fastapi import Request, Response
from fastapi.responses import RedirectResponse

from computeledger.interfaces.web.docs_site import DOCS

_COOKIE = "computeledger_token"
#: Names under which this machine calls itself, exactly.
_LOOPBACK = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:\d{1,5})?")
#: Wrong tokens of one address before it has to wait, and for how long [s].
_TRIES, _WAIT_S = 10, 60.0
#: Addresses remembered; beyond them everyone's tries count together.
_REMEMBERED = 1000
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Content-Security-Policy": (
        "default-src 'self'; img-src 'self' data: blob:; style-src 'self' 'unsafe-inline'; frame-ancestors 'none'"
    ),
}
#: Pages of the documentation start with a script of their own in the page.
_DOCS_HEADERS = {"Content-Security-Policy": f"script-src 'self' 'unsafe-inline'; {_HEADERS['Content-Security-Policy']}"}
#: Where one figure of an answer stands alone, for a frame in a page of another site.
FIGURE = "/figure"
_FRAMED = {
    "Content-Security-Policy": _HEADERS["Content-Security-Policy"].replace(
        "frame-ancestors 'none'", "frame-ancestors *"
    )
}
Next = Callable[[Request], Awaitable[Response]]


class Guard:
    """Refuses strangers before anything is asked."""

    def __init__(self, token: str | None, now_s: Callable[[], float] = time.monotonic) -> None:
        self._token = token
        self._now_s = now_s
        self._tries: dict[str, tuple[int, float]] = {}

    async def __call__(self, request: Request, call_next: Next) -> Response:
        """Answer, or refuse in one line."""
        response = self._refusal(request) or self._without_token(request) or await call_next(request)
        response.headers.update(_HEADERS | _special_headers(request.url.path))
        return response

    def _refusal(self, request: Request) -> Response | None:
        host = request.headers.get("host", "")
        if self._token is None and not _LOOPBACK.fullmatch(host):
            return plain(403, "this app serves its own machine; start it with --host to serve others")
        origin = request.headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != host:
            return plain(403, "asked by a page of another site")
        site, mode = request.headers.get("sec-fetch-site", "none"), request.headers.get("sec-fetch-mode", "")
        if site not in ("none", "same-origin") and mode != "navigate":
            return plain(403, "asked by a page of another site")
        return None if self._token is None else self._checked(request, self._token)

    def _checked(self, request: Request, token: str) -> Response | None:
        """None for a visitor who knows the token."""
        given = request.query_params.get("token") or request.cookies.get(_COOKIE) or ""
        visitor = request.client.host if request.client and len(self._tries) < _REMEMBERED else ""
        now_s = self._now_s()
        tries, since_s = self._tries.get(visitor, (0, now_s))
        if now_s - since_s > _WAIT_S:
            tries, since_s = 0, now_s
            self._tries.pop(visitor, None)
        if tries >= _TRIES:
            return plain(429, f"{_TRIES} wrong tokens: wait {_WAIT_S:.0f} s")
        if given and secrets.compare_digest(given.encode(), token.encode()):
            return None
        if given:
            self._tries[visitor] = (tries + 1, since_s)
        return plain(401, "a token is needed: open the address that `computeledger web` printed")

    def _without_token(self, request: Request) -> Response | None:
        """The same address without its token, which moves into a cookie: it stays out of history and bookmarks."""
        if self._token is None or "token" not in request.query_params:
            return None
        response = RedirectResponse(str(request.url.remove_query_params("token")), 303)
        response.set_cookie(_COOKIE, self._token, httponly=True, samesite="strict")
        return response


def _special_headers(path: str) -> dict[str, str]:
    """What differs for the documentation, and for a figure that stands alone."""
    if path.startswith(f"{DOCS}/"):
        return _DOCS_HEADERS
    return _FRAMED if path.startswith(f"{FIGURE}/") else {}


def plain(status: int, message: str) -> Response:
    """Say one line as JSON.

    Examples
    --------
    >>> plain(404, "no such page").body
    b'{"control": "", "message": "no such page"}'
    """
    return Response(json.dumps({"control": "", "message": message}), status, media_type="application/json")
