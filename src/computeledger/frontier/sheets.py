"""Published models' training FLOP from three sides, and the calendar of a release."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from computeledger.arrays import Num, Range, Uncertain, sample
from computeledger.errors import InputError, unknown_id
from computeledger.facts.load import load_accelerator, load_model, load_system, system_named_in
from computeledger.facts.schema import PRECISION_BYTES
from computeledger.frontier.sites import AGREES_FRACTION
from computeledger.frontier.trends import date_of, year_of
from computeledger.physics.blackboard.ledgers import pretraining_flop
from computeledger.physics.blackboard.training import cluster_flop, mfu_fraction
from computeledger.physics.transformer import n_params_active
from computeledger.units import HOUR_S, MONTH_S, YEAR_S

#: Utilisation of a whole run (assumption: what Epoch's runs of 2021 to 2025 lie in).
UTILIZATION = Range(0.19, 0.46, bounded=True)


@dataclass(frozen=True, slots=True)
class SheetLine:
    """Training FLOP from one side."""

    side: str
    formula: str
    flop: Num
    utilization_fraction: float | None
    agrees: bool


@dataclass(frozen=True, slots=True)
class Spending:
    """What is known of a run beside its model; None takes what the model's publisher says."""

    accelerator_id: str
    gpu_hours: float | None = None
    usd: float | None = None
    usd_per_gpu_hour: float = 2.0
    precision: str = "bf16"
    utilization_fraction: Uncertain = UTILIZATION
    claimed_flop: float | None = None


def model_sheet(model_id: str, spending: Spending) -> list[SheetLine]:
    """Estimate a model's training FLOP from parameters and tokens, from hardware-time, and from its price.

    ``6 N D``; ``hours x 3600 x peak x utilisation``; the same for the hours that the dollars buy.

    Examples
    --------
    >>> lines = model_sheet("deepseek-v3", Spending("h800-sxm5-80gb"))
    >>> f"{lines[0].flop:.4g}", [line.side for line in lines]
    ('3.286e+24', ['parameters', 'hardware', 'price', 'published'])
    """
    model, chip = load_model(model_id), load_accelerator(spending.accelerator_id)
    known = {name: fact.value for name, fact in model.published.items()}
    if "tokens_pretraining" not in known:
        raise InputError(f"{model.id}: its training tokens are not published here; 6ND cannot be computed")
    active = known.get("n_params_active", known.get("n_params_total", n_params_active(model)))
    counted = float(pretraining_flop(active, known["tokens_pretraining"]))
    lines = [SheetLine("parameters", "6 x active parameters x tokens", counted, None, True)]
    if spending.precision not in PRECISION_BYTES:
        raise unknown_id("precision", spending.precision, PRECISION_BYTES)
    peak = chip.peak(spending.precision)
    used = sample({"utilization": spending.utilization_fraction})["utilization"]
    hours = spending.gpu_hours or known.get("gpu_hours_pretraining")
    if hours is not None:
        formula = f"GPU-hours x 3600 x {spending.precision} peak x utilisation"
        lines.append(_line("hardware", formula, (hours, peak), used, counted))
    usd = spending.usd or known.get("usd_training")
    if usd is not None:
        formula = "dollars / price per GPU-hour x 3600 x peak x utilisation; the price may hold more than pretraining"
        lines.append(_line("price", formula, (usd / spending.usd_per_gpu_hour, peak), used, counted))
    if "training_flop" in known:
        other = known["training_flop"]
        near = bool(abs(other / counted - 1) < AGREES_FRACTION)
        lines.append(SheetLine("published", "as others estimate it", other, None, near))
    if spending.claimed_flop is not None:
        off = bool(abs(spending.claimed_flop / counted - 1) < AGREES_FRACTION)
        needed = None if hours is None else float(mfu_fraction(spending.claimed_flop, hours, HOUR_S, peak))
        lines.append(SheetLine("claimed", "as claimed", spending.claimed_flop, needed, off))
    return lines


def published_chip(model_id: str) -> str | None:
    """Chip that a model's published GPU-hours are hours of.

    Examples
    --------
    >>> published_chip("deepseek-v3"), published_chip("qwen3-32b")
    ('h800-sxm5-80gb', None)
    """
    hours = load_model(model_id).published.get("gpu_hours_pretraining")
    words = "" if hours is None else f"{hours.locator} {hours.note}"
    system = system_named_in(words)
    return None if system is None else load_system(system).accelerator.id


def _line(side: str, formula: str, bought: tuple[float, float], used: Num, counted: float) -> SheetLine:
    hours, peak = bought
    flop = cluster_flop(hours, HOUR_S, peak, used)
    low, high = np.quantile(np.atleast_1d(np.asarray(flop, float)), [0.05, 0.95])
    needed = float(mfu_fraction(counted, hours, HOUR_S, peak))
    return SheetLine(side, formula, flop, needed, bool(low <= counted <= high))


@dataclass(frozen=True, slots=True)
class Schedule:
    """Months from an order to a release; ranges are 90 % intervals."""

    delivery_s: Uncertain = 0.0
    installation_s: Uncertain = 2 * MONTH_S
    pretraining_s: Uncertain = 4 * MONTH_S
    post_training_s: Uncertain = MONTH_S


def release_dates(start: str, schedule: Schedule, n_samples: int = 4096, seed: int = 0) -> dict[str, tuple[str, ...]]:
    """Ends of the steps on the way to a release.

    References
    ----------
    training-systems C157: early 2025 with installation, four months of pretraining and one after it.

    Examples
    --------
    >>> release_dates("2025-01-15", Schedule())["post-training"][1]
    '2025-08-16'
    """
    parts: dict[str, Uncertain] = {
        "delivery": schedule.delivery_s,
        "installation": schedule.installation_s,
        "pretraining": schedule.pretraining_s,
        "post-training": schedule.post_training_s,
    }
    drawn = sample(parts, n_samples, seed)
    end: Num = year_of(start)
    out = {}
    for name in parts:
        end = end + drawn[name] / YEAR_S
        points = np.quantile(np.atleast_1d(np.asarray(end, float)), [0.05, 0.5, 0.95])
        out[name] = tuple(date_of(float(point)) for point in points)
    return out
