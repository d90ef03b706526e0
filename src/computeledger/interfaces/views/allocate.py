"""The view of a budget that was split, of ledgers that were judged, and of the laws that ship."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from computeledger.economics.scaling.allocation import PHASES
from computeledger.interfaces.plots.money import contour_figure, returns_figure, shares_figure
from computeledger.interfaces.view import Cell, Plot, Table, Tile, View, quantity_cell, share_cell, tile
from computeledger.questions.answer import Answer
from computeledger.questions.wording import PHASE_NAMES, figure_words, headline_words, percent, point
from computeledger.units import MEGA, format_si

_READ = {"paper": "paper", "authors": "authors' file", "reproduced": "copies, reproduced", "notes": "notes only"}


def view(answer: Answer, working: bool) -> View:
    """Of a split or a judgement, or of the laws."""
    document = answer.to_dict(working=working)
    return _laws(document) if "laws" in document else _split(document)


def _split(document: Mapping[str, Any]) -> View:
    size, tokens, law = document["n_params_active"], document["tokens_pretraining"], document["law"]
    said = f"{figure_words(size, 'params')} active parameters", figure_words(tokens, "tokens")
    best, over = point(document["tokens_per_param_compute_optimal"]), point(document["overtraining_ratio"])
    each = figure_words(document["tokens_per_param"], "")
    parts = [f"That is {each} tokens per parameter, {format_si(over)} times the law's {format_si(best)}."]
    if "diagnosis" in document:
        reading = document["diagnosis"]["reading"]
        parts.append(f"{reading[:1].upper()}{reading[1:]}: {document['diagnosis']['better']}.")
    if "value" in document:
        parts.append(_value_sentence(document["value"]))
    return View(
        title=" on ".join(said),
        asked=(
            f"loss law {law['name']} ({law['source']}), {law['fit']}",
            *(f"on top: {one}" for one in law["changes"]),
        ),
        headline=headline_words(_budget(document), f"{said[1]} for {said[0]}", size, "params"),
        context=" ".join(parts),
        tiles=_tiles(document),
        main="n_params_active",
        plots=_plots(document),
        tables=(_ledgers(document), *_value(document), _curve(document), *_levers(document), *_sparsities(document)),
        notes=(f"warning: {document['warning']}",) if document["warning"] else (),
        grounds=tuple(f"assumed: {one}" for one in document["assumptions"]),
        overline="allocate",
    )


def _budget(document: Mapping[str, Any]) -> str:
    """What is split, where a budget was given."""
    asked = document["budget"]
    return (
        "The split asked about"
        if "diagnosis" in document
        else f"{figure_words(asked['value'], asked['unit'])} to spend"
    )


def _tiles(document: Mapping[str, Any]) -> tuple[Tile, ...]:
    ends = [f"{point(document['loss'], end):.4f}" for end in ("p05", "p50", "p95")]
    band = f"{ends[0]} – {ends[2]}" if ends[0] != ends[2] else ""
    total = (tile(document, "n_params_total", "Total parameters", "params"),) if "n_params_total" in document else ()
    return (
        tile(document, "n_params_active", "Active parameters", "params"),
        *total,
        tile(document, "tokens_pretraining", "Pretraining tokens", "tokens"),
        tile(document, "tokens_per_param", "Tokens per parameter", ""),
        Tile("Loss", ends[1], band, point(document["loss"]), "loss"),
    )


def _plots(document: Mapping[str, Any]) -> tuple[Plot, ...]:
    return (
        Plot("shares", "As the demand grows", "Shares of the FLOP when the same budget meets another demand.",
             shares_figure(document)),
        Plot("returns", "Marginal returns", "What one more GPU-hour takes off the loss as one ledger shrinks or grows; "
             "balanced where all meet at 1.", returns_figure(document)),
        Plot("contour", "Loss by size and tokens",
             "Lines of equal loss; along the dotted line the pretraining compute is the same.",
             contour_figure(document), is_wide=True),
    )  # fmt: skip


def _ledgers(document: Mapping[str, Any]) -> Table:
    rows: list[list[str | Cell]] = []
    for phase in PHASES:
        shares = [point(document["shares"][kind][phase]) for kind in ("flop", "gpu_time")]
        rows.append([
            PHASE_NAMES.get(phase, phase), quantity_cell(document[f"tokens_{phase}"], ""),
            figure_words(document["flop"][phase], ""), figure_words(document["gpu_hours"][phase], ""),
            *(share_cell(one, percent(one)) for one in shares),
            f"{MEGA * point(document['marginal_return_per_gpu_hour'][phase]):.3g}",
        ])  # fmt: skip
    columns = ("", "tokens #", "FLOP #", "GPU-hours #", "of FLOP", "of GPU-time", "return #")
    note = "return: loss that one more GPU-hour of the ledger takes off, times a million"
    return Table("The three ledgers", columns, rows, note=note)


#: Income of the last GPU-hour over its price that counts as even, on either side of 1.
_EVEN = 0.005
#: What a split for income runs up against.
_BINDS = {
    "demand": "the demand binds: all of it is served, and a lower price would not pay",
    "budget": "the budget binds: some of the demand is turned away",
    "price": "the price gives way: beyond the demand at the market's price, more is sold below it",
}


def _value_sentence(value: Mapping[str, Any]) -> str:
    """What a split for income earns beside the lowest loss, what binds, and what the last GPU-hour brings."""
    least = value["lowest_loss"]
    own, other = (figure_words(one["revenue_usd"], "USD") for one in (value, least))
    price = figure_words(value["usd_per_mtok"], "USD/Mtok")
    name, share = max(value["binds"].items(), key=lambda pair: float(pair[1]))
    often = "" if share == 1 else f" (in {percent(share)} of the samples)"
    earns = f"It earns {own} at {price}, the lowest loss (a split that {least['how']}) {other}"
    return f"{earns}; {_BINDS[name]}{often}. {_last_hour_sentence(value)}"


def _last_hour_sentence(value: Mapping[str, Any]) -> str:
    """Whether a smaller or a larger budget would leave more after its cost."""
    last = value["value_per_gpu_hour"][0]
    ratio, brings = point(last["over_price_ratio"]), figure_words(last["usd_per_hour"], "USD")
    costs = figure_words(value["usd_per_gpu_hour"], "USD")
    if abs(ratio - 1) < _EVEN:
        return f"The last GPU-hour brings what it costs ({costs}): no other budget would leave more after its cost."
    than, budget = ("less", "smaller") if ratio < 1 else ("more", "larger")
    return (
        f"The last GPU-hour brings {brings}, {than} than the {costs} that it costs: at this demand and price "
        f"a {budget} budget would leave more after its cost."
    )


def _value(document: Mapping[str, Any]) -> list[Table]:
    """What each ledger's next GPU-hour brings, and the split of the lowest loss beside this one."""
    if "value" not in document:
        return []
    value, least = document["value"], document["value"]["lowest_loss"]
    hours: list[list[str | Cell]] = [
        [PHASE_NAMES[one["phase"]], one["how"], quantity_cell(one["usd_per_hour"], "USD/h"),
         quantity_cell(one["over_price_ratio"], "x")]
        for one in value["value_per_gpu_hour"]
    ]  # fmt: skip
    rows: list[list[str | Cell]] = [
        [name, quantity_cell(document[key], unit), quantity_cell(least[key], unit)]
        for name, key, unit in (
            ("active parameters", "n_params_active", ""), ("pretraining tokens", "tokens_pretraining", ""),
            ("RL tokens", "tokens_rl", ""), ("tokens served", "tokens_inference", ""),
        )
    ]  # fmt: skip
    rows += [
        [f"GPU-time of {PHASE_NAMES[phase]}", quantity_cell(document["shares"]["gpu_time"][phase], "fraction"),
         quantity_cell(least["shares"]["gpu_time"][phase], "fraction")]
        for phase in PHASES
    ]  # fmt: skip
    rows.append(["loss", *(f"{point(one['loss']):.4f}" for one in (document, least))])
    rows += [
        [name, *(quantity_cell(one[key], unit) for one in (value, least))]
        for name, key, unit in (
            ("price of tokens", "usd_per_mtok", "USD/Mtok"), ("income of the life", "revenue_usd", "USD"),
        )
    ]  # fmt: skip
    note = (
        f"its price: {figure_words(value['usd_per_gpu_hour'], 'USD/h')} a GPU-hour. "
        "more users: 0 where all demand is served and a lower price does not pay"
    )
    least_note = (
        f"objective loss: the lowest loss of a split that {least['how']}. Where the highest income chooses its RL or "
        "turns users away, its loss may be lower. Medians, row by row"
    )
    return [
        Table("What one more GPU-hour brings", ("ledger", "used for", "brings #", "over its price #"), hours, "usd",
              note),
        Table("Against --objective loss", ("", "highest income #", "objective loss #"), rows, note=least_note),
    ]  # fmt: skip


#: What the RL of other demands is, by its key in the document.
_RL_OF_CURVE = {
    "gain": "lowest loss at each demand, RL chosen anew by what it gains",
    "tokens": "lowest loss at each demand, the same RL tokens",
    "equal": "lowest loss at each demand, RL costs what pretraining does",
}


def _curve(document: Mapping[str, Any]) -> Table:
    rows = [
        [format_si(row["inference_over_pretraining_tokens_ratio"], digits=2), format_si(row["n_params_active"]),
         format_si(row["tokens_per_param"]), "yes" if row["one_order"] else "no"]
        for row in document["curve"]
    ]  # fmt: skip
    columns = ("served / trained tokens #", "active parameters #", "tokens per parameter #", "within one order")
    is_judged = "diagnosis" in document
    budget = (
        "The same GPU-hours"
        if is_judged
        else f"The same {figure_words(document['budget']['value'], document['budget']['unit'])}"
    )
    note = (
        f"{_RL_OF_CURVE[document['curve_rl']]}; all inputs at their medians. "
        "within one order: whether the three ledgers' FLOP lie within a factor of ten"
    )
    return Table(f"{budget} at other demands", columns, rows, note=note)


def _levers(document: Mapping[str, Any]) -> list[Table]:
    """GPU-time with a lever over GPU-time without, per ledger."""
    rows = [
        [row["lever"], *(f"x{row[phase]:.2f}" for phase in PHASES), row["how"]] for row in document.get("levers", ())
    ]
    columns = ("", *(f"{PHASE_NAMES[phase]} #" for phase in PHASES), "how")
    return [Table("Levers: GPU-time with over without", columns, rows)] if rows else []


def _sparsities(document: Mapping[str, Any]) -> list[Table]:
    """Sparsities at this budget, without and with the limit of fresh tokens."""
    if "sparsities" not in document:
        return []
    rows = [
        [percent(row["sparsity_fraction"]), f"x{row['multiplier']:.3g}", format_si(row["n_params_active"]),
         format_si(row["tokens"]), f"{row['epochs']:.3g}", f"{row['loss_unlimited']:.4f}", f"{row['loss_limited']:.4f}",
         f"{row['loss_abnar_2025']:.4f}"]
        for row in document["sparsities"]
    ]  # fmt: skip
    columns = ("sparsity #", "worth #", "active #", "tokens #", "epochs #", "loss, all fresh #", "loss, limited #",
               "Abnar's #")  # fmt: skip
    note = "worth and Abnar's were read in notes only; no law here makes 98 % worse than 90 % when data are scarce"
    return [Table("Sparsity at this budget, with fresh and with limited data", columns, rows, note=note)]


def _laws(document: Mapping[str, Any]) -> View:
    """Which laws there are."""
    laws = [
        [row["name"].replace("_", "-") if row["for_allocate"] else row["name"],
         "yes" if row["on"] else "with --unverified", _READ[row["read"]], row["fit"], row["source"]]
        for row in document["laws"]
    ]  # fmt: skip
    moe = [
        [f"{row['flop']:.0e}", row["law"], row["multiplies"], f"x{row['multiplier']:.2f}",
         "yes" if row["in_fit"] else "no"]
        for row in document["moe_multipliers"]
    ]  # fmt: skip
    sigmoids = [
        [name, f"{row['C_mid']:g}", f"{row['B']:g}", percent(row["A"])] for name, row in document["rl_recipes"].items()
    ]
    names = "names with hyphens go into --law, the others are called in Python; --unverified switches on what is off"
    on = sum(row["on"] for row in document["laws"])
    return View(
        title="Loss laws and constants",
        headline=headline_words(
            "Loss laws", f"{len(laws)} laws and tables of constants, {on} of them on, the others read in notes only"
        ),
        tables=(
            Table("Laws", ("name", "on", "read in", "fitted on", "source"), laws, note=names, drops=("source",)),
            Table("What routing over experts is worth", ("FLOP #", "law", "times the dense", "factor #",
                  "inside its fit"), moe),
            Table("ScaleRL's sigmoids, for --rl-recipe", ("recipe", "half at [GPU-hours of GB200] #", "steepness #",
                  "asymptote #"), sigmoids),
        ),
        overline="allocate",
    )  # fmt: skip
