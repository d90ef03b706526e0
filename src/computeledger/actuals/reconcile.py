"""Budget against actuals: what a plan foresaw for each phase, what it took, and why the two differ.

The variance of a phase, in money, is split exactly: with budget tokens ``D0``, GPU-hours ``H0``, price ``p0``, actual
tokens ``D1``, GPU-hours of planned work ``Hp`` and of unplanned phases ``U``, and actual price ``p1``::

    volume      = p0 H0 / D0 (D1 - D0)          more or fewer tokens at the planned GPU-time per token
    utilization = p0 (Hp - D1 H0 / D0)          more or less GPU-time per token
    unplanned   = p0 U                          phases that no plan has: idle, checkpoints, evaluation, repeated work
    price       = (p1 - p0) (Hp + U)            another price for every GPU-hour

which add up to ``p1 (Hp + U) - p0 H0``. A plan's figures enter with their medians.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np

from computeledger.actuals.physics_checks import Contradiction, contradictions_of
from computeledger.actuals.readers.accounts import Account
from computeledger.actuals.readers.tally import Tally
from computeledger.actuals.sums import Actual
from computeledger.arrays import Z_95, Num, median
from computeledger.economics.plan.ledger import Ledger, estimate_ledger
from computeledger.economics.plan.phases import Phase
from computeledger.economics.plan.read import Plan, Section
from computeledger.economics.plan.rl import model_rl
from computeledger.economics.plan.setting import Setting, make_setting, price_fact, system_of, uncertain_inputs
from computeledger.errors import InputError
from computeledger.facts.editions import load_prices
from computeledger.physics.calibration.efficiency import median_of
from computeledger.physics.transformer import n_params_active, training_flop_per_token
from computeledger.units import HOUR_S, format_usd
from computeledger.workloads.questions.pretrain import PretrainQuestion
from computeledger.workloads.rl.generation import OUTSIDE

#: What a calibration's interval is wide at least, to each side: how two runs differ beside their own unsteadiness; and
#: what it is where a run has too few pieces to tell (assumptions).
LEAST_SPREAD, FEW_SPREAD, FEWEST_BLOCKS = 0.03, 0.10, 4
#: A power log that covers this share of the run's device-time or less, or more, is scaled to it, and said so.
POWER_COVERAGE = 0.9
#: Part of a modelled RL step -> phase of a run ledger that tools log it in; what starts a generation is logged in it.
_ONCE = "once per step"
_LOGGED_AS: Mapping[str, str] = {
    "waiting for the longest rollouts": "generation", "waiting for verifiers": "verification", _ONCE: "idle",
    "generators waiting": "idle", "trainer waiting for rollouts": "idle", OUTSIDE: "idle",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Money:
    """Budget and actual of a phase, each a plain number."""

    tokens: float
    flop: float
    gpu_hours: float
    utilization_fraction: float
    usd: float
    usd_per_gpu_hour: float
    energy_j: float | None
    beta_flop: float | None = None
    beta_gpu_time: float | None = None
    mfu_fraction: float | None = None


@dataclass(frozen=True, slots=True)
class Variance:
    """Actual minus budget, split exactly."""

    volume: float
    utilization: float
    price: float
    unplanned: float

    @property
    def total(self) -> float:
        """Sum of the parts, in the quantity's own unit."""
        return self.volume + self.utilization + self.price + self.unplanned


@dataclass(frozen=True, slots=True)
class Settled:
    """A phase, reconciled."""

    name: str
    budget: Money
    actual: Money
    usd: Variance
    gpu_hours: Variance
    is_planned: bool
    inside: Mapping[str, bool]
    took: Actual
    utilization_range: tuple[float, float] | None
    measured_energy_j: float | None
    planned_parts: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """A plan and what became of it."""

    ledger: Ledger
    phases: Mapping[str, Settled]
    contradictions: tuple[Contradiction, ...]
    remarks: tuple[str, ...]


def split_variance(budget: Money, actual: Money, planned_gpu_hours: float) -> tuple[Variance, Variance]:
    """Split actual minus budget into volume, utilisation, price and unplanned phases.

    Examples
    --------
    >>> budget = Money(100.0, 0.0, 10.0, 0.4, 20.0, 2.0, None)
    >>> actual = Money(110.0, 0.0, 15.0, 0.3, 45.0, 3.0, None)
    >>> usd, hours = split_variance(budget, actual, 13.0)
    >>> usd.total, round(usd.volume, 9), round(usd.utilization, 9), usd.unplanned, usd.price
    (25.0, 2.0, 4.0, 4.0, 15.0)
    """
    unplanned = actual.gpu_hours - planned_gpu_hours
    if not budget.tokens or not budget.gpu_hours:
        return (
            Variance(0.0, 0.0, (actual.usd_per_gpu_hour - budget.usd_per_gpu_hour) * actual.gpu_hours,
                     budget.usd_per_gpu_hour * actual.gpu_hours),
            Variance(0.0, 0.0, 0.0, actual.gpu_hours),
        )  # fmt: skip
    wanted = budget.gpu_hours / budget.tokens * actual.tokens
    hours = Variance(wanted - budget.gpu_hours, planned_gpu_hours - wanted, 0.0, unplanned)
    price = budget.usd_per_gpu_hour
    usd = Variance(
        volume=price * hours.volume,
        utilization=price * hours.utilization,
        price=(actual.usd_per_gpu_hour - price) * actual.gpu_hours,
        unplanned=price * unplanned,
    )
    return usd, hours


def settle_plan(
    plan: Plan,
    actuals: Mapping[str, Actual],
    tallies: Mapping[str, Tally],
    usd_per_gpu_hour: float | None = None,
    accounts: Mapping[str, Account] = MappingProxyType({}),
) -> Reconciliation:
    """Settle a plan with what its runs took, and with what was held and paid for.

    Examples
    --------
    >>> from computeledger.economics.plan.read import read_plan
    >>> plan = read_plan({"model": "llama-3.1-8b", "system": "h100-nvl8", "price": "$2/h",
    ...                   "pretraining": {"tokens": "1B tokens", "utilization": "40%"},
    ...                   "rl": {"skip": "none"}, "inference": {"skip": "none"}})
    >>> took = Actual("pretraining", ("a",), 1, 1e9, {"step": 150_000.0, "idle": 3_600.0}, None, None, (8,),
    ...               ((1e9, 153_600.0),), None)
    >>> one = settle_plan(plan, {"pretraining": took}, {}).phases["pretraining"]
    >>> round(one.budget.gpu_hours, 1), round(one.actual.gpu_hours, 1), round(one.actual.utilization_fraction, 3)
    (31.6, 42.7, 0.296)
    >>> round(one.usd.utilization, 2), round(one.usd.unplanned, 2), round(one.usd.total, 2)
    (20.12, 2.0, 22.12)
    """
    ledger = estimate_ledger(plan)
    phases, remarks, contradictions = {}, [], []
    for name, took in actuals.items():
        if not took.tokens:
            raise InputError(f"the actuals of {name} count no {_TOKENS[name]} tokens{_HOW[name]}")
        phase = ledger.phases.get(name)
        if phase is None:
            phases[name] = _unforeseen(plan, took, usd_per_gpu_hour)
            remarks.append(f"{name}: the plan has no such phase, so everything is unplanned")
            continue
        setting = typical_setting(plan, name)
        tally = tallies.get(name, Tally())
        energy_j, words = _energy_j(took, tally)
        account = accounts.get(name, Account())
        if energy_j is None and account.node_energy_j is not None:
            energy_j = account.node_energy_j * _chip_share(setting)
        price = _paid(took, account) if usd_per_gpu_hour is None else usd_per_gpu_hour
        phases[name] = _settled(phase, setting, took, energy_j, (price, ledger.phases.get("pretraining")))
        remarks += [f"{name}: {one}" for one in _account_words(account, usd_per_gpu_hour)]
        if account.usd is not None and usd_per_gpu_hour is None and price is not None:
            remarks += [f"{name}: {one}" for one in _far_priced(price, setting.machine.system.accelerator.id)]
        remarks += [f"{name}: {one}" for one in (*words, *_remarks(phases[name], setting))]
        contradictions += contradictions_of(name, setting, took, phases[name].actual.flop, tally)
    for name in ledger.phases:
        if name not in actuals and name != "experiments":
            remarks.append(f"{name}: planned, and no actuals were given")
    return Reconciliation(ledger, phases, tuple(contradictions), tuple(remarks))


_TOKENS = {"pretraining": "trained", "rl": "sampled", "inference": "input or output"}
#: A bill's price beyond the price edition's range by this factor is asked about: discounts and premiums stay below it
#: (assumption) [-].
_FAR_RATIO = 3.0
_HOW = {"pretraining": "", "rl": ": logs of TRL, NeMo RL, slime and SkyRL need --rollouts-per-step", "inference": ""}


def typical_setting(plan: Plan, name: str) -> Setting:
    """A section with every uncertain input at its median.

    Examples
    --------
    >>> from computeledger.economics.plan.read import read_plan
    >>> plan = read_plan({"model": "llama-3.1-8b", "system": "h100-nvl8", "pretraining": {"tokens": "1T tokens",
    ...                   "gpus": "64..128"}, "rl": {"skip": "-"}, "inference": {"skip": "-"}})
    >>> round(typical_setting(plan, "pretraining").number("gpus"))
    91
    """
    draws: dict[str, Num] = {key: median_of(value) for key, value in uncertain_inputs(plan).items()}
    return make_setting(plan, plan.sections[name], draws)


def _settled(
    phase: Phase, setting: Setting, took: Actual, energy_j: float | None, paid: tuple[float | None, Phase | None]
) -> Settled:
    budget = _budget(phase, setting)
    price, pretraining = paid
    actual = _actual(budget, phase, took, budget.usd_per_gpu_hour if price is None else price)
    system = setting.machine.system
    facility = system.facility_w_per_chip.value / system.accelerator.chip_tdp_w.value
    reference_s = _reference_s(budget, took, pretraining, phase)
    actual = Money(
        actual.tokens, actual.flop, actual.gpu_hours, actual.utilization_fraction, actual.usd, actual.usd_per_gpu_hour,
        None if energy_j is None else energy_j * facility,
        _beta_flop(took, budget), _beta_gpu_time(took, reference_s), _mfu(actual, phase.name, setting, took),
    )  # fmt: skip
    usd, hours = split_variance(budget, actual, took.planned_gpu_hours)
    inside = {
        quantity: bool(
            np.quantile(getattr(phase, quantity), 0.05) <= value <= np.quantile(getattr(phase, quantity), 0.95)
        )
        for quantity, value in (("tokens", actual.tokens), ("gpu_hours", actual.gpu_hours), ("usd", actual.usd))
    }
    return Settled(
        phase.name, budget, actual, usd, hours, True, inside, took, _utilization_range(took, actual), energy_j,
        _planned_parts(phase.name, setting, budget, actual.tokens),
    )  # fmt: skip


def _planned_parts(name: str, setting: Setting, budget: Money, tokens: float) -> dict[str, float]:
    """GPU-hours of RL that the plan foresaw for so many tokens, by phase of a run ledger; none of other phases."""
    if name != "rl" or not budget.tokens:
        return {}
    step = model_rl(setting).step
    spent = {part: median(gpu_s) for part, gpu_s in step.phases_gpu_s.items()}
    starts = min(median(step.generation_fixed_s * step.scenario.split.n_gpus), spent[_ONCE])
    shares: dict[str, float] = {"generation": starts}
    for part, gpu_s in (spent | {_ONCE: spent[_ONCE] - starts}).items():
        logged = _LOGGED_AS.get(part, part)
        shares[logged] = shares.get(logged, 0.0) + gpu_s
    whole = budget.gpu_hours / budget.tokens * tokens / sum(shares.values())
    return {part: whole * share for part, share in shares.items() if share > 0}


def _with_attention(name: str, setting: Setting) -> float | None:
    """FLOP of a training token with attention's, over ``6 N``; None in phases that MFU is not stated of."""
    if name != "pretraining":
        return None
    model = setting.model
    flop = training_flop_per_token(model, median_of(setting.asked(PretrainQuestion).sequence_tokens))
    return median(flop) / (6 * n_params_active(model))


def _mfu(actual: Money, name: str, setting: Setting, took: Actual) -> float | None:
    """MFU of the planned work; unplanned GPU-time is in the utilisation alone."""
    ratio = _with_attention(name, setting)
    if ratio is None or not took.planned_gpu_hours:
        return None
    return ratio * actual.utilization_fraction * actual.gpu_hours / took.planned_gpu_hours


def _budget_mfu(phase: Phase, setting: Setting) -> float | None:
    """MFU that makes the plan's GPU-hours, its goodput apart."""
    ratio, goodput = _with_attention(phase.name, setting), phase.details.get("goodput_fraction", (1.0, ""))[0]
    return None if ratio is None else median(ratio * phase.utilization_fraction / goodput)


def _budget(phase: Phase, setting: Setting) -> Money:
    hours, usd = median(phase.gpu_hours), median(phase.usd)
    beta = {name: median(phase.details[name][0]) for name in ("beta_flop", "beta_gpu_time") if name in phase.details}
    return Money(
        tokens=median(phase.tokens),
        flop=median(phase.flop),
        gpu_hours=hours,
        utilization_fraction=median(phase.utilization_fraction),
        usd=usd,
        usd_per_gpu_hour=usd / hours,
        energy_j=median(phase.energy_j),
        mfu_fraction=_budget_mfu(phase, setting),
        **beta,
    )


def _actual(budget: Money, phase: Phase, took: Actual, price: float) -> Money:
    flop = median(phase.flop / phase.tokens) * took.tokens
    utilization = flop / (took.gpu_hours * HOUR_S * phase.peak_flop_per_s)
    return Money(took.tokens, flop, took.gpu_hours, utilization, took.gpu_hours * price, price, budget.energy_j)


def _unforeseen(plan: Plan, took: Actual, price: float | None) -> Settled:
    """A phase that the plan leaves out: no budget, and the plan's own price where it states one."""
    usd_per_hour = _top_price(plan, took.name) if price is None else price
    budget = Money(0.0, 0.0, 0.0, 0.0, 0.0, usd_per_hour, None)
    actual = Money(took.tokens, 0.0, took.gpu_hours, 0.0, took.gpu_hours * usd_per_hour, usd_per_hour, None)
    usd, hours = split_variance(budget, actual, 0.0)
    return Settled(took.name, budget, actual, usd, hours, False, {}, took, None, took.energy_j)


def _top_price(plan: Plan, name: str) -> float:
    """Price of the plan's own GPU-hours, for a phase that it leaves out."""
    stated = plan.top.values.get("price", "rent")
    if not isinstance(stated, str):
        return median_of(stated)
    if stated == "own" or not isinstance(plan.top.values.get("system"), str):
        raise InputError(f"the plan leaves {name} out and states no price for it: give --price")
    return price_fact(system_of(plan, Section(name, {})), stated).value


def _reference_s(budget: Money, took: Actual, pretraining: Phase | None, phase: Phase) -> float | None:
    """GPU-time of a next-token training token: measured in the run, else what the plan's own beta compares with."""
    if took.name != "rl":
        return None
    if took.reference_s_per_token is not None:
        return took.reference_s_per_token
    if pretraining is not None and (pretraining.accelerator, pretraining.model) == (phase.accelerator, phase.model):
        return median(pretraining.gpu_s_per_token)
    if budget.beta_gpu_time:
        return 6 * budget.gpu_hours * HOUR_S / budget.tokens / budget.beta_gpu_time
    return None


def _beta_gpu_time(took: Actual, reference_s: float | None) -> float | None:
    """``6 (GPU-s per sampled token) / (GPU-s per token of next-token training)``, what is beside RL left out."""
    if reference_s is None:
        return None
    beside = ("next-token reference", "evaluation")
    device_s = sum(seconds for name, seconds in took.gpu_s_by_phase.items() if name not in beside)
    return 6 * device_s / took.tokens / reference_s


def _beta_flop(took: Actual, budget: Money) -> float | None:
    """FLOP per active parameter and sampled token, where the tool counted its work."""
    if took.name != "rl" or took.flop is None or not budget.beta_flop:
        return None
    n_active = budget.flop / budget.tokens / budget.beta_flop
    return took.flop / n_active / took.tokens


def _utilization_range(took: Actual, actual: Money) -> tuple[float, float] | None:
    """Where the next run of that length will lie, if its pieces differ as this one's do; None beyond the peak.

    ``R = sum d / sum t`` with device-time ``d`` and tokens ``t`` of the pieces varies between two runs by
    ``2 n / (n - 1) sum (d - R t)^2 / (sum t)^2``.
    """
    tokens, device_s = (np.array(column) for column in zip(*took.blocks, strict=True))
    spread = FEW_SPREAD
    if len(tokens) >= FEWEST_BLOCKS and tokens.sum():
        rate = device_s.sum() / tokens.sum()
        scatter = np.sum((device_s - rate * tokens) ** 2) * 2 * len(tokens) / (len(tokens) - 1)
        spread = max(Z_95 * math.sqrt(scatter) / device_s.sum(), LEAST_SPREAD)
    value = actual.utilization_fraction
    low, high = value * math.exp(-spread), value * math.exp(spread)
    return (low, high) if high < 1 else None


def _energy_j(took: Actual, tally: Tally) -> tuple[float | None, list[str]]:
    """Measured energy of the whole run: that of a power log is scaled where it covers another time."""
    covered = tally.observed.get("power_device_s")
    if covered is None or took.energy_j is None or not covered.total:
        return took.energy_j, []
    share = covered.total / (took.gpu_hours * HOUR_S)
    if POWER_COVERAGE <= share <= 1 / POWER_COVERAGE:
        return took.energy_j, []
    words = f"the power log covers {100 * share:.0f} % of the GPU-time; its mean power is taken for all of it"
    return took.energy_j / share, [words]


def _paid(took: Actual, account: Account) -> float | None:
    """Dollars of a GPU-hour by the bill; None without one."""
    return None if account.usd is None or not took.gpu_hours else account.usd / took.gpu_hours


def _chip_share(setting: Setting) -> float:
    """Design power of the chip over that of its share of the node, by which a node's energy is taken to its chips'."""
    system = setting.machine.system
    return system.accelerator.chip_tdp_w.value / system.it_w_per_chip.value


def _account_words(account: Account, stated: float | None) -> Iterator[str]:
    """What a bill says beside the price of a GPU-hour."""
    if account.usd is not None and stated is not None:
        yield f"--price takes the place of the bill's {format_usd(account.usd)}"
    if account.other_usd:
        yield f"the bill also has {format_usd(account.other_usd)} for other than compute, which no plan counts"


def _far_priced(price: float, chip: str) -> Iterator[str]:
    """A bill whose price of a GPU-hour nobody pays: it is of more than this run, or the log of less."""
    edition = load_prices()
    facts = edition.usd_per_gpu_hour.get(chip, {}).values()
    paid = [one for fact in facts for one in (fact.low, fact.value, fact.high) if one is not None]
    if paid and not min(paid) / _FAR_RATIO <= price <= max(paid) * _FAR_RATIO:
        yield (
            f"the bill gives {format_usd(price)} per GPU-hour, where the price edition {edition.id} has "
            f"{format_usd(min(paid))} to {format_usd(max(paid))} for {chip}: are bill and GPU-hours of the same run?"
        )


def _remarks(one: Settled, setting: Setting) -> list[str]:
    """Where plan and run are not of the same size."""
    out = []
    if one.name == "pretraining" and (silent := setting.assumed("sequence_tokens")):
        out.append(f"MFU counts attention over sequences of {silent[0].value:g} tokens, which the plan leaves out")
    if "gpus" in setting.section:
        planned = round(median(setting.number("gpus")))
        if one.took.devices and planned not in one.took.devices:
            held = ", ".join(str(count) for count in one.took.devices)
            out.append(f"the plan has {planned} GPUs, the run held {held}")
    if one.utilization_range is None:
        out.append("its utilisation is no fraction of the peak: no calibration from it")
    return out
