"""Files that pages are made of: compressed once, and not sent again to a browser that holds them."""

from __future__ import annotations

import functools
import gzip
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources

from fastapi import Response

from computeledger.errors import nearest
from computeledger.interfaces.page import plotly_name, plotly_packed
from computeledger.interfaces.web.guard import plain

_TYPES = {"js": "text/javascript", "css": "text/css", "svg": "image/svg+xml", "woff2": "font/woff2"}
#: What reports have too.
_SHARED = {"terms.js", "folding.js", "cards.js", "cards.css"}
#: The typeface of the pages, each weight under the name of its version: a browser may keep it for good.
TYPEFACE = ("inter-3.19-400.woff2", "inter-3.19-600.woff2")
_YEAR = "max-age=31536000, immutable"


@dataclass(frozen=True, slots=True)
class _File:
    packed: bytes
    tag: str
    #: How long a browser may hold it without asking.
    kept: str


def static_file(name: str, headers: Mapping[str, str]) -> Response:
    """A file by its name, packed where the browser takes that; where it holds the same file, word of that alone.

    Examples
    --------
    >>> first = static_file("icon.svg", {"accept-encoding": "gzip"})
    >>> static_file("icon.svg", {"if-none-match": first.headers["etag"]}).status_code
    304
    """
    file = _file(name)
    if isinstance(file, str):
        return plain(404, file)
    said = {"Cache-Control": file.kept, "ETag": file.tag, "Vary": "Accept-Encoding"}
    if headers.get("if-none-match") == file.tag:
        return Response(status_code=304, headers=said)
    kind = _TYPES[name.rpartition(".")[2]]
    if "gzip" in headers.get("accept-encoding", ""):
        return Response(file.packed, media_type=kind, headers={**said, "Content-Encoding": "gzip"})
    return Response(gzip.decompress(file.packed), media_type=kind, headers=said)


@functools.lru_cache(maxsize=64)
def _file(name: str) -> _File | str:
    """The file, or one line that says what there is."""
    if name == plotly_name():
        return _File(plotly_packed(), f'"{name}"', _YEAR)
    if name in TYPEFACE:
        content = resources.files("computeledger.interfaces").joinpath("vendored", name).read_bytes()
        return _File(gzip.compress(content, mtime=0), f'"{name}"', _YEAR)
    if name in _SHARED:
        folder = resources.files("computeledger.interfaces").joinpath("templates")
    else:
        folder = resources.files("computeledger.interfaces.web").joinpath("static")
    names = [one.name for one in folder.iterdir()]
    if name not in names:
        return f"{name!r}: no such file; {nearest(name, names)}"
    content = folder.joinpath(name).read_bytes()
    return _File(gzip.compress(content, mtime=0), f'"{hashlib.sha256(content).hexdigest()[:16]}"', "no-cache")
