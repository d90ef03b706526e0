"""The pages of the app, in the order of its menu."""

from __future__ import annotations

from computeledger.interfaces.web.pages import accuracy as page_accuracy
from computeledger.interfaces.web.pages import claims as page_claims
from computeledger.interfaces.web.pages import compare as page_compare
from computeledger.interfaces.web.pages import facts as page_facts
from computeledger.interfaces.web.pages import frontier as page_frontier
from computeledger.interfaces.web.pages import life as page_life
from computeledger.interfaces.web.pages import memory as page_memory
from computeledger.interfaces.web.pages import pretrain as page_pretrain
from computeledger.interfaces.web.pages import prices as page_prices
from computeledger.interfaces.web.pages import rl as page_rl
from computeledger.interfaces.web.pages import route as page_route
from computeledger.interfaces.web.pages import serve as page_serve
from computeledger.interfaces.web.pages import sheet as page_sheet
from computeledger.interfaces.web.pages import think as page_think
from computeledger.interfaces.web.spec import Page

PAGES: tuple[Page, ...] = (
    page_life.PAGE,
    page_serve.PAGE,
    page_compare.PAGE,
    page_memory.PAGE,
    page_pretrain.PAGE,
    page_rl.PAGE,
    page_prices.PAGE,
    page_sheet.PAGE,
    page_route.PAGE,
    page_think.PAGE,
    page_frontier.PAGE,
    page_accuracy.PAGE,
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
