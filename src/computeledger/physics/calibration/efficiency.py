"""The factors between the datasheet and the machine, each with its source.

A factor is an assumption (``efficiency.toml``) until a fit on measurements replaces it (``calibration/serving.toml``);
a result lists the factors it used. ``ideal`` is the physical limit.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from importlib import resources
from typing import Any

import numpy as np

from computeledger.arrays import Num, Range, Uncertain
from computeledger.distributions import Spread
from computeledger.errors import FactError, QuantityError, nearest, unknown_id
from computeledger.facts.catalog import user_path
from computeledger.facts.reading import Document, read_file
from computeledger.physics.calibration.local import LocalCalibration, load_local
from computeledger.physics.calibration.serving import (
    DEFAULT_ENGINE,
    DEFAULT_TUNING,
    GENERIC,
    Calibration,
    Constant,
    calibrated_engines,
    load_calibration,
)
from computeledger.sources import check_date, load_sources
from computeledger.units import format_si, parse_quantity


@dataclass(frozen=True, slots=True)
class Efficiency:
    """What a machine reaches of its peaks, and what each launch costs. The default is the physical limit.

    Attributes
    ----------
    gemm_fraction_bf16, gemm_fraction_fp8, gemm_fraction_fp4 : float or ndarray
        Of the dense peak at that precision, in matrix products [-].
    expert_fraction : float or ndarray
        Of the above, in the grouped products of routed experts [-].
    weight_bandwidth_fraction, expert_bandwidth_fraction, kv_bandwidth_fraction : float or ndarray
        Of HBM bandwidth while weights, routed experts' weights or the KV cache stream [-].
    attention_fraction, latent_attention_fraction : float or ndarray
        Of the dense bf16 peak in prefill attention, and in absorbed latent attention [-].
    decode_attention_ratio : float or ndarray
        Rate of plain attention with one query per head over that in prefill [-].
    overlap_fraction : float or ndarray
        Share of the shorter of computing and moving that hides behind the longer [-].
    scale_up_fraction, scale_out_fraction : float or ndarray
        Of one direction's bandwidth: reductions in the domain, anything beyond it but exchanges between experts [-].
    all_to_all_fraction, exchange_out_fraction : float or ndarray
        The same of exchanges between experts, in the domain and beyond it [-].
    all_to_all_floor_s, scale_out_floor_s : float or ndarray
        Time that does not shrink with the bytes: of one dispatch or combine, of a reduction beyond the domain [s].
    mixer_floor_s, mlp_floor_s, experts_floor_s : float or ndarray
        Time of a layer's kernels that does not shrink with the batch [s].
    latent_floor_s, linear_floor_s, sparse_floor_s : float or ndarray
        The same, further, of a latent, a linear and an indexed mixer [s].
    single_experts_ratio : float or ndarray
        Floor of experts with one token in the step over that with many [-].
    fp4_floor_ratio : float or ndarray
        Floor of 4-bit experts on a chip with 4-bit units over the floor of others [-].
    floor_ratio : float or ndarray
        An engine's floors over the shared ones [-].
    floor_gain_per_year : float or ndarray
        Rate at which newer releases of the engines shrink these floors [1/year].
    step_ratio : float or ndarray
        Time of a step or a prefill over that of the public InferenceX recipes [-].
    usual_step_ratio : float or ndarray
        The same as people usually run an engine [-].
    usual_admission_steps : float or ndarray
        What ``admission_steps`` are as people usually run an engine: recipes stream several tokens at once [-].
    host_step_s, host_sequence_s : float or ndarray
        Host time per decode step, and per sequence in it [s].
    prefill_layer_s, prefill_experts_s, prefill_mixer_s : float or ndarray
        Launch time of a prefill per layer; further, per layer of experts, and per latent or linear mixer [s].
    launch_ratio : float or ndarray
        An engine's launch times of a prefill over the shared ones [-].
    prefill_ratio : float or ndarray
        An engine's time for a prefill's work over the modelled one [-].
    prefill_host_s : float or ndarray
        Host time per request before its first token [s].
    prefill_interference : float or ndarray
        Share of what a prompt adds to the decode step that it joins by which decodes are late [-].
    admission_steps : float or ndarray
        Decode steps between two looks at the queue of new requests [-].
    transfer_s : float or ndarray
        Handing a prompt's cache from a prefill to a decode worker, beyond its bytes [s].
    exposed_dispatch_fraction : float or ndarray
        Share of the exchange between experts that two overlapped batches leave exposed [-].
    expert_imbalance : float or ndarray
        Busiest rank's tokens over the mean [-].
    expert_tile_tokens : float or ndarray
        Rows that grouped products of experts are padded to [token].
    activation_passes : float or ndarray
        Activation traffic over that of fused kernels [-].
    chip_correction : float or ndarray
        Share of the measured difference between the chip and those of the fit that is applied [-].
    serving_ratio, first_token_ratio : float or ndarray
        Real over modelled time of a serving step and of the first token [-].
    """

    gemm_fraction_bf16: Num = 1.0
    gemm_fraction_fp8: Num = 1.0
    gemm_fraction_fp4: Num = 1.0
    expert_fraction: Num = 1.0
    weight_bandwidth_fraction: Num = 1.0
    expert_bandwidth_fraction: Num = 1.0
    kv_bandwidth_fraction: Num = 1.0
    attention_fraction: Num = 1.0
    latent_attention_fraction: Num = 1.0
    decode_attention_ratio: Num = 1.0
    overlap_fraction: Num = 1.0
    scale_up_fraction: Num = 1.0
    scale_out_fraction: Num = 1.0
    all_to_all_fraction: Num = 1.0
    exchange_out_fraction: Num = 1.0
    all_to_all_floor_s: Num = 0.0
    scale_out_floor_s: Num = 0.0
    mixer_floor_s: Num = 0.0
    mlp_floor_s: Num = 0.0
    experts_floor_s: Num = 0.0
    latent_floor_s: Num = 0.0
    linear_floor_s: Num = 0.0
    sparse_floor_s: Num = 0.0
    single_experts_ratio: Num = 1.0
    fp4_floor_ratio: Num = 1.0
    floor_ratio: Num = 1.0
    floor_gain_per_year: Num = 0.0
    step_ratio: Num = 1.0
    usual_step_ratio: Num = 1.0
    usual_admission_steps: Num = 0.0
    host_step_s: Num = 0.0
    host_sequence_s: Num = 0.0
    prefill_layer_s: Num = 0.0
    prefill_experts_s: Num = 0.0
    prefill_mixer_s: Num = 0.0
    launch_ratio: Num = 1.0
    prefill_ratio: Num = 1.0
    prefill_host_s: Num = 0.0
    prefill_interference: Num = 1.0
    admission_steps: Num = 0.0
    transfer_s: Num = 0.0
    exposed_dispatch_fraction: Num = 0.0
    expert_imbalance: Num = 1.0
    expert_tile_tokens: Num = 0.0
    activation_passes: Num = 0.0
    chip_correction: Num = 0.0
    serving_ratio: Num = 1.0
    first_token_ratio: Num = 1.0

    def after(self, years: Num) -> Efficiency:
        """Efficiency of an engine's release so many years after the one that the constants describe.

        Parameters
        ----------
        years : float or ndarray
            Negative for an older release [year].

        Returns
        -------
        Efficiency
            Floors times ``exp(-gain years)``: newer releases fuse and overlap more kernels.

        Examples
        --------
        >>> float(Efficiency(floor_ratio=1.0, floor_gain_per_year=0.2).after(-1.0).floor_ratio.round(2))
        1.22
        """
        if isinstance(self.floor_gain_per_year, float) and not self.floor_gain_per_year:
            return self
        return replace(self, floor_ratio=self.floor_ratio * np.exp(-self.floor_gain_per_year * years))

    def run_as(self, tuning: str) -> Efficiency:
        """Efficiency of a deployment of a tuning, from that of the public recipes.

        Parameters
        ----------
        tuning : str
            One of :data:`~computeledger.physics.calibration.serving.ENGINE_TUNINGS`.

        Returns
        -------
        Efficiency
            Without the recipes' flags there are fewer steps between two looks at the queue; as people usually run an
            engine, and do not launch it as its makers publish for the model and the chip, steps are slower as well.

        Examples
        --------
        >>> one = Efficiency(usual_step_ratio=1.1, admission_steps=28.0, usual_admission_steps=3.5)
        >>> [one.run_as(tuning).step_ratio for tuning in ("usual", "published", "recipe")]
        [1.1, 1.0, 1.0]
        >>> [one.run_as(tuning).admission_steps for tuning in ("usual", "published", "recipe")]
        [3.5, 3.5, 28.0]
        """
        if tuning == "recipe":
            return self
        step_ratio = self.step_ratio if tuning == "published" else self.usual_step_ratio
        return replace(self, step_ratio=step_ratio, admission_steps=self.usual_admission_steps)

    def gemm_fraction(self, precision: str) -> Num:
        """Factor for matrix products at a precision.

        Parameters
        ----------
        precision : str
            Of the units: ``bf16``, ``fp8``, ``fp4``, or ``int8``, which takes the factor of fp8 (assumption).

        Returns
        -------
        float or ndarray
            Of the dense peak at that precision [-].

        Examples
        --------
        >>> Efficiency(gemm_fraction_fp8=0.5).gemm_fraction("fp8")
        0.5
        """
        factors = {"bf16": self.gemm_fraction_bf16, "fp8": self.gemm_fraction_fp8, "fp4": self.gemm_fraction_fp4}
        return factors["fp8" if precision == "int8" else precision]


#: The physical limit: every peak reached, nothing launched, no host.
IDEAL = Efficiency()


@dataclass(frozen=True, slots=True)
class Factor:
    """One factor of a profile.

    Attributes
    ----------
    name : str
        Field of :class:`Efficiency`.
    value : float or Range
        In its own SI unit.
    kind : str
        ``assumption`` or ``calibration``.
    why : str
        What an assumption rests on, or a calibration's data and residual.
    source : str
        Source key, or ``assumption``.
    date : str
        Date of a calibration; empty for an assumption.
    """

    name: str
    value: Uncertain
    kind: str
    why: str
    source: str
    date: str = ""


#: Class of question whose interval holds where a question is not sorted into one.
_FAR = "as people usually run it"
_RATIOS = {"serving_ratio": "tpot", "first_token_ratio": "ttft"}


def load_factors(profile: str = DEFAULT_ENGINE) -> Mapping[str, Factor]:
    """Load a profile's factors, ranges and grounds included.

    Parameters
    ----------
    profile : str
        An engine (``trtllm``, ``vllm``, ``sglang``) with fitted constants, ``generic`` for one without, a local engine
        on a kind of chip (``llama.cpp on apple``), ``assumed`` for what stood before any fit, ``ideal``, or the path of
        a profile that ``calibrate`` wrote for a machine.

    Returns
    -------
    mapping of str to Factor
        By field name of :class:`Efficiency`; ``ideal`` has none.

    Raises
    ------
    UnknownIdError
        A profile that is not there.
    FactError
        A factor that is missing, unknown, or without its ground.

    Examples
    --------
    >>> load_factors("assumed")["expert_imbalance"].value
    Range(low=1.08, high=1.6, bounded=False)
    >>> load_factors("vllm")["host_step_s"].kind
    'calibration'
    """
    path = user_path(profile)
    return read_profile(read_file(path)) if path is not None else _shipped_factors(profile)


@functools.cache
def _shipped_factors(profile: str) -> Mapping[str, Factor]:
    local = load_local()
    engines = [*calibrated_engines(), GENERIC]
    if profile not in ("assumed", "ideal", *engines, *local.profiles):
        raise unknown_id("engine", profile, [*engines, "ideal"])
    if profile == "ideal":
        return {}
    assumed = _assumed()
    if profile == "assumed":
        return assumed
    fit = load_calibration()
    out = dict(assumed)
    for one in fit.of(profile if profile in engines else GENERIC).values():
        out[one.name] = _fitted_factor(one, fit)
    for one in local.profiles.get(profile, {}).values():
        out[one.name] = _fitted_factor(one, local)
    for name, quantity in _RATIOS.items():
        low, inner_low, mid, inner_high, high = fit.intervals[_FAR][quantity]
        value = Range(low, high, mid=mid, inner=(inner_low, inner_high))
        why = f"{assumed[name].why}; conformal, for a {_FAR}; {fit.data}"
        out[name] = Factor(name, value, "calibration", why, fit.source, fit.date)
    return out


def _fitted_factor(one: Constant, fit: Calibration | LocalCalibration) -> Factor:
    why, before = _assumed()[one.name].why, f"{one.prior:.3g}"
    if factor_dimension(one.name) == "s":
        before = format_si(one.prior, "s")
    why = f"{why}; before the fit {before}; fitted on {fit.data}; residual {fit.residual}"
    return Factor(one.name, one.value, "calibration", why, fit.source, fit.date)


def read_profile(document: Document) -> Mapping[str, Factor]:
    """Read the profile of a machine: what was measured there, and for the rest what it names in ``like``.

    Parameters
    ----------
    document : Document
        ``like`` (a shipped profile), ``data``, ``date`` and one table per factor: ``value``, ``unit``, ``residual``.

    Returns
    -------
    mapping of str to Factor
        By field name of :class:`Efficiency`.

    Raises
    ------
    InputError
        A field that is missing or unknown, with its line.

    Examples
    --------
    >>> from computeledger.facts.reading import parse_document
    >>> text = '''like = "ideal"
    ... data = "32 cases"
    ... date = "2026-11-21"
    ... [factors]
    ... mlp_floor_s = { value = 36, unit = "us", residual = "none" }'''
    >>> read_profile(parse_document("my.toml", text, shipped=False))["mlp_floor_s"].value
    3.6e-05
    """
    table = document.table
    for key in ("like", "data", "date"):
        if not isinstance(table.get(key), str):
            raise document.error(key, "missing: a profile is written by computeledger calibrate")
    given = table.get("factors")
    if not isinstance(given, dict):
        raise document.error("factors", "the table of factors is missing")
    try:
        check_date(table["date"], document.name)
    except FactError as error:
        raise document.error("date", str(error)) from None
    shipped = [*calibrated_engines(), GENERIC, *load_local().profiles, "assumed", "ideal"]
    if table["like"] not in shipped:
        raise document.error("like", str(unknown_id("profile", table["like"], shipped)))
    out = dict(_shipped_factors(table["like"]))
    if "chip_correction" in out:  # what is measured on the chip needs none
        out["chip_correction"] = replace(out["chip_correction"], value=0.0)
    known = [field.name for field in fields(Efficiency)]
    for name, entry in given.items():
        where = f"factors.{name}"
        if name not in known:
            raise document.error(where, f"unknown factor; {nearest(name, known)}")
        if not isinstance(entry, dict) or not {"value", "unit", "residual"} <= set(entry):
            raise document.error(where, "a factor is a table of value, unit, residual")
        dimension = factor_dimension(name)
        try:
            value = parse_quantity(entry["value"], dimension, entry["unit"] if dimension == "s" else None)
        except QuantityError as error:
            raise document.error(where, str(error)) from None
        why = f"measured on {table['data']}; residual {entry['residual']}"
        out[name] = Factor(name, value, "calibration", why, "user", table["date"])
    return out


@functools.cache
def _assumed() -> Mapping[str, Factor]:
    text = resources.files("computeledger.physics.calibration").joinpath("efficiency.toml").read_text("utf-8")
    entries = tomllib.loads(text)["assumed"]
    known = {field.name for field in fields(Efficiency)}
    if known != set(entries):
        raise FactError(f"efficiency.toml: {sorted(known ^ set(entries))} missing or unknown")
    return {name: _factor(name, entry) for name, entry in entries.items()}


def _factor(name: str, entry: Mapping[str, Any]) -> Factor:
    missing = {"value", "unit", "why", "source"} - set(entry)
    if missing:
        raise FactError(f"efficiency.toml: {name} lacks {', '.join(sorted(missing))}")
    dimension = factor_dimension(name)
    value = parse_quantity(entry["value"], dimension, entry["unit"] if dimension == "s" else None)
    if entry["source"] != "assumption" and entry["source"] not in load_sources():
        raise FactError(f"efficiency.toml: {name}: {unknown_id('source', entry['source'], load_sources())}")
    return Factor(name, value, "assumption", entry["why"], entry["source"])


def factor_dimension(name: str) -> str:
    """Dimension of a factor, told from its name: a share of a peak never exceeds it.

    Parameters
    ----------
    name : str
        Field of :class:`Efficiency`.

    Returns
    -------
    str
        ``s``, ``fraction`` or ``count``, as in :data:`computeledger.units.DIMENSIONS`.

    Examples
    --------
    >>> [factor_dimension(name) for name in ("host_step_s", "gemm_fraction_fp8", "expert_imbalance")]
    ['s', 'fraction', 'count']
    """
    if name.endswith("_s"):
        return "s"
    return "fraction" if "fraction" in name or name == "prefill_interference" else "count"


@functools.lru_cache(maxsize=1024)
def median_of(value: Uncertain | Spread) -> float:
    """Median of an uncertain number; of one that differs from case to case, of its mean.

    Parameters
    ----------
    value : float, Range or Spread
        Any quantity, in its own unit.

    Returns
    -------
    float
        The median, in the quantity's own unit.

    Examples
    --------
    >>> round(median_of(Range(1.0, 4.0)), 9)
    2.0
    """
    given = value.mean if isinstance(value, Spread) else value
    return float(given.quantile(0.0)) if isinstance(given, Range) else float(given)


def efficiency(
    profile: str = DEFAULT_ENGINE,
    draws: Mapping[str, Num] | None = None,
    years: Num | None = None,
    tuning: str = DEFAULT_TUNING,
) -> Efficiency:
    """Build the factors as numbers.

    Parameters
    ----------
    profile : str
        As for :func:`load_factors`.
    draws : mapping of str to float or ndarray, optional
        Samples by ``efficiency.NAME``; a factor without samples takes its median.
    years : float or ndarray, optional
        Of the engine's release after the calibration's reference month; that of the newest measurements when left out.
        Constants of a machine, of a local engine and before any fit do not age [year].
    tuning : str
        One of :data:`~computeledger.physics.calibration.serving.ENGINE_TUNINGS`; the same constants hold for all.

    Returns
    -------
    Efficiency
        Numbers, or arrays along the sample axis.

    Examples
    --------
    >>> efficiency("ideal") == IDEAL
    True
    >>> efficiency(draws={"efficiency.expert_imbalance": 1.4}).expert_imbalance
    1.4
    """
    if profile == "ideal":
        return IDEAL
    given = draws or {}
    numbers = {
        name: given.get(f"efficiency.{name}", median_of(factor.value)) for name, factor in load_factors(profile).items()
    }
    found = Efficiency(**numbers)
    if profile not in (*calibrated_engines(), GENERIC):
        return found
    released = found.after(load_calibration().newest_years if years is None else years)
    return released.run_as(tuning)
