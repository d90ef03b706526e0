"""Times spread about a prediction that never pass the physical limit below it."""

from __future__ import annotations

import numpy as np

from computeledger.arrays import Num

#: Smallest share of the way from the limit to the prediction that a measurement is read as.
_NEAREST_FRACTION = 0.05
#: Share of a prediction that lies above the limit at least.
_SHORTEST_WAY = 1e-6


def above_limit_s(central_s: Num, limit_s: Num, ratio: Num) -> Num:
    """Time at a ratio of real over modelled time.

    ``r t`` where the ratio is 1 or more. Below, the way to the limit shrinks: ``l + (t - l) r^(t / (t - l))``, which
    leaves the prediction as steeply as ``r t`` does and never reaches the limit.

    Parameters
    ----------
    central_s, limit_s : float or ndarray
        Modelled time ``t``, and the limit ``l``, at most ``t`` [s].
    ratio : float or ndarray
        ``r``, positive [-].

    Returns
    -------
    float or ndarray
        At least ``r t``, and above the limit where the prediction is [s].

    Examples
    --------
    >>> [round(float(above_limit_s(1.5, 1.0, ratio)), 3) for ratio in (0.5, 0.9, 1.0, 2.0)]
    [1.062, 1.365, 1.5, 3.0]
    """
    if np.all(np.asarray(ratio) >= 1):
        return central_s * ratio
    way_s = np.maximum(central_s - limit_s, _SHORTEST_WAY * central_s)
    nearer_s = limit_s + way_s * np.minimum(ratio, 1.0) ** (central_s / way_s)
    return np.where(np.asarray(ratio) < 1, nearer_s, central_s * ratio)


def ratio_above_limit(real_s: Num, central_s: Num, limit_s: Num) -> Num:
    """Ratio at which a modelled time is the real one: :func:`above_limit_s` the other way round.

    Parameters
    ----------
    real_s, central_s, limit_s : float or ndarray
        Measured and modelled time, and the limit; a measurement at the limit or below it is read as one just above [s].

    Returns
    -------
    float or ndarray
        Plain ``real / central`` where that is 1 or more [-].

    Examples
    --------
    >>> round(float(above_limit_s(1.5, 1.0, ratio_above_limit(1.2, 1.5, 1.0))), 9)
    1.2
    """
    way_s = np.maximum(np.asarray(central_s) - limit_s, _SHORTEST_WAY * central_s)
    left = np.clip((np.asarray(real_s) - limit_s) / way_s, _NEAREST_FRACTION, 1.0)
    return np.where(np.asarray(real_s) < central_s, left ** (way_s / central_s), np.asarray(real_s) / central_s)
