"""Searching serving layouts and batches: the Pareto front, the price of speed, the GPUs a load needs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from computeledger.arrays import Num
from computeledger.errors import DoesNotFitError, QuantityError
from computeledger.physics.parallelism import Layout, powers_of_two, serving_layouts, stack_layouts
from computeledger.physics.roofline import Machine
from computeledger.units import format_count, format_si
from computeledger.workloads.serving.columns import Limits, evaluate_block, serving_blocks
from computeledger.workloads.serving.estimate import (
    ServingScenario,
    estimate_serving,
    largest_batch,
)
from computeledger.workloads.sweep import sweep

#: Replicas over more scale-up domains than this are not tried.
MOST_DOMAINS = 16
#: Slowest time per output token of a search where nobody says otherwise (assumption) [s].
SLOWEST_TPOT_S = 0.05


class _Rates(Protocol):
    """What a front is made of."""

    @property
    def tpot_s(self) -> float:
        """Time per output token [s]."""

    @property
    def output_tokens_per_s_per_gpu(self) -> float:
        """Throughput [token/s]."""


Rated = TypeVar("Rated", bound=_Rates)


@dataclass(frozen=True, slots=True)
class ServingOption:
    """A point of a search."""

    layout: Layout
    batch: int
    tpot_s: float
    ttft_s: float
    output_tokens_per_s_per_gpu: float
    requests_per_s: float
    usd_per_mtok_output: float
    usd_per_mtok_input: float
    draft_tokens: int = 0

    def placed(self, scenario: ServingScenario) -> ServingScenario:
        """The scenario at this layout and batch, and with this draft where the search chose it.

        Examples
        --------
        >>> from computeledger.facts.load import load_model
        >>> from computeledger.physics.roofline import Precision
        >>> scenario = ServingScenario(load_model("llama-3.1-8b"), Layout(), Precision(), 1024.0, 256.0, 1.0)
        >>> ServingOption(Layout(tp=2), 8, 0.02, 0.1, 400.0, 1.0, 2.0, 1.0).placed(scenario).batch
        8.0
        """
        one = scenario.drafting(float(self.draft_tokens)) if scenario.speculation.is_open else scenario
        return replace(one, layout=self.layout, batch=float(self.batch))

    def at_price(self, ratio: float) -> ServingOption:
        """The same option where a GPU-hour costs a multiple of what it did.

        Examples
        --------
        >>> ServingOption(Layout(), 8, 0.02, 0.1, 400.0, 1.0, 2.0, 1.0).at_price(1.5).usd_per_mtok_output
        3.0
        """
        output, given = ratio * self.usd_per_mtok_output, ratio * self.usd_per_mtok_input
        return replace(self, usd_per_mtok_output=output, usd_per_mtok_input=given)


#: Figures of a result that an option carries, in its order.
_FIGURES = (
    "tpot_s",
    "ttft_s",
    "output_tokens_per_s_per_gpu",
    "requests_per_s",
    "usd_per_mtok_output",
    "usd_per_mtok_input",
)


def search_serving(
    scenario: ServingScenario,
    layouts: list[Layout],
    machine: Machine,
    batches: list[int] | None = None,
    executor: Executor | None = None,
    limits: Limits = (),
) -> list[ServingOption]:
    """Evaluate every layout at every batch that fits, in one vectorised call; with limits also at the largest within.

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> from computeledger.physics.roofline import Precision
    >>> scenario = ServingScenario(load_model("llama-3.1-8b"), Layout(), Precision(), 1024.0, 256.0, 1.0)
    >>> machine = Machine(load_system("h100-nvl8"))
    >>> options = search_serving(scenario, [Layout(tp=1), Layout(tp=2)], machine, [1, 64, 4096])
    >>> [(str(one.layout), one.batch) for one in options]
    [('tp1', 1), ('tp1', 64), ('tp2', 1), ('tp2', 64)]
    """
    options: list[ServingOption] = []
    cut = list(serving_blocks(scenario, layouts, machine, batches, limits))
    if not cut:
        raise _does_not_fit(scenario, (int(one.n_gpus) for one in layouts), machine)
    for block, columns in zip(cut, sweep(evaluate_block, cut, executor), strict=True):
        drafts = ("draft_tokens",) if "draft_tokens" in columns else ()
        rows = zip(*(columns[name].tolist() for name in ("layout_index", "batch", *_FIGURES, *drafts)), strict=True)
        options += [ServingOption(block.layouts[row], *figures) for row, *figures in rows]
    return options


def pareto_front(options: Sequence[Rated]) -> list[Rated]:
    """Keep the options that no other beats in both speed and throughput.

    Examples
    --------
    >>> fast, slow, beaten = (
    ...     ServingOption(Layout(), 1, tpot_s, 1.0, rate, 1.0, 1.0, 1.0)
    ...     for tpot_s, rate in ((0.01, 100.0), (0.02, 300.0), (0.03, 200.0))
    ... )
    >>> [one.tpot_s for one in pareto_front([beaten, slow, fast])]
    [0.01, 0.02]
    """
    front: list[Rated] = []
    for one in sorted(options, key=lambda option: (option.tpot_s, -option.output_tokens_per_s_per_gpu)):
        if not front or one.output_tokens_per_s_per_gpu > front[-1].output_tokens_per_s_per_gpu * (1 + 1e-9):
            front.append(one)
    return front


def layouts_that_fit(scenario: ServingScenario, machine: Machine, n_gpus: int | None = None) -> list[Layout]:
    """List layouts of the smallest replica that holds a model, and of all smaller ones that do.

    No replica is larger than the GPUs at hand: those given, else those that the name of the system counts.

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> from computeledger.physics.roofline import Precision
    >>> scenario = ServingScenario(load_model("llama-3.1-405b"), Layout(), Precision(), 1024.0, 256.0, 1.0)
    >>> max(one.n_gpus for one in layouts_that_fit(scenario, Machine(load_system("h100-nvl8"))))
    16
    """
    domain, at_hand = int(machine.system.n_gpus_scale_up.value), n_gpus or machine.system.n_gpus
    if at_hand is not None:
        return _layouts_within(scenario, at_hand, domain)
    for domains in powers_of_two(MOST_DOMAINS):
        layouts = _layouts_within(scenario, domains * domain, domain)
        if np.any(largest_batch(replace(scenario, layout=stack_layouts(layouts)), machine) >= 1):
            return layouts
    raise _does_not_fit(scenario, [MOST_DOMAINS * domain], machine)


def _layouts_within(scenario: ServingScenario, n_gpus: int, domain: int) -> list[Layout]:
    """Replicas of a divisor of the GPUs, or of a power of two: 72 hold one of 64, experts rarely divide by 9."""
    sizes = sorted({n_gpus, powers_of_two(n_gpus)[-1]})
    found: dict[str, Layout] = {}
    for size in sizes:
        found |= {str(one): one for one in serving_layouts(scenario.model, size, domain)}
    return list(found.values())


def cheapest(options: Sequence[ServingOption], slowest_tpot_s: float) -> ServingOption:
    """Least GPU-time per token among the options that are fast enough; the fastest where none is.

    Examples
    --------
    >>> slow, fast = (ServingOption(Layout(), n, 0.01 * n, 0.1, 100.0 * n, 1.0, 2.0, 1.0) for n in (8, 2))
    >>> cheapest([slow, fast], 0.1).batch, cheapest([slow, fast], 0.05).batch, cheapest([slow, fast], 0.01).batch
    (8, 2, 2)
    """
    times = np.array([one.tpot_s for one in options])
    row = cheapest_row(times, np.array([one.output_tokens_per_s_per_gpu for one in options]), slowest_tpot_s)
    return options[int(np.argmin(times)) if row is None else row]


def cheapest_row(
    tpot_s: NDArray[np.float64], tokens_per_s_per_gpu: NDArray[np.float64], slowest_tpot_s: float
) -> int | None:
    """Row of :func:`cheapest` among columns.

    Examples
    --------
    >>> cheapest_row(np.array([0.1, 0.02]), np.array([900.0, 300.0]), 0.05)
    1
    """
    is_fast = tpot_s <= slowest_tpot_s
    return int(np.argmax(np.where(is_fast, tokens_per_s_per_gpu, -1.0))) if is_fast.any() else None


def _does_not_fit(scenario: ServingScenario, sizes: Iterable[int], machine: Machine) -> DoesNotFitError:
    """Of replicas of some sizes; where GPUs are left over, say why."""
    chip, at_hand = machine.system.accelerator.id, machine.system.n_gpus
    known = sorted(set(sizes))
    one, drafter = f"one sequence of {format_count(int(scenario.held_tokens), 'token')}", scenario.model.drafter
    needs = f"its weights and {one}" if drafter is None else f"its weights, those of its drafter {drafter.id} and {one}"
    name = f"{scenario.model.id} in {scenario.precision.written} does not fit"
    if at_hand is None or known[-1] >= at_hand:
        fewer = " or fewer" if known[-1] > 1 else ""
        return DoesNotFitError(f"{name}: no layout on {known[-1]} x {chip}{fewer} holds {needs}")
    usable = " or ".join(map(str, known))
    return DoesNotFitError(
        f"{name} on {at_hand} x {chip}: its heads and layers divide over {usable} of them, which do not hold {needs}"
    )


@dataclass(frozen=True, slots=True)
class PriceOfSpeed:
    """What batch buys on one layout: from the latency floor to the cost plateau."""

    options: tuple[ServingOption, ...]
    batch: int
    latency_floor_s: float
    usd_per_mtok_output_plateau: float
    slow_mode_saves_fraction: float
    fast_mode_costs_ratio: float

    def at_price(self, ratio: float) -> PriceOfSpeed:
        """The same curve where a GPU-hour costs a multiple of what it did.

        Examples
        --------
        >>> curve = PriceOfSpeed((), 8, 0.01, 0.5, 0.2, 10.0)
        >>> curve.at_price(3.0).usd_per_mtok_output_plateau
        1.5
        """
        plateau = ratio * self.usd_per_mtok_output_plateau
        priced = tuple(one.at_price(ratio) for one in self.options)
        return replace(self, options=priced, usd_per_mtok_output_plateau=plateau)


#: Savings below this are what rounding leaves.
_ROUNDING = 1e-9


def price_of_speed(scenario: ServingScenario, machine: Machine) -> PriceOfSpeed:
    """Follow one layout from batch 1 to the largest batch that fits.

    Decode first shares the weights among more sequences, so cost falls as ``1 / B``; once compute and KV traffic, which
    no batch shares, take most of the step, more batch only costs speed: that is why a slow mode saves little.

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> from computeledger.physics.roofline import Precision
    >>> scenario = ServingScenario(load_model("llama-3.1-8b"), Layout(), Precision(), 1024.0, 256.0, 64.0, 0.0, 2.0)
    >>> curve = price_of_speed(scenario, Machine(load_system("h100-nvl8")))
    >>> curve.fast_mode_costs_ratio > 10
    True
    """
    alone = replace(scenario, waiting=0.0)
    options = sorted(search_serving(alone, [scenario.layout], machine), key=lambda one: one.batch)
    cost = float(estimate_serving(alone, machine).usd_per_mtok_output)
    single, plateau = options[0].usd_per_mtok_output, options[-1].usd_per_mtok_output
    saves = 1 - plateau / cost if cost else 0.0
    return PriceOfSpeed(
        options=tuple(options),
        batch=int(np.asarray(scenario.batch)),
        latency_floor_s=options[0].tpot_s,
        usd_per_mtok_output_plateau=plateau,
        slow_mode_saves_fraction=saves if saves > _ROUNDING else 0.0,
        fast_mode_costs_ratio=single / cost if cost else 1.0,
    )


@dataclass(frozen=True, slots=True)
class Slo:
    """What a load asks for; first tokens are means, or a share of requests keeps their limit under random arrivals."""

    requests_per_s: float
    ttft_s: float = math.inf
    tpot_s: float = math.inf
    ttft_share: float | None = None


@dataclass(frozen=True, slots=True)
class Fleet:
    """Replicas that carry a load."""

    option: ServingOption
    n_replicas: int
    n_gpus: int
    load_fraction: float

    @property
    def requests_per_s(self) -> float:
        """What arrives at all replicas together [1/s]."""
        return self.load_fraction * self.n_replicas * self.option.requests_per_s


def size_fleet(options: list[ServingOption], slo: Slo) -> Fleet:
    """Find the fewest GPUs that carry a load within its limits.

    Batches are those of the steady state; arrivals are taken as even, so the count is a floor: bursts need headroom.

    Examples
    --------
    >>> option = ServingOption(Layout(tp=2), 64, 0.02, 1.0, 1600.0, 12.5, 1.0, 0.1)
    >>> fleet = size_fleet([option], Slo(30.0, tpot_s=0.05))
    >>> fleet.n_replicas, fleet.n_gpus, fleet.load_fraction
    (3, 6, 0.8)
    """
    if not options:
        raise QuantityError(f"requests_per_s = {slo.requests_per_s:g}: no option is given")
    fit = [one for one in options if one.tpot_s <= slo.tpot_s and one.ttft_s <= slo.ttft_s]
    if not fit:
        raise _too_slow(options, slo)

    def fleet(option: ServingOption) -> Fleet:
        replicas = max(math.ceil(slo.requests_per_s / option.requests_per_s), 1)
        n_gpus = replicas * int(option.layout.n_gpus)
        return Fleet(option, replicas, n_gpus, slo.requests_per_s / (replicas * option.requests_per_s))

    return min((fleet(one) for one in fit), key=lambda one: (one.n_gpus, one.load_fraction))


#: Halvings of the batch, as a logarithm: a millionth of its range is left.
_HALVINGS = 20


def at_load(scenario: ServingScenario, machine: Machine, requests_per_s: Num) -> ServingScenario:
    """A replica under a load: the batch at which it finishes what arrives, up to its own; idle below one request.

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> from computeledger.physics.roofline import Precision
    >>> full = ServingScenario(load_model("llama-3.1-8b"), Layout(), Precision(), 1024.0, 256.0, 64.0)
    >>> machine = Machine(load_system("h100-nvl8"))
    >>> half, quiet = (at_load(full, machine, rate) for rate in (10.0, 0.1))
    >>> bool(1 < half.batch < 64), round(float(estimate_serving(half, machine).requests_per_s), 4)
    (True, 10.0)
    >>> float(quiet.batch), bool(quiet.occupancy < 0.2)
    (1.0, True)
    """
    rate = np.asarray(requests_per_s, float)
    shape = np.shape(estimate_serving(scenario, machine).requests_per_s * rate)
    low, high = np.zeros(shape), np.broadcast_to(np.log(scenario.batch), shape)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        is_enough = estimate_serving(replace(scenario, batch=np.exp(middle)), machine).requests_per_s >= rate
        low, high = np.where(is_enough, low, middle), np.where(is_enough, middle, high)
    alone = estimate_serving(replace(scenario, batch=1.0), machine).requests_per_s
    occupancy = np.minimum(rate / alone, 1.0)
    return replace(scenario, batch=np.where(occupancy < 1, 1.0, np.exp(high))[()], occupancy=occupancy[()])


def _too_slow(options: list[ServingOption], slo: Slo) -> QuantityError:
    within = [one.tpot_s for one in options if one.ttft_s <= slo.ttft_s]
    reached = f"best TPOT within that TTFT {format_si(min(within), 's')}" if within else "none meets the TTFT"
    asked = {"TTFT": slo.ttft_s, "TPOT": slo.tpot_s}
    limits = " and ".join(f"{name} {format_si(one, 's')}" for name, one in asked.items() if math.isfinite(one))
    return QuantityError(
        f"no layout meets {limits}: {reached}, best TTFT {format_si(min(one.ttft_s for one in options), 's')}"
    )
