"""What self-contained HTML pages share: assets of the package, the drawing library, data inside a script element."""

from __future__ import annotations

import functools
import json
from importlib import metadata, resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup


@functools.cache
def environment() -> Environment:
    """Templates of this package; everything that they print is escaped."""
    return Environment(
        loader=PackageLoader("computeledger.interfaces", "templates"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip


def asset(*names: str) -> Markup:
    """Styles or scripts of the package, one after the other."""
    folder = resources.files("computeledger.interfaces").joinpath("templates")
    text = "".join(folder.joinpath(name).read_text("utf-8") for name in names)
    return Markup(text)  # noqa: S704 (shipped with the package)


@functools.cache
def plotly_library() -> Markup:
    """The drawing library as the installed plotly package ships it."""
    text = resources.files("plotly").joinpath("package_data", "plotly.min.js").read_text("utf-8")
    return Markup(text)  # noqa: S704 (shipped with plotly)


def script_json(value: Any) -> Markup:
    """JSON that cannot end the script element it stands in."""
    return Markup(json.dumps(value, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c"))  # noqa: S704


def version() -> str:
    """Version of the installed package."""
    try:
        return metadata.version("computeledger")
    except metadata.PackageNotFoundError:
        return "not installed"
