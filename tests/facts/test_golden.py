"""The shipped facts agree with second sources, with each other and with what can be counted; and the list is honest."""

from __future__ import annotations

import pytest

from computeledger.facts.load import load_model
from computeledger.physics.parallelism import Layout
from computeledger.physics.roofline import Precision
from computeledger.physics.serving.memory import weights_bytes_per_gpu
from computeledger.sources import load_sources
from tests.facts import checks

GOLDEN = checks.golden_values()
WIDEST_WITHOUT_A_REASON = 0.05


@pytest.mark.parametrize("check", checks.CHECKS, ids=lambda check: check.__name__)
def test_the_shipped_facts_hold(check: object) -> None:
    assert check(checks.shipped_facts()) == []  # type: ignore[operator]


def test_there_are_enough_second_sources() -> None:
    facts = checks.shipped_facts()
    assert set(GOLDEN) <= set(facts)
    second = [key for key, entry in GOLDEN.items() if "again" not in entry]
    assert len(second) >= 130
    assert len(checks.GOLDEN["relation"]) >= 100


def test_a_golden_value_is_from_another_publication_or_says_why_not() -> None:
    facts = checks.shipped_facts()
    same = [key for key, entry in GOLDEN.items() if entry["source"] == facts[key].source and "again" not in entry]
    assert same == []


def test_every_golden_source_is_known_and_every_listed_one_used() -> None:
    used = {entry["source"] for entry in GOLDEN.values()}
    listed = set(checks.GOLDEN["sources"])
    assert used - listed - set(load_sources()) == set()
    assert listed - used == set()
    assert listed & set(load_sources()) == set()
    assert all(source["url"].startswith("https://") for source in checks.GOLDEN["sources"].values())


def test_every_golden_entry_says_where_and_why() -> None:
    words = {"expected", "source", "locator", "tolerance", "reason", "again"}
    for key, entry in GOLDEN.items():
        assert set(entry) <= words, key
        assert len(entry["locator"]) > 3, key
        assert entry.get("tolerance", 0) <= WIDEST_WITHOUT_A_REASON or entry["reason"], key
        assert entry.get("tolerance", 0) < 0.1, key


def test_every_relation_says_why_and_is_tighter_than_a_tenth() -> None:
    words = {"says", "left", "right", "factor", "offset", "tolerance"}
    for relation in checks.GOLDEN["relation"]:
        assert set(relation) <= words, relation
        assert len(relation["says"]) > 5
        assert relation["left"] != relation["right"]
        assert relation.get("tolerance", 0) <= 0.075, relation


def test_nvidia_measured_the_weights_of_a_quantised_model() -> None:
    """331 GB for Ultra in NVFP4, which its maker prints: counted from the precision that its file states."""
    model = load_model("nvidia/NVIDIA-Nemotron-3-Ultra-550B-A55B-NVFP4")
    stored = Precision(attention=model.weight_precision, dense=model.dense_precision, experts=model.expert_precision)
    assert float(weights_bytes_per_gpu(model, Layout(), stored)) == pytest.approx(331e9, rel=0.03)
