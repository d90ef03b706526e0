"""The loss laws that ship: where each was read, what it was fitted on, what routing is worth by each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from computeledger.economics.scaling.forms import rl_recipe
from computeledger.economics.scaling.laws import law_names, loss_law_names, read_law
from computeledger.economics.scaling.sparsity import moe_multipliers
from computeledger.questions.answer import Answer

#: Budgets at which routing is judged: inside the fits, and far beyond them [FLOP].
_BUDGETS = (1e19, 1e21, 1e25)


@dataclass(frozen=True, repr=False, slots=True)
class LawsAnswer(Answer):
    """The laws that ship."""

    def contents(self, *, working: bool = False) -> dict[str, Any]:  # noqa: ARG002 (it has none)
        """As ``computeledger allocate --laws --json`` prints it."""
        return laws_document()


def laws_document() -> dict[str, Any]:
    """Laws, multipliers of routing, and sigmoids of RL."""
    laws = []
    for name in law_names():
        table, origin = read_law(name, unverified=True)
        laws.append({
            "name": name, "read": table["read"], "on": table["read"] != "notes",
            "for_allocate": name in loss_law_names(),
            "fit": table["fit"], **origin,
        })  # fmt: skip
    multipliers = [{"flop": flop, **row} for flop in _BUDGETS for row in moe_multipliers(flop)]
    recipes = read_law("scalerl_2025")[0]["recipes"]
    return {
        "laws": laws, "moe_multipliers": multipliers, "rl_recipes": {name: rl_recipe(name) for name in recipes},
    }  # fmt: skip
