"""What a reader does with a page of the app: waits for its answer, moves a slider, looks where the focus is."""

from __future__ import annotations

from typing import Any


def settled(page: Any, before: str) -> None:
    """Wait for a newer answer, drawn."""
    page.wait_for_function(
        "before => { const now = document.documentElement.dataset;"
        " return Number(now.shown || 0) > Number(before) && !now.asking }",
        arg=before,
    )
    page.wait_for_function("!document.querySelector('.canvas') || document.querySelector('.canvas .main-svg')")


def shown(page: Any) -> str:
    return str(page.evaluate("document.documentElement.dataset.shown"))


def has_focus(page: Any, wanted: str) -> None:
    """Wait until what has the focus is what a selector names, or stands in it."""
    page.wait_for_function("wanted => document.activeElement.closest(wanted)", arg=wanted)


def drag(page: Any, control: str, position: int) -> None:
    before = shown(page)
    page.locator(f".control[data-name='{control}'] .slider").evaluate(
        "(slider, to) => { slider.value = to; for (const kind of ['input', 'change']) "
        "slider.dispatchEvent(new Event(kind, { bubbles: true })); }",
        position,
    )
    settled(page, before)
