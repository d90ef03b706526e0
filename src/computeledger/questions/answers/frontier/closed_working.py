"""The working of a closed model's sheet: formula, inputs and sources of every figure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from computeledger.facts.load import load_accelerator
from computeledger.frontier.narrowing import Narrowing
from computeledger.questions.grounds import stated_figure as _figure
from computeledger.questions.grounds import stated_term as _term
from computeledger.questions.grounds import term_document
from computeledger.questions.sheet import SheetQuestion
from computeledger.units import HOUR_S
from computeledger.workloads.result import fact_term

#: What joins all clues.
_JOINED = "worked out with all figures at once, so that medians of a product need not multiply"
_EXPECTED = "if it came as the others expect it"
_SIZES = "epoch-models, sizes of open models by their date, fitted here"


def sheet_working(
    question: SheetQuestion, said: Mapping[str, Any], laws: Mapping[str, Any], narrowings: Iterable[Narrowing]
) -> list[dict[str, Any]]:
    """Figures with their working, from a document and the medians and ranges that stand between its figures.

    ``laws`` are stored over active parameters, utilisation and the price of a GPU-hour after all clues.
    """
    active = _term("active parameters", said["n_params_active"], "params")
    tokens, flop = _term("tokens", said["tokens"], "tokens"), _term("FLOP", said["training_flop"], "FLOP")
    hours = _term("GPU-hours", said["gpu_hours"], "GPU-hours")
    before = _term("before any clue", said["n_params_active_before"], "params", "calibration", _SIZES)
    clues = [
        _term(f"by {one['clue']}", one["n_params_active_alone"], "params", "plan", one["said"]) for one in said["clues"]
    ]
    chip = load_accelerator(said["accelerator"])
    peak = chip.peak_flop_per_s[chip.wide_unit]
    fitted = ("calibration", "epoch-models, published runs, fitted here")
    given = fitted if question.utilization is None else ("plan", "--utilization")
    widths = [
        _term(
            f"with {one.clue}", math.sqrt(one.n_params_active_width_ratio), "", "calibration", "as the others expect it"
        )
        for one in narrowings
    ]
    premiums = [
        _figure("active_parameters_at_twice_the_price", one["n_params_active"], "params",
                "active parameters with prices half as high: a model sold at twice open models' prices",
                [active, *clues])
        for one in said.get("at_premium", ())[:1]
    ]  # fmt: skip
    return [
        _figure("n_params_active", said["n_params_active"], "params",
                "sizes that open models have, each weighed by how likely it has every one of these clues",
                [before, *clues]),
        _figure("n_params_total", said["n_params_total"], "params",
                f"active parameters x stored over active, 1 in a dense model; {_JOINED}",
                [active, _term("stored over active", laws["stored_per_active_ratio"], "", "calibration", _SIZES),
                 _term("probability of a dense model", said["dense_probability"], "fraction", "calibration", _SIZES)]),
        _figure("tokens", said["tokens"], "tokens",
                "tokens that open models of such a size and date were trained on, moved by the clues",
                [active, *clues]),
        _figure("training_flop", said["training_flop"], "FLOP", f"6 x active parameters x tokens; {_JOINED}",
                [active, tokens]),
        _figure("gpu_hours", said["gpu_hours"], "GPU-hours",
                f"FLOP / (peak x utilisation x {HOUR_S:.0f} s); {_JOINED}",
                [flop, term_document(fact_term(f"peak of {chip.short_name or chip.name}", peak)),
                 _term("utilisation", laws["utilization_fraction"], "fraction", *given)]),
        _figure("training_usd", said["training_usd"], "USD", f"GPU-hours x price of a GPU-hour; {_JOINED}",
                [hours, _term("price of a GPU-hour", laws["usd_per_gpu_hour"], "USD", "assumption", "--gpu-price")]),
        _figure("clues", said["n_params_active"], "params",
                "active parameters by each clue alone, with the date; the last joins them", [before, *clues]),
        _figure("narrowing", math.sqrt(_width(said["n_params_active"])), "",
                "how far the 90 % range of active parameters reaches either way: sqrt(high / low)",
                widths),
        *premiums,
    ]  # fmt: skip


def _width(interval: Mapping[str, float]) -> float:
    return interval["p95"] / interval["p05"]
