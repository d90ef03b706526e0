"""The shipped file of training factors, written anew from a fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields

from computeledger.arrays import Range
from computeledger.physics.calibration.efficiency import Factor
from computeledger.physics.calibration.training import TrainingEfficiency, load_training_factors
from computeledger.units import KILO
from computeledger.validation.training.constants import CONSTANTS
from computeledger.validation.training.fit import FittedConstant, Slice, TrainingFit
from computeledger.writing import toml_row, toml_text

_HEAD = """\
# Factors between the datasheet and a training step. An entry with data, residual, date and identifiability was
# fitted by `fit_training` and written by `calibration_toml`; the others are assumptions. A range is a 90 % interval.
"""
_CLASSES = {
    "training_known_ratio": ("known", "dense model, as vendors tune it for their own tables", "sources left out"),
    "training_unseen_ratio": ("unseen", "dense model, as people usually run it", "sources left out as a whole"),
    "training_expert_ratio": ("expert", "model with experts", "sources left out as a whole"),
    "training_chip_ratio": (
        "chip",
        "TPU, Instinct or a chip never measured",
        "sources, and families of chips, left out",
    ),
    "training_memory_ratio": (
        "memory",
        "peak memory",
        "34 peaks of one software; an assumption was set with them in view",
    ),
}
_MEANS = {
    "training_gemm_fraction_other": "geometric mean of the three families in bf16",
    "training_gemm_fraction_other_fp8": "geometric mean of the two families in fp8",
    "training_attention_fraction_other": "geometric mean of the three families",
}


#: Ends are sampled: a little more in the logarithm keeps the runs that lie on them inside.
SLACK = 1.03


def calibration_toml(fit: TrainingFit, date: str) -> str:
    """Write the text of ``physics/calibration/training.toml`` for a fit.

    Examples
    --------
    >>> empty = TrainingFit((), {name: 1.1 for name in ("known", "unseen", "expert", "chip", "memory")}, {},
    ...                     TrainingEfficiency())
    >>> calibration_toml(empty, "2026-11-21").splitlines()[0][:13]
    '# Factors bet'
    """
    shipped = load_training_factors()
    fitted = {one.name: one for one in fit.constants}
    names = [field.name for field in fields(TrainingEfficiency)]
    assumed = [name for name in names if name not in fitted and name not in _CLASSES and name not in _MEANS]
    rows = [_assumption(shipped[name]) for name in assumed if name in shipped]
    parts = [_HEAD, "\n".join(rows + [_mean(name, fit) for name in names if name in _MEANS]), ""]
    parts += [_fitted(fitted[name], date) for name in names if name in fitted]
    parts += [_ratio(name, fit, date) for name in names if name in _CLASSES]
    parts += _effects("frameworks", fit.frameworks) + _effects("sources", fit.sources)
    parts += ["[slices]", *(_slice_row(name, one) for name, one in fit.slices.items()), ""]
    return "\n".join(parts)


def _effects(title: str, effects: Mapping[str, float]) -> list[str]:
    """Measured over predicted time, by framework or by source."""
    rows = [toml_row(toml_text(name), {"effect": f"{effect:.4g}"}) for name, effect in effects.items()]
    return [f"[{title}]", *rows, ""]


def _slice_row(name: str, one: Slice) -> str:
    entry = {"n": str(one.n), "sources": str(one.sources), "step": f"{one.median_abs_error:.3g}"}
    return toml_row(toml_text(name), entry)


def _number(value: float) -> str:
    return f"{value:.4g}"


def _assumption(factor: Factor) -> str:
    timed = factor.name.endswith("_s")
    scale, unit = (KILO, "ms") if timed else (1.0, "-")
    value = factor.value
    ends = (value.low, value.high) if isinstance(value, Range) else (value,)
    text = "..".join(_number(end * scale) for end in ends)
    entries = {"value": text, "unit": unit, "why": factor.why, "source": factor.source}
    return toml_row(factor.name, {key: toml_text(one) for key, one in entries.items()})


def _entry(name: str, lines: dict[str, str], date: str) -> str:
    body = "\n".join(f"{key} = {toml_text(text)}" for key, text in {**lines, "date": date}.items())
    return f'[{name}]\n{body}\nsource = "training-measurements"\n'


def _fitted(one: FittedConstant, date: str) -> str:
    timed = one.name.endswith("_s")
    partner = one.partner.removeprefix("training_")
    capped = one.value >= CONSTANTS[one.name].cap * (1 - 1e-6)
    known = "held at the best measured kernel" if capped else f"known to {one.relative_error:.0%}"
    lines = {
        "value": _number(one.value * (KILO if timed else 1.0)),
        "unit": "ms" if timed else "-",
        "why": CONSTANTS[one.name].why,
        "data": f"{one.n_runs} published configurations whose step it moves",
        "residual": f"median {one.median_abs_error:.1%}, 90th percentile {one.p90_abs_error:.1%}",
        "identifiability": f"{known}; trades most with {partner} (correlation {one.correlation:+.2f})",
    }
    return _entry(one.name, lines, date)


def _mean(name: str, fit: TrainingFit) -> str:
    value, why = float(getattr(fit.training, name)), f"chips outside the calibration: {_MEANS[name]}"
    entries = {"value": _number(value), "unit": "-", "why": why, "source": "assumption"}
    return toml_row(name, {key: toml_text(one) for key, one in entries.items()})


def _ratio(name: str, fit: TrainingFit, date: str) -> str:
    label, why, data = _CLASSES[name]
    factor = fit.ratios[label] ** SLACK
    lines = {
        "value": f"{_number(1 / factor)}..{_number(factor)}",
        "unit": "-",
        "why": f"real over modelled: {why}",
        "data": data,
        "residual": f"split conformal, factor {factor:.3f} either way at 90 %",
        "identifiability": "a width, not a value",
    }
    return _entry(name, lines, date)
