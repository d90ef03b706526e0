"""One training run over several sites: the bandwidth between them, the step with it, local steps and compression."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from computeledger.arrays import Num
from computeledger.errors import InputError
from computeledger.physics.blackboard_network import gradient_exchange_bytes

#: Speed of light in glass over that in vacuum, and in vacuum [m/s]: group index 1.468 (constant of standard fibre).
FIBRE_METRES_PER_S = 299_792_458.0 / 1.468
#: One pair of fibres with dense wavelength multiplexing (assumption: 80 channels of 400 Gbit/s).
FIBRE_BYTES_PER_S = 4e12


@dataclass(frozen=True, slots=True)
class Spread:
    """A data-parallel run over sites.

    Attributes
    ----------
    n_params : float or ndarray
        Parameters whose gradients are exchanged [-].
    step_s : float or ndarray
        Optimiser step within a site [s].
    n_sites : int
        Two or more.
    distance_metres : float
        Of fibre between the furthest two, in metres [-].
    local_steps : float or ndarray
        Steps between exchanges, as in DiLoCo; 1 exchanges every step [-].
    bytes_per_gradient : float or ndarray
        4 as computed; 1 or less where compressed [byte].
    """

    n_params: Num
    step_s: Num
    n_sites: int = 2
    distance_metres: float = 0.0
    local_steps: Num = 1.0
    bytes_per_gradient: Num = 4.0


@dataclass(frozen=True, slots=True)
class SpreadResult:
    """What the links between sites need.

    Attributes
    ----------
    exchange_bytes : float or ndarray
        That a site sends, and receives, per exchange [byte].
    least_bytes_per_s : float or ndarray
        Each way, when the exchange may take the whole time between exchanges [byte/s].
    bytes_per_s : float or ndarray
        Each way, when it must take ``exchange_s`` [byte/s].
    exchange_s : float or ndarray
        Time of an exchange, with the way there and back [s].
    step_s : float or ndarray
        Mean step with nothing hidden [s].
    slowdown_ratio : float or ndarray
        Of the step [-].
    fibres : float or ndarray
        Pairs of fibre at :data:`FIBRE_BYTES_PER_S` [-].
    """

    exchange_bytes: Num
    least_bytes_per_s: Num
    bytes_per_s: Num
    exchange_s: Num
    step_s: Num
    slowdown_ratio: Num
    fibres: Num


def estimate_spread(spread: Spread, exchange_s: Num) -> SpreadResult:
    """Bandwidth for an exchange of gradients in a given time.

    ``bytes/s = exchange / (time - round trip)``; the mean step is ``step + time / local steps``.

    Parameters
    ----------
    spread : Spread
        The run.
    exchange_s : float or ndarray
        Time that an exchange may take, not overlapped [s].

    Returns
    -------
    SpreadResult
        Bandwidth, step, fibres.

    Raises
    ------
    InputError
        Fewer than two sites, or a time that the light alone takes.

    References
    ----------
    training-systems C095, C096, C161.

    Examples
    --------
    >>> llama = estimate_spread(Spread(405e9, 6.0), 1.0)
    >>> f"{llama.exchange_bytes:.3g} {llama.bytes_per_s:.3g} {llama.least_bytes_per_s:.3g}"
    '1.62e+12 1.62e+12 2.7e+11'
    """
    if spread.n_sites < 2:
        raise InputError(f"sites = {spread.n_sites}: at least 2 are needed")
    if np.any(np.asarray(spread.local_steps, float) < 1):
        raise InputError("local steps: at least 1 is needed")
    round_trip = 2 * spread.distance_metres / FIBRE_METRES_PER_S
    if np.any(np.asarray(exchange_s, float) <= round_trip):
        raise InputError(f"exchange in {exchange_s} s: light alone takes {round_trip:.3g} s there and back")
    moved = gradient_exchange_bytes(spread.n_params, spread.n_sites, spread.bytes_per_gradient)
    rate = moved / (exchange_s - round_trip)
    between = spread.step_s * spread.local_steps
    if np.any(np.asarray(between, float) <= round_trip):
        raise InputError(f"step of {spread.step_s} s: light alone takes {round_trip:.3g} s there and back")
    step = spread.step_s + exchange_s / spread.local_steps
    return SpreadResult(
        exchange_bytes=moved,
        least_bytes_per_s=moved / (between - round_trip),
        bytes_per_s=rate,
        exchange_s=exchange_s,
        step_s=step,
        slowdown_ratio=step / spread.step_s,
        fibres=np.ceil(rate / FIBRE_BYTES_PER_S),
    )
