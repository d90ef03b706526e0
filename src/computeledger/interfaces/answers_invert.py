"""From a price sheet to what it reveals, as a document."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from computeledger.economics.inversion import Inversion, PriceClues, cache_reads_to_break_even, invert_prices
from computeledger.economics.price_points import fit_sizes, shipped_points
from computeledger.economics.prices import PriceSheet, read_sheet
from computeledger.errors import InputError
from computeledger.interfaces.price_source import load_sheet
from computeledger.physics.blackboard_serving import fast_mode_batch_ratio
from computeledger.workloads.result import quantity

#: What prices do not tell, from a study of open models of known shape; not recomputed here.
NOT_IDENTIFIED = (
    "KV bytes per token are not identified: elasticity of price -0.02 +- 0.09, the interval is that of open models",
    "the ratio of output to input price says nothing about size (R2 0.01)",
    "the 200K-threshold formula is 12 to 800 times too low on 5 of 5 models whose cache is known",
    "size and margin are one product: a price twice as high is a model about twice as large or a margin twice as wide",
)


def find_sheet(options: Mapping[str, Any]) -> PriceSheet:
    """The sheet of ``--model``, of a file, or of prices given by hand."""
    given = [name for name in ("model", "sheet_file", "input_price") if options[name] is not None]
    if len(given) != 1:
        raise InputError("give one of --model provider/name, a SHEET.toml, or --input and --output")
    if options["model"] is not None:
        return load_sheet(options["model"])
    if options["sheet_file"] is not None:
        return read_sheet(options["sheet_file"])
    if options["output_price"] is None:
        raise InputError("--output is missing: the price per million output tokens")
    from decimal import Decimal

    from computeledger.economics.prices import PriceTier, Rate

    for name in ("input_price", "output_price"):
        if not (math.isfinite(options[name]) and options[name] > 0):
            raise InputError(f"--{name.partition('_')[0]} {options[name]:g}: a price must be greater than 0")
    tiers: tuple[PriceTier, ...] = ()
    if options["threshold"] is not None:
        tiers = (PriceTier(int(options["threshold"]), Decimal(str(options["input_price"])) * 2),)
    rates = {
        "input": Rate(Decimal(str(options["input_price"])), tiers),
        "output": Rate(Decimal(str(options["output_price"]))),
    }
    return PriceSheet("given by hand", rates)


def answer_invert(options: Mapping[str, Any]) -> dict[str, Any]:
    """Answer ``computeledger invert``."""
    sheet = find_sheet(options)
    missing = [kind for kind in ("input", "output") if kind not in sheet.rates or sheet.rates[kind].base <= 0]
    if missing:
        raise InputError(f"{sheet.name}: the {missing[0]} price is missing or 0, so nothing can be learnt from it")
    steps = sheet.rates["input"].tiers
    provider = options["provider"] or sheet.name.partition("/")[0]
    clues = PriceClues(
        float(sheet.rates["input"].base), float(sheet.rates["output"].base), provider,
        float(steps[0].threshold_tokens) if steps else None, options["premium"], options["premium_spread"],
    )  # fmt: skip
    found = invert_prices(clues, options["samples"], options["seed"])
    document = inversion_document(found)
    document["prices"] = {kind: float(rate.base) for kind, rate in sheet.rates.items()}
    document["sheet"] = {"name": sheet.name, "origin": sheet.origin, "notes": list(sheet.notes)}
    document["informed_by"] = _informed()
    document["not_identified"] = list(NOT_IDENTIFIED)
    document["readings"] = _readings(sheet, options)
    document["size_times_margin"] = _line(clues)
    document["assumptions"] = [
        f"prices {clues.premium_ratio:g} times those of the open market, log sd {clues.premium_spread:g}",
        "rent of the price edition; context 2K..32K, 10..50 ms per token, half of prefill peak, occupancy 30..80 %",
        "input price about twice its cost, log sd 0.75: a prior that is assumed, so batch and margin rest on it",
    ]
    return document


def _size(interval: Mapping[str, tuple[float, float]]) -> dict[str, Any]:
    out: dict[str, Any] = {"p50": interval["median"][0], "unit": "params"}
    for level, (low, high) in (("90", ("p05", "p95")), ("80", ("p10", "p90")), ("50", ("p25", "p75"))):
        out[low], out[high] = interval[level]
    return out


def inversion_document(found: Inversion) -> dict[str, Any]:
    """Intervals and hypotheses as JSON."""
    return {
        "n_params_active": _size(found.n_params_active),
        "n_params_total": _size(found.n_params_total),
        "kv_bytes_per_token": quantity(found.kv_bytes_per_token, "byte/token"),
        "decode_batch": quantity(found.decode_batch, ""),
        "gross_margin_fraction": quantity(found.gross_margin_fraction, ""),
        "hypotheses": [{"name": h.name, "weight": h.weight, "rejected": h.rejected} for h in found.hypotheses],
        "bits": found.learnt,
        "identified": {"n_params_active": True, "n_params_total": True, "kv_bytes_per_token": False,
                       "decode_batch": False, "gross_margin_fraction": False},
        "effective_samples": found.effective_samples,
    }  # fmt: skip


def _informed() -> list[dict[str, Any]]:
    """Which price informs which quantity: elasticities of the regression."""
    fit = fit_sizes(shipped_points())
    return [
        {"quantity": name, "input_price_elasticity": float(of[1]), "output_price_elasticity": float(of[2])}
        for name, of in (("n_params_active", fit.active), ("n_params_total", fit.total))
    ]


def _readings(sheet: PriceSheet, options: Mapping[str, Any]) -> dict[str, Any]:
    """The lecture's readings of a sheet: explanations, each with what is known against it."""
    base = {kind: float(rate.base) for kind, rate in sheet.rates.items()}
    out: dict[str, Any] = {"output_over_input_ratio": base["output"] / base["input"]}
    if "cached_read" in base:
        out["cached_read_over_input_ratio"] = base["cached_read"] / base["input"]
        for kind in ("cache_write", "cache_write_1h"):
            reads = cache_reads_to_break_even(base, kind) if kind in base else math.inf
            if math.isfinite(reads):
                out[f"reads_to_break_even_{kind}"] = reads
    if options["fast_price"] is not None and options["fast_speed"] is not None:
        out["fast_mode_batch_ratio"] = float(fast_mode_batch_ratio(options["fast_price"], options["fast_speed"]))
    return out


def _line(clues: PriceClues) -> list[dict[str, float]]:
    """Median size at extra margins of 1, 2, 4 and 8: one product."""
    from computeledger.economics.price_points import one_sheet

    fit, rows = fit_sizes(shipped_points()), []
    for extra in (1.0, 2.0, 4.0, 8.0):
        prices = clues.usd_per_mtok_input / extra, clues.usd_per_mtok_output / extra
        size = math.exp(float(fit.predict(one_sheet(clues.provider, *prices))[0]))
        rows.append({"extra_margin_ratio": extra, "n_params_active": size})
    return rows
