"""The rule that gives a model of numbers its shape: fitted on open models, tried on publishers that were left out."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from computeledger.facts.architecture import Model
from computeledger.facts.catalog import shipped_file
from computeledger.facts.load import load_model, load_system
from computeledger.facts.reading import read_file
from computeledger.facts.shape_rule import ShapeRule, model_from_numbers, shape_rule
from computeledger.physics.attention import mixer_of
from computeledger.physics.calibration.efficiency import efficiency
from computeledger.physics.calibration.training import training_efficiency
from computeledger.physics.parallelism import Layout
from computeledger.physics.roofline import Machine, parse_precision
from computeledger.physics.training.batch import Batch
from computeledger.physics.transformer import kv_bytes_per_sequence, n_params_active, n_params_total
from computeledger.units import GIGA
from computeledger.workloads.pretraining.estimate import PretrainingScenario, estimate_pretraining
from computeledger.workloads.serving.estimate import ServingScenario, estimate_serving

#: Where the rule's shapes are compared with the real ones, and the room of a GPU that weights may take [byte].
SYSTEM, WEIGHTS_BYTES = "gb200-nvl72", 80e9
#: Requests that are compared: sequences that decode, tokens in and tokens out.
LOADS = ((1, 4096, 1024), (32, 4096, 1024), (256, 4096, 1024), (16, 65536, 1024))
#: Contexts between which a cache is measured: beyond every window [token].
_LONG = (200_000.0, 300_000.0)


@dataclass(frozen=True, slots=True)
class Real:
    """An open model's own figures, as the rule needs them."""

    model: Model
    total: float
    active: float
    kv: float
    mixers: float

    @property
    def publisher(self) -> str:
        """Whose model it is: what is left out together."""
        return self.model.id.partition("/")[0]

    @property
    def text(self) -> str:
        """The numbers by which a reader would ask for it."""
        return f"{self.total / GIGA:.6g}B" + (f"-A{self.active / GIGA:.6g}B" if self.model.is_moe else "")


@functools.cache
def open_models() -> tuple[Real, ...]:
    """Open models that the rule is fitted on.

    Examples
    --------
    >>> len(open_models()) > 40
    True
    """
    return tuple(
        _real(load_model(one)) for one in read_file(shipped_file("shape_rule.toml"), shipped=True).table["fitted"]
    )


def _real(model: Model) -> Real:
    total = float(n_params_total(model))
    active = float(n_params_active(model)) if model.is_moe else total
    near, far = (float(kv_bytes_per_sequence(model, one, 2.0)) for one in _LONG)
    mixers = sum(count * mixer_of(mixer).params(model.hidden_size) for count, mixer in model.mixers)
    return Real(model, total, active, (far - near) / (_LONG[1] - _LONG[0]), mixers / active)


def fit_rule(models: Sequence[Real]) -> ShapeRule:
    """Fit the rule: least squares in logarithms.

    Examples
    --------
    >>> round(fit_rule(open_models()).laws["hidden"][1], 2) == round(shape_rule().laws["hidden"][1], 2)
    True
    """
    size = np.log([one.active / 1e10 for one in models])
    sparsity = np.log([one.total / one.active for one in models])
    laws, spread = {}, {}
    columns: Mapping[str, tuple[Sequence[float], tuple[NDArray[np.float64], ...]]] = {
        "hidden": ([one.model.hidden_size for one in models], (size,)),
        "layers": ([one.model.n_layers for one in models], (size,)),
        "kv": ([one.kv for one in models], (size, sparsity)),
        "mixers": ([one.mixers for one in models], (size, sparsity)),
    }
    for name, (values, terms) in columns.items():
        given = np.column_stack([np.ones(len(models)), *terms])
        found = np.linalg.lstsq(given, np.log(values), rcond=None)[0]
        left = np.log(values) - given @ found
        spread[name] = float(np.sqrt(np.sum(left**2) / (len(models) - given.shape[1])))
        laws[name] = (math.exp(found[0]), float(found[1]), float(found[2]) if len(found) > 2 else 0.0)
    vocabulary = sorted(one.model.vocab_size for one in models)[len(models) // 2]
    active = sorted(_active_experts(one.model) for one in models if one.model.is_moe)
    shipped = shape_rule()
    return ShapeRule(laws, spread, vocabulary, active[len(active) // 2], shipped.tied_below, shipped.time_spread)


def _active_experts(model: Model) -> int:
    return max(group.feed_forward.n_experts_active for group in model.layers)


def left_out_ratios(models: Sequence[Real], with_cache: bool = False) -> dict[str, list[float]]:
    """Figures of the rule's shape over those of the real one, the rule fitted without the model's publisher.

    Examples
    --------
    >>> found = left_out_ratios(open_models()[:8])
    >>> sorted(found)
    ['kv', 'step', 'tpot', 'ttft']
    """
    rules = {
        one.publisher: fit_rule([other for other in open_models() if other.publisher != one.publisher])
        for one in models
    }
    out: dict[str, list[float]] = {"kv": [], "tpot": [], "ttft": [], "step": []}
    for one in models:
        text = one.text + (f" kv={one.kv:.6g}B" if with_cache else "")
        made = model_from_numbers(text, rules[one.publisher])
        out["kv"].append(_real(made).kv / one.kv)
        ours, theirs = (_serving(model, one.total) for model in (made, one.model))
        for name in ("tpot", "ttft"):
            out[name] += list(ours[name] / theirs[name])
        out["step"].append(_step_s(made, one.total) / _step_s(one.model, one.total))
    return out


def _without(publisher: str) -> ShapeRule:
    return fit_rule([one for one in open_models() if one.publisher != publisher])


def _layout(model: Model, total: float) -> Layout:
    gpus = 2 ** max(0, math.ceil(math.log2(total / WEIGHTS_BYTES)))
    tp = min(gpus, 8)
    return Layout(tp=tp, dp=gpus // tp, ep=gpus) if model.is_moe else Layout(tp=tp, pp=gpus // tp)


def _serving(model: Model, total: float) -> dict[str, NDArray[np.float64]]:
    precision, machine = parse_precision("fp8", model.is_moe), Machine(load_system(SYSTEM), efficiency("vllm"))
    batch, given, written = (np.array(column, float) for column in zip(*LOADS, strict=True))
    scenario = ServingScenario(model, _layout(model, total), precision, given, written, batch)
    found = estimate_serving(scenario, machine)
    return {"tpot": np.asarray(found.tpot_s, float), "ttft": np.asarray(found.ttft_s, float)}


def _step_s(model: Model, total: float) -> float:
    layout = _layout(model, 16 * total)
    scenario = PretrainingScenario(model, layout, parse_precision("bf16", model.is_moe), Batch(4096.0, 1024.0))
    machine = Machine(load_system(SYSTEM), training=training_efficiency())
    return float(np.ravel(estimate_pretraining(scenario, machine).step_s)[0])


def time_spreads(models: Sequence[Real]) -> dict[str, float]:
    """Standard deviations of the logarithm of :func:`left_out_ratios`, around 1.

    Examples
    --------
    >>> time_spreads(open_models()[:8]).keys() == shape_rule().time_spread.keys()
    True
    """
    out: dict[str, float] = {}
    for suffix, with_cache in (("", False), ("_kv", True)):
        found = left_out_ratios(models, with_cache)
        out |= {
            f"{name}{suffix}": float(np.sqrt(np.mean(np.log(found[name]) ** 2))) for name in ("tpot", "ttft", "step")
        }
    return out
