"""Measurements that are named beside an answer: the nearest by label and size, whatever their error."""

from __future__ import annotations

import pytest

from computeledger.validation.accuracy.nearest import NEAREST, Wanted, nearest_figures
from computeledger.validation.accuracy.table import published
from computeledger.validation.prices import check_prices
from computeledger.validation.prices_near import sizes_by_price
from computeledger.validation.published.real_systems import real_systems


def test_the_nearest_share_the_shape_and_the_chip() -> None:
    """DeepSeek-R1 on H200 is DeepSeek-V3's shape there; each source and deployment is named once."""
    wanted = Wanted("serving", "deepseek-ai/DeepSeek-V3", "h200-sxm5-141gb", "sglang", ("tpot",), "usual")
    found = nearest_figures(wanted, {"tpot": 0.05})
    assert len(found.nearest) == NEAREST and found.n_same_model_and_chip > NEAREST
    assert {(one.accelerator, one.quantity) for one in found.nearest[:2]} == {("h200-sxm5-141gb", "tpot")}
    assert len({(one.source, one.accelerator) for one in found.nearest}) == NEAREST
    rows = {(row["source"], row["measured"]): row for row in published("serving", "usual").rows}
    for one in found.nearest:
        row = rows[
            one.source, next(text for source, text in rows if source == one.source and float(text) == one.measured)
        ]
        assert one.error_fraction == pytest.approx(float(row["p50"]) / float(row["measured"]) - 1)


def test_what_is_named_does_not_depend_on_how_well_it_was_predicted() -> None:
    """Among the figures of one deployment the one of the nearest predicted size is named, be it far off or not."""
    wanted = Wanted("training", "meta-llama/Meta-Llama-3.1-405B", "gb200-gpu", "megatron-bridge", ("step_time",))
    rows = [row for row in published("training").rows if row["source"].startswith("NVIDIA Megatron-Bridge")
            and row["model"] == wanted.model and row["accelerator"] == wanted.accelerator]  # fmt: skip
    assert len(rows) > NEAREST
    for row in rows:
        first = nearest_figures(wanted, {"step_time": float(row["p50"])}).nearest[0]
        assert first.p50 == pytest.approx(float(row["p50"]))


def test_a_model_that_nobody_measured_has_neighbours_and_says_so() -> None:
    wanted = Wanted("serving", "100B-A10B", "h100-sxm5-80gb", "vllm", ("tpot", "ttft"), "usual")
    found = nearest_figures(wanted, {"tpot": 0.03, "ttft": 1.0})
    assert found.n_same_model_and_chip == 0 and len(found.nearest) == NEAREST
    assert {one.accelerator for one in found.nearest} == {"h100-sxm5-80gb"}


def test_sizes_by_price_are_those_of_the_check_of_prices() -> None:
    found, check = sizes_by_price(0.27, 1.1), check_prices()
    assert (found.n, found.coverage_90) == (check.n, check.coverage["90"])
    assert found.median_error_ratio == pytest.approx(10**check.median_abs_log10_error)
    prices = [one.usd_per_mtok_output for one in found.nearest]
    assert all(0.5 < price / 1.1 < 2 for price in prices)


@pytest.mark.parametrize("command", ["serve", "rl"])
def test_a_real_system_is_found_again_by_its_own_question(command: str) -> None:
    """Figures come from the tables of measurements; each row that is named exists once."""
    for one in real_systems(command):
        assert one.url.startswith("https://") and all(figure.value > 0 for figure in one.figures)
