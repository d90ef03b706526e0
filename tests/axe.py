"""axe-core on a page in the browser."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from typing import Any

SERIOUS = ("serious", "critical")
EVERY = ("minor", "moderate", *SERIOUS)

# Only what fails is told in full: to put the rest of a long page into words takes seconds.
_RUN = "async tags => (await axe.run({ runOnly: tags, resultTypes: ['violations'] })).violations"


def issues(page: Any, tags: Sequence[str], impacts: Sequence[str] = SERIOUS) -> list[tuple[str, str]]:
    """Rule and first place of every issue of the given impacts."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(resources.files("axe_playwright_python").joinpath("axe.min.js").read_text("utf-8"))
    found = page.evaluate(_RUN, list(tags))
    return [(one["id"], one["nodes"][0]["html"]) for one in found if one["impact"] in impacts]
