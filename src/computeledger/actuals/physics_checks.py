"""What physics does not allow a log to say: more FLOP or power than the chips have, faster than their memory."""

from __future__ import annotations

from dataclasses import dataclass

from computeledger.actuals.readers.tally import ROUNDING, Tally
from computeledger.actuals.sums import Actual
from computeledger.economics.plan.setting import Setting
from computeledger.facts.schema import PRECISION_BYTES
from computeledger.physics.transformer import n_params_active
from computeledger.units import HOUR_S

#: A chip may pass its thermal design power for moments; the mean of a log not by more than this (assumption).
POWER_OVER_TDP = 1.05


@dataclass(frozen=True, slots=True)
class Contradiction:
    """A figure of the actuals that cannot be."""

    phase: str
    what: str
    found: float
    limit: float
    unit: str
    why: str


def contradictions_of(name: str, setting: Setting, took: Actual, flop: float, tally: Tally) -> list[Contradiction]:
    """Check a phase's actuals, and the tools' own figures, against the chips they are said to be from."""
    accelerator = setting.machine.system.accelerator
    peak = accelerator.peak(setting.precision.name)
    words = f"the dense {setting.precision.name} peak of {accelerator.id}"
    out = []
    device_s = took.planned_gpu_hours * HOUR_S
    if device_s and flop / (device_s * peak) > ROUNDING:
        why = (
            f"the model's FLOP over {words}: the model, the chip, the GPU count or the tokens are not those of the run"
        )
        out.append(Contradiction(name, "utilisation above 1", flop / (device_s * peak), 1.0, "", why))
    if took.flop is not None and device_s and took.flop / (device_s * peak) > ROUNDING:
        why = f"the FLOP that the tool counted, over {words}"
        out.append(
            Contradiction(name, "MFU above 1, by the tool's own count", took.flop / (device_s * peak), 1.0, "", why)
        )
    stated = tally.observed
    if "mfu_fraction" in stated and stated["mfu_fraction"].most > ROUNDING:
        why = "the tool states it; its peak is not that of the chip"
        out.append(Contradiction(name, "MFU above 1, as the tool states it", stated["mfu_fraction"].most, 1.0, "", why))
    if "flop_per_s" in stated and stated["flop_per_s"].most > ROUNDING * peak:
        out.append(Contradiction(name, "faster than the peak", stated["flop_per_s"].most, peak, "FLOP/s", words))
    out += _memory(name, setting, took, tally)
    if "chip_w" in stated and stated["chip_w"].mean > POWER_OVER_TDP * accelerator.chip_tdp_w.value:
        limit = accelerator.chip_tdp_w.value
        why = f"thermal design power of {accelerator.id}; the log is of another chip"
        out.append(Contradiction(name, "more power than the chip takes", stated["chip_w"].mean, limit, "W", why))
    return out


def _memory(name: str, setting: Setting, took: Actual, tally: Tally) -> list[Contradiction]:
    """A decode step reads every active weight at least once, from the memory of all GPUs at most."""
    stated = tally.observed.get("tpot_s")
    if stated is None or not took.devices:
        return []
    hbm = setting.machine.system.accelerator.hbm_bytes_per_s.value * max(took.devices)
    weights_bytes = n_params_active(setting.model) * PRECISION_BYTES[setting.precision.name]
    least_s = weights_bytes / hbm
    if stated.least * ROUNDING >= least_s:
        return []
    why = (
        "active weights over the bandwidth of all GPUs: model, precision or chip are not those of the run, or "
        "tokens were guessed ahead (speculative decoding)"
    )
    return [Contradiction(name, "faster than the memory's bandwidth allows", stated.least, least_s, "s", why)]
