"""Addresses of the app on the pages, ``In the app (`computeledger web`): `/serve?...```, as links.

Where the setting ``extra.app`` (the variable ``APP_URL``) says where an app runs, they lead there. Otherwise
``assets/site.js`` makes them links when the app itself shows the site; elsewhere they stay text. No page knows a port.
"""

from __future__ import annotations

import re

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

_ADDRESS = re.compile(r"(?<=\(<code>computeledger web</code>\): )<code>(/\w[^<]*)</code>", re.IGNORECASE)


def linked(content: str, app: str) -> str:
    """A page's HTML with the addresses of the app as links to where one runs, or marked for the script."""

    def link(found: re.Match[str]) -> str:
        address = found[1].replace(" ", "%20")
        to = f' href="{app.rstrip("/")}{address}"' if app else ""
        return f'<a class="app-link" data-app="{address}"{to}>{found[0]}</a>'

    return _ADDRESS.sub(link, content)


def on_page_content(content: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Link a page's addresses of the app."""
    del page, files
    return linked(content, config.extra.get("app") or "")
