"""Launch commands of serving engines for a layout and batch, as text that can be pasted.

What is common to all engines; each engine's own arguments stand in its file of :mod:`computeledger.workloads.engines`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from computeledger.errors import InputError, close_choices, unknown_id
from computeledger.facts.architecture import Lora, Model
from computeledger.facts.load import load_model
from computeledger.facts.packed import is_packed, packed_name
from computeledger.facts.shape_rule import is_numbers
from computeledger.physics.parallelism import parse_layout
from computeledger.physics.serving.operations import CHUNK_TOKENS
from computeledger.questions.wording import headroom, point, show
from computeledger.units import format_count, format_si
from computeledger.workloads.commands.load_tests import BENCHMARKS, LoadTest, benchmark
from computeledger.workloads.commands.manifests import ENGINES_OF, Plan, Worker, manifest
from computeledger.workloads.commands.text import launches_in
from computeledger.workloads.engines import engines
from computeledger.workloads.engines.engine import Engine, Launch

#: A request may be this much longer than the typical one before it is refused (assumption).
LONGEST_RATIO = 1.25
#: Share of HBM that an engine may take at most (assumption): the rest is the driver's and other processes'.
MOST_FRACTION = 0.97
_CONTEXT_STEP = 256


def launchers() -> list[str]:
    """Engines that have a launch command."""
    return [name for name, engine in engines().items() if engine.can_launch]


def check_launcher(emit: str) -> None:
    """Refuse what nothing is written for: an engine without a launch command, an unknown manifest or benchmark."""
    if emit not in (known := [*launchers(), *ENGINES_OF, *BENCHMARKS]):
        raise unknown_id("engine", emit, known if close_choices(emit, known) else launchers())


def launch_text(emit: str, document: Mapping[str, Any]) -> str:
    """Commands that start what a serving document describes, its manifest, or the benchmark that tests it."""
    check_launcher(emit)
    if emit in BENCHMARKS:
        return "\n".join(benchmark(emit, _test(document)))
    if emit in ENGINES_OF:
        return _manifest_text(emit, document)
    pools = document.get("pools")
    if pools is None:
        return "\n".join([*_comments(emit, document), *_commands(emit, document, document, "")])
    lines = _comments(emit, document)
    for role in ("prefill", "decode"):
        pool = pools[role]
        lines += [
            "",
            f"# {role}: start {pool['n_workers']} of these, {format_count(pool['n_gpus_per_worker'], 'GPU')} each"
            + (f" of {pool['system']}" if "system" in pool else ""),
        ]
        lines += _commands(emit, document, pool, role)
    return "\n".join(lines)


def _manifest_text(kind: str, document: Mapping[str, Any]) -> str:
    """The planned fleet as a manifest of Kubernetes, with what was predicted in comments."""
    engine, pools = document["backend"], document.get("pools")
    if engine not in launchers():
        raise InputError(f"--emit {kind}: {engine} has no launch command; give --backend {ENGINES_OF[kind][0]}")
    replicas = document.get("fleet", {}).get("n_replicas") or document["n_replicas"]
    kinds = [("", document, replicas)] if pools is None else [(r, pools[r], pools[r]["n_workers"]) for r in pools]
    workers = []
    for role, pool, n_workers in kinds:
        (launch,) = launches_in("\n".join(_commands(engine, document, pool, role)))
        own = launch.arguments[1:] if launch.arguments[0] == document["checkpoint"] else launch.arguments
        workers.append(Worker(role, int(n_workers), parse_layout(pool["layout"]), own))
    release = document.get("backend_release", {})
    named = str(release["release"]) if release.get("given") and release.get("release") else ""
    plan = Plan(document["checkpoint"], engine, tuple(workers), named)
    return "\n".join([*_comments(engine, document), *manifest(kind, plan)])


def _test(document: Mapping[str, Any]) -> LoadTest:
    """What a benchmark sends, and within what limits: those that were promised, else those of medians."""
    promised = document.get("promise", {})
    limits = {one["quantity"]: (one["share_fraction"], one["limit_s"]) for one in promised.get("limits", ())}
    for name, one in document.get("meets", {}).items():
        limits.setdefault(f"{name}_s", (0.5, one["limit_s"]))
    fleet = document.get("fleet", {})
    rate = fleet.get("requests_per_s", document["winner"]["requests_per_s"]) if fleet else None
    spread = promised.get("arrival_spread")
    return LoadTest(
        model=document["checkpoint"],
        input_tokens=point(document["input_tokens"]),
        cached_tokens=point(document["cached_tokens"]),
        output_tokens=point(document["output_tokens"]),
        requests_per_s=None if rate is None else point(rate),
        arrival_spread=1.0 if spread is None else float(spread),
        concurrency=float(document["batch"]) * (1 if fleet else int(document["n_replicas"])),
        limits=limits,
    )


def _commands(engine: str, document: Mapping[str, Any], pool: Mapping[str, Any], role: str) -> list[str]:
    held, one = _held(document, pool), _launch(engine, document, pool, role)
    most = f"# the predicted batch takes more than {MOST_FRACTION:.0%} of the memory: it may not fit"
    is_short = held["total"] > MOST_FRACTION * held["capacity"]
    return [*([most] if is_short else []), *_draft_note(one), *engines()[engine].launched(one)]


def _held(document: Mapping[str, Any], pool: Mapping[str, Any]) -> Mapping[str, Any]:
    """Memory by tenant, of a pool's worker or of the replica, fully loaded."""
    of_load = document.get("fleet", pool) if pool is document else pool
    held: Mapping[str, Any] = of_load["memory_bytes"]
    return held


def _launch(engine: str, document: Mapping[str, Any], pool: Mapping[str, Any], role: str) -> Launch:
    layout, precision = parse_layout(pool["layout"]), document["precision"]
    tokens = sum(point(document[f"{name}_tokens"]) for name in ("cached", "input", "output")) * LONGEST_RATIO
    stated, told = document.get("assumptions", {}).get("context_tokens"), _stated(document)
    most = stated or load_model(document["model"]).max_context_tokens or math.inf
    longest = int(min(math.ceil(tokens / _CONTEXT_STEP) * _CONTEXT_STEP, most))
    if stated and not engines()[engine].is_local:  # a local engine holds its whole context from the start
        longest = int(stated)
    caches = engines()[engine].caches
    if precision["kv"] not in caches:
        allowed = " or ".join(caches)
        raise InputError(f"--emit {engine}: a cache in {precision['kv']} has no setting there; use {allowed}")
    held = _held(document, pool)
    beside, capacity = held["total"] - held["kv_cache"], held["capacity"]
    kept, fraction = engines()[engine].buffers, told.get("memory_fraction")
    if fraction is not None and engine == document.get("backend", engine):
        kept = kept.with_share(fraction, engines()[engine].settings["memory_fraction"].of)
    else:
        fraction = None
    rest = max(beside - held["weights"], kept.least_bytes(kept.whole_fraction * capacity))
    cache = kept.cache_fraction * max(kept.whole_fraction * capacity - held["weights"] - rest, 0.0)
    replica = document["fleet"]["replica"] if "fleet" in document and pool is document else pool
    planned, own = document.get("speculation"), load_model(document["model"])
    host: Mapping[str, float] = document.get("host_memory", {})
    in_host, seen = host.get("weights_fraction", 0.0), document.get("images", {})
    return Launch(
        model=document["checkpoint"],
        layout=layout,
        batch=int(told.get("max_batch") or pool.get("max_sequences") or replica["batch"]),
        context_tokens=longest,
        cached=point(document["cached_tokens"]) > 0,
        kv=precision["kv"],
        online_fp8=_online_fp8(engine, document),
        role=role,
        whole_fraction=fraction or _share((beside + cache) / capacity),
        static_fraction=fraction or _share((held["weights"] + cache) / capacity),
        cache_fraction=kept.cache_fraction,
        chunk_tokens=int(told.get("chunk_tokens") or CHUNK_TOKENS),
        eager=bool(told.get("eager")),
        no_prefix_cache=bool(told.get("no_prefix_cache")),
        weights=document.get("stored_as") or precision["experts" if load_model(document["model"]).is_moe else "dense"],
        drafts=_drafts(engine, document),
        is_drafted_by_mtp=(planned["method"] if planned else "mtp") == "mtp" and bool(own.n_mtp_layers),
        draft_method=_method(engine, planned),
        draft_model=planned["drafter"] if planned and planned["method"] == "draft" else "",
        n_layers=load_model(document["model"]).n_layers,
        image_encoder=seen.get("encoder", {}).get("spread", ""),
        host_weights=in_host,
        host_experts=host.get("experts_fraction", 0.0),
        host_kv=host.get("kv_fraction", 0.0),
        host_weights_bytes=held["weights"] * in_host / (1 - in_host) if in_host < 1 else 0.0,
        **_adapters(engine, document),
    )


def told_of_adapters(lora: Lora | None) -> dict[str, Any]:
    """What a launch says of adapters: how many there are, how many at once, and their rank.

    Examples
    --------
    >>> told_of_adapters(Lora(16)), told_of_adapters(None)
    ({'adapters': 1, 'max_loras': 1, 'lora_rank': 16}, {})
    """
    if lora is None:
        return {}
    return {"adapters": lora.served.n_adapters, "max_loras": lora.served.n_slots, "lora_rank": lora.rank}


def _adapters(engine: str, document: Mapping[str, Any]) -> dict[str, Any]:
    """The same of an answer."""
    one = document.get("adapters")
    if one is None:
        return {}
    if engine not in _WITH_ADAPTERS:
        raise InputError(f"--emit {engine}: --adapters is not written for it; {' or '.join(_WITH_ADAPTERS)}")
    return {"adapters": one["n_adapters"], "max_loras": one["n_on_chip"], "lora_rank": one["rank"]}


#: Engines whose launch commands name adapters here.
_WITH_ADAPTERS = ("vllm", "sglang")


def _stated(document: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of the engine that were stated, by the field of the question."""
    said = {k: one["stated"] for k, one in document.get("engine_settings", {}).items() if isinstance(one, Mapping)}
    return {name: value for name, value in said.items() if value is not None}


def _drafts(engine: str, document: Mapping[str, Any]) -> int:
    """Tokens drafted per step, which engines take as a whole number."""
    drafts = float(document.get("draft_tokens", 0.0))
    if drafts % 1:
        raise InputError(f"--emit {engine}: --draft-tokens {drafts:g}: the engine drafts a whole number of tokens")
    return int(drafts)


#: Engines whose launch commands name n-grams, EAGLE's first kind and draft models here.
_DRAFT_BY_ANY = ("vllm", "sglang")


def _method(engine: str, planned: Mapping[str, Any] | None) -> str:
    """What drafts where the model has no module of its own."""
    method = "eagle3" if planned is None or planned["method"] == "mtp" else str(planned["method"])
    if method != "eagle3" and planned and planned["draft_tokens"] and engine not in _DRAFT_BY_ANY:
        raise InputError(f"--emit {engine}: --speculation {method} is not written for it; vllm or sglang, or eagle3")
    return method


def _draft_note(one: Launch) -> list[str]:
    """Whose drafts the answer counts on."""
    if not one.drafts or one.is_drafted_by_mtp or one.draft_method in ("ngram", "draft"):
        return []
    name = "EAGLE" if one.draft_method == "eagle" else "EAGLE-3"
    return [f"# set DRAFT_MODEL to the {name} head that was trained for this model: the model has none of its own"]


def _share(fraction: float) -> float:
    """Rounded up to a hundredth, so that what was predicted has its room; the driver and the context keep theirs."""
    return min(math.ceil(100 * fraction) / 100, MOST_FRACTION)


def load_problem(engine: Engine, model: Model, asked: Mapping[str, str]) -> str | None:
    """Why an engine cannot load a model's checkpoint in the formats asked for; None where it can.

    Examples
    --------
    >>> from computeledger.workloads.engines import engines
    >>> model, asked = load_model("qwen3-8b"), {"attention": "int4", "dense": "int4"}
    >>> load_problem(engines()["vllm"], model, asked)[:61]
    'Qwen/Qwen3-8B is stored in bf16 and the answer is for int4: n'
    >>> load_problem(engines()["llama.cpp"], model, asked) is None
    True
    """
    if is_numbers(model.id):
        return f"{model.id} is a size, and no engine can load one: name a checkpoint"
    if is_packed(model.id):
        return f"{packed_name(model.id)} is a configuration without weights: name a checkpoint"
    pairs = _stored_and_wanted(model, asked)
    if engine.own_files or all(stored == wanted for stored, wanted in pairs):
        return None
    if pairs <= {("bf16", "fp8")} and engine.quantises_on_loading:
        return None
    stored = "/".join(sorted({stored for stored, _ in pairs}))
    wanted = "/".join(sorted({wanted for _, wanted in pairs}))
    return (
        f"{model.id} is stored in {stored} and the answer is for {wanted}: name a checkpoint stored in {wanted} as "
        "--model, or leave --precision out"
    )


def _stored_and_wanted(model: Model, asked: Mapping[str, str]) -> set[tuple[str, str]]:
    kinds = {"attention": "weight", "dense": "dense"} | ({"experts": "expert"} if model.is_moe else {})
    return {(getattr(model, f"{stored}_precision"), asked[kind]) for kind, stored in kinds.items() if kind in asked}


def loads_fp8(engine: Engine, model: Model, asked: Mapping[str, str]) -> bool:
    """Whether bf16 weights become fp8 while they are loaded.

    Examples
    --------
    >>> from computeledger.workloads.engines import engines
    >>> loads_fp8(engines()["vllm"], load_model("qwen3-8b"), {"attention": "fp8", "dense": "fp8"})
    True
    """
    return not engine.own_files and ("bf16", "fp8") in _stored_and_wanted(model, asked)


def _online_fp8(name: str, document: Mapping[str, Any]) -> bool:
    """Whether bf16 weights are to be cut on loading; any other difference needs another checkpoint."""
    engine, model = engines()[name], load_model(document["model"])
    if problem := load_problem(engine, model, document["precision"]):
        raise InputError(f"--emit {name}: {problem}")
    return loads_fp8(engine, model, document["precision"])


def _comments(engine: str, document: Mapping[str, Any]) -> list[str]:
    lengths = ", ".join(f"{document[f'{name}_tokens']:,.0f} {name}" for name in ("input", "cached", "output"))
    figures = (("TTFT", "ttft_s", "s"), ("TPOT", "tpot_s", "s"), ("tokens/s/GPU", "output_tokens_per_s_per_gpu", ""))
    simulated = ("ttft_s",) if "promise" in document else ()  # a promise has its own below, with the queue
    said = ", ".join(
        f"{label} {_ends(document[name], unit)}"
        for label, name, unit in figures
        if document[name] is not None and name not in simulated
    )
    where = document["layout"] if "pools" not in document else "prefill and decode apart"
    fleet = document.get("fleet")
    started = []
    if fleet is not None:
        replicas, gpus = _replicas(fleet), format_count(fleet["n_gpus"], "GPU")
        started += [
            f"# for the load asked about: start {replicas}, {gpus} in all, behind a load balancer",
            _room(document),
        ]
    for one in document.get("promise", {}).get("limits", ()):
        share, limit = f"p{100 * one['share_fraction']:g}", format_si(one["limit_s"], "s")
        attained = f"{format_si(one['attained_s'], 's')} ({format_si(one['attained_p05_s'], 's')} to {_end(one)})"
        started.append(
            f"# promised: {share} of {one['quantity'].removesuffix('_s')} within {limit}; simulated: {attained}"
        )
    drafts = document.get("draft_tokens", 0)
    if drafts:
        started.append(
            f"# predicted with {drafts:g} drafted tokens per step of which {document['tokens_per_step'] - 1:g} are "
            "accepted on average: measure that on your own requests"
        )
    batch = "" if "pools" in document else f" at batch {document['batch']:.0f}"
    assumed = f"longest request {LONGEST_RATIO:g} times that, prefill in chunks of "
    stated, own = (
        document.get("assumptions", {}).get("context_tokens"),
        load_model(document["model"]).max_context_tokens,
    )
    is_longer = bool(stated) and stated > (own or 0)
    longer = [f"# a context of {stated} tokens is yours: set the rope scaling of the model's card too"]
    longer = longer if is_longer else []
    chunk = _stated(document).get("chunk_tokens") or CHUNK_TOKENS
    graphs = "no CUDA graphs, " if _stated(document).get("eager") else "CUDA graphs and "
    left = document.get("from_command", {}).get("not_modelled", ())
    return [
        *longer,
        *(f"# not modelled, of the command that was read: {one}" for one in left),
        f"# {document['model']} on {document['system']}: {where}{batch}; {lengths} tokens per request",
        f"# predicted for {document.get('backend', engine)}: {said} (median, 90 % interval)",
        *started,
        f"# {engines()[engine].memory_share}",
        f"# assumed: {assumed}{chunk:,.0f} tokens; {graphs}overlap as {engine} sets them",
    ]


def _replicas(fleet: Mapping[str, Any]) -> str:
    """Replicas of a fleet, by pool where prompts are read apart."""
    if (reading := fleet.get("n_prefill_replicas")) is None:
        return format_count(fleet["n_replicas"], "replica")
    return f"{format_count(reading, 'prefill worker')} and {format_count(fleet['n_replicas'], 'decode worker')}"


def _room(document: Mapping[str, Any]) -> str:
    """How much of the load that a fleet carries is asked for, and how surely."""
    if (promise := document.get("promise")) is not None:
        return f"# of the promise, as simulated: {headroom(promise['headroom_fraction'])}"
    fleet = document["fleet"]
    chance = fleet["carries_probability"]
    grows = "" if chance == 1 else f"; with a chance of {1 - chance:.0%} it does not: the queue grows, no TTFT holds"
    return f"# it carries the load at the medians, {fleet['load_fraction']:.0%} loaded{grows}"


def _end(limit: Mapping[str, Any]) -> str:
    """The slow end of a simulated time."""
    late_s = limit["attained_p95_s"]
    return "a queue that grows" if late_s is None else format_si(late_s, "s")


def _ends(value: Any, unit: str) -> str:
    low, high = point(value, "p05"), point(value, "p95")
    return f"{show(point(value), unit)} ({show(low, unit)} to {show(high, unit)})"
