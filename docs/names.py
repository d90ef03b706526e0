"""What the theme leaves without a name for those who do not see it: the search dialog."""

from __future__ import annotations

from typing import Any

from mkdocs.exceptions import PluginError

_DIALOG = '<div class="md-search" data-md-component="search" role="dialog"'


def on_post_page(output: str, **_: Any) -> str:
    """Name it on every page; a theme that writes it otherwise stops the build."""
    if _DIALOG not in output:
        raise PluginError(f"the theme no longer writes {_DIALOG}: see whether docs/names.py is still needed")
    return output.replace(_DIALOG, f'{_DIALOG} aria-label="Search"')


def on_post_template(output_content: str, **_: Any) -> str:
    """The same for pages that are no documents, such as that of an address that does not exist."""
    return output_content.replace(_DIALOG, f'{_DIALOG} aria-label="Search"')
