"""The view of a serving answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from computeledger.facts.schema import Accelerator
from computeledger.interfaces.glossary import layout_said
from computeledger.interfaces.plots import serving as plots
from computeledger.interfaces.plots.memory import memory_figure
from computeledger.interfaces.view import Card, Cell, Plot, Table, Tile, View, quantity_cell, share_cell, tile
from computeledger.interfaces.views.breakdown import breakdown_tables
from computeledger.interfaces.views.commands import command_facts
from computeledger.interfaces.views.compare_words import CLEAR
from computeledger.interfaces.views.corpus import corpus_sentence, corpus_table
from computeledger.interfaces.views.evidence import serving_evidence
from computeledger.interfaces.views.grounds import assumed_words, memory_fact, price_ground, rent_taken
from computeledger.interfaces.views.images import images_facts
from computeledger.interfaces.views.loras import adapter_facts, mask_facts
from computeledger.interfaces.views.promise import promise_context, promise_facts, promise_headline, promise_tables
from computeledger.interfaces.views.published import published_system
from computeledger.interfaces.views.speculation import speculation_facts, speculation_table
from computeledger.interfaces.views.tiers import tier_tables
from computeledger.interfaces.views.traffic import design_table, traffic_facts
from computeledger.interfaces.working import BELOW, working_view
from computeledger.physics.calibration.local import local_engines
from computeledger.physics.roofline import OperationKind
from computeledger.questions.answers.serving.setting import ServingAnswer
from computeledger.questions.wording import (
    anchor_words,
    burst_words,
    chips_words,
    engine_words,
    figure_words,
    headline_words,
    interval_class_words,
    margins_words,
    meets_words,
    percent,
    place_words,
    point,
    pools_words,
    short_model,
    width_words,
    words,
)
from computeledger.units import format_count, format_times, format_usd

#: Rows of a front and alternatives to a winner that are shown, about.
_FRONT, _ALTERNATIVES = 16, 4
#: The limit on the time per token that a search keeps to where nobody stated one.
_DEFAULT_LIMIT = "slowest_tpot_s_of_the_search"
#: The four that a reader needs first.
_TILES = (
    ("usd_per_mtok_output", "Output cost", "USD/Mtok"),
    ("output_tokens_per_s_per_user", "Speed for one user", "tokens/s"),
    ("ttft_s", "Time to first token", "s"),
    ("output_tokens_per_s_per_gpu", "Output per GPU", "tokens/s"),
    ("tpot_s", "Time per output token", "s"),
    ("usd_per_mtok_input", "Input cost", "USD/Mtok"),
    ("usd_per_mtok_cached_read", "Cached input cost", "USD/Mtok"),
)
#: Figures of a fleet that the physical limit of its chips bounds.
_OF_SPEED = ("output_tokens_per_s_per_user", "ttft_s", "tpot_s")
_TIMES = ("at once #", "time per token #", "first token #")
_STEP_COLUMNS = ("operation", "FLOP #", "bytes #", "network #", "time #", "share", "bound")


OTHER_PREFILLS = OperationKind.OTHER_PREFILLS.value


def view(answer: ServingAnswer, working: bool) -> View:
    """Of an answer by one pool of replicas or by two."""
    document = answer.to_dict(working=working)
    limit, alike = document["physical_limit"], document.get("measured_alike")
    if "fleet" in document:  # what a load costs and yields is its fleet's, whatever the chips could do
        limit = {name: one for name, one in limit.items() if name in _OF_SPEED}
    tiles = tuple(_asked_at_most(tile(document, *one, limit=limit), document) for one in _tiles(document))
    if _DEFAULT_LIMIT in document["assumptions"] and not {"promise", "pools"} & document.keys():
        many = Tile("Sequences at once", _batch(document), _filled(document), point(document["batch"]), "tpot_s")
        tiles = (*tiles[:3], many, *tiles[3:])
    return View(
        title=_title(document),
        asked=_asked(document),
        headline=_headline(document, answer.setting.system.accelerator.short_name),
        context=f"{_context(document)}{corpus_sentence(document)}".strip(),
        tiles=tiles,
        reference="physical limit" if any(one.reference for one in tiles) else "",
        facts=tuple(_facts(document)),
        plots=_plots(document, answer.setting.system.accelerator),
        tables=(
            *published_system(answer.question, "serve", document),
            *_tables(document),
            *(_alike(alike) if working and alike else []),
        ),
        notes=tuple(_notes(document)),
        grounds=tuple(_grounds(document)),
        blocks=_blocks(document),
        working=tuple(working_view(document)) if working else (),
        chosen={**rent_taken(document["price"]), **_searched(document)},
        overline="serve",
        main="usd_per_mtok_output",
        evidence=serving_evidence(document),
        card=_card(document, answer.setting.system.accelerator.short_name),
    )


def _alike(alike: Mapping[str, Any]) -> list[Table]:
    """Measurements like this one; what makes their table loads every comparison with a measurement."""
    from computeledger.interfaces.views.accuracy import alike_table

    return [alike_table(alike)]


def _tiles(document: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Figures of an answer; times of a promise are those of its simulation, in tables of their own."""
    left = _OF_SPEED if "promise" in document else ()
    return [one for one in _TILES if document.get(one[0]) is not None and one[0] not in left]


def _asked_at_most(one: Tile, document: Mapping[str, Any]) -> Tile:
    """A tile of what a load yields: its median may be the end of its range, as a load asks for so much and no more."""
    is_of_all = "fleet" in document and one.key == "output_tokens_per_s_per_gpu"
    if not is_of_all or one.high is None or one.value is None or one.high > one.value * 1.001:
        return one
    return replace(one, band=f"{one.band}; the load asks for no more")


def _title(document: Mapping[str, Any]) -> str:
    precision = document["precision"]
    kinds = (precision["attention"], precision["experts"])
    widths = width_words(kinds, document.get("multiplied_in", {}), precision.get("file", ""))
    place = f"{document['model']} on {document['system']}, {_layout_words(document)}"
    if "promise" in document:  # the batch follows the load
        return f"{place}, {widths}"
    return f"{place}, {widths}, batch {_batch(document)}"


def _layout_words(document: Mapping[str, Any]) -> str:
    """The layout of a replica, or the workers of both pools."""
    pools = document.get("pools")
    if pools is None:
        return str(document["layout"])
    counts = {kind: format_count(one["n_workers"], f"{kind} worker") for kind, one in pools.items()}
    return ", ".join(f"{counts[kind]} of {one['layout']}" for kind, one in pools.items())


#: A mean of so many sequences and more is said in whole ones.
_WHOLE = 10.0


def _batch(document: Mapping[str, Any]) -> str:
    """Sequences at once: a mean over time where a load fills them."""
    batch = float(document["batch"])
    return f"{batch:,.0f}" if batch.is_integer() or batch >= _WHOLE else f"{batch:.2g}"


#: Share of the limit from which on the time per token fills it: one sequence more would exceed it.
_FILLS = 0.95


def _filled(document: Mapping[str, Any]) -> str:
    """What keeps a searched batch from being larger."""
    aim = document["assumptions"][_DEFAULT_LIMIT]
    if document["batch"] >= document["largest_batch"]:
        return "as many as memory holds"
    if document["tpot_s"] is not None and point(document["tpot_s"]) >= _FILLS * aim:
        return f"the most within {words(aim, 's')} a token"
    return "decoded together"


def _asked(document: Mapping[str, Any]) -> tuple[str, ...]:
    lengths = [f"{figure_words(document[f'{name}_tokens'], '')} {name}" for name in ("input", "cached", "output")]
    each = format_count(document["n_gpus_per_replica"], "GPU")
    replicas = f"{format_count(document['n_replicas'], 'replica')} of {each}"
    idle = f", {document['n_idle_gpus']:,} idle" if document.get("n_idle_gpus") else ""
    aim = document["assumptions"].get(_DEFAULT_LIMIT) if "promise" in document else None
    searched = [f"searched within {words(aim, 's')} per output token, as no limit on it was given"] if aim else []
    named = [f"workload {document['workload']['name']}"] if "workload" in document else []
    tokens = "token" if point(document["output_tokens"]) == 1 else "tokens"
    each = f"per request {', '.join(lengths)} {tokens}{' on average' if named else ''}"
    if "pools" in document:  # the title names the workers
        gpus = document.get("gpus", document["n_gpus_per_replica"] * document["n_replicas"])
        replicas = f"{format_count(gpus, 'GPU')} in two pools"
    return f"{replicas}{idle}", *named, each, engine_words(document), *searched


def _headline(document: Mapping[str, Any], chip: str) -> str:
    """What output costs, and how fast a user sees it; of a promise, what keeps it."""
    if "promise" in document:
        return promise_headline(document, chip)
    gpus = document.get("gpus", document["n_gpus_per_replica"] * document["n_replicas"])
    of_one = document["output_tokens_per_s_per_user"]
    speed = f"its one token after {figure_words(document['ttft_s'], 's')}"
    speed = speed if of_one is None else f"{figure_words(of_one, 'tokens/s')} per user"
    cost = document["usd_per_mtok_output"]
    said = f"{figure_words(cost, 'USD')} per million output tokens at {speed}"
    return headline_words(f"{short_model(document['model'])} on {chips_words(gpus, chip)}", said, cost, "USD")


def _card(document: Mapping[str, Any], chip: str) -> Card | None:
    """What output costs; a promise is no single figure."""
    of_one, cost = document["output_tokens_per_s_per_user"], document["usd_per_mtok_output"]
    if "promise" in document or of_one is None:
        return None
    gpus = document.get("gpus", document["n_gpus_per_replica"] * document["n_replicas"])
    said = (
        f"per million output tokens, at {figure_words(of_one, 'tokens/s')} for each user, on {chips_words(gpus, chip)}"
    )
    return Card.of(figure_words(cost, "USD"), said, (cost, "USD"))


def _context(document: Mapping[str, Any]) -> str:
    """How it is laid out, what it waits for, and whether a fleet carries its load."""
    if "promise" in document:
        return promise_context(document)
    at_once = f"{_batch(document)} {'sequence' if document['batch'] == 1 else 'sequences'} at once"
    if "pools" in document:
        where = f"{_layout_words(document)}, {at_once}"
    else:
        gpus = format_count(document["n_gpus_per_replica"], "GPU")
        how = "" if _alternatives(document) else layout_said(document["layout"])  # which the table has in words
        n_replicas = 1 if "fleet" in document else document["n_replicas"]
        each = f"each of {n_replicas:,} replicas of " if n_replicas > 1 else ""
        where = f"{at_once} on {each}{gpus}{_rent(document)}{f': {how}' if how else ''}"
    if "fleet" in document:
        n = document["fleet"]["n_replicas"]
        replicas = "" if "pools" in document or n == 1 else f"{format_count(n, 'replica')}, each "
        where = f"{replicas}{where}"
    carried = _carried(document["fleet"]) if "fleet" in document else ""
    return " ".join(part for part in (f"{where}{_within(document, where)}.", _waits(document), carried) if part)


def _within(document: Mapping[str, Any], where: str) -> str:
    """The limit on the time per token that is met, stated or the default of a search, and with what chance."""
    aim, stated = document["assumptions"].get(_DEFAULT_LIMIT), document.get("meets", {}).get("tpot")
    chance = document.get("margins", {}).get("meets_limit_probability", {}).get("tpot")
    if aim:
        limit = f"the cheapest within the default limit of {words(aim, 's')} a token"
    elif stated and stated["meets"]:
        limit, chance = f"within the limit of {words(stated['limit_s'], 's')} a token", stated["probability"]
    else:
        return ""
    kept = "" if chance is None else f" ({percent(chance, 2)} chance)"
    return f"{';' if ':' in where else ','} {limit}{kept}"


def _rent(document: Mapping[str, Any]) -> str:
    """The price of a GPU-hour, on which every cost rests."""
    return f" at {format_usd(document['price']['value'])} per GPU-hour"


def _carried(fleet: Mapping[str, Any]) -> str:
    """The chance that a fleet carries its load, and what its first tokens are otherwise."""
    chance = f"The chance that it carries the load is {percent(fleet['carries_probability'])}"
    said = f"{chance}; where it does not, the queue grows and no time to first token holds."
    if fleet["carries_probability"] >= CLEAR:
        return said
    return f"{said} Offers (`computeledger compare`) adds GPUs until it does in nine of ten cases."


#: Share of the time per token from which on what it waits for is told.
_TOLD = 0.1


def _waits(document: Mapping[str, Any]) -> str:
    """What most of the time per output token is spent on: what binds the step, or the prompts that join it."""
    if document["tpot_s"] is None:
        return ""
    shares: dict[str, float] = {}
    for one in document["components"]["decode"]:
        what = f"the {one['name']}" if one["name"] == OTHER_PREFILLS else one["bound"]
        shares[what] = shares.get(what, 0.0) + one["share_fraction"]
    first, *others = sorted((what for what, share in shares.items() if share >= _TOLD), key=lambda what: -shares[what])
    if shares[first] > 1 / 2 or not others:
        return f"The bottleneck of decoding is {first}."
    return f"The bottleneck of decoding is {first}, then {others[0]}."


def _notes(document: Mapping[str, Any]) -> list[str]:
    out = [interval_class_words(document["interval"], "anchor" in document)]
    out += [anchor_words(document["anchor"])] if "anchor" in document else []
    out += list(document.get("remarks", ()))
    out += [burst_words(document)] if "ttft_statistics_s" in document else []
    if "promise" not in document:
        out += [meets_words(name, one) for name, one in document.get("meets", {}).items()]
    if "margins" in document:
        out.append(
            "of all layouts within the limits the answer gives the most output tokens per GPU: its requests cost least"
        )
    return out


def _told(document: Mapping[str, Any]) -> str:
    """The engine's own settings that were stated, by its own options."""
    rows = [one for one in document.get("engine_settings", {}).values() if isinstance(one, Mapping)]
    stated = [one for one in rows if one["stated"] is not None]
    return ", ".join(one["option"] if one["stated"] is True else f"{one['option']} {one['stated']:g}" for one in stated)


def _facts(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    largest = f"largest batch that fits: {document['largest_batch']:,.0f}"
    out = [memory_fact(document["memory_bytes"], largest, document.get("memory_of", ""))]
    if "pools" in document:
        held = document["pools"]["prefill"]
        at_once = f"at {format_count(held['batch'], 'prompt')}"
        out.append(memory_fact(held["memory_bytes"], at_once, "prefill pool"))
    if told := _told(document):
        out.append(("Engine is told", told))
    out += command_facts(document)
    if "pools" in document:
        out.append(("Pools", _pools(document)))
    if "price_of_speed" in document:
        out.append(("Price of speed", _speed(document)))
    if document.get("aggregated"):
        one = document["aggregated"]
        rate = words(one["output_tokens_per_s_per_gpu"], "tokens/s")
        gain = document["winner"]["output_tokens_per_s_per_gpu"] / one["output_tokens_per_s_per_gpu"]
        pays = "two pools pay" if gain > 1 else "two pools do not pay"
        said = f"{one['layout']} at batch {one['batch']:,}: {rate} per GPU; {pays}: {format_times(gain)} that per GPU"
        out.append(("One pool as fast per token", said))
    out += images_facts(document) + speculation_facts(document)
    out += adapter_facts(document) + mask_facts(document)
    if "two_pools" in document:
        out.append(("Two pools would give more", pools_words(document)))
    out += _of_a_load(document) + traffic_facts(document)
    if "margins" in document:
        out.append(("Is the winner ahead?", margins_words(document["margins"])))
    for phase, quantity, whole in (("decode", "A token", "tpot"), ("prefill", "The first token", "ttft")):
        if parts := document.get("breakdown", {}).get(whole):
            terms = " + ".join(f"{name} {words(value, 's')}" for name, value in parts.items())
            out.append((f"{quantity} takes, {phase}", f"{terms} = {words(sum(parts.values()), 's')}"))
    return out


def _of_a_load(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What a load, or a promise under it, takes."""
    if "promise" in document:
        return promise_facts(document)
    if "fleet" not in document:
        return []
    fleet = document["fleet"]
    said = _pools_fleet(fleet) if "pools" in document else _fleet(fleet, document["assumptions"])
    both = [("One pool or two", document["modes"]["why"])] if "modes" in document else []
    return [("Fleet", said), *both]


def _pools(document: Mapping[str, Any]) -> str:
    parts = [
        f"{name}: {one['n_workers']} x {one['layout']} ({format_count(one['n_gpus_per_worker'], 'GPU')} each"
        f"{', ' + one['system'] if 'system' in one else ''})"
        for name, one in document["pools"].items()
    ]
    busy = percent(document["prefill_busy_fraction"])
    return f"{'; '.join(parts)}; {document['concurrency']:.0f} requests in flight, prefill {busy} busy"


def _speed(document: Mapping[str, Any]) -> str:
    speed, full = document["price_of_speed"], document.get("fleet", {}).get("replica", document)
    floor = words(speed["latency_floor_s"], "s", 2)
    plateau = words(speed["usd_per_mtok_output_plateau"], "USD/Mtok", 2)
    share = words(speed["slow_mode_saves_fraction"], "fraction", 2)
    times = f", at {words(speed['fast_mode_costs_ratio'], '', 2)} times the cost" if point(full["batch"]) > 1 else ""
    less = f", {share} less" if speed["slow_mode_saves_fraction"] else ": nothing is cheaper"
    if "promise" in document and speed["slow_mode_saves_fraction"]:  # the price above is of a fleet with headroom
        less += f" than the {words(full['usd_per_mtok_output'], 'USD/Mtok', 2)} of a replica that is always full"
    alone = "; the engine was measured one request at a time: other batches are extrapolated"
    beyond = alone if document["backend"] in local_engines() else ""
    plain = f"fastest {floor} per token (batch 1){times}; cheapest {plateau} (the largest batch){less}{beyond}"
    first = min(document.get("pareto", ()), key=lambda one: float(one["tpot_s"]), default=None)
    if first is None or first["layout"] == document["layout"]:
        return plain
    return f"of this layout: {plain}; fastest of all: {words(first['tpot_s'], 's', 2)} ({first['layout']})"


def _fleet(fleet: Mapping[str, Any], assumed: Mapping[str, Any]) -> str:
    replica, idle = fleet["replica"], 1 - fleet["occupancy_fraction"]
    replicas = f"{fleet['n_replicas']} x {replica['layout']}, {percent(fleet['load_fraction'])} loaded"
    without = f" and {percent(idle)} of the time without a request" if idle else ""
    cost = words(replica["usd_per_mtok_output"], "USD/Mtok")
    full = f"fully loaded: batch {replica['batch']}, {words(replica['tpot_s'], 's')} per token, {cost} of output"
    bill = f"{words(fleet['usd_per_hour'], 'USD')}/h, {words(fleet['usd_per_request'], 'USD')} per request"
    gpus = f"{format_count(fleet['n_gpus'], 'GPU')} for that load ({bill})"
    default, fastest = assumed.get(_DEFAULT_LIMIT), assumed.get("choice_of_the_search")
    taken = f"no more than {words(default, 's')} per token, as no limit on it was given" if default else fastest
    paced = taken or "the limits that were stated"
    return f"{gpus}: {replicas}{without}; {full}; sized for {paced}; arrivals taken as even, bursts need headroom"


def _pools_fleet(fleet: Mapping[str, Any]) -> str:
    """Both pools for a load, and what they cost."""
    bill = f"{words(fleet['usd_per_hour'], 'USD')}/h, {words(fleet['usd_per_request'], 'USD')} per request"
    workers = (
        f"{format_count(fleet['n_prefill_replicas'], 'prefill worker')}, "
        f"{format_count(fleet['n_replicas'], 'decode worker')}, {percent(fleet['load_fraction'])} loaded"
    )
    gpus = format_count(fleet["n_gpus"], "GPU")
    return f"{gpus} for that load ({bill}): {workers}; arrivals taken as even, bursts need headroom"


def _plots(document: Mapping[str, Any], chip: Accelerator) -> tuple[Plot, ...]:
    memory = document["memory_bytes"]
    held = f"{words(memory['total'], 'B')} of {words(memory['capacity'], 'B')}"
    of_pool = f" of the {document['memory_of']}" if "memory_of" in document else ""
    others = "" if "pareto" in document else " Leave Batch empty to see the best layout at each speed."
    front = (
        Plot("pareto", "What speed costs", "Right: fast for one user, small batches. Down: cheap, large batches. "
             f"The ring is the answer.{others}", plots.pareto_figure(document), "usd_per_mtok_output"),
    ) if "price_of_speed" in document and document["tpot_s"] is not None else ()  # fmt: skip
    return (
        *front,
        Plot("step", "What does the time go to?", "Share of a step's time by operation, coloured by what it waits for.",
             plots.step_bounds(document), "decode_s"),
        Plot("roofline", "Does memory or compute bind?", "Each mark is an operation of at least 0.5 % of its step, "
             "larger where it takes more. Under the slope memory binds, under the flat roof compute.",
             plots.serving_roofline(document, chip), BELOW, is_wide=True, is_detail=True),
        Plot("memory", f"Memory of the busiest GPU{of_pool}",
             f"{held}; the largest batch that fits is {document['largest_batch']:,.0f}.",
             memory_figure(document["memory_bytes"]), "memory_bytes", is_wide=True, is_detail=True),
    )  # fmt: skip


def _tables(document: Mapping[str, Any]) -> list[Table]:
    out = promise_tables(document) if "promise" in document else [*_alternatives(document)]
    details = [_step(document, phase) for phase in ("decode", "prefill")] if "breakdown" not in document else []
    details += [_front(document)] if "pareto" in document else []
    if "breakdown" in document:
        out += [*breakdown_tables(document), *details]
    else:
        said = _kept_back(document)
        out += [replace(one, in_short=Table("", (), (), note=said * (one is details[0]))) for one in details]
    out += [speculation_table(document)] if "speculation" in document else []
    out += design_table(document) + corpus_table(document)
    return out + (tier_tables(document["kv_tiers"]) if "kv_tiers" in document else [])


def _kept_back(document: Mapping[str, Any]) -> str:
    """Which tables a terminal prints where all are asked for."""
    front = f", and the Pareto front of {document['n_options']} options" if "pareto" in document else ""
    return f"--all prints a step of decoding and of prefill by operation{front}"


#: Why a table and the figures above it may differ in the third digit.
_AT_MEDIANS = (
    "at once: sequences; output and input in USD per Mtok, a request pays for both; figures at the median of every "
    "input: those above are medians of the outcomes, a few percent off"
)


def _alternatives(document: Mapping[str, Any]) -> list[Table]:
    """The answer and what else meets the limits, all at the medians of the inputs, the cheapest request first."""
    margins = document.get("margins")
    if not margins or not margins["rivals"]:
        return []
    winner = document["winner"]
    others = sorted(margins["rivals"][:_ALTERNATIVES], key=lambda one: -float(one["throughput_ratio"]))
    rows: list[Sequence[str | Cell]] = [[*_alternative(winner, ", the answer"), "–", "–"]]
    for one in others:
        cost = f"{1 / one['throughput_ratio'] - 1:+.0%}".replace("-", "\u2212").replace("%", "\u00a0%")
        chance = share_cell(one["better_probability"], words(one["better_probability"], "fraction", 2))
        rows.append([*_alternative(one), cost, chance])
    columns = ("layout", *_TIMES, "output #", "input #", "a request costs #", "chance to be better")
    title = "Other layouts within the limits"
    drops = ("first token", "at once", "output", "input")
    return [
        Table(title, columns, rows, "output_tokens_per_s_per_gpu", _AT_MEDIANS, strong=(0,), drops=drops,
              is_stacked=True)
    ]  # fmt: skip


def _alternative(one: Mapping[str, Any], remark: str = "") -> list[str | Cell]:
    """The layout in words, how many sequences it takes at once, its times and what its tokens cost."""
    _, *times = _option(one, "")[:4]
    said, name = layout_said(one["layout"]), f"{one['layout']}{remark}"
    first = Cell(f"{said[:1].upper()}{said[1:]}", below=name) if said else name
    return [first, *times, *(words(one[f"usd_per_mtok_{kind}"], "USD", 2) for kind in ("output", "input"))]


def _option(one: Mapping[str, Any], name: str) -> list[str | Cell]:
    times = [words(one[key], "s", 2) for key in ("tpot_s", "ttft_s")]
    rates = [words(one[f"output_tokens_per_s_per_{whom}"], "", 2) for whom in ("user", "gpu")]
    costs = [words(one[f"usd_per_mtok_{kind}"], "USD", 2) for kind in ("output", "input")]
    return [name, f"{one['batch']:,}", *times, *rates, *costs]


def _front(document: Mapping[str, Any]) -> Table:
    """About sixteen points of a front, its ends and the answer among them, in the front's order."""
    front, winner = document["pareto"], document["winner"]
    step = max(1, len(front) // _FRONT)
    kept = [one for place, one in enumerate(front) if place % step == 0 or place == len(front) - 1 or one == winner]
    kept = kept if winner in kept else sorted([*kept, winner], key=lambda one: float(one["tpot_s"]))
    here = kept.index(winner)
    rows = [
        [f"\u2192 {one['layout']}" if one == winner else one["layout"], str(one["n_gpus"]), *_option(one, "")[1:]]
        for one in kept
    ]
    columns = ("layout", "GPUs #", *_TIMES, "tokens/s per user #", "tokens/s per GPU #", "output #", "input #")
    answer = "the answer's replica, fully loaded" if "fleet" in document else "the answer"
    note = (
        f"\u2192 {answer}. None has more tokens/s for a user and for a GPU (the Pareto front); medians, costs in USD "
        "per Mtok."
    )
    return Table(
        f"The best of {document['n_options']} options", columns, rows, "output_tokens_per_s_per_gpu", note,
        strong=(here,), drops=("input", "tokens/s per GPU", "GPUs"), is_detail=True,
    )  # fmt: skip


def _step(document: Mapping[str, Any], phase: str) -> Table:
    bound = document["bound"] if phase == "decode" else document["prefill_bound"]
    title = f"{phase.capitalize()}, one step {place_words(document, phase)}: its operations are bound by {bound}"
    rows = []
    for one in document["components"][phase]:
        kinds = (("flop", "FLOP"), ("bytes", "B"), ("network_bytes", "B"))
        work = [words(one[key], unit) if one[key] else "" for key, unit in kinds]
        share = share_cell(one["share_fraction"], percent(one["share_fraction"]))
        rows.append([plots.operation_words(one["name"]), *work, quantity_cell(one["time_s"], "s"), share, one["bound"]])
    return Table(title, _STEP_COLUMNS, rows, f"{phase}_s", drops=("network", "FLOP"), is_detail=True)


def _grounds(document: Mapping[str, Any]) -> list[str]:
    return [price_ground(document), *assumed_words(document)]


def _blocks(document: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    if "launch" not in document:
        return ()
    return ((f"Launch with {document['launch']['engine']}", document["launch"]["text"]),)


def _searched(document: Mapping[str, Any]) -> dict[str, str]:
    limit = document["assumptions"].get(_DEFAULT_LIMIT)
    gpus = {"gpus": f"{document['n_gpus_per_replica'] * document['n_replicas']:g}"}
    return gpus if limit is None else {**gpus, "tpot": f"{limit:g}"}
