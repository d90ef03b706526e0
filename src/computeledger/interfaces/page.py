"""What every HTML page is made of: its assets, the drawing library, its data, the version that wrote it."""

from __future__ import annotations

import functools
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
    return environment.get_template(name)


def assets(*names: str) -> Markup:
    """Styles or scripts that are shipped beside the templates, one after the other."""
    folder = resources.files("computeledger.interfaces").joinpath("templates")
    return Markup("".join(folder.joinpath(name).read_text("utf-8") for name in names))  # noqa: S704 (shipped)


@functools.cache
def plotly_script() -> Markup:
    """The drawing library as the installed plotly package ships it."""
    text = resources.files("plotly").joinpath("package_data", "plotly.min.js").read_text("utf-8")
    return Markup(text)  # noqa: S704 (shipped with plotly)


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
