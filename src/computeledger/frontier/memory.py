"""HBM's share of what a system costs: what its makers pay for it, and what that is worth in the price of a chip."""

from __future__ import annotations

from dataclasses import dataclass

from computeledger.facts.reading import read_facts
from computeledger.frontier.text import frontier_document


@dataclass(frozen=True, slots=True)
class HbmShare:
    """HBM's share of a system's capital."""

    at_cost_fraction: float
    with_margin_fraction: float


def hbm_share() -> HbmShare:
    """Work out HBM's share of capital, ``h g`` with the margin and ``h g (1 - m)`` at cost.

    ``h``: HBM in the cost of a chip's components; ``g``: chips in the capital of a site; ``m``: their maker's margin.

    References
    ----------
    epoch-chip-components; bernstein-gw-cost.

    Examples
    --------
    >>> found = hbm_share()
    >>> round(found.at_cost_fraction, 3), round(found.with_margin_fraction, 3)
    (0.074, 0.246)
    """
    document = frontier_document()
    facts = read_facts(document, "memory", document.table["memory"])
    passed_on = facts["hbm_of_components_fraction"].value * facts["chips_of_capex_fraction"].value
    return HbmShare(passed_on * (1.0 - facts["margin_fraction"].value), passed_on)
