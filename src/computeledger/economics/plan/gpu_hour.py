"""What one more GPU-hour brings in each ledger of a plan: users, speed, a better model."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from computeledger.arrays import Num
from computeledger.economics.plan.phases import Phase
from computeledger.economics.plan.read import INCOME
from computeledger.economics.scaling.laws import LossLaw, load_loss_law
from computeledger.workloads.serving.search import PriceOfSpeed, ServingOption

Floats = NDArray[np.float64]
#: The law that says what more tokens take off the loss.
DEMAND_LAW = "besiroglu_2024"
#: Gain in speed over cost beyond which speed counts as free.
_FREE = 10.0


@dataclass(frozen=True, slots=True)
class HourValue:
    """What one more GPU-hour of a ledger brings.

    Attributes
    ----------
    phase : str
        Its ledger.
    how : str
        What it is used for.
    usd : ndarray
        Before its own price [USD/h].
    over_price : ndarray
        The same over the price of a GPU-hour there; infinite where that is free [-].
    """

    phase: str
    how: str
    usd: Floats
    over_price: Floats


def hour_values(
    phases: Mapping[str, Phase], paid_fraction: Num, draws: Mapping[str, Num], revenue: Floats, margin: Floats
) -> tuple[HourValue, ...]:
    """Value of one more GPU-hour in each ledger, each with its own mechanism.

    Serving more users: ``unserved x revenue / paid GPU-hours``. Serving faster: ``delay elasticity x s x margin /
    GPU-hours`` with ``s = -d ln TPOT / d ln cost`` along the engine's curve. Training longer: ``e v eD margin /
    GPU-hours`` with ``eD = beta B D^-beta``, ``v`` the worth of a nat and ``e`` the elasticity of demand: a better
    model is a cheaper one at equal quality. RL: the same with the loss that twice of it takes off.

    Parameters
    ----------
    phases : mapping of str to Phase
        Of the plan, with the inference that demand asks for.
    paid_fraction : float or ndarray
        Share of the inference's GPU-time that is paid for [-].
    draws : mapping of str to float or ndarray
        Inputs of the income.
    revenue, margin : ndarray
        Present values at release [USD].

    Returns
    -------
    tuple of HourValue
        Of the ledgers that the plan has.
    """
    inference = phases["inference"]
    better = draws[f"{INCOME}.demand_elasticity"] * draws[f"{INCOME}.value_per_nat"] * margin
    faster = draws[f"{INCOME}.delay_elasticity"] * _speed_for_cost(inference) * margin
    paid = np.maximum(inference.gpu_hours * paid_fraction, 1e-300)
    found = [
        ("inference", "more users", draws[f"{INCOME}.unserved"] * revenue / paid),
        ("inference", "less delay", faster / inference.gpu_hours),
    ]
    if "pretraining" in phases:
        longer = phases["pretraining"]
        nats = nats_of_tokens(longer.tokens, load_loss_law(DEMAND_LAW))
        found.append(("pretraining", "more tokens, a better model", better * nats / longer.gpu_hours))
    if "rl" in phases:
        nats = draws[f"{INCOME}.rl_nats"] / math.log(2)
        found.append(("rl", "more RL, a better model", better * nats / phases["rl"].gpu_hours))
    return tuple(HourValue(name, how, np.asarray(usd), _over_price(usd, phases[name])) for name, how, usd in found)


def _over_price(usd: Num, phase: Phase) -> Floats:
    """A value over the price of a GPU-hour; infinite where that is free."""
    price = np.asarray(phase.usd / phase.gpu_hours)
    return np.where(price > 0, usd / np.where(price > 0, price, 1.0), np.inf)


def nats_of_tokens(tokens: Num, law: LossLaw) -> Num:
    """Loss that an e-fold more tokens takes off at first: ``beta B D^-beta``.

    Parameters
    ----------
    tokens : float or ndarray
        Trained on [token].
    law : LossLaw
        Of the loss.

    Returns
    -------
    float or ndarray
        In nats per token [-].

    Examples
    --------
    >>> round(float(nats_of_tokens(14.8e12, load_loss_law(DEMAND_LAW))), 4)
    0.0116
    """
    return law.beta * law.B * np.asarray(tokens) ** -law.beta


def _speed_for_cost(inference: Phase) -> Num:
    """Speed won by GPU-time spent, of the streams in proportion to their time."""
    slopes = [speed_for_cost(curve) for curve in inference.curves.values()]
    shares = [one.time_fraction for one in inference.carried]
    return sum((slope * share for slope, share in zip(slopes, shares, strict=True)), start=np.zeros(()))


def speed_for_cost(curve: PriceOfSpeed) -> float:
    """``-d ln TPOT / d ln(TPOT / batch)`` from the batch in use to the one nearest to its half.

    Parameters
    ----------
    curve : PriceOfSpeed
        Of an engine.

    Returns
    -------
    float
        0 at batch 1; at most 10, where speed costs next to nothing [-].
    """
    now, half = (_nearest(curve, batch) for batch in (curve.batch, max(curve.batch / 2, 1.0)))
    speed = math.log(now.tpot_s / half.tpot_s)
    cost = math.log(now.batch / half.batch) - speed  # GPU-time of a token is TPOT over the batch
    return 0.0 if speed <= 0 else min(speed / max(cost, 1e-9), _FREE)


def _nearest(curve: PriceOfSpeed, batch: float) -> ServingOption:
    return min(curve.options, key=lambda one: abs(math.log(one.batch / batch)))
