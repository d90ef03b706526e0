"""A rent that nobody publishes is an assumption, and says how far it may be off."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from computeledger.economics.hosting.rent import hourly_price
from computeledger.facts.catalog import accelerator_ids
from computeledger.facts.editions import load_prices
from computeledger.facts.load import load_accelerator
from computeledger.interfaces.cli import main
from tests.commands import call

RENTS = {name: kinds["rent"] for name, kinds in load_prices().usd_per_gpu_hour.items() if "rent" in kinds}


@pytest.mark.parametrize("name", accelerator_ids())
def test_every_chip_has_an_hour_s_price(name: str) -> None:
    price = hourly_price(load_accelerator(name))
    assert price is not None
    if name in RENTS:
        assert price == RENTS[name]
    else:
        assert price.source == "assumption"
        assert price.low is not None
        assert price.high is not None
        assert 0.005 < price.low < price.value < price.high < 120


def test_the_interval_holds_rents_that_are_left_out() -> None:
    bandwidth = np.log([load_accelerator(name).hbm_bytes_per_s.value for name in RENTS])
    rent = np.log([fact.value for fact in RENTS.values()])
    guessed = hourly_price(load_accelerator("m4-max"))
    assert guessed is not None
    assert guessed.high is not None
    factor = np.log(guessed.high / guessed.value)
    held = []
    for place in range(len(rent)):
        rest = np.arange(len(rent)) != place
        slope, intercept = np.polyfit(bandwidth[rest], rent[rest], 1)
        held.append(abs(rent[place] - intercept - slope * bandwidth[place]) <= factor)
    assert 0.85 <= np.mean(held) <= 0.98


def test_an_owner_s_price_is_never_guessed() -> None:
    assert hourly_price(load_accelerator("m4-max"), "own") is None


def test_an_answer_says_that_its_price_is_an_assumption(tmp_path: Path) -> None:
    asked = ("serve", "--model", "llama-3.1-8b", "--system", "1xm4-max", "--batch", "1", "--samples", "16")
    done = call(main, asked, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "$0.31 (rent, edition 2026-11, assumption)" in done.stdout
