"""From parsed options to a simulation's document: the call that the command line and the web share. No formula here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from computeledger.economics.plan import load_plan
from computeledger.economics.rl_clock import PlannedRun, planned_run, with_lag
from computeledger.errors import InputError
from computeledger.facts.architecture import Model
from computeledger.facts.load import load_model, load_system
from computeledger.physics.efficiency import efficiency, middle
from computeledger.physics.parallelism import Layout, check_layout, parse_layout
from computeledger.physics.roofline import Machine
from computeledger.questions.answers.setup import precision_of, price_of
from computeledger.questions.documents.simulate import rl_document, serving_document, steady_document
from computeledger.questions.executors import open_executor
from computeledger.simulation.arrivals import Arrivals, DrawnLoad, parse_arrivals, parse_curve
from computeledger.simulation.measures import Slo
from computeledger.simulation.rl import RLClockResult, simulate_rl
from computeledger.simulation.search import Load, LoadPoint, is_too_much, most_carried, most_load, sweep_loads
from computeledger.simulation.serving import Autoscale, ServingClock, ServingClockResult, simulate_serving
from computeledger.simulation.steady import LEAST_REQUESTS, MOST_REQUESTS, Estimate, Steady, steady_serving
from computeledger.simulation.step_times import Engine, TimedPool, handover_s_per_token, timed_pool
from computeledger.simulation.traces import Trace, read_trace
from computeledger.workloads.serving import ServingScenario
from computeledger.workloads.serving_search import SLOWEST_TPOT_S, layouts_that_fit, search_serving

#: Requests of a drawn load that does not last (scaling, failures, a day's curve), where nobody says how many; requests
#: that tell the lengths of one that does; most of a report's own sweep.
DEFAULT_REQUESTS, SAMPLE_REQUESTS, SWEEP_REQUESTS = 2000, 20_000, 20_000
#: Loads of a report's sweep, and share of requests that may be cut to fit the context.
SWEEP_POINTS, CUT_FRACTION = 7, 0.1

Records = Mapping[str, Any]


def _workers(options: Mapping[str, Any]) -> int:
    if options["workers"] > 1 and options["cluster"] is not None:
        raise InputError("--workers and --cluster contradict each other: give one of them")
    return int(options["workers"])


def answer_simulate_serve(options: Mapping[str, Any]) -> tuple[dict[str, Any], Records]:
    """Answer ``computeledger simulate serve``: the document, and every request as columns."""
    _check_seed(options["seed"])
    model, system = load_model(options["model"]), load_system(options["system"])
    machine = Machine(system, efficiency(options["backend"]))
    load, sample = _load(model, options)
    price, price_ground = price_of(system, options["price"])
    fleet, timed, layouts = _fleet(model, machine, sample, options)
    slo = _slo(options)
    known = (options["seed"], most_carried(fleet, load, options["seed"]))
    with open_executor(_workers(options), options["cluster"]) as pool:
        best, points = _loads((fleet, load, slo, known), options, pool)
    result, steady, is_saturated = _simulated(fleet, load, known, options)
    document = serving_document(result, model, slo, (machine.bf16_flop_per_s, middle(price)), steady)
    document["load"]["requests_per_s"] = load.requests_per_s if np.isfinite(load.requests_per_s) else None
    document |= steady_document(load.requests_per_s, known[1], steady)
    document |= {
        "saturated": is_saturated,
        "system": system.id, "layouts": layouts, "routing": options["routing"], "price": price_ground,
        "seed": options["seed"], "most_load": _point(best), "sweep": [_point(one) for one in points],
        "assumptions": {
            "step_time_fit_error_fraction": max(one.fit_error_fraction for one in timed),
            "kv_tokens_per_replica": timed[-1].pool.limits.kv_tokens,
            "largest_batch": timed[-1].pool.limits.live,
            "chunk_tokens": options["chunk_tokens"],
            "host_s": fleet.host_s,
            "efficiency": f"medians of the factors of {options['backend']}",
        },
    }  # fmt: skip
    return document, result.records()


def _simulated(
    fleet: ServingClock, load: Load, known: tuple[int, Estimate], options: Mapping[str, Any]
) -> tuple[ServingClockResult, Steady | None, bool]:
    """The load itself: in steady state where it lasts, from beginning to end where it is a trace."""
    seed, carried = known
    if isinstance(load, Trace):
        result = simulate_serving(fleet, load, seed)
        return result, None, is_too_much(result, carried)
    least = options["requests"] or LEAST_REQUESTS
    steady = steady_serving(fleet, load, load.requests_per_s, seed, carried, (least, max(least, MOST_REQUESTS)))
    return steady.result, steady, steady.is_saturated


def _check_seed(seed: int) -> None:
    """Refuse a seed that no stream takes."""
    if seed < 0:
        raise InputError(f"--seed {seed}: a seed must not be negative")


def _slo(options: Mapping[str, Any]) -> Slo:
    """The objective, as far as it is given."""
    ttft_s, tpot_s = (middle(options[name]) if options[name] is not None else np.inf for name in ("ttft", "tpot"))
    if not 0 < options["good"] <= 1:
        raise InputError(f"--good {options['good']:g}: a share in 0..1, such as 0.9")
    return Slo(ttft_s, tpot_s, options["good"])


def _point(point: LoadPoint | None) -> dict[str, Any] | None:
    """A simulated load."""
    if point is None:
        return None
    return {name: getattr(point, name) for name in LoadPoint.__dataclass_fields__} | {"saturated": point.is_saturated}


def _loads(
    asked: tuple[ServingClock, Load, Slo, tuple[int, Estimate]], options: Mapping[str, Any], pool: Any
) -> tuple[LoadPoint | None, list[LoadPoint]]:
    """The search for the most load, and the sweep, where they are asked for."""
    if options["sweep"] is not None and options["sweep"] < 2:
        raise InputError(f"--sweep {options['sweep']}: at least 2 loads are needed")
    fleet, load, slo, known = asked
    best, points = most_load(fleet, load, slo, pool, known) if options["find_load"] else (None, [])
    wanted = options["sweep"]
    n_requests = len(load.arrival_s) if isinstance(load, Trace) else options["requests"] or LEAST_REQUESTS
    is_small = n_requests <= SWEEP_REQUESTS and load.requests_per_s < np.inf
    if wanted is None and options["html_file"] is not None and not points and is_small:
        wanted = SWEEP_POINTS
    if wanted is not None:
        points = sorted(
            [*points, *sweep_loads(fleet, load, slo, np.geomspace(0.25, 2.0, wanted), pool, known)],
            key=lambda one: one.requests_per_s,
        )
    return best, points


def _load(model: Model, options: Mapping[str, Any]) -> tuple[Load, Trace]:
    """The requests, and those that tell their lengths: a trace is itself, a drawn load lasts where nothing changes."""
    if (options["trace"] is None) == (options["arrivals"] is None):
        raise InputError("give --trace FILE or --arrivals poisson:RATE, one of them")
    if options["requests"] is not None and options["requests"] < 1:
        raise InputError(f"--requests {options['requests']}: at least 1 is needed")
    if not options["pace"] > 0:
        raise InputError(f"--pace {options['pace']:g}: must be greater than 0")
    if options["trace"] is not None:
        if options["load_curve"] is not None:
            raise InputError("--load-curve shapes --arrivals; a trace has its own")
        trace = read_trace(options["trace"])
        trace = trace if options["requests"] is None else trace.first(options["requests"])
        load: Load = trace.faster(options["pace"])
    else:
        drawn = _drawn(model, parse_arrivals(options["arrivals"]), options)
        lasts = not any(options[name] is not None for name in _CHANGES)
        trace = drawn(SAMPLE_REQUESTS if lasts else options["requests"] or DEFAULT_REQUESTS, drawn.requests_per_s)
        load = drawn if lasts else trace
    total = trace.input_tokens + trace.output_tokens
    longest = int(np.argmax(total))
    if model.max_context_tokens and total[longest] > model.max_context_tokens:
        raise InputError(
            f"request {longest + 1}: {total[longest]} tokens exceed the context of {model.id}: "
            f"{model.max_context_tokens}"
        )
    return load, trace


#: What makes a drawn load a trace of its own, with a beginning and an end.
_CHANGES = ("load_curve", "autoscale", "failures")


def _drawn(model: Model, arrivals: Arrivals, options: Mapping[str, Any]) -> DrawnLoad:
    """A drawn load; few of its requests may be cut to fit the model's context."""
    curve = parse_curve(options["load_curve"]) if options["load_curve"] is not None else ()
    arrivals = replace(arrivals, curve=curve, requests_per_s=arrivals.requests_per_s * options["pace"])
    lengths = (options["input_tokens"], options["output_tokens"])
    context = model.max_context_tokens
    load = DrawnLoad(arrivals, lengths, options["seed"])
    if not context or not any(":" in text for text in lengths):
        return load
    trace = load(options["requests"] or DEFAULT_REQUESTS, arrivals.requests_per_s)
    beyond = float(np.mean(trace.input_tokens + trace.output_tokens > context))
    if beyond > CUT_FRACTION:
        raise InputError(f"{beyond:.0%} of the requests exceed the context of {model.id}: {context} tokens")
    return replace(load, longest_tokens=int(context))


def _fleet(
    model: Model, machine: Machine, trace: Trace, options: Mapping[str, Any]
) -> tuple[ServingClock, list[TimedPool], list[str]]:
    """Replicas, and what may change their number."""
    question = ServingScenario(
        model, Layout(), precision_of(model, options["precision"], options["kv_precision"]),
        float(np.mean(trace.input_tokens)), float(np.mean(trace.output_tokens)), 1.0,
    )  # fmt: skip
    for name in ("max_batch", "prefill_replicas", "autoscale"):
        if options[name] is not None and options[name] < 1:
            raise InputError(f"--{name.replace('_', '-')} {options[name]}: at least 1 is needed")
    layout = _layout(question, machine, options)
    sizes = [(options["replicas"], layout)]
    if options["prefill_replicas"] is not None:
        first = check_layout(parse_layout(options["prefill_layout"]), model) if options["prefill_layout"] else layout
        sizes.insert(0, (options["prefill_replicas"], first))
    elif options["prefill_layout"] is not None:
        raise InputError("--prefill-layout needs --prefill-replicas")
    total = trace.input_tokens + trace.output_tokens
    near = max(float(np.quantile(trace.input_tokens, 0.05)), 1.0)
    contexts = (near, max(float(total.max()), near + 2.0))
    timed = [
        timed_pool(
            replace(question, layout=one), machine, Engine(n, options["chunk_tokens"], options["max_batch"], contexts)
        )
        for n, one in sizes
    ]
    scale = None
    if options["autoscale"] is not None:
        if options["target_requests"] <= 0:
            raise InputError(f"--target-requests {options['target_requests']:g}: must be greater than 0")
        ticks = (middle(options["tick"]), middle(options["start"]))
        if ticks[0] <= 0:
            raise InputError("--tick must be greater than 0")
        scale = Autoscale(options["autoscale"], options["target_requests"], *ticks)
    failure_s = np.inf if options["failures"] is None else middle(options["failures"])
    if failure_s <= 0:
        raise InputError("--failures must be greater than 0")
    rate = None if options["transfer"] is None else middle(options["transfer"])
    fleet = ServingClock(
        tuple(one.pool for one in timed), tuple(one.n_gpus_per_replica for one in timed), options["routing"],
        timed[0].host_s + (0.0 if options["prefill_replicas"] is None else float(machine.efficiency.transfer_s)),
        handover_s_per_token=handover_s_per_token(replace(question, layout=sizes[0][1]), machine, rate),
        uses_prefixes=not options["no_prefix_cache"], autoscale=scale,
        failure_s=failure_s, repair_s=middle(options["repair"]),
    )  # fmt: skip
    return fleet, timed, [str(one) for _, one in sizes]


def _layout(question: ServingScenario, machine: Machine, options: Mapping[str, Any]) -> Layout:
    """The layout that was given, or the cheapest that is fast enough in steady state."""
    if options["layout"] is not None:
        return check_layout(parse_layout(options["layout"]), question.model)
    limit = SLOWEST_TPOT_S if options["tpot"] is None else middle(options["tpot"])
    found = search_serving(question, layouts_that_fit(question, machine), machine)
    fast = [one for one in found if one.tpot_s <= limit]
    if not fast:
        return min(found, key=lambda one: one.tpot_s).layout
    return max(fast, key=lambda one: one.output_tokens_per_s_per_gpu).layout


def answer_simulate_rl(plan_file: str, options: Mapping[str, Any]) -> tuple[dict[str, Any], Records]:
    """Answer ``computeledger simulate rl``: the document, and every rollout as columns."""
    plan, seed, steps = load_plan(plan_file), options["seed"], options["steps"]
    _check_seed(seed)
    run = planned_run(plan, steps, seed)
    result = simulate_rl(run.scenario, run.rollouts, seed)
    document = rl_document(result, run)
    document |= {"plan": plan.name, "seed": seed, "lags": []}
    if options["lags"] is not None:
        lags = _lags(options["lags"])
        most = planned_run(with_lag(plan, max(lags)), steps, seed)
        runs = [planned_run(with_lag(plan, lag, most), steps, seed) for lag in lags]
        with open_executor(_workers(options), options["cluster"]) as pool:
            jobs = [(one, seed) for one in runs]
            done = [_simulate(job) for job in jobs] if pool is None else list(pool.map(_simulate, jobs))
        document["lags"] = [
            {"max_lag": lag, "step_s": one.step_s, "mean_staleness": float(np.mean(one.staleness_steps)),
             "phases": rl_document(one, planned)["phases"]}
            for lag, one, planned in zip(lags, done, runs, strict=True)
        ]  # fmt: skip
    return document, result.records()


def _simulate(job: tuple[PlannedRun, int]) -> RLClockResult:
    """One run; a function of the module, so that other processes find it."""
    run, seed = job
    return simulate_rl(run.scenario, run.rollouts, seed)


def _lags(text: str) -> list[int]:
    """Lags to compare."""
    try:
        lags = sorted({int(part) for part in text.split(",")})
    except ValueError:
        raise InputError(f"--lags {text!r}: whole numbers with commas between, such as 0,1,4") from None
    if lags[0] < 0:
        raise InputError(f"--lags {text!r}: a lag must not be negative")
    return lags
