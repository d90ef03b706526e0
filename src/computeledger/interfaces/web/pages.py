"""The pages of the app, in the order of its menu."""

from __future__ import annotations

from computeledger.interfaces.web import (
    page_claims,
    page_facts,
    page_frontier,
    page_life,
    page_pretrain,
    page_prices,
    page_rl,
    page_route,
    page_serve,
)
from computeledger.interfaces.web.spec import Page

PAGES: tuple[Page, ...] = (
    page_life.PAGE,
    page_serve.PAGE,
    page_pretrain.PAGE,
    page_rl.PAGE,
    page_prices.PAGE,
    page_route.PAGE,
    page_frontier.PAGE,
    page_claims.PAGE,
    page_facts.PAGE,
)
_BY_NAME = {one.name: one for one in PAGES}


def page_named(name: str) -> Page:
    """A page by the last part of its address.

    Examples
    --------
    >>> page_named("serve").title
    'Serve'
    """
    return _BY_NAME[name]
