"""The view of a plan's ledger."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from computeledger.distributions import high_of, low_of
from computeledger.economics.plan.ledger import Ledger
from computeledger.interfaces.plots import plan as plots
from computeledger.interfaces.plots.dollars import money_figure
from computeledger.interfaces.view import Cell, Plot, Table, Tile, View, quantity_cell, share_cell, with_interval
from computeledger.interfaces.views.display_names import chip_name
from computeledger.interfaces.views.income import income_plots, income_sentence, income_tables
from computeledger.interfaces.working import working_view
from computeledger.physics.calibration.efficiency import median_of
from computeledger.physics.parallelism import parse_layout
from computeledger.questions.answers.serving.document import operations_document
from computeledger.questions.wording import (
    PHASE_NAMES,
    UTILIZATION_WORDS,
    anchor_words,
    choice_words,
    figure_words,
    headline_words,
    input_phrase,
    listed,
    model_words,
    percent,
    point,
    short_model,
    span,
    step_words,
    with_interval_words,
    words,
)
from computeledger.sources import load_sources
from computeledger.units import MONTH_S
from computeledger.workloads.result import quantity

#: Rows of the ledger: what, where it stands in a phase, its unit; experiments are GPU-time and money alone.
PHASE_ROWS = (
    ("new tokens", "tokens", ""), ("FLOP", "flop", ""), ("GPU-hours", "gpu_hours", ""),
    ("utilisation", "utilization_fraction", "fraction"), ("cost", "usd", "USD"), ("energy", "energy_j", "J"),
)  # fmt: skip
_NOT_OF_EXPERIMENTS = ("tokens", "flop", "utilization_fraction")
_TILES = (("usd", "Cost", "USD"), ("gpu_hours", "GPU-hours", ""), ("energy_j", "Energy", "J"), ("flop", "FLOP", ""))
#: Inputs that drive the spread that are shown.
_DRIVERS = 8


def view(answer: Any, working: bool) -> View:
    """Of a plan's answer; with its working, down to the operations of each step."""
    document, ledger = answer.to_dict(working=working), answer.ledger
    found = ledger_view(document, ledger)
    if not working:
        return found
    more = [
        Plot("phases", "GPU-hours of each phase", _HILLS, plots.phases_figure(ledger), "gpu_hours"),
    ]  # fmt: skip
    if any(phase.operations for phase in ledger.phases.values()):
        more.append(Plot("roofline", "Roofline", _ROOFLINE, plots.roofline_figure(ledger), "utilization_fraction"))
    return replace(
        found,
        plots=(*found.plots, *more),
        tables=(*found.tables, *_details(ledger), *_operations(ledger)),
        working=tuple(working_view(document)),
        sources=_sources(document),
    )


_HILLS = (
    "Median and 90 % interval, on a logarithmic axis; the hill is the distribution. A dot alone is a figure that the "
    "plan states, such as what its makers published."
)
_ROOFLINE = (
    "Each point is an operation of one step on the busiest GPU; its size is its share of the step's time. Left of the "
    "ridge the memory binds, right of it the arithmetic; points far below the roof wait for the network, launches or "
    "the host. Operations that only move or only compute have no place here."
)


def ledger_view(document: Mapping[str, Any], ledger: Ledger) -> View:
    """Of a ledger and its document."""
    return View(
        title=document["title"],
        asked=_asked(document),
        headline=_headline(document),
        context=_context(document, ledger),
        notes=(
            *(f"{PHASE_NAMES[name]} is left out: {reason}" for name, reason in document["skipped"].items()),
            *document.get("remarks", ()),
            *([f"Inference: {anchor_words(document['anchor'])}"] if "anchor" in document else []),
        ),
        facts=tuple(_facts(document)),
        tiles=tuple(_tile(document, *one) for one in _TILES),
        plots=_plots(document, ledger),
        tables=(_ledger(document), *_income(document), *_shares(document), *_balance(document), *_drivers(document)),
        grounds=tuple(_grounds(document)),
        overline="plan",
        main="gpu_hours",
    )


def _tile(document: Mapping[str, Any], key: str, label: str, unit: str) -> Tile:
    """A total; its unit stands in the label where the word is long."""
    total = document["total"][key]
    return with_interval(Tile(label, "", key=key), total, unit)


def _asked(document: Mapping[str, Any]) -> tuple[str, ...]:
    models = {f"{one['model']} on {one['accelerator']}" for one in document["phases"].values()}
    return (*sorted(models), f"medians of {document['n_samples']:,} samples, seed {document['seed']}")


def _headline(document: Mapping[str, Any]) -> str:
    total, phases = document["total"], document["phases"]
    hours, usd = figure_words(total["gpu_hours"], "GPU-hours"), figure_words(total["usd"], "USD")
    # a plan of serving alone need not cover the model's life
    whole = "to serve it" if set(phases) == {"inference"} else "over its life"
    more = ", experiments included" if document["experiments"] else ""
    models = " and ".join(dict.fromkeys(short_model(one["model"]) for one in phases.values()))
    of = _life(_every_phase(document))
    said = f"{usd} and {hours} {f'for {of}' if of else whole + more}"
    return headline_words(models, said, total["usd"], "USD")


def _context(document: Mapping[str, Any], ledger: Ledger) -> str:
    """Which phase takes the most, what the life earns, and what the total depends on."""
    said = (
        currencies(document, ledger),
        income_sentence(document["income"]) if "income" in document else "",
        _depends(document, ledger),
    )
    return " ".join(part for part in said if part)


def _depends(document: Mapping[str, Any], ledger: Ledger) -> str:
    """The input that moves the total most, the lower cost first; and what a price that is fixed leaves out of it."""
    if not document["drivers"]:
        return ""
    most = plots.by_swing(document["drivers"])[0]
    low, high = sorted(most[end]["usd"] for end in ("total_at_low", "total_at_high"))
    said = (
        f"The cost depends most on {input_phrase(most['name'])}: {words(low, 'USD', 2)} to {words(high, 'USD', 2)} by "
        "that alone."
    )
    price, per_dollar = fixed_price(ledger), figure_words(document["total"]["gpu_hours"], "USD")
    return f"{said} A GPU-hour counts {price}, without a range: $1 more adds {per_dollar}." if price else said


def fixed_price(ledger: Ledger) -> str:
    """The price of a GPU-hour where it is one number, and so not in the range; empty elsewhere."""
    price = ledger.usd_per_gpu_hour()
    return words(price, "USD") if price else ""


def currencies(document: Mapping[str, Any], ledger: Ledger) -> str:
    """Which phase takes the most in each currency, and how long it is served."""
    return _currencies(document, _long(ledger))


def _life(phases: Mapping[str, Any]) -> str:
    """What counts as the life: the phases, and how much is served; nothing where there is one phase."""
    if len(phases) < 2:
        return ""
    names = dict(_IN_A_LIFE)
    if (tokens := phases.get("inference", {}).get("tokens")) is not None:
        names["inference"] += f" {figure_words(tokens, 'tokens')}"
    return listed([names[name] for name in phases])


def _long(ledger: Ledger) -> str:
    """How long it is served, in months from two on; nothing where the plan does not say."""
    section = ledger.plan.sections.get("inference")
    life_s = section.values.get("life") if section is not None else None
    if life_s is None or isinstance(life_s, str):
        return ""
    low_s, high_s = low_of(life_s), high_of(life_s)
    if low_s < 2 * MONTH_S:
        return (span(low_s, high_s, "s") or words(low_s, "s")).replace(" – ", " to ")
    low, high = (f"{end / MONTH_S:.2g}" for end in (low_s, high_s))
    return f"{high} months" if low == high else f"{low} to {high} months"


#: What each phase is called where all of them are counted.
_IN_A_LIFE = {"pretraining": "pretraining", "rl": "RL", "inference": "serving", "experiments": "experiments"}


def _currencies(document: Mapping[str, Any], served: str = "") -> str:
    """Which phase takes the most in each currency."""
    flop, time = document["shares"]["flop"], document["shares"]["gpu_time"]
    if len(time) < 2:
        return "".join(f"Its only phase is {PHASE_NAMES[name]}." for name in time)
    most_flop, most_time = (_largest(one) for one in (flop, time))
    by_flop, by_time = (listed([PHASE_NAMES[name] for name in one]) for one in (most_flop, most_time))
    in_flop, in_time = _share(flop[most_flop[0]]), _share(time[most_time[0]])
    if len(most_time) == len(time):
        return f"Its {len(time)} phases take equal GPU-time ({in_time} each); in FLOP, {by_flop} takes {in_flop}."
    if most_flop == most_time:
        whole = f", {served} of it," if served and most_time == ["inference"] else ""
        return f"{by_time}{whole} takes {in_time} of the GPU-time ({in_flop} of the FLOP)."
    but = " and ".join(_share(flop[name]) for name in most_time)
    other = listed([_inside(name) for name in most_flop])
    return f"{by_time} takes the most GPU-time ({in_time}, but {but} of the FLOP), {other} the most FLOP ({in_flop})."


def _inside(phase: str) -> str:
    """Name of a phase inside a sentence."""
    name = PHASE_NAMES[phase]
    return name if name.isupper() else name.lower()


def _share(value: Any) -> str:
    """A share in the two digits of prose."""
    return words(point(value), "fraction", 2)


def _largest(shares: Mapping[str, Any]) -> list[str]:
    """The phases that take the most, more than one where they are level to a percent."""
    top = max(point(share) for share in shares.values())
    return [name for name, share in shares.items() if point(share) > top - 0.01]


def _facts(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What was chosen for each phase, and what the model says beside a plan's own figures."""
    out = []
    for said in choice_words(document["phases"]):
        label, _, text = said.partition(": ")
        out.append((label, text))
    for name, phase in document["phases"].items():
        details = phase["details"]
        modelled = stated_beside(phase)
        if modelled is not None:
            stated = f"the plan states {figure_words(phase['gpu_hours'], 'GPU-hours')}, which the ledger uses"
            beside = f"the model gives {with_interval_words(modelled, 'GPU-hours')}"
            out.append((PHASE_NAMES[name], f"{stated}; {beside}{_outside_words(phase['gpu_hours'], modelled)}"))
        if "unpaid_gpu_time_fraction" in details:
            share = with_interval_words(details["unpaid_gpu_time_fraction"], "fraction")
            out.append((PHASE_NAMES[name], f"of its GPU-time nobody pays for {share}"))
    return out


def _outside_words(stated: Any, modelled: Any) -> str:
    """That a plan's own figure lies outside the interval of the model; empty where it does not."""
    if not isinstance(modelled, Mapping) or modelled["p05"] <= point(stated) <= modelled["p95"]:
        return ""
    side = "below" if point(stated) < modelled["p05"] else "above"
    return f"; ! the plan's figure lies {side} that interval"


def stated_beside(phase: Mapping[str, Any]) -> Any:
    """GPU-hours that the engine gives, where the plan states others; None where it does not.

    Examples
    --------
    >>> stated_beside({"gpu_hours": 142e3, "details": {"modelled_gpu_hours": 477e3}})
    477000.0
    """
    modelled = phase["details"].get("modelled_gpu_hours")
    return None if modelled is None or point(modelled) == point(phase["gpu_hours"]) else modelled


def _every_phase(document: Mapping[str, Any]) -> dict[str, Any]:
    extra = {"experiments": document["experiments"]} if document["experiments"] else {}
    return {**document["phases"], **extra}


def _ledger(document: Mapping[str, Any]) -> Table:
    phases = _every_phase(document)
    rows: list[list[str | Cell]] = []
    for label, key, unit in PHASE_ROWS:
        cells: list[str | Cell] = [
            "–" if name == "experiments" and key in _NOT_OF_EXPERIMENTS else quantity_cell(phase[key], unit)
            for name, phase in phases.items()
        ]
        total = document["total"].get(key)
        rows.append([label, *cells, "–" if total is None else quantity_cell(total, unit)])
    columns = ("", *(f"{PHASE_NAMES[name]} #" for name in phases), "Total #")
    note = f"{_chips(phases)}; {_NEW_TOKENS}; {UTILIZATION_WORDS}"
    return Table("The ledger", columns, rows, "gpu_hours", note, is_stacked=True, is_kept_whole=True)


_NEW_TOKENS = "new tokens are those that no prefix cache holds"


def _chips(phases: Mapping[str, Mapping[str, Any]]) -> str:
    """What the phases run on, a chip that several share named once."""
    names: dict[str, list[str]] = {}
    for name, phase in phases.items():
        names.setdefault(phase["accelerator"], []).append(PHASE_NAMES[name])
    said = {chip: chip_name(chip) for chip in names}
    if len(names) == 1:
        return f"all on {said[next(iter(names))]}"
    return ", ".join(f"{listed(those)} on {said[chip]}" for chip, those in names.items())


def _shares(document: Mapping[str, Any]) -> tuple[Table, ...]:
    flop, time = document["shares"]["flop"], document["shares"]["gpu_time"]
    if not flop:
        return ()
    rows: list[tuple[str | Cell, ...]] = [
        (
            PHASE_NAMES[name],
            *(share_cell(point(one[name]), with_interval_words(one[name], "fraction")) for one in (flop, time)),
        )
        for name in flop
    ]
    return (Table("Shares of the three phases", ("", "in FLOP", "in GPU-time"), rows, "gpu_hours", is_detail=True),)


def _income(document: Mapping[str, Any]) -> tuple[Table, ...]:
    return income_tables(document["income"]) if "income" in document else ()


_BALANCE = (
    ("overtraining_ratio", "x", "pretraining tokens over Chinchilla's 20 per active parameter"),
    ("inference_efficiency", "", "e: FLOP per GPU-hour of inference over that of pretraining"),
    ("tokens_inference_balanced", "", "inference tokens that equal pretraining in GPU-time, D_inf = 3 e D_pre"),
    ("inference_over_balanced", "x", "inference GPU-time over pretraining GPU-time"),
    ("beta_flop", "", "RL's coefficient in FLOP per sampled token and active parameter; pretraining has 6"),
    ("beta_gpu_time", "", "RL's coefficient in GPU-time, pretraining token = 6"),
    ("tokens_rl_balanced", "", "RL tokens that equal pretraining in GPU-time, D_RL = (6 / beta) D_pre"),
    ("rl_over_balanced", "x", "RL GPU-time over pretraining GPU-time"),
)


def _balance(document: Mapping[str, Any]) -> tuple[Table, ...]:
    rows: list[tuple[str | Cell, ...]] = []
    for key, unit, said in _BALANCE:
        if key in document["balance"]:
            is_own = key == "beta_gpu_time" and "pretraining" in document["skipped"]
            label = "RL's coefficient in GPU-time, a token in its own trainer = 6" if is_own else said
            rows.append((label, quantity_cell(document["balance"][key], unit)))
    note = "Balanced means equal GPU-time: a point of comparison, not a goal."
    return (
        (
            Table(
                "Tokens that would equal pretraining",
                ("", "median and 90 % interval #"),
                rows,
                "gpu_hours",
                note,
                is_detail=True,
            ),
        )
        if rows
        else ()
    )


def _drivers(document: Mapping[str, Any]) -> tuple[Table, ...]:
    rows: list[tuple[str | Cell, ...]] = []
    for one in plots.by_swing(document["drivers"])[:_DRIVERS]:
        totals = (plots.swing_words(one, key) for key in ("usd", "gpu_hours"))
        rows.append((plots.input_title(one["name"]), span(one["low"], one["high"], one["unit"]), *totals))
    columns = ("input", "90 % interval", "total cost #", "total GPU-hours #")
    return (Table("Every input that moves it", columns, rows, "gpu_hours", _METHOD, is_detail=True),) if rows else ()


_DEPENDS = "What the total depends on"
_METHOD = (
    "Totals with the input at the low and at the high end of its interval, the others as they are: over all samples, "
    "the logarithm of the total regressed on the input's normal score and its square."
)


def _grounds(document: Mapping[str, Any]) -> list[str]:
    silent = [
        f"{input_phrase(one['name'])} {figure_words(one['value'], one['unit'])}" for one in document["assumptions"]
    ]
    out = [f"assumed because the plan is silent: {'; '.join(silent)}"] if silent else []
    editions = ", ".join(f"{name} {edition}" for name, edition in document["editions"].items())
    return [
        *out,
        f"editions: {editions}; efficiency factors are fitted or assumed, each with its source in the working",
    ]


def _plots(document: Mapping[str, Any], ledger: Ledger) -> tuple[Plot, ...]:
    found = []
    if ledger.phases:
        found.append(
            Plot("money", "Where the dollars go", "Median and 90 % interval of each phase's cost, its share and "
                 f"GPU-hours. Staff, data and failed runs are not in it.{_stated_words(document)}",
                 money_figure(document, ledger), "usd")
        )  # fmt: skip
    if len(document["shares"]["flop"]) > 1:
        found.append(
            Plot("shares", "FLOP against GPU-time", "The same life in FLOP and in GPU-time. A phase that uses its GPUs "
                 "poorly has a larger share of the GPU-time than of the FLOP.",
                 plots.shares_figure(document), "gpu_hours", is_detail=True)
        )  # fmt: skip
    if document["drivers"]:
        found.append(Plot("drivers", _DEPENDS, "The total cost with one input at either end of its 90 % interval, the "
                          "others as they are; the upper ones are worth settling first.",
                          plots.drivers_figure(document, 6), "gpu_hours"))  # fmt: skip
    if any(phase.operations for phase in ledger.phases.values()):
        found.append(Plot("bounds", "What binds each step", "What a microbatch of training, a token and a batch of "
                          "prompts wait for.", plots.bounds_figure(ledger), "utilization_fraction",
                          is_detail=True))  # fmt: skip
    if "inference" in ledger.phases and ledger.phases["inference"].curves:
        found.append(Plot("speed", "What speed costs", _speed_words(ledger),
                          plots.speed_figure(ledger), "busy_gpu_hours", is_wide=True, is_detail=True))  # fmt: skip
    if "income" in document:
        found += income_plots(document["income"])
    return tuple(found)


def _stated_words(document: Mapping[str, Any]) -> str:
    """Why the model is far from GPU-hours that the plan states of a later phase."""
    said = [PHASE_NAMES[name] for name, one in document["phases"].items()
            if name != "pretraining" and (modelled := stated_beside(one)) is not None
            and _outside_words(one["gpu_hours"], modelled)]  # fmt: skip
    if not said:
        return ""
    return f" {listed(said)}: the plan states GPU-hours; its steps and lengths are assumed, so the model is far off."


def _speed_words(ledger: Ledger) -> str:
    """What the curve of speed shows; where a plan parts prefill from decoding, why tokens cost less than on Serve."""
    values = ledger.plan.sections["inference"].values
    if "prefill_layout" not in values:
        return "Each engine over its batches; the ring is the batch in use."
    batch, layout = values.get("batch"), values.get("layout")
    is_stated = batch is not None and not isinstance(batch, str)
    many = f"{median_of(batch):,.0f} sequences at once " if is_stated else ""
    price = fixed_price(ledger)
    gpus = f"{parse_layout(layout).n_gpus} " if isinstance(layout, str) else ""
    chip, at = chip_name(ledger.phases["inference"].accelerator), f" at {price} an hour" if price else ""
    return (
        f"The ring is the batch in use: {many}on {gpus}{chip}{at}, prompts read by other GPUs, cached prefixes not "
        "read again. So a token costs less here than in Serve's first answer, which is of one system."
    )


#: Figures of a phase that its name in the document does not say plainly.
_DETAILS = {
    "mfu_fraction": "MFU, attention counted", "hfu_fraction": "HFU, recompute counted", "step_s": "step time",
    "modelled_gpu_hours": "GPU-hours by the model", "flop_with_attention": "FLOP with attention", "days": "duration",
    "beta_flop": "beta in FLOP", "beta_gpu_time": "beta in GPU-time", "steps": "optimizer steps",
    "rollout_tpot_s": "time per rollout token", "tpot_s": "time per output token", "ttft_s": "time to first token",
    "usd_per_mtok_output": "output", "usd_per_mtok_input": "input", "prefilled_tokens": "prefilled",
    "cached_tokens": "read from the cache", "output_tokens": "generated", "goodput_fraction": "goodput",
    "unpaid_gpu_time_fraction": "GPU-time that nobody pays for",
}  # fmt: skip


def _details(ledger: Ledger) -> list[Table]:
    """Further figures of each phase, and the price of speed of its engines."""
    out = []
    for name, phase in ledger.phases.items():
        rows: list[tuple[str | Cell, ...]] = [
            ("dense bf16 peak of a GPU", words(phase.peak_flop_per_s, "FLOP/s")),
            *(_detail(name, key, *found) for key, found in phase.details.items()),
        ]
        for label, curve in phase.curves.items():
            floor, plateau = words(curve.latency_floor_s, "s"), words(curve.usd_per_mtok_output_plateau, "USD/Mtok")
            engine = "" if label == name else f"{label}: "
            dear = f"{floor} per token, {words(curve.fast_mode_costs_ratio, '')} times the cost"
            saves = f"{plateau}: going slower saves at most {percent(curve.slow_mode_saves_fraction)}"
            rows += [(f"{engine}batch 1", dear), (f"{engine}batch {curve.options[-1].batch:,}, the largest", saves)]
        title = f"{PHASE_NAMES[name]}: {model_words(phase.model)} on {phase.accelerator}"
        out.append(Table(title, ("", "median and 90 % interval #"), rows))
    return out


def _detail(phase: str, key: str, value: Any, unit: str) -> tuple[str, Cell]:
    stream, _, measure = key.rpartition(": ")
    label, shown = _DETAILS.get(measure, measure.replace("_", " ")), unit
    if measure.endswith("_fraction"):
        shown = "fraction"
        label = _DETAILS.get(measure, f"GPU-time: {measure.removesuffix('_fraction')}")
    label = f"{stream}: {label}" if stream not in ("", phase) else label
    return label, quantity_cell(quantity(value, unit), shown)


_STEP_COLUMNS = ("operation", "FLOP #", "bytes #", "network #", "time #", "share", "bound")


def _operations(ledger: Ledger) -> list[Table]:
    """Operations of every step, longest first."""
    out = []
    for name, phase in ledger.phases.items():
        for step, operations in phase.operations.items():
            rows: list[tuple[str | Cell, ...]] = []
            for one in sorted(operations_document(operations), key=lambda one: -float(one["share_fraction"])):
                kinds = (("flop", "FLOP"), ("bytes", "B"), ("network_bytes", "B"))
                work = [words(one[key], unit) if one[key] else "" for key, unit in kinds]
                share = share_cell(one["share_fraction"], percent(one["share_fraction"]))
                rows.append((one["name"], *work, quantity_cell(one["time_s"], "s"), share, one["bound"]))
            out.append(
                Table(f"{step_words(name, step)}, one step on {phase.accelerator}", _STEP_COLUMNS, rows, is_detail=True)
            )
    return out


def _sources(document: Mapping[str, Any]) -> tuple[str, ...]:
    """Sources of the figures and of the efficiency factors."""
    factors = {one["source"] for one in document["efficiency"].values()}
    return tuple(sorted(key for key in {*document["sources"], *factors} if key in load_sources()))
