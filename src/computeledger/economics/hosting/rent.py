"""Price of a GPU-hour: the edition's, or what others with such memory rent for."""

from __future__ import annotations

import functools

import numpy as np

from computeledger.facts.editions import load_prices
from computeledger.facts.load import load_accelerator
from computeledger.facts.schema import Accelerator, Fact
from computeledger.units import format_usd

#: Standard deviations from the median to either end of a 90 % interval.
_NINETY = 1.645


def hourly_price(chip: Accelerator, kind: str = "rent") -> Fact | None:
    """Price of an hour of a chip in the newest edition; a rent that nobody publishes is taken from other chips.

    Parameters
    ----------
    chip : Accelerator
        What is rented, reserved or owned.
    kind : str
        ``rent``, ``reserve`` or ``own``.

    Returns
    -------
    Fact or None
        Price [USD/h]. An assumption where ``rent`` is not in the edition: a power of memory bandwidth fitted to the
        rents that are, with the 90 % interval of its residual. None for the other kinds.

    Examples
    --------
    >>> hourly_price(load_accelerator("h200-sxm5-141gb")).source
    'mercatus-gpu-prices'
    >>> guessed = hourly_price(load_accelerator("m4-max"))
    >>> guessed.source, guessed.low < guessed.value < guessed.high
    ('assumption', True)
    """
    stated = load_prices().usd_per_gpu_hour.get(chip.id, {})
    if kind in stated or kind != "rent":
        return stated.get(kind)
    intercept, slope, sd, n_chips, date = _rent_law()
    value = float(np.exp(intercept + slope * np.log(chip.hbm_bytes_per_s.value)))
    factor = float(np.exp(_NINETY * sd))
    note = f"{n_chips} rents against memory bandwidth to the power {slope:.2f}; 90 % of them lie within x {factor:.1f}"
    return Fact(
        value=value, unit="usd_per_hour", given=f"{format_usd(value)}/h", source="assumption", date=date,
        locator="fitted here: nobody's rent of this chip was read", note=note, low=value / factor, high=value * factor,
    )  # fmt: skip


@functools.cache
def _rent_law() -> tuple[float, float, float, int, str]:
    """Least squares of log rent on log bandwidth: intercept, slope, residual [-]; the chips; the newest date."""
    rents = {name: kinds["rent"] for name, kinds in load_prices().usd_per_gpu_hour.items() if "rent" in kinds}
    log_bandwidth = np.log([load_accelerator(name).hbm_bytes_per_s.value for name in rents])
    log_rent = np.log([rent.value for rent in rents.values()])
    slope, intercept = np.polyfit(log_bandwidth, log_rent, 1)
    sd = np.std(log_rent - intercept - slope * log_bandwidth, ddof=2)
    return float(intercept), float(slope), float(sd), len(rents), max(rent.date for rent in rents.values())
