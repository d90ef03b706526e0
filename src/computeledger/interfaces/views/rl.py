"""The view of an RL answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from computeledger.interfaces.plots.bars import bars_figure
from computeledger.interfaces.plots.parts import PHASE_COLORS
from computeledger.interfaces.plots.rl import HATCHED, SEEN, step_figure
from computeledger.interfaces.view import (
    Card,
    Cell,
    Plot,
    Table,
    Tile,
    View,
    quantity_cell,
    share_cell,
    tile,
)
from computeledger.interfaces.views.evidence import rl_evidence
from computeledger.interfaces.views.grounds import price_ground, rent_taken
from computeledger.interfaces.views.published import published_system
from computeledger.interfaces.views.rl_words import demand_words, framework_words, parity_words
from computeledger.interfaces.working import working_view
from computeledger.questions.answers.rl.answer import RLAnswer
from computeledger.questions.wording import (
    chips_words,
    figure_words,
    headline_words,
    interval_words,
    listed,
    lora_words,
    model_words,
    percent,
    point,
    short_model,
    show,
    with_interval_words,
    words,
)
from computeledger.units import KILO, format_count, format_percent, format_si

#: Share of the GPU-time that is rounding, of a side that never waits.
_NOTHING = 1e-9
_TILES = (
    ("usd", "Cost", "USD", ""),
    ("gpu_hours", "GPU-time", "GPU-hours", ""),
    ("days", "Takes", "days", ""),
    ("gpu_time_beside_pretraining", "A sampled token costs", "times", ""),
    ("idle_fraction", "Idle: GPUs that wait", "fraction", ""),
    ("utilization_fraction", "Utilisation", "fraction", ""),
    ("step_s", "Step", "s", "step"),
)


#: Phases whose names in documents say too little.
_CALLED = {"once per step": "start and end of a step"}
_START_AND_END = "Log-probs: the trainer reads rollouts for each token's probability. Start and end of a step: "
_START_AND_END += "engines wake and take prompts; rollouts are collected, scored and logged."

#: Idle share below which it is said where the wait for long rollouts is counted.
_FEW_IDLE = 0.05
#: What a sampled token is compared with.
_PRETRAINING = "pretraining (assumed)"
#: Where the wait for long rollouts is counted.
_LONGEST = "waiting for the longest rollouts"
#: What waits where generation and training take turns.
_WAITING = " Waiting: GPUs whose rollouts have all ended (one that still decodes a few counts as generation), then all "
_WAITING += "of them until the last verdict is in."
_TOO_LITTLE = "does not fit: a replica with one longest rollout, or the trainer, needs more memory"


def view(answer: RLAnswer, working: bool) -> View:
    """Of a run."""
    document = answer.to_dict(working=working)
    return View(
        title=_title(document),
        asked=_asked(document),
        headline=_headline(document, answer.setting.system.accelerator.short_name),
        context=_context(document),
        tiles=tuple(_tile(document, *one) for one in _TILES),
        main="gpu_hours",
        facts=tuple(_facts(document)),
        plots=_plots(document),
        tables=(*published_system(answer.question, "rl", document), *_tables(document)),
        notes=tuple(_notes(document)),
        warnings=tuple(_warnings(document)),
        blocks=_blocks(document),
        grounds=(price_ground(document),),
        working=tuple(working_view(document)) if working else (),
        chosen=_chosen(document),
        overline="rl",
        card=_card(document, answer.setting.system.accelerator.short_name),
        evidence=rl_evidence(document),
    )


def _tile(document: Mapping[str, Any], key: str, label: str, unit: str, why: str) -> Tile:
    """A figure of the run; one in times and what idles say of what."""
    found = tile(document, key, label, unit, why)
    if key == "idle_fraction" and found.band:
        return replace(found, band=f"{found.band} of the GPU-time")
    return replace(found, band=f"a pretraining token ({found.band})") if unit == "times" else found


def _warnings(document: Mapping[str, Any]) -> list[str]:
    """What does not fit, and a log of another run."""
    out = [] if document["fits"] else [_TOO_LITTLE]
    if others := document.get("comparison", {}).get("other_run", ()):
        pairs = [
            f"{one['name']} {words(one['logged'], one['unit'])}, the question's {words(one['asked'], one['unit'])}"
            for one in others
        ]
        options = ", ".join(one["option"] for one in others)
        out.append(f"the log is of another run: {'; '.join(pairs)}. Make them agree: {options}")
    return out


def _blocks(document: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """The run as a framework takes it."""
    launch = document.get("launch")
    return () if launch is None else ((f"Run it with {launch['framework']}", launch["text"]),)


def _title(document: Mapping[str, Any]) -> str:
    split = document["split"]
    sides = f"{split['generation_gpus']:.0f} generate, {split['training_gpus']:.0f} train"
    turns = "in turns" if split["colocated"] else sides
    if "judge" in document and not document["judge"]["in_turn"]:
        turns += f", {document['judge']['n_gpus']:.0f} judge"
    gpus = format_count(document["n_gpus"], "GPU")
    return f"RL of {model_words(document['model'])} on {gpus} of {document['system']}, {turns}"


def _asked(document: Mapping[str, Any]) -> tuple[str, ...]:
    split = document["split"]
    return (
        f"{point(document['steps']):,.0f} steps",
        f"lag {split['max_lag']}" if split["max_lag"] else "synchronous",
        f"generation {split['layout']}",
        f"trainer {split['training_layout']} (recompute {split['recompute']})",
        *([f"LoRA rank {document['lora']['rank']}"] if "lora" in document else []),
    )


#: Share of runs that samples can tell.
_MOST_TOLD = 0.99
#: Idle share from which the headline states it.
_TOLD = 1e-3


def _headline(document: Mapping[str, Any], chip: str) -> str:
    """What the run takes; of a measured step, whether it is normal."""
    subject = f"RL of {short_model(document['model'])} on {chips_words(document['n_gpus'], chip)}"
    if "comparison" in document:
        return _verdict(subject, document["comparison"])
    name, share = _largest(document)
    steps, usd = f"{point(document['steps']):,.0f}", figure_words(document["usd"], "USD")
    said = f"{usd} for {steps} steps, {percent(share, 2)} of it {name}"
    return headline_words(subject, said, document["usd"], "USD")


def _card(document: Mapping[str, Any], chip: str) -> Card | None:
    """Why it is dear: what a sampled token costs beside one of pretraining, and what a run costs."""
    busy, (name, share) = document["phase_utilization_fraction"], _largest(document)
    if "comparison" in document or name not in busy:
        return None
    used, steps = words(point(busy[name]), "fraction", 2), f"{point(document['steps']):,.0f}"
    where = f"{short_model(document['model'])} on {chips_words(document['n_gpus'], chip)}"
    times = document["gpu_time_beside_pretraining"]
    said = (
        f"a pretraining token's cost for each token sampled: {name} uses {used} of the chips' arithmetic and takes "
        f"{words(share, 'fraction', 2)} of the GPU-time. {steps} steps of {where}: "
        f"{figure_words(document['usd'], 'USD')}"
    )
    return Card.of(f"{figure_words(times, '').strip()} times", said, (times, ""))


def _largest(document: Mapping[str, Any]) -> tuple[str, float]:
    """The phase that takes the most GPU-time, and its share."""
    shares = {name: point(one["fraction"]) for name, one in document["phases"].items()}
    name = max(shares, key=lambda name: shares[name])
    return name, shares[name]


def _context(document: Mapping[str, Any]) -> str:
    """Why a sampled token costs more than one of pretraining, how many are sampled, and how much idles."""
    if "comparison" in document:
        return _differs(document["comparison"])
    idle_fraction = point(document["idle_fraction"])
    idle = f"{percent(idle_fraction, 2)} of the GPU-time" if idle_fraction >= _TOLD else "next to no GPU-time"
    paced = "; too few environments set the pace" if document["binding_phase"] == "environments" else ""
    sampled = figure_words(document["tokens"], "")
    times = figure_words(document["gpu_time_beside_pretraining"], "").strip()
    costs = f"a sampled token costs {times} times a pretraining token"
    why = _busy(document)
    first = f"{why}, so {costs}" if why else f"{costs[0].upper()}{costs[1:]}"
    tail = _tail(document) if idle_fraction < _FEW_IDLE else ""
    return f"{first}. {sampled} are sampled; {idle} idles{paced}{tail}."


def _tail(document: Mapping[str, Any]) -> str:
    """Where a step waits for its last rollouts: that GPUs which decode a few of them count as generating."""
    if not any(_LONGEST in spans for spans in document["timeline_s"].values()):
        return ""
    n = words(point(document["generation"]["rollouts_decoding"]), "", 2)
    return f": a GPU that decodes the last few long rollouts counts as generating ({n} decode on a replica on average)"


def _busy(document: Mapping[str, Any]) -> str:
    """How little of a chip's arithmetic the phase that takes the most GPU-time uses, and why; nothing if unknown."""
    busy, (name, _) = document["phase_utilization_fraction"], _largest(document)
    if name not in busy:
        return ""
    waits = name == "generation" and (document["binding_phase"], document["bound"]) == ("generation", "memory")
    why = " waits for memory and" if waits else ""
    return f"{name[0].upper()}{name[1:]}{why} uses {percent(busy[name], 2)} of the chips' arithmetic"


def _verdict(subject: str, one: Mapping[str, Any]) -> str:
    """Whether a measured step is normal."""
    step, share = one["step"], one["slower_than_fraction"]
    taken = words(step["measured_s"], "s")
    if one["verdict"] == "within":
        said = f"normal, a step of {taken} is within what runs like this take"
    else:
        beyond = share if one["verdict"] == "slower" else 1 - share
        most = f"{percent(beyond)}" if beyond <= _MOST_TOLD else f"more than {percent(_MOST_TOLD)}"
        word = {"slower": "slow", "faster": "fast"}[one["verdict"]]
        said = f"{word}, a step of {taken} is {one['verdict']} than {most} of runs like this"
    return headline_words(subject, said, step["expected_s"], "s")


def _differs(one: Mapping[str, Any]) -> str:
    """Which phase of a measured step is most of the difference, and what would help."""
    said = ["The log is of another run (below)."] if one["other_run"] else []
    if (name := one["differs_most"]) is not None:
        phase = one["phases"][name]
        own, expected_s = words(phase["measured_s"], "s"), figure_words(phase["expected_s"], "s")
        said.append(f"It differs most in {name}: {own} against {expected_s}.")
    if one["levers"]:
        best = one["levers"][0]
        change = f"{best['name'][0].upper()}{best['name'][1:]} ({best['why']})"
        said.append(f"{change} would save most: {words(best['saved_s'], 's')} a step.")
    return " ".join(said)


def _notes(document: Mapping[str, Any]) -> list[str]:
    interval = f"ranges are as wide as those of: {document['interval']['class']}"
    if basis := document["interval"].get("rests_on"):
        interval += f"; they rest on {basis.partition('; none is of')[0]}"
    visits = document["assumptions"]["epochs_over_the_tasks"]
    counted = "a sampled token is counted whether the rollout is kept or dropped"
    found = [interval, counted, framework_words(document["framework"]), demand_words(document["demand"], visits)]
    compared = document.get("comparison", {})
    if taken := compared.get("taken"):
        said = [f"mean rollout {words(taken['rollout_tokens'], 'tokens')}"] if "rollout_tokens" in taken else []
        said += [format_count(int(taken["gpus"]), "GPU")] if "gpus" in taken else []
        found.insert(0, f"taken from the log: {', '.join(said)}")
    if silent := compared.get("not_stated"):
        found.insert(0, f"the log does not state {', '.join(silent)}: it is taken to have the question's")
    adapters = _adapters(document) if "lora" in document else []
    return [*found, *adapters, *compared.get("remarks", ())]


def _adapters(document: Mapping[str, Any]) -> list[str]:
    """What is trained, what the reference is, and what generators take."""
    lora = document["lora"]
    sent = format_si(lora["sent_bytes"], "B")
    taken = {
        "adapters": f"generators take the adapters alone, {sent}, and run them beside the weights; launching their "
        "kernels is not counted (assumption)",
        "merged": f"generators take all weights, {sent}, with the adapters merged",
    }[lora["sync"]]
    return [lora_words(lora), f"{taken}; the reference policy is the base with adapters off"]


def _facts(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    out = [("Bottleneck", _bottleneck(document)), ("The next GPUs", _next_gpus(document["next_gpu"]))]
    if point(document["verifier_cores_needed"]):
        cores = format_si(point(document["verifier_cores_needed"]))
        out.append(("Verifier cores that keep pace", cores))
    if "judge" in document:
        out.append(("Judge", _judge(document["judge"], document["binding_phase"] == "judge")))
    if "episodes" in document:
        out += _episodes(document["episodes"])
    if "equal_gpu_time" in document:
        out.append(("In the GPU-time of pretraining", parity_words(document["equal_gpu_time"])))
    if "samples_per_problem" in document:
        groups = document["samples_per_problem"]
        parts = [f"{size}: {show(one['gpu_s_per_problem'], 's')}" for size, one in groups.items()]
        out.append(("GPU-time of a problem, by samples", ", ".join(parts)))
    return out


def _bottleneck(document: Mapping[str, Any]) -> str:
    """What sets the pace; where environments do, how many more would not."""
    if document["binding_phase"] != "environments":
        return f"{document['binding_phase']} ({document['bound']})"
    needed = document["episodes"]["environments"]
    saved = percent(needed["more_save_fraction"])
    return f"environments: one for each episode shortens a step by {saved}; {format_si(needed['keep_pace'])} keep pace"


#: Where units are added that a run has more of, and what they are.
_ADDED = {
    "both": ("GPU", ""), "generation": ("GPU", " for generation"), "training": ("GPU", " for training"),
    "judge": ("GPU", " for the judge"), "verification": ("verifier core", ""),
}  # fmt: skip


def _next_gpus(one: Mapping[str, Any]) -> str:
    """What a few more GPUs save, where each of them saves most, or that they save next to nothing."""
    best = one["best"]
    added, saved = one["added"][best], one["added_save_fraction"][best]
    unit, where = _ADDED[best]
    verb = f"{unit}{where} saves" if added == 1 else f"{unit}s{where} save"
    share = format_percent(saved) if saved >= _TOLD else f"less than {format_percent(_TOLD)}"
    return f"{added:.0f} more {verb} {share} of a step"


def _judge(one: Mapping[str, Any], binds: bool) -> str:
    """What judges, where, how busy it is, and how many GPUs would keep pace."""
    place = "in turn on the generators'" if one["in_turn"] else "on its own"
    busy, verdict = percent(one["busy_fraction"]), show(point(one["verdict_s"]), "s")
    paced = "; it sets the pace of a step" if binds else ""
    return (
        f"{model_words(one['model'])} {place} {format_count(one['n_gpus'], 'GPU')} ({one['layout']}), busy {busy}; a "
        f"verdict takes {verdict}{paced}; {format_count(one['gpus_that_keep_pace'], 'GPU')} of its own keep pace"
    )


def _episodes(one: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What episodes with turns wait for and need."""
    needed = one["environments"]
    turns, calls = (format_si(point(one[name])) for name in ("turns_per_episode", "calls_per_step"))
    spent, waits = (show(point(one[name]), "s") for name in ("episode_s", "waiting_s"))
    busy, at_once = (format_si(round(point(needed[name]))) for name in ("busy", "calls_at_once"))
    pace, cores = (format_si(needed[name]) for name in ("keep_pace", "cores"))
    reused = percent(one["reused_cache_fraction"])
    longest, cut = format_si(point(one["longest_context_tokens"])), percent(one["cut_fraction"])
    spent_on = f"{turns} turns, {spent} each, of which {waits} wait for tools"
    if one["agents"] > 1:
        learn = f"{one['trained_agents']:g} trained" if one["trained_agents"] < one["agents"] else "all trained"
        spent_on = f"{one['agents']:g} agents ({learn}), each {spent_on}"
    return [
        ("Episodes", f"{spent_on}; {calls} calls a step, {at_once} at the same time"),
        ("Environments that keep pace", f"{pace}, with {cores} CPU cores; {busy} are busy on average"),
        ("Caches found after a call", f"{reused}; the others are read again"),
        ("Longest context", f"{longest} tokens; {cut} of the episodes are cut there"),
    ]


def _plots(document: Mapping[str, Any]) -> tuple[Plot, ...]:
    phases = {_called(name): one for name, one in document["phases"].items()}
    lanes = {
        _lane(side, document): {_called(name): span for name, span in spans.items()}
        for side, spans in document["timeline_s"].items()
    }
    told = {name: one for name, one in phases.items() if point(one["fraction"]) >= _TOLD}
    busy = {_called(name): one for name, one in document["phase_utilization_fraction"].items() if name in told}
    remarks = {name: f"in {percent(one['fraction'], 2)} of the GPU-time" for name, one in told.items()}
    base = {_PRETRAINING: document["assumptions"]["pretraining_mfu"]}
    return (
        Plot("timeline", f"One step in time; bottleneck: {document['binding_phase']} ({document['bound']})",
             _turns(document), step_figure(lanes, phases), "step", is_wide=True),
        Plot("utilization", "How much of the chips' arithmetic each phase uses", "FLOP over dense bf16 peak, medians "
             "and 90 % intervals; behind them each phase's share of the GPU-time. The others multiply no matrices. A "
             "sampled token is compared with a pretraining token at the grey bar.",
             bars_figure(busy, "fraction", PHASE_COLORS["rl"], remarks=remarks, beside=base), "utilization_fraction"),
    )  # fmt: skip


def _called(name: str) -> str:
    """What a reader calls a phase."""
    return _CALLED.get(name, name)


def _lane(side: str, document: Mapping[str, Any]) -> str:
    """Who works in a lane, and on how many GPUs."""
    split = document["split"]
    counts = {"generators": split["generation_gpus"], "trainer": split["training_gpus"],
              "all GPUs": document["n_gpus"]}  # fmt: skip
    n_gpus = document["judge"]["n_gpus"] if side == "judge" else counts[side]
    return f"{side.removesuffix(' GPUs')}{'' if side == 'all GPUs' else ':'} {format_count(round(n_gpus), 'GPU')}"


def _turns(document: Mapping[str, Any]) -> str:
    """How to read the timeline."""
    least_s = SEEN * point(document["step_s"])
    spans = [pair for lane in document["timeline_s"].values() for pair in lane.items()]
    waits = any("waiting" in name and point(span) >= least_s for name, span in spans)
    key = f" {HATCHED} Hatched: GPUs wait." if waits else ""
    said = f" Each span is the median time that a GPU spends in it, as in the table below. {_START_AND_END}"
    if document["split"]["colocated"]:
        return f"All GPUs generate, then all train.{said}{key}"
    lag = document["split"]["max_lag"]
    apart = f" The trainer trains on rollouts drawn up to {format_count(lag, 'step')} before." if lag else ""
    return f"The sides work beside one another; the slower one sets the pace.{apart}{said}{key}"


def _tables(document: Mapping[str, Any]) -> list[Table]:
    out = [_phases(document), _run(document), _beta(document)]
    if "comparison" in document:
        out = [*_compared(document["comparison"]), *out]
    if "split_options" in document:
        out.append(_options(document["split_options"]))
    if "levers" in document:
        out.append(_levers(document["levers"]))
    if "episodes" in document:
        out.append(_horizons(document["episodes"]["horizons"]))
    if "scale_up" in document:
        out.append(_domains(document["scale_up"]))
    return out


def _phases(document: Mapping[str, Any]) -> Table:
    """Every phase once: its time in a step as the timeline draws it, its GPU-time, and how busy it keeps a chip."""
    busy = document["phase_utilization_fraction"]
    spans = {name: span for lane in document["timeline_s"].values() for name, span in lane.items()}
    rows: list[list[str | Cell]] = []
    left_out: list[str] = []
    for name, part in document["phases"].items():
        share = point(part["fraction"])
        if abs(share) < _TOLD:
            left_out.append(_called(name))
            continue
        used = percent(busy[name], 2) if name in busy else ""
        time = quantity_cell(spans[name], "s") if name in spans else ""
        rows.append(
            [_called(name), time, quantity_cell(part["gpu_hours"], ""), share_cell(share, percent(share, 2)), used]
        )
    waits = any(name in document["phases"] for name in ("waiting for the longest rollouts", "waiting for verifiers"))
    columns = ("phase", "in a step #", "GPU-hours #", "share", "utilisation #")
    note = (
        "In a step: as long as the mean GPU of its side is in it; sides beside one another overlap. "
        f"Utilisation: FLOP over dense bf16 peak.{_WAITING if waits else ''}"
    )
    if left_out:
        note += f" Under {format_percent(_TOLD)} each: {listed(left_out)}."
    told = f"{note}{_logged(document, spans)}"
    return Table("Where GPU-time goes, by phase", columns, rows, "gpu_hours", told, is_detail=True)


def _beta(document: Mapping[str, Any]) -> Table:
    """What a sampled token costs by phase: beside a pretraining token, and in the unit of scaling laws."""
    times, parts = (document["beta"][name] for name in ("beside_pretraining_by_phase", "gpu_time_by_phase"))
    shown = [name for name, part in document["phases"].items() if abs(point(part["fraction"])) >= _NOTHING]
    rows: list[list[str | Cell]] = [
        [_called(name), quantity_cell(times[name], ""), quantity_cell(parts[name], "")] for name in shown
    ]
    both = [quantity_cell(document[name], "") for name in ("gpu_time_beside_pretraining", "beta_gpu_time")]
    rows.append(["all", *both])
    note = (
        "GPU-time of a sampled token over that of a pretraining token; beta, the unit of scaling laws, is six times as "
        "much, since a pretraining token takes 6 FLOP per parameter."
    )
    columns = ("phase", "pretraining tokens #", "beta #")
    return Table("What a sampled token costs, by phase", columns, rows, "gpu_time_beside_pretraining", note,
                 is_detail=True)  # fmt: skip


def _logged(document: Mapping[str, Any], spans: Mapping[str, Any]) -> str:
    """What a framework's log calls generation, where it is longer than the phase."""
    logged = document["phases_s"]["generation"]
    if figure_words(logged, "s") == figure_words(spans["generation"], "s"):
        return ""
    own, said = figure_words(spans["generation"], "s"), with_interval_words(logged, "s")
    return f" Generation is {own} here; a framework's log shows generation as {said}, {_IN_LOGS}."


_IN_LOGS = "as it counts the start of the engines and the wait for the longest rollout with it"


def _run(document: Mapping[str, Any]) -> Table:
    """What the run makes and takes, and on what."""
    split, made = document["split"], document["generation"]
    quantities = (
        ("tokens sampled", document["tokens"], ""),
        ("sampled tokens/s per GPU", document["tokens_per_s_per_gpu"], ""),
        ("FLOP", document["flop"], ""),
        ("energy", document["energy_j"], "J"),
        ("rollouts decoding on a replica", made["rollouts_decoding"], ""),
        ("verifier cores that are busy", document["verifier_cores_needed"], ""),
    )
    rows: list[list[str | Cell]] = [[label, quantity_cell(value, unit)] for label, value, unit in quantities]
    rows += [
        ["GPUs that generate", f"{split['generation_gpus']:,.0f}"],
        ["GPUs that train", f"{split['training_gpus']:,.0f}"],
        ["replicas that generate", figure_words(made["replicas"], "")],
        ["layout of generation", split["layout"]],
        ["layout of training", split["training_layout"]],
    ]
    return Table(f"The run of {point(document['steps']):,.0f} steps", ("", "value #"), rows, "flop", is_detail=True)


def _options(options: list[Mapping[str, Any]]) -> Table:
    rows = []
    for one in options:
        trains = "in turns" if one["colocated"] else f"{one['training_gpus']:.0f}"
        cost = show(KILO * one["gpu_s_per_kept_token"], "s")
        rows.append([f"{one['generation_gpus']:.0f}", trains, one["layout"], show(one["step_s"], "s"), cost,
                     format_si(one["verifier_cores"]), one["binding_phase"]])  # fmt: skip
    columns = ("generate #", "train #", "layout", "step #", "GPU-s per 1K kept tokens #", "cores #", "paced by")
    return Table("Best splits of the GPUs (medians)", columns, rows, "step")


def _compared(one: Mapping[str, Any]) -> list[Table]:
    """A measured step beside this one, by phase, and what would make it shorter."""
    rows = []
    for name, part in (("step", one["step"]), *one["phases"].items()):
        ratio = "" if part["ratio"] is None else f"x {part['ratio']:.2f}"
        said = {True: "inside", False: "outside", None: ""}[part["inside"]]
        expected, ends = point(part["expected_s"]), interval_words(part["expected_s"], "s")
        rows.append([name, show(part["measured_s"], "s"), show(expected, "s"), ends, ratio, said])
    columns = ("phase", "yours #", "expected #", "90 % interval #", "ratio #", "")
    out = [Table("Your step beside this one", columns, rows, "step", f"yours: {one['source']}")]
    if one["levers"]:
        saved = [
            [each["name"], show(each["saved_s"], "s"), f"x {each['gpu_time_per_token_ratio']:.2f}", each["why"]]
            for each in one["levers"]
        ]
        heads = ("change", "saves a step #", "GPU-time per token #", "what")
        note = (
            "each alone; what is no phase as expected is taken from the modelled step, in proportion of yours; of one "
            "that works beside another side, at most what that side leaves of your step"
        )
        out.append(Table("What would help most", heads, saved, "step", note))
    return out


def _levers(levers: list[Mapping[str, Any]]) -> Table:
    rows = [
        [one["name"], f"x {one['gpu_time_per_token_ratio']:.2f}", show(one["step_s"], "s"), one["why"]]
        for one in levers
    ]
    return Table("What would bring GPU-time down", ("change", "GPU-time per token #", "step #", "what"), rows, "step")


def _horizons(horizons: list[Mapping[str, Any]]) -> Table:
    first = horizons[0]["episode_gpu_s"]
    rows = []
    for one in horizons:
        said = "" if one["fits"] else "beyond the context, or a replica's memory"
        ratio = f"x {one['episode_gpu_s'] / first:.2f}"
        longest = format_si(one["longest_context_tokens"])
        rows.append([format_si(one["turns"]), longest, show(one["step_s"], "s"), ratio, said])
    columns = ("turns #", "longest context #", "step #", "GPU-time of an episode #", "")
    note = "turns as long as before, on the same GPUs and layouts (medians)"
    return Table("What a longer horizon costs", columns, rows, "step", note)


def _domains(domains: list[Mapping[str, Any]]) -> Table:
    rows: list[list[str | Cell]] = []
    for one in domains:
        rollouts = format_si(one["rollouts"]) if one["fits"] else "does not fit"
        figures = (format_si(one["tokens_per_s_per_gpu"]), format_percent(one["utilization_fraction"]))
        held = (f"{one['n_chips']:,}", format_si(one["hbm_bytes"], "B"), format_si(one["weights_bytes"], "B"))
        rows.append([one["system"], *held, rollouts, one["layout"], *figures, "yes" if one["efficient"] else "no",
                     _trace(one), one["largest_model"].rpartition("/")[2]])  # fmt: skip
    columns = ("domain", "chips #", "memory #", "weights #", "rollouts #", "layout", "tokens/s per GPU #",
               "utilisation #", "efficient", "longest trace #", "largest model")  # fmt: skip
    note = (
        "one domain full of replicas of the layout, as many rollouts as memory holds; efficient: weights and launches "
        "are at most half of a decode step; the longest trace is the memory's: what exceeds the model's own context is "
        "marked"
    )
    drops = ("largest model", "longest trace", "weights", "memory", "utilisation")
    return Table("Does it fit the scale-up domain", columns, rows, "step", note, drops=drops)


def _trace(one: Mapping[str, Any]) -> str:
    """The longest trace that a domain carries, marked where the model's context is shorter."""
    trace, context = one["longest_trace_tokens"], one["context_tokens"]
    beyond = context is not None and trace > context
    said = f"{format_si(trace)} or more" if one["is_longest_tried"] else format_si(trace)
    return said + (f" (context {format_si(context)})" if beyond else "")


def _chosen(document: Mapping[str, Any]) -> dict[str, str]:
    """What was taken for boxes that were left empty."""
    split = document["split"]
    layouts = {"layout": split["layout"], "training-layout": split["training_layout"]}
    return {**rent_taken(document["price"]), **layouts, "training-gpus": f"{split['training_gpus']:g}"}
