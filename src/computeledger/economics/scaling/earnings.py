"""How a budget is split for the highest income: users served at a market's price, and a better model for them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from computeledger.arrays import Num
from computeledger.economics.scaling.allocation import PHASES, Allocation, AllocationScenario, allocate
from computeledger.errors import InputError

#: What a budget split for income runs up against, by the key of its share of the samples.
DEMAND, BUDGET, PRICE = "demand", "budget", "price"
#: Tokens served over those demanded that count as equal.
_ALIKE = 1e-9


@dataclass(frozen=True, slots=True)
class RLDoubling:
    """RL that takes off as much with each doubling of its compute.

    ``gain = nats x log2(C_rl / C_reference)``

    Attributes
    ----------
    nats : float or ndarray
        Loss that a doubling takes off [-].
    reference_flop : float or ndarray
        RL compute from which it counts [FLOP].
    """

    nats: Num
    reference_flop: Num = 1.0

    def gain(self, flop: Num) -> Num:
        """Loss taken off.

        Parameters
        ----------
        flop : float or ndarray
            RL compute [FLOP].

        Returns
        -------
        float or ndarray
            Below zero under the reference [-].
        """
        return self.nats * np.log2(np.maximum(flop, 1e-30) / self.reference_flop)

    def slope_per_flop(self, flop: Num) -> Num:
        """What one more FLOP takes off.

        Parameters
        ----------
        flop : float or ndarray
            RL compute [FLOP].

        Returns
        -------
        float or ndarray
            Derivative of :meth:`gain` [1/FLOP].
        """
        return self.nats / (math.log(2) * np.maximum(flop, 1e-30))


@dataclass(frozen=True, slots=True)
class Buyers:
    """Who buys a model's tokens, and at what price.

    A model sells its demand at the market's price for its quality, ``p = p_ref exp(-v (L - L_ref))``, and nothing
    above. Below, tokens sold grow as ``(own price / p)^-e``. The reference is the model of the lowest loss.

    Attributes
    ----------
    value_per_nat : float or ndarray
        What a nat of loss takes off the logarithm of that price, ``v`` [-].
    elasticity : float or ndarray
        ``e``; up to 1 a lower price never pays, and demand is fixed [-].
    usd_per_token : float, ndarray or None
        ``p_ref``; None asks for that at which the split of the lowest loss earns what it costs [USD/token].
    rl_nats : float or ndarray
        Loss that twice the RL takes off, where the scenario says nothing of RL [-].
    """

    value_per_nat: Num
    elasticity: Num = 0.0
    usd_per_token: Num | None = None
    rl_nats: Num = 0.0


@dataclass(frozen=True, slots=True)
class Earnings:
    """A budget split for the highest income.

    Attributes
    ----------
    scenario : AllocationScenario
        Whose lowest loss this split is, at the tokens that are worth serving.
    allocation, lowest_loss : Allocation
        The split, and that of the lowest loss which serves all demand.
    revenue_usd, lowest_loss_revenue_usd : float or ndarray
        Of the life [USD].
    usd_per_token : float or ndarray
        Own price [USD/token].
    served_ratio : float or ndarray
        Tokens served over those demanded at the market's price [-].
    usd_per_gpu_hour : dict of str to float or ndarray
        Income that one more GPU-hour brings: of each ledger for a better model, of inference as the larger model that
        it carries [USD/h].
    more_users_usd_per_gpu_hour : float or ndarray
        The same of a GPU-hour that serves more users, at the price that they pay [USD/h].
    binds : dict of str to float
        Share of the samples in which all demand is served and a lower price would not pay (``demand``), in which demand
        is turned away (``budget``), and in which a lower price brings more (``price``) [-].
    """

    scenario: AllocationScenario
    allocation: Allocation
    lowest_loss: Allocation
    revenue_usd: Num
    lowest_loss_revenue_usd: Num
    usd_per_token: Num
    served_ratio: Num
    usd_per_gpu_hour: dict[str, Num]
    more_users_usd_per_gpu_hour: Num
    binds: dict[str, float]


def allocate_for_income(scenario: AllocationScenario, buyers: Buyers, unit_price_usd: Num) -> Earnings:
    """Split a budget for the highest income of the tokens served.

    With ``s`` the tokens served over the demand ``D``, revenue is ``p D s`` up to ``s = 1`` and ``p D s^(1 - 1/e)``
    beyond: at the highest, either side's tokens served solve ``C_inf / C_pre = m / (v eD)`` with ``m = 1`` and
    ``1 - 1/e``, and the demand is served where it lies between. At the tokens served the split is that of the lowest
    loss, so that where demand is fixed both objectives have the same answer.

    Parameters
    ----------
    scenario : AllocationScenario
        Budget, law, demand at the market's price; its own elasticity must be 0.
    buyers : Buyers
        Of its tokens.
    unit_price_usd : float or ndarray
        Price of a unit of the budget [USD].

    Returns
    -------
    Earnings
        The split, its income and what each ledger's next GPU-hour brings.

    Raises
    ------
    InputError
        The scenario's demand depends on the size, or a nat is worth nothing.

    Examples
    --------
    >>> from computeledger.economics.scaling.allocation import PhaseCosts, phase_gpu_hours
    >>> from computeledger.economics.scaling.laws import load_loss_law
    >>> hours = phase_gpu_hours(989.4e12, PhaseCosts(0.4, 0.13, 0.13))
    >>> split = AllocationScenario(load_loss_law("besiroglu_2024"), 1e7, hours, hours, 1e13, 0.0)
    >>> found = allocate_for_income(split, Buyers(20.0, 1.0), 2.0)
    >>> found.binds["demand"], round(float(found.usd_per_gpu_hour["pretraining"]), 2)
    (1.0, 0.97)
    """
    if np.any(np.asarray(scenario.demand_elasticity) != 0):
        raise InputError("where income is the objective, demand answers to its price: leave out the elasticity to size")
    if np.any(np.asarray(buyers.value_per_nat) <= 0):
        raise InputError("the worth of a nat must be greater than 0")
    lowest = allocate(scenario)
    demanded = lowest.ledgers.tokens_inference
    if np.any(np.asarray(demanded) <= 0):
        raise InputError("where income is the objective, the tokens asked for must be greater than 0")
    if scenario.tokens_rl is None and scenario.rl_gain is None:
        scenario = replace(scenario, rl_gain=RLDoubling(buyers.rl_nats, lowest.flop["rl"]))
    margin = _margin_of_more(buyers.elasticity)
    most = _worth_serving(scenario, 1.0 / np.asarray(buyers.value_per_nat))
    least = _worth_serving(scenario, margin / np.asarray(buyers.value_per_nat)) if np.any(margin > 0) else 0.0
    served = np.minimum(np.maximum(demanded, np.where(margin > 0, least, 0.0)), most)
    chosen = replace(scenario, tokens_inference=served)
    best = allocate(chosen)
    spent = sum((lowest.flop[phase] * getattr(scenario.costs, phase) for phase in PHASES), start=np.zeros(()))
    price = spent * unit_price_usd / demanded if buyers.usd_per_token is None else buyers.usd_per_token
    ratio = np.asarray(served / demanded)
    over = np.where(ratio > 1, ratio ** (margin - 1), 1.0)
    own_price = price * over * np.exp(-buyers.value_per_nat * (best.loss - lowest.loss))
    revenue = own_price * served
    per_hour = best.marginal_return_per_gpu_hour
    return Earnings(
        scenario=chosen,
        allocation=best,
        lowest_loss=lowest,
        revenue_usd=revenue,
        lowest_loss_revenue_usd=price * demanded,
        usd_per_token=own_price,
        served_ratio=ratio,
        usd_per_gpu_hour={phase: revenue * buyers.value_per_nat * per_hour[phase] for phase in PHASES},
        more_users_usd_per_gpu_hour=np.where(ratio < 1 - _ALIKE, 1.0, margin) * revenue / best.gpu_hours["inference"],
        binds={
            DEMAND: float(np.mean(np.abs(ratio - 1) <= _ALIKE)),
            BUDGET: float(np.mean(ratio < 1 - _ALIKE)),
            PRICE: float(np.mean(ratio > 1 + _ALIKE)),
        },
    )


def _margin_of_more(elasticity: Num) -> Num:
    """By how many per cent one per cent more tokens raises the revenue, at a lower price: ``1 - 1/e``, not below 0."""
    margin: Num = np.maximum(1 - 1 / np.maximum(np.asarray(elasticity, float), 1.0), 0.0)
    return margin


def _worth_serving(scenario: AllocationScenario, worth: Num) -> Num:
    """Tokens at which serving more and a better model return alike."""
    return allocate(replace(scenario, tokens_inference=None, served_worth=worth)).ledgers.tokens_inference
