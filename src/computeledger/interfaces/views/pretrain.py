"""The view of a pretraining answer."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from computeledger.facts.schema import Accelerator, Fact
from computeledger.interfaces.plots import training as plots_training
from computeledger.interfaces.plots.bars import bars_figure, small_together, strip_figure
from computeledger.interfaces.plots.memory import memory_figure
from computeledger.interfaces.plots.palette import BAD, OTHER
from computeledger.interfaces.plots.parts import PHASE_COLORS
from computeledger.interfaces.view import Card, Cell, Plot, Table, View, quantity_cell, quantity_table, tile
from computeledger.interfaces.views.capacity import capacity_words
from computeledger.interfaces.views.evidence import training_evidence
from computeledger.interfaces.views.grounds import memory_fact, price_ground, rent_taken
from computeledger.interfaces.views.published import gpus_of_run, published_hours, published_run
from computeledger.interfaces.views.step import (
    PLAINLY,
    advice_plots,
    advice_table,
    operations_plot,
    operations_table,
    parts_table,
    phases_fact,
    pipeline_plots,
    stops_table,
)
from computeledger.interfaces.working import working_view
from computeledger.physics.training.batch import REVERSIBLE
from computeledger.questions.answers.pretraining.answer import PretrainAnswer
from computeledger.questions.answers.pretraining.document import timeline_document
from computeledger.questions.wording import (
    MFU_WORDS,
    UTILIZATION_WORDS,
    chips_words,
    figure_words,
    headline_words,
    listed,
    lora_words,
    model_words,
    percent,
    point,
    short_model,
    show,
    width_words,
    words,
)
from computeledger.units import format_count, format_percent, format_si
from computeledger.workloads.frameworks import USUAL_STACK
from computeledger.workloads.pretraining.timeline import FEW_ROUNDS

#: Rounding of the global batch that is worth a word.
_ROUNDED_FRACTION = 0.01
#: Difference of tokens up to which a published run is the one that is asked about.
_SAME_RUN_FRACTION = 0.05
#: Letters of a line of a terminal below the name of a plot that it does not draw.
_LINE = 76
#: Share of a step's waits from which on a sentence names it.
_SAID = 0.05
#: What a step waits for, where the name of the share is not what it waits for.
_WAITS_FOR = {"bubble": "other pipeline stages", "uneven stages": "the slowest stage", "host": "the host"}
#: Stages that the table of memory lists at most.
_STAGES = 8
_TILES = (
    ("effective_days", "Takes, failures included", "days"),
    ("effective_gpu_hours", "GPU-time", "GPU-hours"),
    ("effective_usd", "Cost", "USD"),
    ("mfu_fraction", "MFU", "fraction"),
    ("step_s", "Step", "s"),
    ("tokens_per_s_per_gpu", "Tokens per GPU", "tokens/s"),
    ("goodput_fraction", "Goodput", "fraction"),
)
_RUN = (
    ("GPU-hours", "gpu_hours", "effective_gpu_hours", ""),
    ("days", "days", "effective_days", "days"),
    ("cost", "usd", "effective_usd", "USD"),
)


def view(answer: PretrainAnswer, working: bool) -> View:
    """Of a run at one configuration."""
    document = answer.to_dict(working=working)
    step, chip = document.get("step"), answer.setting.machine.system.accelerator
    return View(
        title=f"{model_words(document['model'])} on {format_count(document['n_gpus'], 'GPU')} of {document['system']}",
        asked=_asked(document),
        headline=_headline(document, chip.short_name),
        context=" ".join(filter(None, (_context(document), _published_run(answer, document)))),
        tiles=tuple(tile(document, *one) for one in _TILES),
        main="effective_days",
        facts=tuple(_facts(document)),
        plots=(
            *_plots(document, answer.setting.machine.system.accelerator),
            *_pipeline(answer, document),
            *([operations_plot(step)] if step is not None else []),
        ),
        tables=(
            *_published(answer, document),
            *_tables(document),
            *([_levers(document)] if "levers" in document else []),
            *_scaling(document),
            *([_growing(document["growing_batch"])] if "growing_batch" in document else []),
            *([stops_table(document["stops"])] if step is not None else []),
        ),
        notes=tuple(_notes(document)),
        warnings=tuple(_warnings(document)),
        grounds=(price_ground(document),),
        blocks=_blocks(document),
        working=tuple(working_view(document)) if working else (),
        chosen=_chosen(document),
        overline="pretrain",
        card=_card(document, chip.short_name),
        evidence=training_evidence(document),
    )


def _warnings(document: Mapping[str, Any]) -> list[str]:
    """A configuration that does not fit, and sequences beyond the model's context."""
    out = [] if document["fits"] else [f"this configuration does not fit: {_fit_words(document)}"]
    if (held := document.get("anchor")) and held["widened_for_difference"] > 1:
        out.append(
            f"your measurements differ by a factor of {held['differ_ratio']:.3g} from each other, more than those of "
            "one cluster do: the interval is wider for it"
        )
    return [*out, document["beyond_context"]] if document["beyond_context"] else out


def _published(answer: PretrainAnswer, document: Mapping[str, Any]) -> tuple[Table, ...]:
    """GPU-hours of the model's own run, where about as many tokens are asked about."""
    known = answer.result.scenario.model.published
    return published_hours(known, document["gpu_hours"]) if _is_own_run(known, document) else ()


def _published_run(answer: PretrainAnswer, document: Mapping[str, Any]) -> str:
    """What the makers published of the run that is asked about, on as many GPUs where they say how many."""
    known, chip = answer.result.scenario.model.published, answer.setting.machine.system.accelerator.short_name
    is_own = _is_own_run(known, document) and gpus_of_run(known) in (None, document["n_gpus"])
    return published_run(known, document["gpu_hours"], chip) if is_own else ""


def _is_own_run(known: Mapping[str, Fact], document: Mapping[str, Any]) -> bool:
    """Whether about as many tokens are asked about as the makers trained on."""
    own = known["tokens_pretraining"].value if "tokens_pretraining" in known else 0.0
    return abs(point(document["tokens"]) - own) <= _SAME_RUN_FRACTION * own


def _headline(document: Mapping[str, Any], chip: str) -> str:
    days = document["effective_days"]
    said = f"{figure_words(days, 'days')} and {figure_words(document['effective_usd'], 'USD')}"
    model, tokens = short_model(document["model"]), format_si(point(document["tokens"]))
    subject = f"{model} on {tokens} tokens with {chips_words(document['n_gpus'], chip)}"
    return headline_words(subject, said, days, "days", (document["effective_usd"], "USD"))


def _card(document: Mapping[str, Any], chip: str) -> Card:
    """What the run costs, and how long it takes."""
    usd, days = document["effective_usd"], document["effective_days"]
    where, hours = chips_words(document["n_gpus"], chip), figure_words(document["effective_gpu_hours"], "GPU-hours")
    said = f"and {figure_words(days, 'days')} on {where}: {hours} for {format_si(point(document['tokens']))} tokens"
    return Card.of(figure_words(usd, "USD"), said, (usd, "USD"), (days, "days"))


def _context(document: Mapping[str, Any]) -> str:
    """What a step waits for most."""
    binds = sorted(document["binds"].items(), key=lambda pair: -point(pair[1]))
    waits = [
        f"{_WAITS_FOR.get(name, name)} ({words(point(share), 'fraction', 2)})"
        for name, share in binds
        if point(share) >= _SAID
    ]
    return f"Failures are included. A step waits for {listed(waits)}."


def _asked(document: Mapping[str, Any]) -> tuple[str, ...]:
    asked, batch = document["asked_global_batch_tokens"], document["global_batch_tokens"]
    is_rounded = abs(asked / batch - 1) > _ROUNDED_FRACTION
    remark = f" (rounded from {format_si(asked)}, so that it divides over ranks)" if is_rounded else ""
    return (
        f"{document['layout']}, {_how_words(document)}",
        f"{format_si(point(document['tokens']))} tokens",
        width_words([document["precision"]], document["multiplied_in"]),
        f"sequence {format_si(document['sequence_tokens'])}",
        f"global batch {format_si(batch)} tokens{remark}",
    )


def _how_words(one: Mapping[str, Any]) -> str:
    """How a layout runs: microbatch, recomputation, schedule, and what is out of the ordinary."""
    said = {
        f"microbatch {one['microbatch_sequences']:.0f}": True,
        f"recompute {one['recompute']}": True,
        f"{one['virtual_stages']:.0f} virtual stages": one["virtual_stages"] > 1,
        str(one["schedule"]): one["schedule"] != "1f1b",
        "sharded weights": one["sharded_weights"],
        "sharded gradients": one["sharded_gradients"],
        f"a scale per {one['recipe']}": one["recipe"] != "tensor",
        f"activations kept in {one['activation_precision']}": one["activation_precision"] != "bf16",
        f"moments in {one['moment_precision']}": one["moment_precision"] != "fp32",
        f"optimizer {one['optimizer']}": one["optimizer"] != "adamw",
        f"{one['offload'].replace(',', ' and ')} in host memory": bool(one["offload"]),
        f"busiest experts {one.get('expert_imbalance', 1.0):.3g} x the mean": one.get("expert_imbalance", 1.0) > 1,
        f"capacity factor {one.get('capacity_factor', 0.0):g}": "capacity_factor" in one,
        f"MTP modules {one['mtp_layers']}": one["mtp_layers"] > 0,
        f"{one['residual_streams']:g} residual streams": one["residual_streams"] > 1,
        _sites_words(one.get("sites")): "sites" in one,
    }
    return ", ".join(text for text, holds in said.items() if holds)


def _sites_words(sites: Mapping[str, Any] | None) -> str:
    """Several sites: their link, and how often they exchange."""
    if sites is None:
        return ""
    link = f"{sites['n']} sites, {format_si(8 * sites['bytes_per_s'], 'b/s')} from each"
    often = "in each step" if sites["local_steps"] == 1 else f"every {sites['local_steps']} steps"
    return f"{link}, exchanging {often}"


def _notes(document: Mapping[str, Any]) -> list[str]:
    narrowed = "; your measurements moved and narrowed it, as said below" if document["anchored"] else ""
    out = [f"{document['interval']['why']}{narrowed}"]
    if "lora" in document:
        out.append(lora_words(document["lora"]))
    if "documents" in document:
        out.append(_documents_words(document["documents"]))
    if "loss_fraction" in document:
        share = document["loss_fraction"]
        carrying = format_si(share * point(document["tokens"]))
        out.append(f"loss on {format_percent(share)} of the tokens, {carrying}: prompts without loss cost as much time")
    if "dropped_fraction" in document:
        out.append(
            f"experts drop {format_percent(document['dropped_fraction'])} of the routed tokens, if loads are normal"
        )
    if document["recompute"] == REVERSIBLE:
        out.append(
            f"reversible layers are another architecture: {model_words(document['model'])} has none as published"
        )
    if document["residual_streams"] > 1:
        out.append(
            f"{document['residual_streams']:g} residual streams: elementwise kernels move and stages send that many; "
            "what the backward pass keeps of them is counted once"
        )
    if "problem" in document.get("step", {}).get("timeline", {}):
        out.append(document["step"]["timeline"]["problem"])
    return out


def _documents_words(held: Mapping[str, Any]) -> str:
    """What lies in the sequences, and who waits for whom."""
    said = f"a token attends within a document of {format_si(held['attended_tokens'])} tokens in the mean"
    if held["useful_fraction"] < 1:
        said += f"; {format_percent(1 - held['useful_fraction'])} of a sequence is padding"
    waits = held["attention_ratio"] - 1
    return f"{said}; the slowest rank's attention takes {format_percent(waits)} longer than the mean" if waits else said


def _framework(said: Mapping[str, Any]) -> str:
    """A framework, and what its launch writes for the layout."""
    written = ", ".join(f"{name} {value}" for name, value in said["layout"].items())
    return f"{said['name']}: {written}" if written else said["name"]


def _facts(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    out: list[tuple[str, str]] = []
    if document["framework"]["id"] != USUAL_STACK:
        out.append(("Framework", _framework(document["framework"])))
    if "anchor" in document:
        out.append(("Anchor", _anchor(document["anchor"])))
    if "step" in document:
        out.append(phases_fact(document["step"]))
    if "host_bytes" in document:
        held, room = (words(document[key], "B") for key in ("host_bytes", "host_usable_bytes"))
        fits = "fits" if document["host_bytes"] <= document["host_usable_bytes"] else "DOES NOT FIT"
        out.append(("Host memory per GPU", f"{held} of {room}; {fits}"))
    if not document["advice"]:
        out.append(("Changes", "nothing that was tried gains more than 1 %"))
    return out


def _fit_words(document: Mapping[str, Any]) -> str:
    """Whether it fits into what a job may fill; some published jobs fill more."""
    real = document["memory_ratio"]
    spread = f"real peaks are {real['low']:.2f} to {real['high']:.2f} times that (90 %)"
    if document["fits"]:
        return f"fits; {spread}"
    held = document["memory_bytes"]
    if held["total"] <= held["capacity"]:
        return f"TIGHT, more than a job should fill, within the GPU's {format_si(held['capacity'], 'B')}"
    return "DOES NOT FIT"


def _goodput(document: Mapping[str, Any]) -> str:
    spent = document["goodput"]
    names = [name for name in spent["shares"] if name != "useful"]
    names.sort(key=lambda name: -point(spent["shares"][name]))
    lost = ", ".join(f"{plots_training.LOSS_NAMES[name]} {percent(spent['shares'][name])}" for name in names)
    return textwrap.fill(f"{lost}; {_failing(document)}", _LINE)


def _failing(document: Mapping[str, Any]) -> str:
    """How often something fails, and how often the state is saved."""
    spent = document["goodput"]
    times = (point(spent[key]) for key in ("mean_time_between_failures_s", "checkpoint_interval_s"))
    between, every = (words(one, "s", 2) for one in times)
    return f"a failure every {between}, a checkpoint every {every}"


def _anchor(held: Mapping[str, Any]) -> str:
    """What the measurements said, how much of it carries over, and what is left of the interval."""
    kept, width = format_percent(held["shrinkage_fraction"]), format_percent(held["narrowed_fraction"])
    said = (
        f"{held['layout']} measured {show(held['measured_step_s'], 's')}, modelled "
        f"{show(held['modelled_step_s'], 's')} (ratio {held['measured_ratio']:.3g}); {kept} of that carries over"
        if held["n"] == 1
        else f"{held['n']} measurements, measured over modelled {held['measured_ratio']:.3g} in the mean; {kept} "
        "of that carries over"
    )
    before, after = (
        f"{one['p05']:.3g} to {one['p95']:.3g}" for one in (held["interval_before"], held["interval_after"])
    )
    return (
        f"{said} (times {held['carried_over']:.3g} here), the interval is {width} as wide: real over modelled step "
        f"{before} before, {after} after"
    )


def _anchors(held: Mapping[str, Any]) -> Table:
    """Every measurement beside the model and beside what all of them together say of it."""
    rows = [
        [one["anchor"], one["layout"], words(one["measured_step_s"], "s"), words(one["modelled_step_s"], "s"),
         f"{one['measured_over_modelled']:.3g}", f"{100 * one['residual_fraction']:+.1f} %".replace("-", "\u2212"),
         ": ".join(part for part in (one["tool"], one["taken"]) if part)]
        for one in held["measured"]
    ]  # fmt: skip
    columns = ("measured", "layout", "step #", "modelled #", "ratio #", "residual #", "taken")
    note = "residual: what the measurements together leave unexplained of each"
    return Table("Your measurements", columns, rows, "step_s", note)


def _plots(document: Mapping[str, Any], chip: Accelerator) -> tuple[Plot, ...]:
    memory, spent = document["memory_bytes"], document["goodput"]["shares"]
    parts, rest = small_together(document["components"])
    binds, small = small_together(document["binds"])
    colors = [plots_training.WAIT_COLORS.get(name, OTHER) for name in binds]
    lost = {plots_training.LOSS_NAMES[name]: share for name, share in spent.items() if name != "useful"}
    failing = _failing(document)
    usable = (
        f"{words(memory['total'], 'B')} of the {words(memory['usable'], 'B')} that a job should fill, the dotted line; "
        f"the full line is all of it: {capacity_words(chip)}. It {_fit_words(document)}."
    )
    return (
        Plot("parts", "Where a step's time goes", f"Each part with its 90 % interval.{rest}",
             bars_figure(parts, "s", PHASE_COLORS["pretraining"], remarks=PLAINLY), "step_s"),
        Plot("memory", "Memory of the busiest GPU", usable, memory_figure(memory), "memory_bytes",
             text=textwrap.fill(memory_fact(memory, _fit_words(document))[1], _LINE), is_detail=True),
        *advice_plots(document["advice"]),
        Plot("binds", "Bottlenecks", f"Shares of the step by what it waits for.{small}", strip_figure(binds, colors),
             "microbatch_s", is_detail=True),
        Plot("goodput", "What failures take", f"Shares of the run's time, of which {percent(spent['useful'])} is "
             f"useful. {failing[:1].upper()}{failing[1:]}, the interval that costs least.",
             bars_figure(lost, "fraction", BAD), "goodput_fraction", text=_goodput(document), is_detail=True),
    )  # fmt: skip


def _pipeline(answer: PretrainAnswer, document: Mapping[str, Any]) -> tuple[Plot, ...]:
    """The schedule of a pipeline in time; a job of one stage has one where its step is taken apart."""
    if "step" in document:
        return pipeline_plots(document["step"]["timeline"], document["schedule"], document["step_s"], is_printed=True)
    drawn = timeline_document(answer.result, FEW_ROUNDS)
    if drawn.get("n_stages", 1) == 1:
        return ()
    return pipeline_plots(drawn, document["schedule"], document["step_s"], is_printed=False)


def _tables(document: Mapping[str, Any]) -> list[Table]:
    out = [_run(document), _utilization(document)]
    out.append(operations_table(document["step"]) if "step" in document else parts_table(document["components"]))
    if len(document["memory_stages"]) > 1 or "levers" in document:
        out.append(_stage_memory(document))
    if "anchor" in document:
        out.append(_anchors(document["anchor"]))
    if "remedies" in document:
        out.append(_remedies(document))
    if document["advice"]:
        out.append(advice_table(document["advice"]))
    if "stages" in document:
        out.append(_stages(document["stages"]))
    out.append(_worth(document["worth"]))
    return [*out, _layouts(document)] if document["best_layouts"] else out


def _run(document: Mapping[str, Any]) -> Table:
    rows: list[Sequence[str | Cell]] = [
        [label, quantity_cell(document[plain], unit), quantity_cell(document[effective], unit)]
        for label, plain, effective, unit in _RUN
    ]
    rows.append(["energy at the meter", "", quantity_cell(document["energy_j"], "J")])
    title = f"The run of {format_si(point(document['tokens']))} tokens"
    return Table(title, ("", "without failures #", "with failures #"), rows, "effective_gpu_hours")


def _utilization(document: Mapping[str, Any]) -> Table:
    rows = [
        ("MFU, of the dense bf16 peak", document["mfu_fraction"], "fraction"),
        ("HFU", document["hfu_fraction"], "fraction"),
        ("utilisation", document["utilization_fraction"], "fraction"),
    ]
    found = quantity_table("How much of the hardware is used", rows, "mfu_fraction")
    note = f"{MFU_WORDS}; HFU counts recomputation too; {UTILIZATION_WORDS}"
    return replace(found, note=note, is_detail=True)


def _stages(stages: Sequence[Mapping[str, Any]]) -> Table:
    rows: list[Sequence[str | Cell]] = [
        [one["stage"] or "the rest", format_si(one["end_tokens"] - one["start_tokens"]),
         format_si(one["sequence_tokens"]), format_si(one["global_batch_tokens"]), one["layout"],
         quantity_cell(one["step_s"], "s"), percent(one["mfu_fraction"]),
         quantity_cell(one["days"], "days"), "" if one["fits"] else "no"]
        for one in stages
    ]  # fmt: skip
    columns = ("stage", "tokens #", "sequence #", "batch #", "layout", "step #", "MFU #", "days #", "fits")
    note = "days without failures; the run's GPU-hours, cost and days are those of all stages"
    return Table("The run in stages", columns, rows, "days", note)


def _worth(worth: Mapping[str, Any]) -> Table:
    """What the tokens are worth, reason by reason."""
    rows: list[Sequence[str | Cell]] = [
        [one["name"], quantity_cell(one["worth_fraction"], "fraction"), _loss(one["loss"]), one["why"], one["source"]]
        for one in worth["parts"]
    ]
    title = f"What the tokens are worth: {figure_words(worth['tokens'], 'tokens')} of a small batch, each seen once"
    note = "loss in nats per token by besiroglu_2024; the GPU-hours above are those of the tokens that were asked for"
    columns = ("reason", "worth #", "loss #", "how it is known", "source")
    return Table(title, columns, rows, "effective_gpu_hours", note, is_detail=True)


def _loss(loss: Any) -> str:
    return f"{point(loss):+.3g}".replace("-", "\u2212")


def _stage_memory(document: Mapping[str, Any]) -> Table:
    """Memory of each stage through a step: of many stages the first ones and the last ones."""
    stages = document["memory_stages"]
    shown = stages if len(stages) <= _STAGES else [*stages[: _STAGES // 2], *stages[-(_STAGES // 2) :]]
    phases = ("loaded", "first_forward", "forwards", "backward", "update", "peak")
    rows = [
        [str(one["stage"]), f"{one['layers']:.3g}", f"{one['alive']:.3g}",
         *(words(one[f"{name}_bytes"], "B") for name in phases)]
        for one in shown
    ]  # fmt: skip
    left = len(stages) - len(shown)
    note = (
        "alive: microbatches kept at most; forwards: when the first backward pass begins; peak: more than any phase "
        "where an update takes new memory" + (f"; {left} stages in between are left out" if left else "")
    )
    columns = ("stage", "layers #", "alive #", "loaded #", "one forward #", "forwards #", "backward #", "update #",
               "peak #")  # fmt: skip
    return Table("Memory of each stage through a step", columns, rows, "memory_bytes", note, is_detail=True)


def _remedies(document: Mapping[str, Any]) -> Table:
    held = document["memory_bytes"]
    largest = max((name for name in held if name not in ("total", "usable", "capacity")), key=held.__getitem__)
    rows = [
        [one["change"], one.get("layout", ""), words(one["step_s"], "s") if "layout" in one else ""]
        for one in document["remedies"]
    ]
    return Table(f"What fits instead ({largest} take the most)", ("change", "layout", "step #"), rows, "memory_bytes")


def _levers(document: Mapping[str, Any]) -> Table:
    rows = []
    for one in document["levers"]:
        freed = format_si(abs(one["freed_bytes"]), "B")
        is_now = one is document["levers"][0]
        change = "" if is_now or freed == "0 B" else f"{'−' if one['freed_bytes'] > 0 else '+'}{freed}"
        slower = "" if is_now else f"{round(100 * (one['step_ratio'] - 1), 1) + 0.0:+.1f} %".replace("-", "\u2212")
        away = words(one["host_bytes"], "B") if one["host_bytes"] else ""
        rows.append([one["lever"], one["value"], words(one["memory_bytes"], "B"), change, away, slower,
                     "" if one["fits"] else "no"])  # fmt: skip
    usable = words(document["memory_bytes"]["usable"], "B")
    note = f"{usable} per GPU are usable; each row changes one thing"
    columns = ("lever", "to", "memory #", "change #", "host #", "step #", "fits")
    return Table(
        "What each lever of memory frees, and its price", columns, rows, "memory_bytes", note, drops=("change",)
    )


def _layouts(document: Mapping[str, Any]) -> Table:
    rows: list[Sequence[str | Cell]] = []
    for one in document["best_layouts"]:
        named = one["recompute"].split(",")
        recompute = one["recompute"] if len(named) == 1 else f"{len(named)} named"
        figures = (words(one["step_s"], "s"), percent(one["mfu_fraction"]), words(one["memory_bytes"], "B"))
        noise = "≈" if one["level"] else ""
        rows.append([one["layout"], str(one["microbatch_sequences"]), recompute, _schedule(one), *figures,
                     _slower(one["step_ratio"]), noise])  # fmt: skip
    tried = f"{document['n_configurations']:,} configurations, {document['n_fitting']:,} fit"
    columns = ("layout", "mb #", "recompute", "schedule", "step #", "MFU #", "memory #", "slower", "noise")
    note = (
        f"≈ within noise: indistinguishable from the fastest, as far as the model knows ({document['n_level']:,} of "
        f"{document['n_fitting']:,} are); choose among them by memory and simplicity. mb: sequences of a microbatch."
    )
    return Table(f"Best legal layouts of {tried} (medians; slower than the first)", columns, rows, "step_s", note,
                 drops=("MFU", "memory"), is_detail=True)  # fmt: skip


def _schedule(one: Mapping[str, Any]) -> str:
    pieces = f" x{one['virtual_stages']:.0f}" if one["virtual_stages"] > 1 else ""
    return f"{one['schedule']}{pieces}{', sharded' if one['sharded_weights'] else ''}"


def _slower(ratio: Any) -> str | Cell:
    if not isinstance(ratio, Mapping):
        return "–" if ratio == 1 else f"{100 * (ratio - 1):.1f} %"
    low, high = (f"{100 * (ratio[key] - 1):.1f}".replace("-", "\u2212") for key in ("p05", "p95"))
    return Cell(f"{100 * (ratio['p50'] - 1):.1f} %".replace("-", "\u2212"), below=f"{low} – {high} %")


def _scaling(document: Mapping[str, Any]) -> list[Table]:
    titles = {
        "strong": "Strong scaling: the same batch (medians, with failures)",
        "weak": "Weak scaling: the batch grows with the GPUs (medians, with failures)",
    }
    columns = ("GPUs #", "batch #", "layout", "MFU #", "of best #", "goodput #", "days #", "GPU-hours #", "worth #", "")
    note = "worth: of these tokens against those of a small batch, by the median growth of the critical batch"
    return [
        Table(titles[name], columns, _scaled(rows), "effective_gpu_hours", note, drops=("worth", "goodput", "batch"))
        for name, rows in document.get("scaling", {}).items()
    ]


def _scaled(rows: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    most = max((one.get("tokens_per_s_per_gpu", 0.0) for one in rows), default=0.0)
    out = []
    for one in rows:
        head = [f"{one['n_gpus']}", format_si(one["global_batch_tokens"])]
        if "problem" in one:
            out.append([*head, _short(one["problem"]), *[""] * 7])
            continue
        shares = (one["mfu_fraction"], one["tokens_per_s_per_gpu"] / most, one["goodput_fraction"])
        times = (format_si(one[f"effective_{key}"]) for key in ("days", "gpu_hours"))
        beyond = "beyond the critical batch" if one["beyond_critical_batch"] else ""
        out.append([*head, one["layout"], *map(format_percent, shares), *times, format_percent(one["worth_fraction"]),
                    beyond])  # fmt: skip
    return out


def _short(problem: str) -> str:
    return problem.split(": ", 1)[-1]


def _growing(grown: Mapping[str, Any]) -> Table:
    here, larger = grown["n_scale_up"], grown["n_scale_up_larger"]
    rows = []
    for one in grown["phases"]:
        cells = []
        for where in ("here", "larger"):
            row = one[where]
            has_layout = "problem" not in row
            cells += [row["layout"] if has_layout else _short(row["problem"]),
                      format_percent(row["mfu_fraction"]) if has_layout else "",
                      format_si(row["effective_days"]) if has_layout else ""]  # fmt: skip
        rows.append([format_si(one["start_tokens"]), format_si(one["batch_tokens"]), *cells])
    columns = ("from token #", "batch #", f"layout ({here})", "MFU #", "days #", f"layout ({larger})", "MFU #",
               "days #")  # fmt: skip
    days = grown["effective_days"]
    note = ""
    if None not in days.values():
        saved = format_percent(1 - days["larger"] / days["here"])
        note = (
            f"{format_si(days['here'])} days in all, {format_si(days['larger'])} on the larger domain ({saved} less); "
            f"the critical batch is measured to {format_si(grown['measured_batch_tokens'])} tokens"
        )
    title = (
        f"A batch that grows with the critical batch ({', '.join(grown['sources'])}), scale-up domains of {here} and "
        f"{larger} GPUs"
    )
    return Table(title, columns, rows, "effective_days", note, drops=("MFU",))


def _blocks(document: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    if "launch" not in document:
        return ()
    return ((f"Launch with {document['launch']['framework']}", document["launch"]["text"]),)


def _chosen(document: Mapping[str, Any]) -> dict[str, str]:
    """What was taken for boxes that were left empty."""
    return {**rent_taken(document["price"]), "layout": document["layout"], "recompute": document["recompute"]}
