"""One training run over several sites: bandwidth, step and fibres between them, and what changes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from computeledger.arrays import Num
from computeledger.economics.scaling.laws import load_loss_law
from computeledger.economics.scaling.worth import price_of_local_steps
from computeledger.errors import ComputeLedgerError, InputError
from computeledger.facts.architecture import Model
from computeledger.facts.reading import read_facts
from computeledger.facts.schema import Fact, System
from computeledger.frontier.steps import best_step, job_goodput_fraction
from computeledger.frontier.text import frontier_document
from computeledger.physics.blackboard.network import gradient_exchange_bytes

#: Speed of light in glass over that in vacuum, and in vacuum [m/s]: group index 1.468 (constant of standard fibre).
FIBRE_METRES_PER_S = 299_792_458.0 / 1.468
#: What the levers change (assumptions): a model so many times as large, and a step so many times as short; local steps,
#: of which DiLoCo took 500; bytes of a gradient at 4 bits, as Streaming DiLoCo exchanged them.
LARGER, SHORTER, LOCAL_STEPS, COMPRESSED_BYTES = 4.0, 2.0, 100.0, 0.5
#: Law that turns a loss into tokens.
LOSS_LAW = "besiroglu_2024"
#: GPUs in a scale-up domain that a step is tried on (what-if: 8, a rack of today, a rack of the next generation).
DOMAINS = (8, 72, 576)


def fibre() -> Fact:
    """Rate of one pair of fibres over a long distance.

    Examples
    --------
    >>> fibre().value
    4000000000000.0
    """
    document = frontier_document()
    return read_facts(document, "links", document.table["links"])["fibre_bytes_per_s"]


@dataclass(frozen=True, slots=True)
class Spread:
    """A data-parallel run over sites."""

    n_params: Num
    step_s: Num
    n_sites: int = 2
    distance_metres: float = 0.0
    local_steps: Num = 1.0
    bytes_per_gradient: Num = 4.0


@dataclass(frozen=True, slots=True)
class SpreadResult:
    """What the links between sites need."""

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
        fibres=np.ceil(rate / fibre().value),
    )


def levers(spread: Spread, exchange_s: float) -> Mapping[str, SpreadResult]:
    """What changes the bandwidth: size, pace, local steps and compression, one at a time; exchanges keep their share.

    A model four times as large on as many chips takes four times the step: what is sent grows as the time does. On four
    times the chips the step stays, and the links need four times the rate. A step half as long, as a larger scale-up
    domain allows, needs twice the rate. A hundred local steps leave an exchange a hundred times as long.

    Examples
    --------
    >>> found = levers(Spread(405e9, 6.0), 1.0)
    >>> list(found)[1], [float(one.fibres) for one in found.values()]
    ('4 times the model on 4 times the chips', [1.0, 2.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    >>> round(float(found["4-bit gradients"].bytes_per_s / found["as asked"].bytes_per_s), 3)
    0.125
    """
    large = spread.n_params * LARGER
    local, small = spread.local_steps * LOCAL_STEPS, np.minimum(spread.bytes_per_gradient, COMPRESSED_BYTES)
    changed = {
        "as asked": (spread, exchange_s),
        f"{LARGER:g} times the model on {LARGER:g} times the chips": (replace(spread, n_params=large), exchange_s),
        f"{LARGER:g} times the model on the same chips": (
            replace(spread, n_params=large, step_s=spread.step_s * LARGER),
            exchange_s * LARGER,
        ),
        "half the step": (replace(spread, step_s=spread.step_s / SHORTER), exchange_s / SHORTER),
        f"{local:,.0f} local steps (DiLoCo)": (replace(spread, local_steps=local), exchange_s * LOCAL_STEPS),
        "4-bit gradients": (replace(spread, bytes_per_gradient=small), exchange_s),
        "both": (replace(spread, local_steps=local, bytes_per_gradient=small), exchange_s * LOCAL_STEPS),
    }
    return {name: estimate_spread(one, time_s) for name, (one, time_s) in changed.items()}


@dataclass(frozen=True, slots=True)
class DomainStep:
    """A run's step on one size of the scale-up domain, and what the links between sites then need."""

    n_scale_up: int
    layout: str = ""
    step_s: float = float("nan")
    mfu_fraction: float = float("nan")
    result: SpreadResult | None = None
    problem: str = ""


def steps_by_domain(
    model: Model, system: System, job: tuple[int, float], spread: Spread, share: float, domains: Sequence[int] = DOMAINS
) -> list[DomainStep]:
    """Step of each site's share of a batch by size of the scale-up domain, from the operation model.

    Examples
    --------
    >>> from computeledger.facts.load import load_system
    >>> from computeledger.frontier.shapes import shaped_model
    >>> found = steps_by_domain(shaped_model("m", 405e9), load_system("gb200-nvl72"), (16384, 2.0**23),
    ...                         Spread(405e9, 1.0), 1 / 6)
    >>> found[0].step_s > found[-1].step_s, found[0].result.bytes_per_s < found[-1].result.bytes_per_s
    (True, True)
    """
    n_gpus, batch_tokens = job
    own = int(system.n_gpus_scale_up.value)
    out = []
    for size in sorted({own, *domains}):
        try:
            found = best_step(model, (system, size), n_gpus, batch_tokens)
        except ComputeLedgerError as error:
            out.append(DomainStep(size, problem=str(error)))
            continue
        step_s = found.option.step_s
        result = estimate_spread(replace(spread, step_s=step_s), step_s * share)
        out.append(DomainStep(size, str(found.option.layout), step_s, found.option.mfu_fraction, result))
    return out


@dataclass(frozen=True, slots=True)
class SitesPrice:
    """What a way to join the sites costs in loss and in stops."""

    local_steps: float
    tokens_worth_fraction: float
    loss: float
    goodput_fraction: float | None
    worth_fraction: float
    why: str


def prices_of_sites(spread: Spread, tokens: float, gpus_per_site: int | None) -> list[SitesPrice]:
    """Exchanging in every step against local steps: tokens for the same loss, and the time that stops leave.

    With an exchange in every step a failure anywhere stops all sites. With local steps it stops its own site and the
    others go on (assumption), at the published loss of local steps. The product of both is what a GPU-hour is worth.

    References
    ----------
    charles-2025-diloco.

    Examples
    --------
    >>> every, local = prices_of_sites(Spread(8e12, 20.0), 1.6e14, 250_000)
    >>> every.tokens_worth_fraction, local.goodput_fraction > every.goodput_fraction
    (1.0, True)
    """
    n_params = float(np.median(spread.n_params))
    seldom = float(np.max(spread.local_steps))
    seldom = seldom if seldom > 1 else LOCAL_STEPS
    law = load_loss_law(LOSS_LAW)
    price = price_of_local_steps(law, tokens, spread.n_sites, round(seldom), n_params)
    whole, own = (
        None if gpus_per_site is None else job_goodput_fraction(gpus_per_site * n) for n in (spread.n_sites, 1)
    )
    worth = float(price.worth_fraction)
    return [
        SitesPrice(1.0, 1.0, 0.0, whole, 1.0 if whole is None else whole, "a failure anywhere stops all sites"),
        SitesPrice(seldom, worth, float(price.loss), own, worth * (1.0 if own is None else own), price.why),
    ]
