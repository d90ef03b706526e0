"""The views of simulated serving and of a simulated RL run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from computeledger.interfaces.plots import simulate as plots
from computeledger.interfaces.view import Cell, Plot, Table, Tile, View, share_cell
from computeledger.interfaces.views.grounds import assumed_words, price_said
from computeledger.interfaces.views.images import images_facts
from computeledger.interfaces.views.promise import PLACES, host_caches
from computeledger.questions.answer import Answer
from computeledger.questions.wording import FAR_MORE, anchor_words, headline_words, percent, short_model, words
from computeledger.units import MINUTE_S, format_count, format_times

#: Times of a simulation as readers know them.
TIMES = {"ttft_s": "time to first token", "tpot_s": "time per output token", "itl_s": "gap between tokens",
         "end_to_end_s": "end to end"}  # fmt: skip
#: Errors of tables below this are not worth a number.
_LEAST_ERROR = 1e-4
_SATURATED = {
    "serve": "Overloaded: the trace arrives faster than this fleet serves it; times are those of this trace, and a "
    "longer one waits longer.",
    "rl": "Saturated: the verifiers work all the time; more of them would shorten the steps.",
}


def _systems(document: Mapping[str, Any]) -> str:
    """What the fleet runs on, and its prefill replicas where that is something else."""
    apart = f" (prompts on {document['prefill']['system']})" if "prefill" in document else ""
    return f"{document['system']}{apart}"


def view(answer: Answer, working: bool) -> View:
    """Of either simulation; neither has a working."""
    document = answer.to_dict(working=working)
    return (_serving if document["kind"] == "serve" else _rl)(document)


def _serving(document: Mapping[str, Any]) -> View:
    load = document["load"]
    each = list(zip(document["replicas"], document["layouts"], strict=True))
    layouts = f"{each[0][0]:,} x {each[0][1]}"
    if len(each) > 1:
        kinds = zip(("prefill worker", "decode worker"), each, strict=True)
        layouts = ", ".join(f"{format_count(n, kind)} of {layout}" for kind, (n, layout) in kinds)
    arriving = "all at once" if load["requests_per_s"] is None else f"{load['requests_per_s']:.3g} requests/s"
    lengths = " and ".join(f"{words(load[f'mean_{name}_tokens'], '')} {name}" for name in ("input", "output"))
    kind = "from beginning to end" if document["steady"] is None else "steady state"
    return View(
        title=f"{document['model']} on {_systems(document)}, {layouts} ({format_count(document['n_gpus'], 'GPU')})",
        asked=(
            f"{arriving}, {lengths} tokens each on average",
            f"routing by {document['routing']}",
            f"{kind}, {format_count(load['requests'], 'request')} measured",
        ),
        headline=_serving_headline(document),
        warnings=_overload_words(document),
        notes=((anchor_words(document["anchor"]),) if "anchor" in document else ())
        + tuple(document.get("remarks", ())),
        tiles=_serving_tiles(document),
        tile_heading="",
        facts=tuple(_serving_facts(document)),
        plots=_serving_plots(document),
        tables=(_percentiles(document), *_classes(document), _phases(document), *_loads(document)),
        grounds=(f"GPU-hour: {price_said(document['price'])}", *_grounds(document)),
        overline="simulate serve",
    )


def _serving_headline(document: Mapping[str, Any]) -> str:
    """What the fleet completes, and when the median request gets its tokens; one simulation has no interval."""
    subject = f"{short_model(document['model'])} on {_systems(document)}, {format_count(document['n_gpus'], 'GPU')}"
    rate = f"{document['throughput']['requests_per_s']:.3g} requests/s completed"
    times = document["percentiles"]
    each = words(times["tpot_s"]["p50"], "s")
    if document["overload"] is not None:
        arrive = f"of the {document['load']['requests_per_s']:.3g} that arrive, a token every {each}"
        return headline_words(subject, f"{rate} {arrive}")
    first = words(times["ttft_s"]["p50"], "s")
    rest = f", then one every {each}" if times["tpot_s"]["p50"] > 0 else ", which is its last"
    return headline_words(subject, f"{rate}, first token of the median request after {first}{rest}")


def _overload_words(document: Mapping[str, Any]) -> tuple[str, ...]:
    """What becomes of a load that the fleet does not carry, and how many replicas would."""
    one = document["overload"]
    if one is None:
        return (_SATURATED["serve"],) if document["saturated"] else ()
    grows = f"the queue grows by {words(one['queue_grows_requests_per_s'], 'requests/s')}"
    waits = f"each minute of this load adds {words(MINUTE_S * one['ttft_grows_s_per_s'], 's')}"
    n = one["replicas_that_carry_it"]
    more = f" {format_count(n, 'replica')} would carry it." if n is not None else ""
    of = f"What is said of steps and GPU-time is of a run at {words(one['simulated_requests_per_s'], 'requests/s')}."
    said = f"Overloaded: {grows} and {waits} to the wait for a first token, which has no percentile."
    return (f"{said} {of}{more}",)


def _time(value: float | None) -> str:
    """A time, or that it grows without end."""
    return "no end" if value is None else words(value, "s")


def _serving_tiles(document: Mapping[str, Any]) -> tuple[Tile, ...]:
    times, throughput = document["percentiles"], document["throughput"]
    goal = [
        f"{name} {words(document['slo'][key], 's')}"
        for key, name in (("ttft_s", "TTFT"), ("tpot_s", "TPOT"), ("e2e_s", "whole request"))
        if document["slo"][key] is not None
    ]
    label = f"Goodput within {' and '.join(goal)}" if goal else "Requests completed"
    good = document["goodput_requests_per_s"]
    return (
        *(
            Tile(f"{label}, p50", _time(times[name]["p50"]), f"p99 {_time(times[name]['p99'])}",
                 times[name]["p50"])
            for name, label in (("ttft_s", "Time to first token"), ("tpot_s", "Time per output token"))
        ),
        Tile(label, words(good, "requests/s"), f"{percent(document['good_fraction'])} of them" if goal else "", good),
        Tile("Output", words(document["usd_per_mtok_output"], "USD/Mtok"),
             f"input included; {words(document['usd'], 'USD')} in all", document["usd_per_mtok_output"]),
        Tile("Output per GPU", words(throughput["output_tokens_per_s_per_gpu"], "tokens/s"),
             f"utilisation {percent(document['utilization_fraction'])}", throughput["output_tokens_per_s_per_gpu"]),
    )  # fmt: skip


def _serving_facts(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    out = []
    capacity, steady, best = document["capacity"], document["steady"], document["most_load"]
    if capacity["p50"] is not None and capacity["load_fraction"] is not None:
        share = percent(capacity["load_fraction"])
        label = "Largest stable load" if steady is not None else "Largest stable load, all replicas up"
        out.append((label, f"{capacity['p50']:.3g} requests/s; this load is {share} of it"))
    if best is not None:
        goal = any(document["slo"][key] is not None for key in ("ttft_s", "tpot_s", "e2e_s"))
        label = "Largest load within the objective" if goal else "Largest stable load found, to one percent"
        if steady is None and not goal:
            label = "Largest load of this run before its queue grows"
        good = f"; {percent(best['good_fraction'])} are good" if goal else ""
        out.append((label, f"{best['requests_per_s']:.3g} requests/s, {format_times(best['ratio'])} this one{good}"))
    if steady is not None and not document["saturated"]:
        time = steady["end_to_end_s"]
        spread = f"{words(time['p05'], 's')} to {words(time['p95'], 's')} (90 % interval of the simulation)"
        out.append(("Mean end to end", spread if steady["converged"] else f"NOT CONVERGED: {spread}"))
    out += [*_caches(document), *host_caches(document), *images_facts(document)]
    out.append(("Preempted for lack of KV memory", format_count(document["preemptions"], "sequence")))
    if document["rejected"]:
        out.append(("Turned away where the queue was full", format_count(document["rejected"], "request")))
    return out + _failures(document)


def _classes(document: Mapping[str, Any]) -> tuple[Table, ...]:
    """How each class of requests fares."""
    rows = [
        (
            one["name"], percent(one["share_fraction"]),
            *(_time(None if one[name] is None else one[name][key])
              for name, key in (("ttft_s", "p50"), ("ttft_s", "p95"), ("tpot_s", "p95"))),
            "–" if one["good_fraction"] is None else percent(one["good_fraction"]),
            str(one["rejected"]),
        )
        for one in document["classes"]
    ]  # fmt: skip
    columns = ("class", "share", "TTFT p50", "TTFT p95", "TPOT p95", "good", "turned away")
    return (Table("By priority", columns, tuple(rows)),) if rows else ()


def _caches(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    """How much of the prompts was cached, where, and what the closed form says of it."""
    cache, talks = document["cache"], document["conversations"]
    parts = [f"{percent(share)} in {PLACES[name]}" for name, share in cache["hit_fraction"].items()]
    where = f": {', '.join(parts)}" if len(parts) > 1 else ""
    out = [("Prompt tokens found in the prefix cache", percent(document["cached_fraction"]) + where)]
    if talks is None:
        return out
    expected = percent(sum(talks["expected_hit_fraction"].values()))
    stays = [f"{words(value, 's')} in {PLACES[name]}" for name, value in talks["hold_s"].items() if value is not None]
    out.append(("The same by the closed form", f"{expected}; an idle cache stays {', '.join(stays) or 'for good'}"))
    if document["routing"] == "prefix" and document["replicas"] > 1:
        out.append(
            ("Not in the closed form", f"a turn leaves the replica that has its cache where that carries {FAR_MORE}")
        )
    evicted = [f"{words(float(n), '')} in {PLACES[name]}" for name, n in cache["evicted_tokens"].items() if n]
    out.append(("Tokens prefilled", words(float(cache["prefilled_tokens"]), "")))
    out.append(("Tokens evicted", ", ".join(evicted) or "none"))
    begun = f"{talks['per_s']:.3g} begin a second, {talks['turns']:.3g} turns each: the turns are the requests"
    return [("Conversations", begun), *out]


def _failures(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [("Failures of replicas", str(document["failures"]))] if document["failures"] else []


def _loads(document: Mapping[str, Any]) -> tuple[Table, ...]:
    if not document["sweep"]:
        return ()
    rows = [
        (
            *(f"{one[f'{name}requests_per_s']:.3g}" for name in ("", "throughput_", "goodput_")),
            percent(one["good_fraction"]), _time(one["ttft_p90_s"]), _time(one["tpot_p90_s"]),
            "saturated" if one["saturated"] else "",
        )
        for one in document["sweep"]
    ]  # fmt: skip
    columns = ("requests/s", "completed/s #", "goodput #", "good #", "TTFT p90 #", "TPOT p90 #", "")
    return (Table("Other loads", columns, rows),)


def _serving_plots(document: Mapping[str, Any]) -> tuple[Plot, ...]:
    load = (
        Plot("load", "Goodput against load", "Good requests per second over those that arrive; a cross is a load at "
             "which the queue grows without end.", plots.load_figure(document)),
    ) if document["sweep"] else ()  # fmt: skip
    return (
        Plot("timeline", "In flight", "Requests that are queued, prefilling and decoding.",
             plots.timeline_figure(document)),
        Plot("latency", "Latency", "Share of requests that take at most this long.", plots.latency_figure(document)),
        *load,
        _phases_plot(document),
    )  # fmt: skip


def _phases_plot(document: Mapping[str, Any]) -> Plot:
    caption = "All phases together are the number of GPUs times wall time."
    return Plot("phases", "Where GPU-time goes", caption, plots.phases_figure(document))


def _percentiles(document: Mapping[str, Any]) -> Table:
    rows = [
        (label, *(_time(document["percentiles"][name][key]) for key in ("p50", "p90", "p99")))
        for name, label in TIMES.items()
    ]
    what = "requests" if document["kind"] == "serve" else "rollouts"
    return Table(f"Times of {what}", ("", "p50 #", "p90 #", "p99 #"), rows)


def _phases(document: Mapping[str, Any]) -> Table:
    rows = [
        (name, words(part["gpu_hours"], ""), share_cell(part["fraction"], percent(part["fraction"])))
        for name, part in document["phases"].items()
        if part["gpu_hours"]
    ]
    return Table("GPU-time by phase", ("phase", "GPU-hours #", "share"), rows)


def _rl(document: Mapping[str, Any]) -> View:
    generation, training = document["generation"], document["training"]
    steady, mean = words(document["steady_step_s"], "s"), words(document["step_s"], "s")
    rest = "" if steady == mean else f", {steady} once the pipeline is full"
    where = (
        f"generation and training in turns on {format_count(training['n_gpus'], 'GPU')}"
        if document["colocated"]
        else f"generation on {format_count(generation['n_gpus'], 'GPU')}, training on {training['n_gpus']:,g}"
    )
    return View(
        title=f"RL of {document['model']}, {format_count(document['n_steps'], 'step')}",
        asked=(
            where,
            f"{generation['replicas']:,} x {generation['layout']} to generate",
            f"{document['rollouts_per_step']:,} rollouts per step, policy lag at most {document['max_lag']}",
        ),
        headline=headline_words(
            f"RL of {short_model(document['model'])}, {where}",
            f"{mean} a step on average{rest}, GPUs busy {percent(document['busy_fraction'])} of the time",
        ),
        warnings=(_SATURATED["rl"],) if document["saturated"] else (),
        tiles=_rl_tiles(document),
        tile_heading="",
        facts=tuple(_rl_facts(document)),
        plots=_rl_plots(document),
        tables=(_percentiles(document), _phases(document), *_lags(document)),
        grounds=tuple(_grounds(document)),
        overline="simulate rl",
    )


def _rl_tiles(document: Mapping[str, Any]) -> tuple[Tile, ...]:
    stale, verifiers, busy = document["staleness_steps"], document["verifiers"], document["busy_fraction"]
    full = f"{words(document['steady_step_s'], 's')} once the pipeline is full"
    return (
        Tile("Step", words(document["step_s"], "s"), full, document["step_s"]),
        Tile("GPUs at work", percent(busy), f"utilisation {percent(document['utilization_fraction'])}", busy),
        Tile("Staleness", f"{stale['mean']:.3g} steps", f"{stale['max']} at most", stale["mean"]),
        Tile("Verifiers busy", percent(verifiers["busy_fraction"]), f"{verifiers['n']:,} of them",
             verifiers["busy_fraction"]),
        Tile("Cost of a step", words(document["usd_per_step"], "USD"), "on average", document["usd_per_step"]),
    )  # fmt: skip


def _rl_facts(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    weights = document["weights"]
    rate = words(weights["bytes_per_s_to_arrive_within_a_step"], "B/s")
    kinds = ", ".join(f"{name} {words(value, '')}" for name, value in document["tokens"].items() if value)
    return [
        ("Tokens", kinds),
        ("Weights", f"{words(weights['bytes'], 'B')}; to reach another site within a step they need {rate}"),
        *_judge(document),
        *_failures(document),
    ]


def _judge(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    """How busy a judge was, where one judges."""
    if "judge" not in document:
        return []
    one = document["judge"]
    place = "in turn on the generators'" if one["in_turn"] else "on its own"
    busy = percent(one["busy_fraction"])
    return [("Judge", f"{place} {format_count(one['n_gpus'], 'GPU')}, verdicts in flight {busy} of the time")]


def _rl_plots(document: Mapping[str, Any]) -> tuple[Plot, ...]:
    return (
        _phases_plot(document),
        Plot("gantt", "Steps", "Each batch from the release of its rollouts to the end of its training.",
             plots.gantt_figure(document)),
        Plot("timeline", "Rollouts", "Rollouts that are queued, are generated, wait for a verdict, wait for training.",
             plots.timeline_figure(document)),
        Plot("staleness", "Staleness", "Versions of the weights between the start of a rollout and its training.",
             plots.staleness_figure(document)),
    )  # fmt: skip


def _lags(document: Mapping[str, Any]) -> tuple[Table, ...]:
    if not document["lags"]:
        return ()
    rows: list[list[str | Cell]] = []
    for one in document["lags"]:
        idle = sum(part["fraction"] for name, part in one["phases"].items() if "waiting" in name)
        waiting = share_cell(idle, percent(idle))
        rows.append([str(one["max_lag"]), words(one["step_s"], "s"), f"{one['mean_staleness']:.3g}", waiting])
    columns = ("largest lag", "step #", "mean staleness #", "GPU-time spent waiting")
    return (Table("Other policy lags, on the same GPUs and with the same seed", columns, rows),)


def _grounds(document: Mapping[str, Any]) -> list[str]:
    """What was assumed, and the seed."""
    assumptions = dict(document["assumptions"])
    silent, error = assumptions.pop("silent", ()), assumptions.pop("step_time_fit_error_fraction")
    efficiency = assumptions.pop("efficiency")
    out = [f"assumed because the plan is silent: {'; '.join(silent)}"] if silent else []
    agree = f"depart from the model by {percent(error)}" if error >= _LEAST_ERROR else "agree with the model"
    return [
        *out,
        *assumed_words({"assumptions": assumptions}),
        f"efficiency: {efficiency}; step times come from tables, which {agree}",
        f"seed {document['seed']}",
    ]
