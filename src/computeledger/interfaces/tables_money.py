"""Allocations, inversions, price sheets and routes as terminal tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from computeledger.economics.allocation import PHASES
from computeledger.interfaces.tables import bar, console, interval, new_table, note
from computeledger.interfaces.views.invert import write_words
from computeledger.questions.wording import PHASE_NAMES, joined, point, route_words
from computeledger.units import format_percent, format_si, format_usd

_ROWS = 18
_READ = {"paper": "paper", "authors": "authors' file", "reproduced": "copies, reproduced", "notes": "notes only"}


def print_allocation(document: Mapping[str, Any]) -> None:
    """Print how a budget is split, or how ledgers are judged."""
    out = console()
    size, tokens = document["n_params_active"], document["tokens_pretraining"]
    head = Text(style="bold").append_text(interval(size, "")).append(" active parameters, ")
    out.print(head.append_text(interval(tokens, "tokens")))
    law = document["law"]
    note(out, f"loss law {law['name']} ({law['source']}), {law['fit']}; loss {_loss(document['loss'])}")
    if document["warning"]:
        out.print(Text(f"warning: {document['warning']}", style="yellow"))
    for change in law["changes"]:
        note(out, f"on top of it: {change}")
    table = new_table("", "", ">tokens", ">FLOP", ">GPU-hours", "share of FLOP", "share of GPU-time", ">return")
    for phase in PHASES:
        share = [point(document["shares"][kind][phase]) for kind in ("flop", "gpu_time")]
        table.add_row(
            PHASE_NAMES.get(phase, phase), interval(document[f"tokens_{phase}"], "tokens"),
            format_si(point(document["flop"][phase]), "FLOP"), format_si(point(document["gpu_hours"][phase])),
            *(bar(one, 10).append(format_percent(one)) for one in share),
            f"{point(document['marginal_return_per_gpu_hour'][phase]):.3g}",
        )  # fmt: skip
    out.print(table)
    note(out, "return: loss that one more GPU-hour of the ledger takes off")
    best, over = point(document["tokens_per_param_compute_optimal"]), point(document["overtraining_ratio"])
    per = interval(document["tokens_per_param"], "").append(" tokens per parameter, ")
    out.print(per.append(f"{format_si(over)} times the law's {format_si(best)}"))
    if "diagnosis" in document:
        out.print(Text(f"{document['diagnosis']['reading']}: {document['diagnosis']['better']}", style="bold"))
    _print_levers(out, document.get("levers", ()))
    _print_sparsities(out, document)
    curve = new_table("The same budget at other demands", ">served / trained", ">size", ">tokens/param", "one order")
    for row in document["curve"]:
        curve.add_row(
            format_si(row["inference_over_pretraining_tokens_ratio"], digits=2), format_si(row["n_params_active"]),
            format_si(row["tokens_per_param"]), "yes" if row["one_order"] else "no",
        )  # fmt: skip
    out.print(curve)
    if document["assumptions"]:
        note(out, f"assumed: {'; '.join(document['assumptions'])}")


def _loss(value: Any) -> str:
    """A loss to four places, and its 90 % interval where it has one."""
    ends = [f"{point(value, end):.4f}" for end in ("p05", "p50", "p95")]
    return ends[1] if ends[0] == ends[2] else f"{ends[1]} ({ends[0]}–{ends[2]})"


def _print_levers(out: Console, rows: Sequence[Mapping[str, Any]]) -> None:
    """GPU-time with a lever over GPU-time without, per ledger."""
    if not rows:
        return
    table = new_table("Levers: GPU-time with over without", "", ">pretraining", ">RL", ">inference", "")
    for row in rows:
        table.add_row(row["lever"], *(f"x{row[phase]:.2f}" for phase in PHASES), row["how"])
    out.print(table)


def _print_sparsities(out: Console, document: Mapping[str, Any]) -> None:
    """Sparsities at this budget, without and with the limit of fresh tokens."""
    if "sparsities" not in document:
        return
    table = new_table("Sparsity at this budget, data fresh and limited", ">sparsity", ">worth", ">active", ">tokens",
                      ">epochs", ">loss, fresh", ">limited", ">Abnar's")  # fmt: skip
    for row in document["sparsities"]:
        table.add_row(
            format_percent(row["sparsity_fraction"]), f"x{row['multiplier']:.3g}", format_si(row["n_params_active"]),
            format_si(row["tokens"]), f"{row['epochs']:.3g}", f"{row['loss_unlimited']:.4f}",
            f"{row['loss_limited']:.4f}", f"{row['loss_abnar_2025']:.4f}",
        )  # fmt: skip
    out.print(table)
    note(out, "worth and Abnar's were read in notes only; no law here makes 98 % worse than 90 % when data are scarce")


def print_laws(document: Mapping[str, Any]) -> None:
    """Print which laws there are."""
    out = console()
    table = new_table("Loss laws and constants", "", "", "read in", "fitted on")
    for row in document["laws"]:
        name = row["name"].replace("_", "-") if row["for_allocate"] else row["name"]
        table.add_row(
            name, "yes" if row["on"] else "asks for --unverified", _READ[row["read"]], row["fit"], row["source"]
        )
    out.print(table)
    note(out, "names with hyphens go into --law, the others are called in Python; --unverified switches on what is off")
    table = new_table("What routing over experts is worth", ">FLOP", "law", "times the dense", ">", "inside its fit")
    for row in document["moe_multipliers"]:
        table.add_row(f"{row['flop']:.0e}", row["law"], row["multiplies"], f"x{row['multiplier']:.2f}",
                      "yes" if row["in_fit"] else "no")  # fmt: skip
    out.print(table)
    table = new_table(
        "ScaleRL's sigmoids, for --rl-recipe", "", ">half at [GPU-hours of GB200]", ">steepness", ">asymptote"
    )
    for name, row in document["rl_recipes"].items():
        table.add_row(name, f"{row['C_mid']:g}", f"{row['B']:g}", format_percent(row["A"]))
    out.print(table)


def print_route(document: Mapping[str, Any]) -> None:
    """Print policies by cost and success."""
    out = console()
    answer, cheaper = route_words(document)
    out.print(Text(answer, style="bold"))
    for text in filter(None, (cheaper, document["remark"])):
        note(out, text)
    rows = [row for row in document["options"] if row["on_front"] or row["single"]]
    table = new_table(f"The front of {document['policies_compared']:,} policies, and single models", "policy",
                      ">per completed", "90 %", ">success", "90 %", ">if indep.", ">wrong", ">time [s]")  # fmt: skip
    for row in _spread(sorted(rows, key=lambda one: one["usd_per_task"]), _ROWS):
        table.add_row(
            row["policy"].replace(" checked", ""), *_with_ends(row, "usd_per_completed_task", format_usd),
            *_with_ends(row, "success_fraction", format_percent),
            format_percent(row["independent_upper_bound_success_fraction"]), format_percent(row["wrong_fraction"]),
            format_si(row["seconds"]) if row["seconds"] else "",
        )  # fmt: skip
    out.print(table)
    note(out, "x2: two tries, each checked; wrong: delivered though wrong")
    _print_bests(out, document)
    _print_by_difficulty(out, document)
    for row in document.get("attempts", ()):
        text = f"{row['model']}: {row['successes']} of {row['attempts']} attempts at {row['tasks']} tasks"
        broke = row.get("tool_failure_fraction")
        note(out, text if broke is None else f"{text}, tools failed in {format_percent(broke)}")
    correlation = document["model_correlation"]
    note(out, f"correlation of models {point(correlation):.2f} ({point(correlation, 'p05'):.2f} – "
              f"{point(correlation, 'p95'):.2f}); if independent is an upper bound, not a forecast")  # fmt: skip
    if document["assumptions"]:
        note(out, f"assumed: {'; '.join(document['assumptions'])}")


def _spread(rows: list[Mapping[str, Any]], most: int) -> list[Mapping[str, Any]]:
    """Rows evenly over all, single models kept."""
    step = max(len(rows) / most, 1.0)
    places = {round(k * step) for k in range(most)} | {len(rows) - 1}
    return [row for place, row in enumerate(rows) if place in places or row["single"]]


def _with_ends(row: Mapping[str, Any], key: str, form: Callable[[float], str]) -> tuple[str, str]:
    """A figure, and the ends of its 90 % interval."""
    low, high = (form(point(row["interval"][key], end)) for end in ("p05", "p95"))
    return form(row[key]), joined(low, high)


def _print_bests(out: Console, document: Mapping[str, Any]) -> None:
    """The cheapest policy of each kind, and what it would have to cost to draw level with the best."""
    names = {"single": "single model", "retry": "retries", "best_of_k": "best of k", "cascade": "cascade",
             "as_good_as_the_best_single": "as good as the best single model"}  # fmt: skip
    by_name = {row["policy"]: row for row in document["options"]}
    table = new_table("Cheapest of each kind", "", "policy", ">per completed", ">success", ">breaks even at")
    for kind, policy in document["best_of"].items():
        row = by_name[policy]
        table.add_row(names[kind], policy.replace(" checked", ""), format_usd(row["usd_per_completed_task"]),
                      format_percent(row["success_fraction"]), f"x{row['break_even_price_ratio']:.2g}")  # fmt: skip
    out.print(table)
    note(out, "breaks even at: its prices times this, and it costs per completed task what the best one does")


def _print_by_difficulty(out: Console, document: Mapping[str, Any]) -> None:
    """The best policy of each difficulty, where tasks are told apart."""
    if "by_difficulty" not in document:
        return
    found = document["by_difficulty"]
    table = new_table("Where the difficulty is known beforehand", "", ">tasks", "policy", ">per completed", "90 %",
                      ">success", "90 %")  # fmt: skip
    for kind, row in found["policies"].items():
        table.add_row(kind, format_percent(row["share_of_tasks"]), row["policy"].replace(" checked", ""),
                      *_with_ends(row, "usd_per_completed_task", format_usd),
                      *_with_ends(row, "success_fraction", format_percent))  # fmt: skip
    table.add_row("all", "", "each its own", format_usd(found["usd_per_completed_task"]), "",
                  format_percent(found["success_fraction"]), "")  # fmt: skip
    out.print(table)


def print_routing_check(document: Mapping[str, Any]) -> None:
    """Print how cascades of real runs were predicted."""
    out = console()
    title = f"{document['n_models']} models on {document['n_tasks']} tasks: half fitted, the other half predicted"
    out.print(Text(title, style="bold"))
    table = new_table("", "", ">n", ">median error", ">90 % below", ">bias", ">in 80 %", ">in 90 %")
    for key, name in (("success", "success of a cascade"), ("success_if_independent", "the same, if independent"),
                      ("cost", "cost of a cascade"), ("retry_success", "success of two attempts")):  # fmt: skip
        row = document[key]
        if not row["n"]:
            continue
        cover = [format_percent(row[f"coverage_{level}"]) for level in (80, 90)]
        table.add_row(
            name, str(row["n"]), format_percent(row["median_abs_error"]), format_percent(row["p90_abs_error"]),
            f"{row['bias']:.3f}", *(["", ""] if key == "success_if_independent" else cover),
        )  # fmt: skip
    out.print(table)


def print_price_check(document: Mapping[str, Any]) -> None:
    """Print how well prices tell sizes."""
    out = console()
    out.print(Text(f"Size from price on {document['n']} models, each left out in turn", style="bold"))
    table = new_table("", "", ">")
    for level, share in document["coverage"].items():
        table.add_row(f"inside the {level} % interval", format_percent(share))
    for key, name in (("median_abs_log10_error", "active parameters"),
                      ("median_abs_log10_error_size", "sqrt(active x total)"),
                      ("median_abs_log10_error_regression", "active, plain regression on input price")):  # fmt: skip
        table.add_row(f"median error, {name}", f"x{10 ** document[key]:.2f}")
    table.add_row("median width of the 90 % interval", f"x{10 ** document['median_width_log10_90']:.1f}")
    out.print(table)


def print_prices(document: Mapping[str, Any]) -> None:
    """Print a list, a sheet, bills, a history or a floor."""
    out = console()
    for name in document.get("models", ()):
        out.print(name)
    if "usd_per_mtok" in document:
        out.print(Text(f"{document['name']} ({document['origin']})", style="bold"))
        for mode, rates in {"standard": document["usd_per_mtok"], **document["modes"]}.items():
            for kind, rate in rates.items():
                tiers = "".join(f", {format_usd(t['price'], 6)} {'from' if t['inclusive'] else 'above'} "
                                f"{t['above_tokens']:,} tokens" for t in rate["tiers"])  # fmt: skip
                out.print(f"{mode:10} {kind:16} {format_usd(rate['base'], 6)}{tiers}")
        spans = document.get("store_or_resend_s", {})
        for kind, reads in document.get("reads_to_break_even", {}).items():
            out.print(f"{kind} {write_words(reads, spans[kind]) if kind in spans else 'always pays'}")
    for row in document.get("bills", ()):
        parts = ", ".join(f"{kind} {format_usd(value)}" for kind, value in row["parts"].items() if value)
        out.print(f"{format_usd(row['usd'], 6):>12}  {row['name']}  ({parts})")
    for row in document.get("history", ()):
        moved = row.get("ratio_to_previous", {})
        out.print(f"{row['since']}: " + ", ".join(
            f"{kind} {format_usd(price)}" + (f" (x{moved[kind]:.3g})" if moved.get(kind, 1.0) != 1 else "")
            for kind, price in row["usd_per_mtok"].items()
        ))  # fmt: skip
    if "providers" in document:
        cost = document["usd_per_mtok_cost"]
        out.print(Text(f"{document['model']} on {document['system']}: {format_usd(cost['input'])} in, "
                       f"{format_usd(cost['output'])} out per million tokens, {document['layout']}, "
                       f"batch {document['batch']:,}", style="bold"))  # fmt: skip
        table = new_table(
            f"Market of {document['market_date']}", "provider", ">in", ">out", ">price / cost", "90 %", ""
        )
        for row in document["providers"]:
            ends = f"{row['price_over_cost_ratio_p05']:.2f} – {row['price_over_cost_ratio_p95']:.2f}"
            told = "below cost" if row["below_cost"] else ""
            if row["below_cost"] and row["price_over_cost_ratio_p95"] >= 1:
                told = "below cost, perhaps"
            table.add_row(row["provider"], format_usd(row["input"]), format_usd(row["output"]),
                          f"{row['price_over_cost_ratio']:.2f}", ends, told)  # fmt: skip
        out.print(table)
        note(out, f"assumed: {'; '.join(document['assumptions'])}")
    for text in document.get("notes", ()):
        note(out, text)
