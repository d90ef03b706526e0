"""The rule of shapes: shipped as fitted, and as far from publishers that were left out as it says."""

from __future__ import annotations

import numpy as np
import pytest

from computeledger.facts.shape_rule import shape_rule
from computeledger.validation.shapes import fit_rule, left_out_ratios, open_models, time_spreads

#: Median error of the rule's shape against the real one, its publisher left out: given its sizes, and its cache too.
MOST = {"tpot": (0.15, 0.12), "ttft": (0.10, 0.08), "step": (0.12, 0.12), "kv": (0.60, 0.01)}


def test_the_shipped_rule_is_the_fit() -> None:
    fitted, shipped = fit_rule(open_models()), shape_rule()
    for name, law in shipped.laws.items():
        assert fitted.laws[name] == pytest.approx(law, rel=0.01, abs=0.001), name
        assert fitted.spread[name] == pytest.approx(shipped.spread[name], rel=0.02), name
    assert (fitted.vocab_size, fitted.n_experts_active) == (shipped.vocab_size, shipped.n_experts_active)


def test_the_shipped_spreads_are_those_of_publishers_left_out() -> None:
    assert time_spreads(open_models()) == pytest.approx(shape_rule().time_spread, rel=0.1)


@pytest.mark.parametrize("with_cache", [False, True])
def test_a_shape_by_rule_answers_as_the_real_one(with_cache: bool) -> None:
    found = left_out_ratios(open_models(), with_cache)
    errors = {name: float(np.median(np.abs(np.array(ratios) - 1))) for name, ratios in found.items()}
    assert {name: error for name, error in errors.items() if error > MOST[name][with_cache]} == {}
