"""The question of ``computeledger compare``: offers for one workload, and the terms of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from computeledger.errors import InputError
from computeledger.fields import Asked, asked, shared
from computeledger.questions.cost import CostQuestion
from computeledger.questions.prices import BillQuestion
from computeledger.questions.sweep import SweepQuestion

if TYPE_CHECKING:
    from computeledger.arrays import Uncertain
    from computeledger.workloads.questions.serve import ServeQuestion

#: Terms that say what owning or reserving takes; a price that is stated leaves nothing to be worked out of them.
OF_HOLDING = ("occupancy", "electricity", "life", "cost_of_capital", "capex", "operation")


@dataclass(frozen=True, kw_only=True)
class OfferTerms(Asked):
    """How an offer is called and paid; what it runs are the fields of a serving question."""

    name: str | None = asked("text", "What the offer is called.", blank="what it differs in", label="Name")
    term: str = asked(
        "text", "How GPU-hours are had: rented on demand, reserved, or owned.", "rent", label="Term",
        choices=("rent", "reserve", "own"),
    )  # fmt: skip
    region: str | None = asked(
        "text", "Where it stands: a name, which changes no figure.", label="Region", blank="not said"
    )
    api: str | None = asked(
        "text", "A price sheet in place of a system: provider/model, or a sheet's TOML file.", metavar="SHEET",
        label="API",
    )  # fmt: skip
    api_mode: str = shared(BillQuestion, "mode")
    occupancy: Uncertain | None = shared(
        CostQuestion, "occupancy", blank="100 %: the fleet is held for this load alone"
    )
    electricity: Uncertain | None = shared(CostQuestion, "electricity")
    life: Uncertain | None = shared(CostQuestion, "life")
    cost_of_capital: Uncertain | None = shared(CostQuestion, "cost_of_capital")
    capex: Uncertain | None = shared(CostQuestion, "capex")
    operation: Uncertain | None = shared(CostQuestion, "operation")

    def check(self) -> None:
        """Refuse terms that nobody pays by."""
        held = [name for name in OF_HOLDING if getattr(self, name) is not None]
        if held and self.term == "rent":
            raise InputError(f"{held[0]}: is of GPUs that are held: add term = 'reserve' or 'own'")
        if self.api is None and self.api_mode != "standard":
            raise InputError("api_mode: is of a price sheet: add api")


@dataclass(frozen=True, slots=True)
class Offer:
    """One way to serve a workload: a question about a system, or a price sheet with the lengths that it bills.

    ``where`` is what an error says first: the line of the file, and which offer of it.
    """

    name: str
    terms: OfferTerms
    question: ServeQuestion | None
    lengths: Mapping[str, float] = field(default_factory=dict)
    requests_per_s: float | None = None
    where: str = ""


@dataclass(frozen=True, slots=True)
class Offers:
    """Offers for one workload, as they were read."""

    each: tuple[Offer, ...]


@dataclass(frozen=True, kw_only=True)
class CompareQuestion(Asked):
    """Offers for one workload and one promise: what each takes and costs, and which is the cheapest."""

    offers: str | Offers = asked("text", "File of offers.", ..., metavar="OFFERS.toml", takes_record=True)
    workers: int | None = shared(SweepQuestion, "workers")
    cluster: str | None = shared(SweepQuestion, "cluster")
    csv: str | None = asked("text", "Write the offers as CSV.", metavar="FILE")

    def check(self) -> None:
        """Refuse two places to compute."""
        if self.workers is not None and self.cluster is not None:
            raise InputError("--workers and --cluster exclude each other: a cluster has its own workers")
