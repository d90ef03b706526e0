"""The factors between the datasheet and a training step, by family of chips, each with its source.

``training.toml`` beside this file holds them: what ``validation/training/fit.py`` fitted carries data,
residual, date and how well it is identified; the rest are assumptions.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from importlib import resources
from typing import Any

import numpy as np

from computeledger.arrays import Num
from computeledger.errors import FactError, unknown_id
from computeledger.facts.load import load_accelerator
from computeledger.facts.schema import Accelerator
from computeledger.physics.calibration.efficiency import Factor, factor_dimension, load_factors, median_of
from computeledger.physics.calibration.serving import DEFAULT_ENGINE
from computeledger.sources import check_date, load_sources
from computeledger.units import parse_quantity

#: Of a peak that no kernel exceeds (assumption: the best fitted rate is 0.948, of products on TPUs).
MOST_OF_PEAK = 0.95
#: Families that training was calibrated on, and the chip that each one's factors are told for.
REFERENCE_CHIPS = {
    "ampere": "a100-sxm4-80gb",
    "hopper": "h100-sxm5-80gb",
    "blackwell": "b200-sxm",
    "tpu": "tpu-v5p",
    "cdna": "mi300x",
}
#: Families whose chips differ in more than power per peak, which is estimated for some: rates do not follow it.
_POWER_UNKNOWN = ("tpu", "cdna")


@dataclass(frozen=True, slots=True)
class TrainingEfficiency:
    """What a machine reaches of its peaks while it trains. The default is the physical limit.

    Attributes
    ----------
    training_gemm_fraction_ampere, training_gemm_fraction_hopper, training_gemm_fraction_blackwell, \
training_gemm_fraction_tpu, training_gemm_fraction_cdna, training_gemm_fraction_other : float or ndarray
        Of the dense bf16 peak, in matrix products [-].
    training_gemm_fraction_hopper_fp8, training_gemm_fraction_blackwell_fp8, training_gemm_fraction_fp4, \
training_gemm_fraction_other_fp8 : float or ndarray
        Of the dense peak at that precision: scaled per tensor, or per block on Blackwell [-].
    training_attention_fraction_ampere, training_attention_fraction_hopper, training_attention_fraction_blackwell, \
training_attention_fraction_tpu, training_attention_fraction_other : float or ndarray
        Of the dense bf16 peak, forward and backward attention over long sequences [-].
    training_flash2_fraction : float or ndarray
        FlashAttention 2 against the best kernel, on chips newer than it [-].
    training_expert_fraction, training_fused_expert_fraction : float or ndarray
        Grouped products of narrow experts with many rows against one large product; the same in fused kernels [-].
    training_expert_width_values : float or ndarray
        Width of an expert at which half of that difference is gone [-].
    training_expert_rows : float or ndarray
        Rows of an expert at which a grouped product takes twice as long per FLOP [-].
    training_bandwidth_fraction, training_link_fraction : float or ndarray
        Of HBM bandwidth, and of one direction of a link [-].
    training_activation_passes, training_quantization_passes, training_expert_passes : float or ndarray
        Traffic over that of fused kernels: activations, casts to a narrow precision, copies routed to experts [-].
    training_ramp_values : float or ndarray
        Inner width of a product at which filling its pipeline takes as long as multiplying [-].
    training_layer_s, training_sharded_layer_s, training_expert_layer_s : float or ndarray
        Host time per layer and microbatch; the same with sharded weights; per expert layer beside it [s].
    training_step_s : float or ndarray
        Once per training step [s].
    training_exposed_fraction, training_exposed_expert_fraction : float or ndarray
        Of gradient and parameter traffic, and of expert traffic across domains, that nothing hides [-].
    training_power_exponent : float or ndarray
        Growth of those rates with the power that a chip has per peak, against its family's first chip [-].
    training_known_ratio, training_unseen_ratio, training_expert_ratio, training_chip_ratio : float or ndarray
        Real over modelled time of a step, by class of a question: a dense model as vendors tune it, as people usually
        run it, a model with experts, a chip of another maker or never measured [-].
    training_memory_ratio, training_memory_other_ratio : float or ndarray
        Real over modelled peak memory: of a stack such as Megatron's, and of another [-].
    """

    training_gemm_fraction_ampere: Num = 1.0
    training_gemm_fraction_hopper: Num = 1.0
    training_gemm_fraction_hopper_fp8: Num = 1.0
    training_gemm_fraction_blackwell: Num = 1.0
    training_gemm_fraction_blackwell_fp8: Num = 1.0
    training_gemm_fraction_fp4: Num = 1.0
    training_gemm_fraction_tpu: Num = 1.0
    training_gemm_fraction_cdna: Num = 1.0
    training_gemm_fraction_other: Num = 1.0
    training_gemm_fraction_other_fp8: Num = 1.0
    training_attention_fraction_ampere: Num = 1.0
    training_attention_fraction_hopper: Num = 1.0
    training_attention_fraction_blackwell: Num = 1.0
    training_attention_fraction_tpu: Num = 1.0
    training_attention_fraction_other: Num = 1.0
    training_flash2_fraction: Num = 1.0
    training_expert_fraction: Num = 1.0
    training_fused_expert_fraction: Num = 1.0
    training_expert_width_values: Num = 0.0
    training_expert_rows: Num = 0.0
    training_bandwidth_fraction: Num = 1.0
    training_link_fraction: Num = 1.0
    training_activation_passes: Num = 0.0
    training_quantization_passes: Num = 0.0
    training_expert_passes: Num = 0.0
    training_ramp_values: Num = 0.0
    training_layer_s: Num = 0.0
    training_sharded_layer_s: Num = 0.0
    training_expert_layer_s: Num = 0.0
    training_step_s: Num = 0.0
    training_exposed_fraction: Num = 0.0
    training_exposed_expert_fraction: Num = 0.0
    training_power_exponent: Num = 0.0
    training_known_ratio: Num = 1.0
    training_unseen_ratio: Num = 1.0
    training_expert_ratio: Num = 1.0
    training_chip_ratio: Num = 1.0
    training_memory_ratio: Num = 1.0
    training_memory_other_ratio: Num = 1.0

    def gemm_fraction(self, chip: Accelerator, precision: str) -> Num:
        """Factor for matrix products on a chip.

        Parameters
        ----------
        chip : Accelerator
            Whose family counts.
        precision : str
            ``bf16``, ``fp8`` or ``fp4``, as the chip multiplies it.

        Returns
        -------
        float or ndarray
            Of the dense peak at that precision [-].

        Examples
        --------
        >>> from computeledger.facts.load import load_accelerator
        >>> factors = TrainingEfficiency(training_gemm_fraction_hopper_fp8=0.5)
        >>> factors.gemm_fraction(load_accelerator("h100-sxm5-80gb"), "fp8")
        0.5
        """
        family = chip_family(chip)
        if precision == "fp4":
            return self.training_gemm_fraction_fp4
        suffix = "_fp8" if precision == "fp8" and family != "tpu" else ""
        family = "other" if suffix and family in {"ampere", "cdna"} else family
        value: Num = getattr(self, f"training_gemm_fraction_{family}{suffix}")
        return value

    def sustained(self, chip: Accelerator, fraction: Num) -> Num:
        """Share of the peak that kernels sustain on a chip, given that of its family's first one.

        Parameters
        ----------
        chip : Accelerator
            With its power and peak.
        fraction : float or ndarray
            On the family's first chip [-].

        Returns
        -------
        float or ndarray
            At most :data:`MOST_OF_PEAK`, which a chip reaches whose power is ample [-].

        Examples
        --------
        >>> from computeledger.facts.load import load_accelerator
        >>> factors = TrainingEfficiency(training_power_exponent=1.0)
        >>> [float(factors.sustained(load_accelerator(one), 0.7)) for one in ("h100-sxm5-80gb", "h20-sxm5-96gb")]
        [0.7, 0.95]
        """
        most: Num = np.minimum(fraction * self.power_ratio(chip), np.maximum(fraction, MOST_OF_PEAK))
        return most

    def power_ratio(self, chip: Accelerator) -> Num:
        """Rate of a chip against its family's first one: sustained clocks follow power.

        Parameters
        ----------
        chip : Accelerator
            With its power and peak.

        Returns
        -------
        float or ndarray
            1 for the family's first chip, for other families, and for TPU and Instinct [-].

        Examples
        --------
        >>> from computeledger.facts.load import load_accelerator
        >>> factors = TrainingEfficiency(training_power_exponent=1.0)
        >>> round(factors.power_ratio(load_accelerator("gb300-gpu")), 2)
        1.26
        """
        family = chip_family(chip)
        if family not in REFERENCE_CHIPS or family in _POWER_UNKNOWN:
            return 1.0
        return _power_share(chip, family) ** self.training_power_exponent

    def attention_fraction(self, chip: Accelerator, kernel: str) -> Num:
        """Factor for attention over long sequences on a chip.

        Parameters
        ----------
        chip : Accelerator
            Whose family counts.
        kernel : str
            ``best`` or ``flash2``; on chips as old as FlashAttention 2 the two are one.

        Returns
        -------
        float or ndarray
            Of the dense bf16 peak [-].

        Examples
        --------
        >>> from computeledger.facts.load import load_accelerator
        >>> factors = TrainingEfficiency(training_attention_fraction_ampere=0.4, training_flash2_fraction=0.5)
        >>> factors.attention_fraction(load_accelerator("a100-sxm4-80gb"), "flash2")
        0.4
        """
        family = chip_family(chip)
        name = family if family in {"ampere", "hopper", "blackwell", "tpu"} else "other"
        value: Num = getattr(self, f"training_attention_fraction_{name}")
        return (
            value * self.training_flash2_fraction if kernel == "flash2" and name in {"hopper", "blackwell"} else value
        )


IDEAL_TRAINING = TrainingEfficiency()


def _power_per_peak(chip: Accelerator) -> float:
    return chip.chip_tdp_w.value / chip.peak_flop_per_s["bf16"].value


def _power_share(chip: Accelerator, family: str) -> float:
    """Power per peak over that of the family's first chip."""
    return _power_per_peak(chip) / _power_per_peak(load_accelerator(REFERENCE_CHIPS[family]))


def chip_family(chip: Accelerator) -> str:
    """Name the family whose kernels a chip runs.

    Parameters
    ----------
    chip : Accelerator
        Any.

    Returns
    -------
    str
        A key of :data:`REFERENCE_CHIPS`, or ``other``: no measurement of it is in the calibration.

    Examples
    --------
    >>> from computeledger.facts.load import load_accelerator
    >>> [chip_family(load_accelerator(one)) for one in ("gb300-gpu", "mi300x", "trainium2")]
    ['blackwell', 'cdna', 'other']
    """
    family = "cdna" if chip.family.startswith("cdna") else chip.family
    return family if family in REFERENCE_CHIPS else "other"


def measured_family(chip: Accelerator) -> str:
    """Name the family whose measurements speak for a chip.

    Parameters
    ----------
    chip : Accelerator
        Any.

    Returns
    -------
    str
        Its family; ``other`` where far more power stands behind its peak than behind that of any measured chip.

    Examples
    --------
    >>> from computeledger.facts.load import load_accelerator
    >>> [measured_family(load_accelerator(one)) for one in ("h200-sxm5-141gb", "h20-sxm5-96gb")]
    ['hopper', 'other']
    """
    family = chip_family(chip)
    if family == "other" or family in _POWER_UNKNOWN:
        return family
    return family if _power_share(chip, family) <= MOST_POWER_MEASURED else "other"


#: Power per peak, over that of a family's first chip, beyond which none was measured (GB300 has 1.26).
MOST_POWER_MEASURED = 1.5
#: Tables beside the factors: effects of frameworks and of sources, and errors of slices.
_BESIDE = ("frameworks", "sources", "slices")


@functools.cache
def load_training_tables() -> Mapping[str, Mapping[str, Any]]:
    """Load what the fit of training says beside its factors.

    Returns
    -------
    mapping of str to mapping
        ``frameworks`` and ``sources``: measured over predicted time; ``slices``: errors with the source left out.

    Examples
    --------
    >>> sorted(load_training_tables())
    ['frameworks', 'slices', 'sources']
    """
    text = resources.files("computeledger.physics.calibration").joinpath("training.toml").read_text("utf-8")
    entries = tomllib.loads(text)
    return {name: entries.get(name, {}) for name in _BESIDE}


def framework_ratio(framework: str) -> float:
    """Real over modelled time of a step under a framework.

    Parameters
    ----------
    framework : str
        Its id.

    Returns
    -------
    float
        As fitted; 1 of a framework without measurements [-].

    Examples
    --------
    >>> framework_ratio("nobody's")
    1.0
    """
    return float(load_training_tables()["frameworks"].get(framework, {}).get("effect", 1.0))


@functools.cache
def load_training_factors(profile: str = "calibrated") -> dict[str, Factor]:
    """Load the factors of training, as ranges, with their grounds.

    Parameters
    ----------
    profile : str
        ``calibrated`` (``assumed`` means the same) or ``ideal``.

    Returns
    -------
    dict of str to Factor
        One per field of :class:`TrainingEfficiency`; none for ``ideal``.

    Raises
    ------
    UnknownIdError
        A profile that does not exist.
    FactError
        A shipped factor that misses its ground.

    Examples
    --------
    >>> load_training_factors()["training_gemm_fraction_hopper"].name
    'training_gemm_fraction_hopper'
    """
    text = resources.files("computeledger.physics.calibration").joinpath("training.toml").read_text("utf-8")
    if profile == "ideal":
        return {}
    if profile not in ("calibrated", "assumed"):
        raise unknown_id("efficiency profile", profile, ("calibrated", "ideal"))
    entries = {name: entry for name, entry in tomllib.loads(text).items() if name not in _BESIDE}
    known = {field.name for field in fields(TrainingEfficiency)}
    if known != set(entries):
        raise FactError(f"calibration/training.toml: {sorted(known ^ set(entries))} missing or unknown")
    return {name: _factor(name, entry) for name, entry in entries.items()}


def _factor(name: str, entry: Mapping[str, Any]) -> Factor:
    missing = {"value", "unit", "why", "source"} - set(entry)
    if "residual" in entry:
        missing |= {"data", "date", "identifiability"} - set(entry)
    if missing:
        raise FactError(f"calibration/training.toml: {name} lacks {', '.join(sorted(missing))}")
    if entry["source"] != "assumption" and entry["source"] not in load_sources():
        raise FactError(f"calibration/training.toml: {name}: {unknown_id('source', entry['source'], load_sources())}")
    dimension = factor_dimension(name)
    value = parse_quantity(entry["value"], dimension, entry["unit"] if dimension == "s" else None)
    if "residual" not in entry:
        return Factor(name, value, "assumption", entry["why"], entry["source"], entry.get("date", ""))
    check_date(entry["date"], f"calibration/training.toml: {name}")
    ground = f"{entry['why']}; {entry['data']}; residual {entry['residual']}; {entry['identifiability']}"
    return Factor(name, value, "calibration", ground, entry["source"], entry["date"])


def load_all_factors(profile: str = DEFAULT_ENGINE) -> dict[str, Factor]:
    """Load every factor that a plan may override: of serving and of training.

    Parameters
    ----------
    profile : str
        Of serving: an engine, ``assumed`` or ``ideal``; the last holds for training too.

    Returns
    -------
    dict of str to Factor
        By name.

    Examples
    --------
    >>> {"gemm_fraction_bf16", "training_gemm_fraction_hopper"} <= set(load_all_factors())
    True
    """
    return {**load_factors(profile), **load_training_factors("ideal" if profile == "ideal" else "calibrated")}


def training_efficiency(profile: str = "calibrated", draws: Mapping[str, Num] | None = None) -> TrainingEfficiency:
    """Build the factors of training as numbers.

    Parameters
    ----------
    profile : str
        ``calibrated`` or ``ideal``.
    draws : mapping of str to float or ndarray, optional
        Samples by ``efficiency.NAME``; a factor without samples takes its median.

    Returns
    -------
    TrainingEfficiency
        Numbers, or arrays along the sample axis.

    Examples
    --------
    >>> training_efficiency("ideal") == IDEAL_TRAINING
    True
    """
    given = draws or {}
    factors = load_training_factors(profile)
    return TrainingEfficiency(
        **{name: given.get(f"efficiency.{name}", median_of(factor.value)) for name, factor in factors.items()}
    )
