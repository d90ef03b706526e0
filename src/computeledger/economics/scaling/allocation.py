"""How a budget is split over size, pretraining tokens, RL and inference: the lowest loss, equal marginal returns.

At a budget ``C = c_pre 6 N D + c_rl beta N D_rl + c_inf 2 N D_inf`` the lowest loss has
``eN / eD = (dC / d ln N) / (c_pre 6 N D)``,
which without RL is ``1 + (c_inf / c_pre) D_inf / (3 D)``. Chinchilla is the limit of
no RL and no inference. Nothing says that the three ledgers are then equal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from computeledger.arrays import Num
from computeledger.economics.scaling.laws import LossLaw, pretraining_loss, tokens_per_param_at_optimum, worth_of_tokens
from computeledger.errors import InputError
from computeledger.physics.blackboard.ledgers import FORWARD_FLOP_PER_PARAM, MEDIAN_BETA_FLOP, TRAINING_FLOP_PER_PARAM
from computeledger.physics.blackboard.training import overtraining_ratio
from computeledger.units import HOUR_S

PHASES = ("pretraining", "rl", "inference")
_STEPS, _MOST_ELASTIC = 44, 3.0


@dataclass(frozen=True, slots=True)
class PhaseCosts:
    """What a FLOP of each phase costs, in one currency.

    Attributes
    ----------
    pretraining, rl, inference : float or ndarray
        Cost of a FLOP in its own unit: FLOP, GPU-hours or USD.
    """

    pretraining: Num = 1.0
    rl: Num = 1.0
    inference: Num = 1.0


class _RLCurve(Protocol):
    """Loss that RL takes off, as a function of its compute alone; and what one more FLOP takes off."""

    def gain(self, flop: Num) -> Num: ...

    def slope_per_flop(self, flop: Num) -> Num: ...


@dataclass(frozen=True, slots=True)
class RLGain:
    """What reinforcement learning adds, as a sigmoid of its compute; what its pass rate is worth in loss is assumed.

    ``gain = most / (1 + (C_mid / C_rl)^exponent)``, taken off the loss.

    Attributes
    ----------
    most_ratio : float or ndarray
        Loss that unlimited RL is worth [-].
    mid_flop : float or ndarray
        RL compute at which half of it is reached, ``C_mid`` [FLOP].
    exponent : float or ndarray
        Steepness [-].
    """

    most_ratio: Num
    mid_flop: Num
    exponent: Num = 1.0

    def gain(self, flop: Num) -> Num:
        """Loss that RL takes off.

        Parameters
        ----------
        flop : float or ndarray
            RL compute [FLOP].

        Returns
        -------
        float or ndarray
            In nats per token of pretraining loss [-].
        """
        return self.most_ratio / (1 + (self.mid_flop / np.maximum(flop, 1e-30)) ** self.exponent)

    def slope_per_flop(self, flop: Num) -> Num:
        """What one more FLOP of RL takes off.

        Parameters
        ----------
        flop : float or ndarray
            RL compute [FLOP].

        Returns
        -------
        float or ndarray
            Loss per FLOP [1/FLOP].
        """
        share = 1 / (1 + (self.mid_flop / np.maximum(flop, 1e-30)) ** self.exponent)
        return self.most_ratio * share * (1 - share) * self.exponent / np.maximum(flop, 1e-30)


@dataclass(frozen=True, slots=True)
class AllocationScenario:
    """A budget, a demand and a law.

    Attributes
    ----------
    law : LossLaw
        How size and tokens lower the loss.
    budget : float or ndarray
        Amount to spend on the model's life, in its own unit: that of ``costs``.
    costs : PhaseCosts
        What a FLOP costs in that unit.
    gpu_hours : PhaseCosts
        GPU-hours that a FLOP takes.
    tokens_inference : float, ndarray or None
        Tokens served in the model's life; None asks for the demand at which inference costs what pretraining
        does [token].
    tokens_rl : float, ndarray or None
        Tokens of RL; None asks for the same of RL [token].
    beta : float or ndarray
        FLOP of RL per parameter and sampled token, 8 or more [-].
    demand_elasticity : float or ndarray
        Demand falls as ``(N / N_reference)^-elasticity``, since a token's price grows with the model; above 1 a
        larger model costs less to serve in all [-].
    n_params_reference : float or ndarray
        Size at which the demand is ``tokens_inference`` [-].
    rl_gain : RLGain, RLDoubling or None
        What RL adds; its compute is then chosen too, and ``tokens_rl`` is not used.
    served_worth : float, ndarray or None
        Loss that an e-fold more tokens served is worth, ``w`` in ``L - w ln D_inf``; the tokens served are then chosen
        too, and ``tokens_inference`` is not used. Needs ``tokens_rl`` or ``rl_gain`` [-].
    """

    law: LossLaw
    budget: Num
    costs: PhaseCosts
    gpu_hours: PhaseCosts
    tokens_inference: Num | None = None
    tokens_rl: Num | None = None
    beta: Num = MEDIAN_BETA_FLOP
    demand_elasticity: Num = 0.0
    n_params_reference: Num = 1.0
    rl_gain: _RLCurve | None = None
    served_worth: Num | None = None


@dataclass(frozen=True, slots=True)
class Ledgers:
    """Size and tokens of a model's life.

    Attributes
    ----------
    n_params_active : float or ndarray
        Parameters that multiply a token [-].
    tokens_pretraining, tokens_rl, tokens_inference : float or ndarray
        Of each phase [token].
    """

    n_params_active: Num
    tokens_pretraining: Num
    tokens_rl: Num
    tokens_inference: Num


@dataclass(frozen=True, slots=True)
class Allocation:
    """A split of a budget.

    Attributes
    ----------
    ledgers : Ledgers
        Size and tokens.
    loss : float or ndarray
        By the law, what RL is said to gain taken off [-].
    flop : dict of str to float or ndarray
        By phase [FLOP].
    gpu_hours : dict of str to float or ndarray
        By phase [h].
    marginal_return : dict of str to float or ndarray
        Loss that one more unit of the budget takes off in a ledger; equal at the optimum.
    marginal_return_per_gpu_hour : dict of str to float or ndarray
        Loss that one more GPU-hour takes off; equal where a GPU-hour of every phase costs the same.
    exponent_ratio : float or ndarray
        ``eN / eD`` [-].
    overtraining_ratio : float or ndarray
        Tokens per parameter over those of the law's own optimum for the same pretraining compute [-].
    """

    ledgers: Ledgers
    loss: Num
    flop: dict[str, Num]
    gpu_hours: dict[str, Num]
    marginal_return: dict[str, Num]
    marginal_return_per_gpu_hour: dict[str, Num]
    exponent_ratio: Num
    overtraining_ratio: Num


def phase_gpu_hours(peak_flop_per_s: Num, utilizations: PhaseCosts) -> PhaseCosts:
    """GPU-hours of a FLOP, ``1 / (utilisation x peak x 3600)``.

    Parameters
    ----------
    peak_flop_per_s : float or ndarray
        Dense bf16 peak of a GPU [FLOP/s].
    utilizations : PhaseCosts
        FLOP over peak x GPU-time of each phase [-].

    Returns
    -------
    PhaseCosts
        Of each phase.

    Examples
    --------
    >>> hours = phase_gpu_hours(989.4e12, PhaseCosts(0.4, 0.1, 0.1))
    >>> round(3.3e24 * hours.pretraining / 1e6, 2)
    2.32
    """
    parts = [1 / (getattr(utilizations, phase) * peak_flop_per_s * HOUR_S) for phase in PHASES]
    return PhaseCosts(*parts)


def allocate(scenario: AllocationScenario) -> Allocation:
    """Split a budget for the lowest loss.

    Parameters
    ----------
    scenario : AllocationScenario
        Budget, demand, law; every number may be samples.

    Returns
    -------
    Allocation
        At the optimum.

    Raises
    ------
    InputError
        The demand alone costs more than the budget for any model.

    Examples
    --------
    >>> from computeledger.economics.scaling.laws import load_loss_law
    >>> hours = phase_gpu_hours(989.4e12, PhaseCosts(0.4, 0.13, 0.13))
    >>> best = allocate(AllocationScenario(load_loss_law("besiroglu_2024"), 5.76e23, PhaseCosts(), hours, 0.0, 0.0))
    >>> round(float(best.ledgers.n_params_active) / 1e9, 1), round(float(best.overtraining_ratio), 6)
    (72.2, 1.0)
    """
    _check(scenario)
    if scenario.rl_gain is None:
        return judge_ledgers(scenario, _solve(scenario, scenario.budget, np.zeros(())))
    return judge_ledgers(scenario, _solve_with_rl(scenario, scenario.rl_gain))


def _check(scenario: AllocationScenario) -> None:
    if np.any(np.asarray(scenario.budget) <= 0):
        raise InputError("the budget must be greater than 0")
    for name in ("tokens_inference", "tokens_rl"):
        given = getattr(scenario, name)
        if given is not None and np.any(np.asarray(given) < 0):
            raise InputError(f"{name} must not be negative")
    elasticity = np.asarray(scenario.demand_elasticity)
    if np.any((elasticity < 0) | (elasticity > _MOST_ELASTIC)):
        raise InputError(f"elasticity {elasticity.max():g}: 0..{_MOST_ELASTIC:g}, tokens fall as price^-elasticity")
    if np.any(np.asarray(scenario.law.unique_tokens) <= 0):
        raise InputError("unique tokens must be greater than 0")
    if scenario.served_worth is not None and scenario.tokens_rl is None and scenario.rl_gain is None:
        raise InputError("where the tokens served are chosen, give tokens_rl, or what RL gains")


def _demand(scenario: AllocationScenario, n_params: NDArray[np.float64]) -> Num:
    given = 0.0 if scenario.tokens_inference is None else scenario.tokens_inference
    served: Num = given * (n_params / scenario.n_params_reference) ** -np.asarray(scenario.demand_elasticity)
    return served


def _solve(scenario: AllocationScenario, budget: Num, rl_flop: NDArray[np.float64]) -> Ledgers:
    """Bisection of the first-order condition over ``ln N``; ``rl_flop`` is RL compute that does not grow with N."""
    if scenario.served_worth is not None:
        return _solve_served(scenario, scenario.served_worth, budget, rl_flop)
    law, cost = scenario.law, scenario.costs
    equal = 1.0 + (scenario.tokens_inference is None)
    equal += scenario.tokens_rl is None and scenario.rl_gain is None
    tokens_rl = 0.0 if scenario.tokens_rl is None or scenario.rl_gain is not None else scenario.tokens_rl
    per_param_rl = scenario.beta * tokens_rl * cost.rl
    whole = budget - rl_flop * cost.rl

    def spent_on_demand(n: NDArray[np.float64]) -> tuple[Num, Num]:
        """Cost of RL and of inference that the scenario demands."""
        return per_param_rl * n, FORWARD_FLOP_PER_PARAM * n * _demand(scenario, n) * cost.inference

    shape = np.broadcast(
        whole, per_param_rl, cost.pretraining, _demand(scenario, np.ones(())), law.A, law.unique_tokens
    ).shape
    low, high = np.zeros(shape), np.full(shape, 120.0)
    for _ in range(_STEPS):
        mid = 0.5 * (low + high)
        n = np.exp(mid)
        rl, inference = spent_on_demand(n)
        left = (whole - rl - inference) / equal
        tokens = np.maximum(left / (TRAINING_FLOP_PER_PARAM * n * cost.pretraining), 1e-200)
        grows = whole - inference * scenario.demand_elasticity
        size = law.alpha * law.A * np.exp(-law.alpha * mid) * np.maximum(left, 0.0)
        worth, slope = worth_of_tokens(tokens, law.unique_tokens)
        data = law.beta * law.B * worth**-law.beta * slope * grows
        # where demand is more than elastic, too small a model cannot be served: the way out is a larger one
        dear = (np.asarray(scenario.demand_elasticity) > 1) & (inference >= whole)
        larger = dear | ((left > 0) & (size > data))
        low, high = np.where(larger, mid, low), np.where(larger, high, mid)
    n = np.exp(0.5 * (low + high))
    rl, inference = spent_on_demand(n)
    left = (whole - rl - inference) / equal
    if np.any(left <= 0) or np.any(n < 2):
        raise InputError("the demand for tokens costs more than the budget, whatever the model: lower it or spend more")
    tokens = left / (TRAINING_FLOP_PER_PARAM * n * cost.pretraining)
    served = _demand(scenario, n) if scenario.tokens_inference is not None else left / (
        FORWARD_FLOP_PER_PARAM * n * cost.inference)  # fmt: skip
    trained = tokens_rl if scenario.tokens_rl is not None else left / (scenario.beta * n * cost.rl)
    if scenario.rl_gain is not None:
        trained = rl_flop / (scenario.beta * n)
    return Ledgers(n, tokens, trained + np.zeros(shape), served + np.zeros(shape))


def _solve_served(scenario: AllocationScenario, worth: Num, budget: Num, rl_flop: NDArray[np.float64]) -> Ledgers:
    """Bisection of the budget over ``ln D``, from which equal returns give all else.

    ``C_inf / C_pre = w / eD`` and ``eN = eD (C_pre + C_rl + C_inf) / C_pre``, where ``C_rl`` is RL that grows with N.
    """
    law, cost = scenario.law, scenario.costs
    whole = np.asarray(budget - rl_flop * cost.rl)
    tokens_rl: Num = 0.0
    if scenario.rl_gain is None and scenario.tokens_rl is not None:
        tokens_rl = scenario.tokens_rl

    def at(ln_tokens: NDArray[np.float64]) -> tuple[NDArray[np.float64], Num, Num]:
        """Size, cost of pretraining and all three costs over it."""
        tokens = np.exp(ln_tokens)
        fresh, slope = worth_of_tokens(tokens, law.unique_tokens)
        data = np.maximum(law.beta * law.B * fresh**-law.beta * slope, 1e-200)
        rl = scenario.beta * tokens_rl * cost.rl / (TRAINING_FLOP_PER_PARAM * tokens * cost.pretraining)
        over = 1 + worth / data + rl
        n = np.asarray((law.alpha * law.A / (data * over)) ** (1 / law.alpha))
        return n, TRAINING_FLOP_PER_PARAM * n * tokens * cost.pretraining, over

    shape = np.broadcast(whole, worth, at(np.zeros(()))[1], tokens_rl).shape
    low, high = np.zeros(shape), np.full(shape, 120.0)
    for _ in range(_STEPS):
        mid = 0.5 * (low + high)
        _, trained, over = at(mid)
        more = trained * over < whole
        low, high = np.where(more, mid, low), np.where(more, high, mid)
    mid = 0.5 * (low + high)
    n, trained, over = at(mid)
    grown = scenario.beta * tokens_rl * cost.rl * n
    served = np.maximum(trained * (over - 1) - grown, 0.0)
    trained_rl = tokens_rl if scenario.rl_gain is None else rl_flop / (scenario.beta * n)
    return Ledgers(n, np.exp(mid), trained_rl + np.zeros(shape), served / (FORWARD_FLOP_PER_PARAM * n * cost.inference))


def _solve_with_rl(scenario: AllocationScenario, gain: _RLCurve) -> Ledgers:
    """RL compute as one more choice: the best of a grid of shares of the budget, then equal returns."""
    costs, law = scenario.costs, scenario.law
    size = np.broadcast(
        scenario.budget, gain.slope_per_flop(1.0), 0.0 if scenario.served_worth is None else scenario.served_worth,
        costs.rl, costs.pretraining, costs.inference,
        scenario.beta, _demand(scenario, np.ones(())), law.A, law.unique_tokens,
    ).shape  # fmt: skip

    def spent(share: NDArray[np.float64]) -> NDArray[np.float64]:
        """RL compute of a logarithmic share."""
        return np.asarray(np.exp(share) * scenario.budget / costs.rl)

    def shares(low: NDArray[np.float64], high: NDArray[np.float64], n: int) -> NDArray[np.float64]:
        """Logarithmic shares from low to high along a new axis."""
        return low + (high - low) * np.linspace(0, 1, n).reshape(-1, *(1,) * len(size))

    least, most = np.full(size, np.log(1e-9)), np.full(size, np.log(0.99))
    grid = shares(least, most, 41)
    found = _solve(scenario, scenario.budget, spent(grid))
    loss = pretraining_loss(found.n_params_active, found.tokens_pretraining, law) - gain.gain(spent(grid))
    if scenario.served_worth is not None:
        loss = loss - scenario.served_worth * np.log(np.maximum(found.tokens_inference, 1e-300))
    best = np.take_along_axis(grid, np.argmin(loss, axis=0)[None], 0)[0]
    step = (most - least) / 40
    low, high = np.maximum(best - step, np.log(1e-12)), np.minimum(best + step, most)
    for _ in range(5):
        grid = shares(low, high, 17)
        returns = judge_ledgers(scenario, _solve(scenario, scenario.budget, spent(grid))).marginal_return
        more = np.cumprod(returns["rl"] > returns["pretraining"], axis=0).sum(axis=0)
        low, high = (np.take_along_axis(grid, np.clip(at, 0, 16)[None], 0)[0] for at in (np.maximum(more - 1, 0), more))
    return _solve(scenario, scenario.budget, spent(0.5 * (low + high)))


def judge_ledgers(scenario: AllocationScenario, ledgers: Ledgers) -> Allocation:
    """FLOP, GPU-time and marginal returns of three ledgers, at the optimum or not.

    One more unit of the budget buys tokens in pretraining (``eD / C_pre``); in inference it carries a larger model for
    the same tokens served, the pretraining compute kept (``(eN - eD) / (C_inf + C_rl)``, with RL that follows the
    size); in RL it buys what the sigmoid says, or carries the larger model where no sigmoid is given.

    Parameters
    ----------
    scenario : AllocationScenario
        Law, costs and GPU-hours; the budget is not used.
    ledgers : Ledgers
        What is, or would be, done.

    Returns
    -------
    Allocation
        With its marginal returns.

    Examples
    --------
    >>> from computeledger.economics.scaling.laws import load_loss_law
    >>> even = phase_gpu_hours(989.4e12, PhaseCosts(0.4, 0.4, 0.4))
    >>> scenario = AllocationScenario(load_loss_law("besiroglu_2024"), 1.0, PhaseCosts(), even)
    >>> lab = judge_ledgers(scenario, Ledgers(37e9, 15e12, 0.0, 1e15))
    >>> bool(lab.marginal_return["inference"] < lab.marginal_return["pretraining"])  # too large for its use
    True
    """
    law, n = scenario.law, ledgers.n_params_active
    tokens = ledgers.tokens_pretraining
    flop: dict[str, Num] = {
        "pretraining": TRAINING_FLOP_PER_PARAM * n * tokens,
        "rl": scenario.beta * n * ledgers.tokens_rl,
        "inference": FORWARD_FLOP_PER_PARAM * n * ledgers.tokens_inference,
    }
    hours = {phase: flop[phase] * getattr(scenario.gpu_hours, phase) for phase in PHASES}
    worth, slope = worth_of_tokens(tokens, law.unique_tokens)
    size, data = law.alpha * law.A / n**law.alpha, slope * law.beta * law.B / worth**law.beta
    gained = scenario.rl_gain.gain(flop["rl"]) if scenario.rl_gain else 0.0
    per_param = tokens_per_param_at_optimum(flop["pretraining"], law)
    returns, per_hour = (_returns(scenario, flop, unit, (size, data)) for unit in (scenario.costs, scenario.gpu_hours))
    return Allocation(
        ledgers, pretraining_loss(n, tokens, law) - gained, flop, hours, returns, per_hour, size / data,
        overtraining_ratio(tokens, n, per_param),
    )  # fmt: skip


def _returns(
    scenario: AllocationScenario, flop: dict[str, Num], unit: PhaseCosts, slopes: tuple[Num, Num]
) -> dict[str, Num]:
    """Loss that one more unit takes off in each ledger."""
    size, data = slopes
    hours = {phase: flop[phase] * getattr(unit, phase) for phase in PHASES}
    own_rl = scenario.rl_gain.slope_per_flop(flop["rl"]) / unit.rl if scenario.rl_gain else None
    follows = hours["inference"] * (1 - np.asarray(scenario.demand_elasticity))
    if own_rl is None:
        follows = follows + hours["rl"]
    tokens = data / hours["pretraining"]
    # where nothing follows the size, larger and longer are one choice: the return is that of tokens
    carried = np.where(follows != 0, (size - data) / np.where(follows != 0, follows, 1.0), tokens)
    return {"pretraining": tokens, "rl": carried if own_rl is None else own_rl, "inference": carried}
