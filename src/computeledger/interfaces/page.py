"""What every HTML page is made of: its assets, the drawing library, its data, the version that wrote it."""

from __future__ import annotations

import functools
import gzip
import hashlib
import json
from importlib import metadata, resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup


@functools.cache
def page_template(name: str) -> Template:
    """A template of this package; what it writes is escaped."""
    environment = Environment(
        loader=PackageLoader("computeledger.interfaces", "templates"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters["coded"] = coded
    return environment.get_template(name)


def coded(text: str) -> Markup:
    """Escape a sentence, and set what stands between backticks as code.

    Examples
    --------
    >>> coded("a < b: see `computeledger serve`")
    Markup('a &lt; b: see <code>computeledger serve</code>')
    """
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if place % 2 else part for place, part in enumerate(text.split("`"))
    )


def assets(*names: str) -> Markup:
    """Styles or scripts that are shipped beside the templates, one after the other."""
    folder = resources.files("computeledger.interfaces").joinpath("templates")
    return Markup("".join(folder.joinpath(name).read_text("utf-8") for name in names))  # noqa: S704 (shipped)


@functools.cache
def plotly_packed() -> bytes:
    """The drawing library that is shipped, compressed with gzip; `vendored/README.md` says where it is from."""
    return resources.files("computeledger.interfaces").joinpath("vendored", "plotly-small.min.js.gz").read_bytes()


@functools.cache
def plotly_name() -> str:
    """A name that changes with the library, so that a browser may keep the file for good."""
    return f"plotly.{hashlib.sha256(plotly_packed()).hexdigest()[:16]}.js"


def plotly_script() -> Markup:
    """The drawing library as the text of a script.

    Examples
    --------
    >>> "plotly.js (scatter, bar" in plotly_script()[:100]
    True
    """
    return Markup(gzip.decompress(plotly_packed()).decode())  # noqa: S704 (shipped)


def script_json(value: Any) -> Markup:
    """JSON that cannot end the script element it stands in."""
    return Markup(json.dumps(value, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c"))  # noqa: S704


def foot(title: str) -> Markup:
    """Style that puts a title at the foot of every printed sheet, for pages without a script."""
    safe = "".join(one if one.isalnum() or one in " .,-/()" else f"\\{ord(one):x} " for one in title)
    return Markup(f':root {{ --sheet: "{safe}"; }}')  # noqa: S704 (escaped)


def version() -> str:
    """Version of the installed package."""
    try:
        return metadata.version("computeledger")
    except metadata.PackageNotFoundError:
        return "not installed"
