"""DeepSeek's day of production as a plan that ships: its layouts, its load, its nodes."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from computeledger.arrays import Num, median
from computeledger.economics.plan.ledger import estimate_ledger
from computeledger.economics.plan.read import load_plan, read_plan
from computeledger.errors import InputError, PlanError
from computeledger.units import HOUR_S

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
#: open-infra-index, day 6: nodes of 8 H800 on average over 24 hours; tokens/s of a node, cached input counted in.
NODES, PREFILL_PER_NODE, DECODE_PER_NODE = 226.75, 73.7e3, 14.8e3


def day(**changes: Any) -> dict[str, Any]:
    plan = tomllib.loads((EXAMPLES / "deepseek-day.toml").read_text("utf-8"))
    plan["inference"] |= changes
    return {**plan, "inference": {key: one for key, one in plan["inference"].items() if one is not None}}


def hours(plan: dict[str, Any]) -> Num:
    return estimate_ledger(read_plan(plan), 512).phases["inference"].gpu_hours


def test_the_shipped_day_takes_its_nodes_within_a_fifth() -> None:
    phase = estimate_ledger(load_plan(EXAMPLES / "deepseek-day.toml"), 512).phases["inference"]
    assert median(phase.gpu_hours) / 8 / 24 == pytest.approx(NODES, rel=0.2)
    assert np.quantile(phase.gpu_hours, 0.05) < NODES * 8 * 24 < np.quantile(phase.gpu_hours, 0.95)


def test_each_pool_takes_what_its_own_rate_says() -> None:
    """The stated rates split the nodes into 95 that read, within two fifths, and 131 that decode, within a fifth."""
    said = estimate_ledger(load_plan(EXAMPLES / "deepseek-day.toml"), 512).phases["inference"]
    (busy,) = (one for one in said.figures if one.name.endswith("busy_gpu_hours"))
    term = {one.name: median(one.value) for one in busy.terms}
    decode = 168e9 * term["t_out"] * term["GPUs per replica"] / HOUR_S / 8 / 24
    read = (266e9 * term["t_in"] + 342e9 * term["t_read"]) * term["GPUs per reader"] / HOUR_S / 8 / 24
    assert decode == pytest.approx(168e9 / 86400 / DECODE_PER_NODE, rel=0.2)
    assert read == pytest.approx(608e9 / 86400 / PREFILL_PER_NODE, rel=0.4)


def test_both_examples_state_the_published_layouts() -> None:
    for name in ("deepseek-day", "deepseek-v3"):
        stated = tomllib.loads((EXAMPLES / f"{name}.toml").read_text("utf-8"))["inference"]
        assert (stated["prefill_layout"], stated["layout"]) == ("tp1-dp32-ep32", "tp1-dp144-ep144")
        assert (stated["redundant_experts"], stated["two_batches"]) == (32, "yes")


def test_what_the_day_lives_from() -> None:
    """Each mechanism takes GPU-time off: two batches in turn, wide decoding; a usual deployment takes more."""
    stated = median(hours(day()))
    for changes in ({"two_batches": "no"}, {"layout": "tp1-dp32-ep32", "batch": "1500..1700"}, {"tuning": "usual"}):
        assert median(hours(day(**changes))) > 1.05 * stated, changes


def test_attending_to_a_cached_prefix_is_paid_once() -> None:
    """A prefilled token costs what it costs without the prefix, to the chunk's filling; cached ones pay theirs."""
    kinds = {"user_input": "1917 tokens", "cached": "2465 tokens", "output": "1211 tokens"}
    plan = day(rate=None, life=None, kinds=kinds)
    (busy,) = (one for one in estimate_ledger(read_plan(plan), 16).phases["inference"].figures if "busy" in one.name)
    term = {one.name: one.value for one in busy.terms}
    no_prefix = day(rate=None, life=None, kinds={**kinds, "cached": "0 tokens"}, cached_tokens="0 tokens")
    (bare,) = (
        one for one in estimate_ledger(read_plan(no_prefix), 16).phases["inference"].figures if "busy" in one.name
    )
    alone = {one.name: one.value for one in bare.terms}["t_in"]
    np.testing.assert_allclose(term["t_in"], alone, rtol=0.05)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"redundant_experts": None}, "256 experts of deepseek-ai/DeepSeek-V3 cannot be spread over ep144"),
        ({"layout": None}, "two pools have two layouts"),
        ({"prefill_layout": "tp1-dp32-ep12"}, "ep12 must divide"),
    ],
)
def test_layouts_that_cannot_be_are_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises((InputError, PlanError), match=said):
        hours(day(**changes))
