"""Anchors: one measurement shifts an estimate and narrows its interval.

What is written is ``key=value, key=value``. In log space the measurement over the model's median is a ratio; it holds
for another configuration as far as the two share their causes, which the correlation over the samples says, less what
differs between configurations of one machine for no stated reason (variance within against variance between).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from computeledger.arrays import Num, Uncertain
from computeledger.errors import InputError, nearest, shown
from computeledger.files import user_files_allowed
from computeledger.units import DIMENSIONS, parse_quantity

#: Standard deviation of log(real / modelled) between configurations of one machine and software, and between runs of
#: one configuration (assumptions; published configurations that ran again differ by 2 % dense, 7 % with experts).
WITHIN_DENSE, WITHIN_MOE = 0.10, 0.22
REPEAT_DENSE, REPEAT_MOE = 0.03, 0.09


@dataclass(frozen=True, slots=True)
class AnchorKey:
    """A key that an anchor may hold.

    Attributes
    ----------
    dimension : str
        Of :data:`computeledger.units.DIMENSIONS`; empty for a text.
    unit : str
        Unit of a bare number.
    """

    dimension: str = ""
    unit: str = ""


def parse_anchor(text: str, keys: Mapping[str, AnchorKey]) -> dict[str, float | str]:
    """Read an anchor as it is written.

    Parameters
    ----------
    text : str
        ``tokens_per_s_per_gpu=4200, layout=tp2-dp64``: keys and values in any order; numbers may carry units.
    keys : mapping of str to AnchorKey
        What may stand there.

    Returns
    -------
    dict of str to float or str
        Numbers in SI, texts as they are.

    Raises
    ------
    InputError
        A part that is no ``key=value``, a key that is unknown or given twice, a value that is not positive or no single
        number.

    Examples
    --------
    >>> parse_anchor("step=2.5 s, layout=tp2", {"step": AnchorKey("s"), "layout": AnchorKey()})
    {'step': 2.5, 'layout': 'tp2'}
    """
    if not text.strip():
        raise InputError(f"anchor: nothing is given; write key=value, such as {_example(keys)}")
    if "=" not in text and is_file(text):
        raise InputError(f"anchor {shown(text)}: is a file; write key=value, such as {_example(keys)}")
    out: dict[str, float | str] = {}
    for part in text.split(","):
        name, sign, value = (piece.strip() for piece in part.partition("="))
        if not (name and sign and value):
            raise InputError(f"anchor {shown(part.strip())}: expected key=value, such as {_example(keys)}")
        if name not in keys:
            raise InputError(f"anchor {shown(name)}: unknown key; {nearest(name, keys)}")
        if name in out:
            raise InputError(f"anchor {name}: given twice")
        out[name] = _value(name, value, keys[name])
    return out


def is_file(text: str) -> bool:
    """Say whether a text names a file that may be opened.

    Parameters
    ----------
    text : str
        What was written as an anchor.

    Returns
    -------
    bool
        Never for a stranger's text.

    Examples
    --------
    >>> is_file("batch=32,isl=1024"), is_file("nowhere.json")
    (False, False)
    """
    try:
        return user_files_allowed() and Path(text).is_file()
    except (OSError, ValueError):  # longer than a name may be, or with a zero in it
        return False


def _example(keys: Mapping[str, AnchorKey]) -> str:
    name = next((name for name, key in keys.items() if key.dimension), "key")
    return f"{name}=1"


def _value(name: str, text: str, key: AnchorKey) -> float | str:
    if not key.dimension:
        return text
    dimension = key.dimension if key.dimension in DIMENSIONS else "count"
    try:
        value: Uncertain = parse_quantity(text, dimension, key.unit or None)
    except InputError as error:
        raise InputError(f"anchor {name}={error}") from None
    if not isinstance(value, float) or value <= 0:
        raise InputError(f"anchor {name}={shown(text)}: expected one number greater than 0")
    return value


@dataclass(frozen=True, slots=True)
class Spread:
    """Scatter that no factor explains, as standard deviations of a logarithm.

    Attributes
    ----------
    within : float
        Between configurations of one machine and software [-].
    repeat : float
        Between runs of one configuration [-].
    """

    within: float
    repeat: float


def spread_of(moe: bool) -> Spread:
    """Scatter of a kind of model.

    Parameters
    ----------
    moe : bool
        Whether the model has routed experts.

    Returns
    -------
    Spread
        Larger with experts.

    Examples
    --------
    >>> spread_of(moe=False).within
    0.1
    """
    return Spread(WITHIN_MOE, REPEAT_MOE) if moe else Spread(WITHIN_DENSE, REPEAT_DENSE)


@dataclass(frozen=True, slots=True)
class Anchored:
    """What a measurement does to an estimate.

    Attributes
    ----------
    factor : float or ndarray
        By sample, what the estimate is multiplied with [-].
    measured_ratio : float
        Measured time over the model's median for the configuration that was measured [-].
    shrinkage_fraction : float
        How much of that ratio, in logarithms, carries over [-].
    narrowed_fraction : float
        Standard deviation of the logarithm after over before [-].
    """

    factor: Num
    measured_ratio: float
    shrinkage_fraction: float
    narrowed_fraction: float


def anchor(target: Num, measured_configuration: Num, measured: float, spread: Spread, same: bool) -> Anchored:
    """Condition an estimate on one measurement, in log space.

    ``k = (cov(t, a) - s^2) / var(a)`` with ``s`` the scatter that the two do not share: the median moves by
    ``k log(measured / median a)``, the variance falls by ``k^2 var(a)``. Samples keep their order and shape.

    Parameters
    ----------
    target : float or ndarray
        Samples of the time in question, in its own unit.
    measured_configuration : float or ndarray
        Samples of the model's time for the configuration that was measured, the same draws, in its own unit.
    measured : float
        What was measured, in its own unit.
    spread : Spread
        Scatter that no factor explains.
    same : bool
        Whether both are one configuration.

    Returns
    -------
    Anchored
        Factor by sample.

    Examples
    --------
    >>> draws = np.exp(np.random.default_rng(0).normal(0.0, 0.3, 4000))
    >>> near = anchor(draws, draws, 1.3, Spread(0.1, 0.03), same=True)
    >>> far = anchor(draws, draws, 1.3, Spread(0.1, 0.03), same=False)
    >>> 0.85 < far.shrinkage_fraction < near.shrinkage_fraction < 1
    True
    """
    t, a = np.broadcast_arrays(np.log(np.asarray(target, float)), np.log(np.asarray(measured_configuration, float)))
    ratio = measured / float(np.exp(np.median(a)))
    before = float(np.var(t))
    if t.size < 2 or before == 0 or float(np.var(a)) == 0:
        return Anchored(ratio, ratio, 1.0, 1.0)
    own = (spread.repeat if same else spread.within) ** 2
    shared = max(float(np.mean((t - t.mean()) * (a - a.mean()))) - own, 0.0)
    share = shared / float(np.var(a))
    after = min(max(before - shared * share, own), before)  # a measurement teaches something or nothing
    shrink = float(np.sqrt(after / before))
    median_t = float(np.median(t))
    moved = median_t + share * np.log(ratio) + (t - median_t) * shrink
    return Anchored(np.exp(moved - t), ratio, share, shrink)
