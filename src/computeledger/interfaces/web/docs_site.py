"""The documentation, where it has been built: pages of the same app, so that links need no port."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import computeledger

#: Where the app shows it.
DOCS = "/docs"
#: What the repository builds it from, and into.
_RECIPE, _SITE = "mkdocs.yml", "site"
_INDEX = "index.html"


def docs_folder() -> Path | None:
    """The folder of the built site: that of the repository this package runs from; None where there is none."""
    root = Path(computeledger.__file__).resolve().parents[2]
    folder = root / _SITE
    return folder if (root / _RECIPE).is_file() and (folder / _INDEX).is_file() else None


def docs_file(name: str, folder: Path | None = None) -> Path | None:
    """A file of the site by its address; None where there is none, or it lies outside.

    Examples
    --------
    >>> docs_file("../pyproject.toml", Path("site")) is None
    True
    """
    home = folder or docs_folder()
    if home is None or "\0" in name:
        return None
    file = (home / name).resolve()
    file = file / _INDEX if file.is_dir() else file
    return file if file.is_relative_to(home.resolve()) and file.is_file() else None


def docs_problem(name: str) -> str:
    """Why a page of the documentation cannot be shown.

    Examples
    --------
    >>> "make docs" in docs_problem("index.html") or "no such page" in docs_problem("index.html")
    True
    """
    if docs_folder() is None:
        return (
            "The documentation is not built on this machine. Its text is in the folder docs of the repository; "
            "`make docs` there builds the site, and this address then shows it."
        )
    return f"{name[:80]!r}: no such page of the documentation"


def repository_url() -> str:
    """Where the package says that its repository is; empty where it does not say."""
    try:
        urls = metadata.metadata("computeledger").get_all("Project-URL") or []
    except metadata.PackageNotFoundError:
        return ""
    known = dict(one.split(", ", 1) for one in urls)
    return next((known[name] for name in ("Repository", "Source", "Homepage") if name in known), "")
