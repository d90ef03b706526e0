"""Frontier answers as terminal tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rich.console import Console
from rich.text import Text

from computeledger.frontier.growth import GROWTH_WORDS
from computeledger.interfaces.tables import console, interval, new_table, note
from computeledger.questions.wording import point, show, span
from computeledger.units import BITS_PER_BYTE, MONTH_S, format_percent, format_si

Document = Mapping[str, Any]
#: Time with stops over that without beyond which a run hardly advances.
MOST_STOPPED = 10.0
#: Site-dates listed with their reason, at most.
MOST_SITE_ROWS = 60


def print_frontier(command: str, document: Document) -> None:
    """Print the answer of a command under ``frontier``."""
    out = console()
    _PRINTERS[command](out, document)
    if "credit" in document:
        note(out, document["credit"])


def _pairs(out: Console, title: str, rows: list[tuple[str, Any, str]]) -> None:
    table = new_table(title, "", "")
    for name, value, unit in rows:
        table.add_row(name, interval(value, unit))
    out.print(table)


def system_rows(document: Document) -> list[tuple[str, Any, str]]:
    """What a system has and costs: label, quantity, unit."""
    power = document["power_w"]
    rows = [("chips", document["chips"], ""), ("compute dies", document["dies"], "")]
    rows += [
        ("H100-equivalents, bf16", document["h100e_bf16"], ""),
        ("H100-equivalents, 8 bit", document["h100e_8bit"], ""),
    ]
    rows += [(f"peak {name}", value, "FLOP/s") for name, value in document["peak_flop_per_s"].items()]
    rows += [(f"power, {'IT' if name == 'it' else name}", power[name], "W") for name in ("chip", "it", "facility")]
    rows += [("HBM", document["hbm_bytes"], "B")]
    for one in document["generations"]:
        if one["scale_up_worlds"] is not None:
            world = f"{one['scale_up_chips']:g} {one['accelerator']}, {show(one['scale_up_hbm_bytes'], 'B')} each"
            rows.append((f"scale-up worlds of {world}", one["scale_up_worlds"], ""))
    rows += [("capital", document["capex_usd"], "USD")]
    rows += [(f"capital per {one['accelerator']}", one["capex_usd_per_chip"], "USD") for one in document["generations"]]
    return [*rows, ("cost of a year", document["yearly_usd"], "USD")]


def run_rows(name: str, run: Document) -> list[tuple[str, Any, str]]:
    """What a run trains: label, quantity, unit."""
    rows = [(f"{name}: FLOP of the run", run["flop"], "FLOP"), ("active parameters", run["n_params_active"], "")]
    rows += [("total parameters", run["n_params_total"], "")]
    rows += [("tokens", run["tokens"], "tokens"), ("passes over the stock of text", run["epochs"], "")]
    rows += [("share of that stock it could hold by heart", run["absorbs_fraction"], "fraction")]
    rows += [("critical batch", run["critical_batch_tokens"], "tokens"), ("steps", run["steps"], "")]
    allowed = run.get("step_s_allowed", run["step_s"])
    rows += [("a step may take, to end in time", allowed, "s")]
    return [*rows, ("a dense model would take", run["dense_equivalent_flop"], "FLOP")]


def _print_systems(out: Console, document: Document) -> None:
    _pairs(out, document["spec"], system_rows(document))
    _pairs(out, "FLOP of a month", [(name, value, "FLOP") for name, value in document["flop_per_month"].items()])
    trains = document["trains"]
    out.print(Text(system_sentence(document) + "."))
    share = format_percent(trains["utilization_fraction"])
    title = f"Runs that fill {trains['months']:.3g} months of the bf16 peak at {share}"
    _pairs(out, title, [row for name in ("dense", "moe") for row in run_rows(name, trains[name])])
    _print_steps(out, trains)
    _print_decoding(out, document)
    assumed = [one["accelerator"] for one in document["generations"] if one["assumed_accelerator"]]
    if assumed:
        note(out, f"assumed: {assumed[0]}; name another with 'of ACCELERATOR_ID'")


def step_months(row: Document) -> tuple[str, str]:
    """Months of a run without stops and with them; where stops leave less than a tenth of the time, only that."""
    busy, calendar = (row[key] / MONTH_S for key in ("busy_s", "calendar_s"))
    return f"{busy:.3g}", f"{calendar:.3g}" if calendar <= busy * MOST_STOPPED else "hardly advances"


def system_sentence(document: Document) -> str:
    """What the system trains, with the utilisation and the months that the operation model gives."""
    trains = document["trains"]
    run, given = trains["dense"], format_percent(trains["utilization_fraction"])
    size, tokens = show(point(run["n_params_active"]), ""), show(point(run["tokens"]), "tokens")
    work, months = show(point(run["flop"]), "FLOP"), f"{trains['months']:.3g} months"
    asked = f"{work}, {months} of the bf16 peak at {given}, make a dense model of {size} parameters on {tokens}"
    row = next(one for one in run["batches"] if one["batch_over_critical"] == 1)
    if row["problem"]:
        return f"{asked}; the operation model finds no step: {row['problem']}"
    busy, stops = step_months(row)
    stopped = f"{stops} with stops" if stops[0].isdigit() else f"with stops it {stops}"
    others = [step_months(one)[0] for one in run["batches"] if not one["problem"]]
    ends = f" ({others[-1]} to {others[0]} over that batch's interval)" if len(others) > 1 else ""
    return (
        f"{asked}. By the operation model, at the critical batch, it runs at {format_percent(row['mfu_fraction'])} MFU "
        f"and takes {busy} months without a stop{ends}, {stopped}"
    )


def _print_steps(out: Console, trains: Document) -> None:
    """Steps from the operation model by batch."""
    table = new_table(
        "The step, from the operation model, at the critical batch and at both ends of its 90 % interval",
        "model", ">batch", ">over critical", ">step", ">MFU", ">months, no stop", ">with stops", "layout",
    )  # fmt: skip
    for name in ("dense", "moe"):
        for row in trains[name]["batches"]:
            batch, over = show(row["batch_tokens"], "tokens"), f"{row['batch_over_critical']:.2g}x"
            if row["problem"]:
                table.add_row(name, batch, over, "", "", "", "", row["problem"])
                break
            cut = " + ".join(f"{part['layout']} on {part['n_gpus']:,} {part['accelerator']}" for part in row["parts"])
            months = step_months(row)
            table.add_row(
                name, batch, over, show(row["step_s"], "s"), format_percent(row["mfu_fraction"]), *months, cut
            )
    out.print(table)
    note(out, "with stops: every failure stops the whole job, at rates measured on up to 16K GPUs")


def _print_decoding(out: Console, document: Document) -> None:
    """RL and serving by model and chip."""
    given = document["assumptions"]
    title = f"RL, rollouts of {show(given['mean_rollout_tokens'], 'tokens')} on average"
    table = new_table(
        title, "model", "chip", "in one scale-up world", ">rollouts there", ">efficient up to", ">sampled", "layout"
    )
    for row in document["rl"]["by"]:
        fits = "no: " + row["problem"] if row["problem"] else "fits" if row["is_efficient"] else "fits, inefficiently"
        cells = ["", "", "", ""]
        if not row["problem"]:
            numbers = (row["rollouts_per_world"], row["longest_trace_tokens"], point(row["sampled_tokens_per_s"]))
            rolls, trace, rate = numbers
            cells = [format_si(rolls), show(trace, "tokens"), show(rate, "tokens/s"), row["layout"]]
        table.add_row(row["model"], row["accelerator"], fits, *cells)
    out.print(table)
    lengths = f"{given['served_input_tokens']:,.0f} tokens in, {given['served_output_tokens']:,.0f} out"
    title = f"Serves requests of {lengths}, a token in {show(given['served_tpot_s'], 's')} at most"
    table = new_table(title, "model", "chip", ">all chips", ">token", "layout")
    for row in document["serves"]["by"]:
        cells = ["", "", row["problem"]]
        if not row["problem"]:
            cells = [show(point(row["output_tokens_per_s"]), "tokens/s"), show(row["tpot_s"], "s"), row["layout"]]
        table.add_row(row["model"], row["accelerator"], *cells)
    out.print(table)


def _print_sites(out: Console, document: Document) -> None:
    if "claim" in document:
        one = document["claim"]
        low, high = (show(value, "W") for value in one["interval_w"])
        claimed, found = (show(one[name], "W") for name in ("claimed_w", "facility_w"))
        text = f"{one['name']}, {one['date']}: claimed {claimed}, the data have {found}"
        when = f"reached on {one['reached']}" if one["reached"] else "never reached in the data"
        out.print(Text(f"{text} ({low} to {high}): {one['verdict']}; {when}"))
        _print_interval(out, one)
        return
    if "lab" in document:
        table = new_table("H100-equivalents at 8 bit", "lab", "date", ">confident", ">likely", ">all", "sites")
        for row in document["lab"]:
            numbers = [format_si(row[name]) for name in ("low", "mid", "high")]
            mark = " (projected)" if row["projected"] else ""
            table.add_row(row["lab"], row["date"] + mark, *numbers, str(len(row["sites"])))
        out.print(table)
        return
    columns = ("site", "date", ">facility", ">90 % interval", ">published H100e", ">recomputed", "remark")
    table = new_table("Sites", *columns)
    shown = [row for row in document["sites"] if row["published_h100e_8bit"]]
    for row in shown[-MOST_SITE_ROWS:]:
        found = "" if row["h100e_8bit"] is None else format_si(row["h100e_8bit"])
        power = ["", ""]
        if row["facility_w"] is not None:
            low, high = row["facility_w_interval"]
            power = [show(row["facility_w"], "W"), span(low, high, "W")]
        remark = "; ".join(part for part in ("projected" if row["projected"] else "", row["reason"]) if part)
        table.add_row(row["name"], row["date"], *power, format_si(row["published_h100e_8bit"]), found, remark)
    out.print(table)
    if len(shown) > MOST_SITE_ROWS:
        note(out, f"{len(shown) - MOST_SITE_ROWS} earlier rows are not shown; --site NAME or --json")
    _print_interval(out, document)
    for name, one in document["agreement"].items():
        note(out, f"within 10 %, {name.replace('_', ' ')}: {one['within_10_percent']} of {one['compared']}")


def _print_interval(out: Console, document: Document) -> None:
    """What a site's interval rests on."""
    for name, one in document["interval_from"].items():
        ends = f"{one['low_ratio']:.2f} to {one['high_ratio']:.2f} times what was {name}"
        idle = format_percent(one["not_running_fraction"])
        note(out, f"interval from three earlier copies: {ends} (90 %); {idle} did not run yet; {one['n_sites']} pairs")


def _print_backtest(out: Console, document: Document) -> None:
    for one in document["series"]:
        table = new_table(
            f"{one['series']} ({one['model']})", "quarter", ">forecast", ">5 %", ">95 %", ">came", "inside"
        )
        for row in one["quarters"]:
            numbers = [show(row[name], one["unit"]) for name in ("p50", "p05", "p95", "observed")]
            table.add_row(row["date"], *numbers, "yes" if row["inside"] else "no")
        out.print(table)
    share = format_percent(document["coverage_90"])
    width = document["median_width_log10_90"]
    out.print(Text(f"{share} of {document['n']} quarters inside their 90 % interval"))
    note(out, f"median error {document['median_abs_log10_error']:.2f} powers of ten, median width {width:.2f}")


def _print_growth(out: Console, document: Document) -> None:
    table = new_table("Growth per year", "quantity", ">fit", ">5 %", ">95 %", ">points", "window")
    for one in document["growth"]:
        window = f"{one['first']}..{one['last']}"
        table.add_row(
            GROWTH_WORDS[one["name"]][0],
            *(f"{one[key]:.2f}x" for key in ("ratio", "low", "high")),
            str(one["n"]),
            window,
        )
    out.print(table)
    out.print(Text(f"if funding stays flat, compute grows {document['flat_funding_slowdown']:.1f} times slower"))
    share = document["hbm_capex_fraction"]
    cost, margin = (format_percent(share[name]) for name in ("at_cost_fraction", "with_margin_fraction"))
    note(out, f"HBM is {cost} of a system's capital at cost, {margin} with the chip maker's margin on it")
    years = range(len(document["scenarios"][0]["compute_ratio_by_year"]))
    table = new_table(
        "Compute of the largest system, over today's", "scenario", *(f">+{n} years" for n in years), "binds"
    )
    for one in document["scenarios"]:
        table.add_row(one["scenario"], *(f"{x:.3g}x" for x in one["compute_ratio_by_year"]), one["binds_by_year"][-1])
    out.print(table)


def _print_forecast(out: Console, document: Document) -> None:
    date = document["date"]
    ends = f"90 % interval {date['p05']} to {date['p95']}" if date["p05"] != date["p95"] else "reached already"
    out.print(Text(f"{format_si(document['target'], 'FLOP')}: {date['p50']}, {ends}"))
    if "probability_by" in document:
        by = document["probability_by"]
        out.print(Text(f"by {by['date']}: {format_percent(by['probability'])}"))
    for one in document.get("scenarios", ()):
        out.print(Text(f"{one['scenario']} ({one['note']}): {one['date'] or 'not within 50 years'}"))
    powered = document["largest_site_has_the_power"]["date"]
    ends = f"{powered['p05']} to {powered['p95']}" if powered["p05"] != powered["p95"] else "reached already"
    note(out, f"the largest site has that power: {powered['p50']} ({ends})")
    _pairs(out, "Takes", system_rows(document["needs"]))
    _pairs(out, "Trains", [row for name, run in document["trains"].items() for row in run_rows(name, run)])
    for name, one in document["repetition"].items():
        worth, chance = format_percent(point(one["worth_fraction"])), format_percent(point(one["exceeds_fraction"]))
        note(out, f"{name}: its tokens are worth {worth} of fresh ones; chance that they exceed the stock: {chance}")
    _print_steps(out, document["trains"])
    rates = document["gpu_time"]["utilization"]
    _pairs(
        out,
        "GPU-hours",
        [
            (name.split("_")[0], hours, "GPU-hours")
            for name, hours in document["gpu_time"].items()
            if name != "utilization"
        ],
    )
    used = ", ".join(
        f"{name.replace('_', ' ')} {format_percent(value)}" for name, value in rates.items() if name != "basis"
    )
    note(out, f"utilisation of bf16 peak: {used}; {rates['basis']}")


def _print_spread(out: Console, document: Document) -> None:
    asked = [
        ("parameters whose gradients are exchanged", document["n_params"], ""),
        ("sites", document["n_sites"], ""),
        ("step within a site", document["site_step_s"], "s"),
        ("sent by a site per exchange, and received", document["exchange_bytes"], "B"),
        (
            "least rate each way: exchange hidden behind the steps",
            document["least_bytes_per_s"] * BITS_PER_BYTE,
            "bit/s",
        ),
    ]
    if document["domains"]:
        asked.insert(3, ("batch of a step, over all sites", document["batch_tokens"], "tokens"))
    _pairs(out, "Training over several sites", asked)
    table = new_table(
        "Links, each way; exchanges take the same share of the time",
        "change",
        ">sent",
        ">in",
        ">rate",
        ">fibre pairs",
        ">mean step",
        ">slower",
    )
    for row in document["levers"]:
        slower = format_percent(row["slowdown_ratio"] - 1.0)
        sent, rate = show(row["exchange_bytes"], "B"), show(row["bytes_per_s"] * BITS_PER_BYTE, "bit/s")
        times = show(row["exchange_s"], "s"), show(row["step_s"], "s")
        table.add_row(row["change"], sent, times[0], rate, format_si(row["fibres"]), times[1], slower)
    out.print(table)
    if document["domains"]:
        _print_domains(out, document)
    pair = document["fibre_bytes_per_s"]
    ends = (show(pair[name] * BITS_PER_BYTE, "bit/s") for name in ("value", "low", "high"))
    note(out, "a pair of fibres carries {} ({} to {} in field trials)".format(*ends))


def _print_domains(out: Console, document: Document) -> None:
    """Step and links by size of the scale-up domain."""
    table = new_table(
        "By size of the scale-up domain, from the operation model; an exchange takes a sixth of the step",
        ">GPUs", ">step", ">MFU", ">rate", ">fibre pairs", "layout",
    )  # fmt: skip
    for row in document["domains"]:
        if row["problem"]:
            table.add_row(str(row["n_scale_up"]), "", "", "", "", row["problem"])
            continue
        rate = show(row["links"]["bytes_per_s"] * BITS_PER_BYTE, "bit/s")
        numbers = show(row["step_s"], "s"), format_percent(row["mfu_fraction"]), rate, format_si(row["links"]["fibres"])
        table.add_row(str(row["n_scale_up"]), *numbers, row["layout"])
    out.print(table)


def _print_sheet(out: Console, document: Document) -> None:
    chip = f"{document['accelerator']} ({document['accelerator_ground']})"
    table = new_table(
        f"{document['model']}: training FLOP; hours are those of {chip}", "side", "FLOP", ">agrees at", "agrees", "how"
    )
    for line in document["lines"]:
        used = "" if line["utilization_fraction"] is None else format_percent(line["utilization_fraction"])
        table.add_row(
            line["side"], interval(line["flop"], "FLOP"), used, "yes" if line["agrees"] else "NO", line["formula"]
        )
    out.print(table)
    out.print(Text("the sides are reconciled" if document["reconciled"] else "the sides are in conflict"))


def _print_schedule(out: Console, document: Document) -> None:
    table = new_table(f"From {document['start']}", "step", "5 %", "50 %", "95 %")
    for name, end in document["ends"].items():
        table.add_row(name, end["p05"], end["p50"], end["p95"])
    out.print(table)
    last = document["ends"]["post-training"]
    out.print(Text(f"the model is out on {last['p50']} ({last['p05']} to {last['p95']})"))


_PRINTERS: dict[str, Callable[[Console, Document], None]] = {
    "systems": _print_systems,
    "sites": _print_sites,
    "backtest": _print_backtest,
    "growth": _print_growth,
    "forecast": _print_forecast,
    "spread": _print_spread,
    "sheet": _print_sheet,
    "schedule": _print_schedule,
}
