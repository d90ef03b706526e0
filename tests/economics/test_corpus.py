"""Documents read again, held in a cache, or trained on: closed forms, break-even, limits, one command."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import computeledger as cl
from computeledger.economics.hosting.corpus import LORA, Corpus, Way, compare_corpus_ways
from computeledger.economics.hosting.kv_tiers import load_tier_market
from computeledger.errors import InputError
from computeledger.facts.load import load_model, load_system
from computeledger.interfaces.cli import main
from computeledger.physics.parallelism import Layout
from computeledger.physics.roofline import Machine, Precision
from computeledger.physics.transformer import n_params_active
from computeledger.workloads.serving.estimate import ServingScenario
from tests.commands import call

MODEL = load_model("llama-3.1-8b")
MACHINE = Machine(load_system("h100-nvl8"))
ASKED = ServingScenario(MODEL, Layout(), Precision(), 500.0, 500.0, 16.0, 0.0, 2.0)
CORPUS = Corpus(50e3, 1000.0, 3.0, 30 * 86400.0, 0.4)


def ways(corpus: Corpus = CORPUS, scenario: ServingScenario = ASKED) -> dict[str, Way]:
    return {one.name: one for one in compare_corpus_ways(scenario, MACHINE, corpus, {}, load_tier_market())}


def test_training_takes_six_flop_a_parameter_token_and_pass() -> None:
    found = ways()
    by_hand = 6 * n_params_active(MODEL) * 50e3 * 3 / (0.4 * 989.4e12)
    assert found["tuned"].change_gpu_s == pytest.approx(by_hand, rel=1e-3)
    assert 4 / 6 < found[LORA].change_gpu_s / by_hand < 0.69
    day = found["tuned"].usd_per_request * 1000 + 2 / 3600 * by_hand / 30
    assert found["tuned"].usd_per_day(CORPUS) == pytest.approx(day, rel=1e-3)


def test_reading_costs_at_least_its_products_and_a_cache_less() -> None:
    found = ways()
    least = 2 * n_params_active(MODEL) * 50e3 / 989.4e12
    assert found["read"].gpu_s_per_request - found["tuned"].gpu_s_per_request > least
    assert found["tuned"].usd_per_request < found["cached"].usd_per_request < found["read"].usd_per_request


@pytest.mark.parametrize("other", ["read", "cached"])
def test_at_the_break_even_both_ways_cost_the_same(other: str) -> None:
    found = ways()
    at = float(found["tuned"].pays_from(found[other], CORPUS))
    there = replace(CORPUS, questions_per_day=at)
    one, two = (found[name].usd_per_day(there) for name in ("tuned", other))
    assert one == pytest.approx(two, rel=1e-9)
    more = replace(CORPUS, questions_per_day=2 * at)
    assert found["tuned"].usd_per_day(more) < found[other].usd_per_day(more)


def test_the_more_is_trained_and_the_oftener_it_changes_the_later_training_pays() -> None:
    def from_(**changes: float) -> float:
        corpus = replace(CORPUS, **changes)
        found = ways(corpus)
        return float(found["tuned"].pays_from(found["read"], corpus))

    assert from_(passes=350.0) > 100 * from_()  # paraphrases are written too
    assert from_(refresh_s=86400.0) == pytest.approx(30 * from_())
    assert from_(passes=1e-9) < 1e-6
    never = ways()["read"].pays_from(ways()["tuned"], CORPUS)
    assert np.all(np.isinf(never))


def test_documents_that_fit_no_gpu_are_not_read() -> None:
    assert list(ways(replace(CORPUS, tokens=10e6))) == ["tuned", "lora"]


def test_the_command_prints_the_ways_and_refuses_what_says_nothing(tmp_path: Path) -> None:
    command = ["serve", "--model", "llama-3.1-8b", "--system", "h100-nvl8", "--layout", "tp1", "--batch", "16",
               "--corpus", "50K", "--samples", "16"]  # fmt: skip
    printed = call(main, command, tmp_path).stdout
    assert "A day of the documents costs" in printed
    assert "Requests a day from which a way costs less" in printed and "yang-2024-entigraph" in printed
    for given, said in (
        ({"corpus_passes": 3}, "corpus_passes is of documents"), ({"corpus": "50K", "price": "$0/h"}, "price of GPU"),
        ({"corpus": "50K", "mode": "disaggregated"}, "not built for two pools"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=said):
            cl.serve(model="llama-3.1-8b", system="h100-nvl8", samples=16, **given).to_dict()
