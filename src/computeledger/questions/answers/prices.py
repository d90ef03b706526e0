"""From parsed options to price sheets, bills, comparisons, histories and cost floors, as documents."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from computeledger.arrays import Range, Uncertain
from computeledger.economics.prices.points import open_models, shipped_points
from computeledger.economics.prices.readings import LIFETIMES_S, cache_reads_to_break_even, store_or_resend_s
from computeledger.economics.prices.sheets import PriceSheet, Usage, bill, read_sheet
from computeledger.errors import InputError, nearest
from computeledger.facts.load import load_model
from computeledger.fields import Given, question_from
from computeledger.questions import price_source
from computeledger.questions.answers.serve import answer_serve
from computeledger.questions.wording import point
from computeledger.workloads.questions.serve import ServeQuestion

#: Input tokens for each output token in a cost.
_BLEND = {"input": 3.0, "output": 1.0}


def sheet_named(name: str) -> PriceSheet:
    """A sheet from a TOML file or from the snapshot."""
    return read_sheet(name) if name.endswith(".toml") else price_source.load_sheet(name)


def list_document(text: str) -> dict[str, Any]:
    """Models whose ``provider/name`` holds a text."""
    names = [name for name in price_source.model_names() if text.lower() in name.lower()]
    if not names:
        raise InputError(f"no model of {price_source.edition()} holds {text!r}")
    return {"edition": price_source.edition(), "models": names}


def sheet_document(sheet: PriceSheet) -> dict[str, Any]:
    """A sheet as JSON, USD per million tokens."""

    def rates(table: Mapping[str, Any]) -> dict[str, Any]:
        return {
            kind: {"base": float(rate.base), "tiers": [
                {"above_tokens": t.threshold_tokens, "inclusive": t.is_inclusive, "price": float(t.price)}
                for t in rate.tiers]}
            for kind, rate in table.items()
        }  # fmt: skip

    base = {kind: float(rate.base) for kind, rate in sheet.rates.items()}
    document = {"name": sheet.name, "origin": sheet.origin, "usd_per_mtok": rates(sheet.rates),
                "usd_per_request": float(sheet.request_price),
                "modes": {name: rates(mode) for name, mode in sheet.modes.items()},
                "notes": list(sheet.notes)}  # fmt: skip
    kinds = [kind for kind in LIFETIMES_S if kind in base]
    if kinds and base.get("cached_read", math.inf) < base.get("input", 0.0):
        document["reads_to_break_even"] = {kind: cache_reads_to_break_even(base, kind) for kind in kinds}
        spans = {kind: store_or_resend_s(base, kind) for kind in kinds}
        document["store_or_resend_s"] = {kind: span for kind, span in spans.items() if math.isfinite(span)}
    return document


def _whole(kind: str, tokens: Uncertain) -> int:
    """Tokens of a bill, which knows neither ranges nor parts of a token."""
    if isinstance(tokens, Range) or tokens != int(tokens):
        raise InputError(f"--{kind.replace('_', '-')}-tokens: a bill needs one whole number")
    return int(tokens)


def bill_document(names: tuple[str, ...], options: Mapping[str, Any]) -> dict[str, Any]:
    """One request at one or more sheets, cheapest first."""
    kinds = ("input", "output", "cached", "cache_write", "cache_write_1h")
    new, output, cached, *written = (_whole(kind, options[f"{kind}_tokens"]) for kind in kinds)
    if sum(written) > new:
        raise InputError(f"--input-tokens {new}: fewer than the {sum(written)} that are written to the cache")
    usage = Usage(new + cached, output, cached, *written)  # a sheet's tiers go by the whole prompt
    if not usage.prompt_tokens and not usage.output_tokens:
        raise InputError("a request of no tokens costs nothing: give --input-tokens, --output-tokens, or both")
    rows = []
    for name in names:
        sheet = sheet_named(name)
        parts = bill(sheet, usage, options["mode"])
        rows.append({"name": sheet.name, "usd": float(parts["total"]), "origin": sheet.origin,
                     "parts": {kind: float(value) for kind, value in parts.items() if kind != "total"}})  # fmt: skip
    return {"bills": sorted(rows, key=lambda row: row["usd"]), "mode": options["mode"]}


def history_document(name: str) -> dict[str, Any]:
    """Prices through time, where the source has them."""
    rows: list[dict[str, Any]] = []
    for since, prices in price_source.history(name):
        row: dict[str, Any] = {"since": since, "usd_per_mtok": prices}
        if rows:
            before = rows[-1]["usd_per_mtok"]
            row["ratio_to_previous"] = {k: prices[k] / before[k] for k in prices if before.get(k)}
        rows.append(row)
    return {"name": name, "edition": price_source.edition(), "history": rows}


def floor_document(options: Mapping[str, Any]) -> dict[str, Any]:
    """Cost of an open model's tokens on given hardware, beside what the market asks: who sells below it."""
    points = shipped_points()
    names = sorted(set(points.model.tolist()))
    market = options["market"] or options["model"].rpartition("/")[2]
    found = next((name for name in names if name.lower() == market.lower()), None)
    if found is None and options["market"] is None:
        shape = load_model(options["model"]).id
        found = next((one.name for one in open_models().values() if one.shape == shape), None)
    if found is None:
        raise InputError(f"no market prices of {market!r}: {nearest(market, names)} (--market)")
    given: dict[str, Given] = {name: options[name] for name in ("model", "system", "price")}
    question = question_from(ServeQuestion, {**given, "samples": 64})
    best = min(answer_serve(question).to_dict()["pareto"], key=_blended)
    served = answer_serve(replace(question, layout=best["layout"], batch=best["batch"])).to_dict()
    cost = {end: _blended(served, end) for end in ("p05", "p50", "p95")}
    rows = []
    for provider in sorted(set(points.provider[points.model == found].tolist())):
        mask = (points.model == found) & (points.provider == provider)
        asked = [float(np.exp(np.median(values[mask]))) for values in (points.log_input, points.log_output)]
        ratios = {end: (_BLEND["input"] * asked[0] + asked[1]) / cost[end] for end in cost}
        rows.append({
            "provider": provider, "input": asked[0], "output": asked[1], "price_over_cost_ratio": ratios["p50"],
            "price_over_cost_ratio_p05": ratios["p95"], "price_over_cost_ratio_p95": ratios["p05"],
            "below_cost": ratios["p50"] < 1, "surely_below_cost": ratios["p05"] < 1,
        })  # fmt: skip
    return {"model": options["model"], "market": found, "system": options["system"],
            "layout": best["layout"], "batch": best["batch"],
            "usd_per_mtok_cost": {kind: point(served[f"usd_per_mtok_{kind}"]) for kind in ("input", "output")},
            "market_date": "2026-11-21", "providers": sorted(rows, key=lambda row: row["price_over_cost_ratio"]),
            "assumptions": ["three input tokens for each output token", "the GPUs are always sold",
                            "the cheapest layout and batch; GPUs at the edition's rent unless priced"]}  # fmt: skip


def _blended(row: Mapping[str, Any], end: str = "p50") -> float:
    return sum(times * point(row[f"usd_per_mtok_{kind}"], end) for kind, times in _BLEND.items())
