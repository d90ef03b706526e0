"""Shortcuts through samples give what the plain way gives, to the last digit."""

from __future__ import annotations

import numpy as np
import pytest

from computeledger.arrays import QUANTILES, Range, centred_ranks, quantiles, sample


@pytest.mark.parametrize("n_samples", [2, 3, 7, 64, 4096])
def test_quantiles_are_those_of_numpy(n_samples: int) -> None:
    values = np.random.default_rng(n_samples).lognormal(0.0, 3.0, n_samples)
    expected = np.quantile(values, list(QUANTILES.values()))
    assert quantiles(values) == dict(zip(QUANTILES, expected.tolist(), strict=True))
    values[0] = np.nan
    unknown = quantiles(values)
    assert isinstance(unknown, dict)
    assert all(np.isnan(one) for one in unknown.values())


def test_one_number_stays_one_number_also_where_it_is_not_known() -> None:
    assert isinstance(quantiles(float("nan")), float)
    assert isinstance(quantiles(np.array(np.inf)), float)


def test_equal_samples_rank_in_their_order() -> None:
    values = np.array([2.0, 1.0, 2.0, 1.0, 3.0])
    assert np.argsort(centred_ranks(values)).tolist() == [1, 3, 0, 2, 4]


def test_a_sample_is_the_quantile_of_its_stratum() -> None:
    """Drawn by hand: a permutation of the strata, a place within each, the range's own quantile."""
    stream = np.random.default_rng([5, *b"rate"])
    strata = (stream.permutation(512) + stream.random(512)) / 512
    drawn = np.asarray(sample({"rate": Range(1.0, 10.0)}, 512, 5)["rate"])
    assert np.array_equal(np.argsort(drawn), np.argsort(strata))
    below = np.searchsorted(np.sort(drawn), [1.0, 10.0]) / 512
    assert below == pytest.approx([0.05, 0.95], abs=1 / 512)
