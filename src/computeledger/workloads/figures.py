"""The working of a serving and of a pretraining answer: formula and inputs of every headline figure."""

from __future__ import annotations

import numpy as np

from computeledger.arrays import Num
from computeledger.physics.serving.encoding import image_work
from computeledger.physics.serving.memory import ServingMemory
from computeledger.physics.transformer import n_params_active
from computeledger.workloads.pretraining.estimate import PretrainingResult
from computeledger.workloads.result import ASKED, Figure, Term
from computeledger.workloads.serving.burst import turns_of_run
from computeledger.workloads.serving.estimate import ServingResult
from computeledger.workloads.serving.pools import DisaggregatedResult


def serving_figures(result: ServingResult) -> tuple[Figure, ...]:
    """Show how a serving answer comes about.

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> from computeledger.physics.parallelism import Layout
    >>> from computeledger.physics.roofline import Machine, Precision
    >>> from computeledger.workloads.serving.estimate import ServingScenario, estimate_serving
    >>> scenario = ServingScenario(load_model("llama-3.1-8b"), Layout(), Precision(), 1024.0, 256.0, 64.0)
    >>> serving_figures(estimate_serving(scenario, Machine(load_system("h100-nvl8"))))[0].name
    'decode_s'
    """
    return (*_times(result), *_images(result), *_costs(result), memory_figure(result.memory))


def memory_figure(held: ServingMemory, capacity: Term | None = None) -> Figure:
    """Show what fills one GPU.

    Examples
    --------
    >>> memory_figure(ServingMemory(1e10, 2e9, 1e9, 2e9, 8e10, 1e8, 6e10, 1e9, 30.0)).value
    15000000000.0
    """
    parts = ("weights", "kv_cache", "activations", "workspace")
    components = tuple(Term(name.replace("kv_", "KV "), getattr(held, f"{name}_bytes"), "bytes") for name in parts)
    one = Term("cache of one more sequence", held.sequence_bytes, "bytes")
    formula = "weights + KV cache + activations + workspace, on the busiest GPU"
    return Figure(
        "memory_bytes", held.total_bytes, "bytes", formula,
        (*components, one, capacity or Term("memory of one GPU", held.capacity_bytes, "bytes")),
    )  # fmt: skip


def pools_figures(result: DisaggregatedResult, usd_per_mtok: tuple[Num, Num]) -> tuple[Figure, ...]:
    """Show how an answer by two pools comes about.

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> from computeledger.physics.parallelism import Layout
    >>> from computeledger.physics.roofline import Machine, Precision
    >>> from computeledger.workloads.serving.estimate import ServingScenario
    >>> from computeledger.workloads.serving.pools import DisaggregatedScenario, estimate_disaggregated
    >>> one = ServingScenario(load_model("llama-3.1-8b"), Layout(), Precision(), 1024.0, 256.0, 64.0)
    >>> pools = DisaggregatedScenario(one, Layout(), 1.0, 1.0, 64.0)
    >>> found = pools_figures(estimate_disaggregated(pools, Machine(load_system("h100-nvl8"))), (1.0, 0.1))
    >>> [one.name for one in found][:4]
    ['decode_s', 'prefill_s', 'tpot_s', 'ttft_s']
    """
    asked, decode, prefill = result.scenario, result.decode, result.prefill
    host = asked.prefill_machine(decode.machine).efficiency.prefill_host_s
    parts, prompts = (
        tuple(Term(one.name, one.time_s, "s") for one in step) for step in (decode.decode, prefill.prefill)
    )
    step, prompt = Term("decode step", decode.decode_s, "s"), Term("prefill", prefill.prefill_s, "s")
    queue, handed = Term("queue", result.queue_s, "s"), Term("hand-over", result.handed_s, "s")
    first = (Term("host", host, "s"), queue, prompt, handed, Term("whole decode step", decode.step_s, "s"))
    rate, gpus = Term("requests", result.requests_per_s, "1/s"), Term("GPUs", asked.n_gpus, "GPUs")
    output, given = (
        Term(kind, getattr(asked.decode, f"{kind}_tokens"), "tokens", "plan", ASKED) for kind in ("output", "input")
    )
    pools = {
        "output": (asked.n_decode * asked.decode.layout.n_gpus, asked.decode.usd_per_gpu_hour, output),
        "input": (asked.n_prefill * asked.prefill_layout.n_gpus, asked.prefill_usd_per_gpu_hour, given),
    }
    priced = {"output": "price", "input": "price" if asked.prefill_on is None else "prefill price"}
    costs = zip(pools.items(), usd_per_mtok, strict=True)
    return (
        Figure("decode_s", decode.decode_s, "s", "sum of its operations, no prompt beside them", parts),
        Figure("prefill_s", prefill.prefill_s, "s", "sum of its operations, one prompt on every rank", prompts),
        Figure("tpot_s", result.tpot_s, "s", "decode step x serving ratio, at least the physical limit", (step,)),
        Figure("ttft_s", result.ttft_s, "s", "first-token ratio x (host + queue + prefill + hand-over + decode step)",
               first),
        Figure("queue_s", result.queue_s, "s", "requests in flight / rate - prefill - output x TPOT", (
            Term("in flight", asked.concurrency, ""), rate, prompt, output, step)),
        Figure("prefill_busy_fraction", result.prefill_busy_fraction, "fraction",
               "rate x time between two prompts / workers",
               (rate, Term("between two prompts", prefill.prefill_busy_s, "s"), Term("workers", asked.n_prefill, ""))),
        Figure("output_tokens_per_s_per_gpu", result.output_tokens_per_s_per_gpu, "tokens/s",
               "requests x output / GPUs of both pools", (rate, output, gpus)),
        *(
            Figure(f"usd_per_mtok_{kind}", usd, "USD/Mtok", f"GPUs x price / 3600 / requests / {kind} x 1e6", (
                Term("GPUs of its pool", n, "GPUs"), Term(priced[kind], price, "usd_per_hour"), rate, tokens))
            for (kind, (n, price, tokens)), usd in costs
        ),
        memory_figure(decode.memory),
    )  # fmt: skip


def _times(result: ServingResult) -> tuple[Figure, ...]:
    batch, written = (
        Term("B", result.scenario.batch, ""),
        Term("output", result.scenario.output_tokens, "tokens", "plan", ASKED),
    )
    decode, prompt = Term("decode step", result.decode_s, "s"), Term("prefill", result.prefill_s, "s")
    joined = Term("joined prefill", result.prefill_joined_s, "s")
    parts, prompts = (
        tuple(Term(one.name, one.time_s, "s") for one in step) for step in (result.decode, result.prefill)
    )
    sums = "sum of its operations x serving ratio, at least the physical limit"
    shared = "interference x what the prompt adds to the decode step that it joins, for the busiest rank"
    tpot, terms = "decode step + ((B - 1) / output) x joined prefill", [decode, batch, written, joined]
    turns = turns_of_run(result.scenario.rounds, result.scenario.batch, result.scenario.waiting)
    if not np.all(np.isinf(turns)):
        tpot += " x (1 - 1 / (2 turns)): half of them are past in a place's last turn"
        terms.append(Term("turns", turns, ""))
    alone = "joined prefill, in one request of B (which meets no other) the whole prefill"
    rest = Term("all but the prefill", result.ttft_s - result.prefill_s, "s")
    first = (
        "first-token ratio x (host + prefill + admission steps x decode step + start + wait for room in the cache), "
        "with others in flight at least prefill + TPOT"
    )
    service = "mean TTFT without a wait for room + (output - 1) x TPOT, at least what the GPUs are busy"
    behind = (Term("TTFT", result.ttft_s, "s"), written, Term("TPOT", result.tpot_s, "s"))
    return (
        Figure("decode_s", result.decode_s, "s", sums, parts),
        Figure("prefill_s", result.prefill_s, "s", sums, prompts),
        Figure("prefill_joined_s", result.prefill_joined_s, "s", shared, (prompt,)),
        Figure("prefill_busy_s", result.prefill_busy_s, "s", alone, (joined, prompt, batch)),
        Figure("tpot_s", result.tpot_s, "s", tpot, tuple(terms)),
        Figure("ttft_s", result.ttft_s, "s", first, (prompt, rest)),
        Figure("in_service_s", result.in_service_s, "s", service, behind),
    )


def _images(result: ServingResult) -> tuple[Figure, ...]:
    """How the work on an image comes about, where prompts hold any."""
    images = result.scenario.model.images
    if images is None:
        return ()
    one, work = images.encoder, image_work(images)
    terms = (
        Term("patches", float(images.patches), ""),
        Term("params of a patch", float(one.patch_params), "params"),
        Term("layers", float(one.n_layers), ""),
        Term("params of a layer", float(one.layer_params), "params"),
        Term("tokens", images.patches / one.merged_side**2, "tokens"),
        Term("params into the text model", float(one.projector_params), "params"),
        Term("attention between patches", work.attention_flop, "FLOP"),
    )
    formula = "2 patches (params of a patch + layers x params of a layer) + 2 tokens x params into it + attention"
    prompt = Term("images per input token", result.scenario.images_per_token, "")
    seen = Term("input", result.scenario.input_tokens, "tokens", "plan", ASKED)
    read = "images per input token x input"
    return (
        Figure("image_flop", work.flop, "FLOP", formula, terms),
        Figure("images", result.scenario.images_per_token * result.scenario.input_tokens, "", read, (prompt, seen)),
    )


def _costs(result: ServingResult) -> tuple[Figure, ...]:
    asked = result.scenario
    batch, gpus = Term("sequences at once", asked.batch, ""), Term("GPUs", asked.layout.n_gpus, "GPUs")
    price, given = (
        Term("price", asked.usd_per_gpu_hour, "usd_per_hour"),
        Term("input", asked.input_tokens, "tokens", "plan", ASKED),
    )
    service = Term("time in service", result.in_service_s, "s")
    busy = Term("prefill of a prompt", result.prefill_busy_s, "s")
    cached = Term("replica time of a cached token", result.cached_busy_s, "s")
    speed, tpot = result.output_tokens_per_s_per_gpu, Term("time per token", result.tpot_s, "s")
    output = Term("output", asked.output_tokens, "tokens", "plan", ASKED)
    idle = (Term("occupancy", asked.occupancy, ""),) if np.any(np.asarray(asked.occupancy) != 1) else ()
    paid = " / occupancy" if idle else ""
    rate = f"x GPUs x price{paid}, per million tokens"
    reuse = "(its share of a longer prefix's prefill + its cache entry over the NIC)"
    written = (service, batch, busy, output, gpus, price)
    costs = {
        "output": (f"(time in service / sequences at once - prefill of a prompt) / output {rate}", written),
        "input": (f"prefill of a prompt / input {rate}", (busy, given, gpus, price)),
        "cached_read": (f"{reuse} {rate}", (cached, gpus, price)),
    }
    return (
        Figure(
            "output_tokens_per_s_per_user",
            result.output_tokens_per_s_per_user,
            "tokens/s",
            "1 / time per token",
            (tpot,),
        ),
        Figure(
            "output_tokens_per_s_per_gpu",
            speed,
            "tokens/s",
            f"sequences at once x output / (time in service x GPUs){' x occupancy' if idle else ''}",
            (batch, output, service, gpus, *idle),
        ),
        *(
            Figure(
                f"usd_per_mtok_{kind}", getattr(result, f"usd_per_mtok_{kind}"), "USD/Mtok", formula, (*terms, *idle)
            )
            for kind, (formula, terms) in costs.items()
        ),
    )


def pretraining_figures(result: PretrainingResult) -> tuple[Figure, ...]:
    """Show how a pretraining answer comes about.

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> from computeledger.physics.parallelism import Layout
    >>> from computeledger.physics.roofline import Machine, Precision
    >>> from computeledger.physics.training.batch import Batch
    >>> from computeledger.workloads.pretraining.estimate import PretrainingScenario, estimate_pretraining
    >>> scenario = PretrainingScenario(load_model("llama-3.1-8b"), Layout(dp=8), Precision(), Batch(8192, 128), 15e12)
    >>> pretraining_figures(estimate_pretraining(scenario, Machine(load_system("h100-nvl8"))))[-1].name
    'gpu_hours'
    """
    step, asked = result.step, result.scenario
    parts = tuple(Term(one.name, one.time_s, "s") for one in step.operations)
    speed = Term("tokens/s/GPU", result.tokens_per_s_per_gpu, "tokens/s")
    params = Term("N", float(n_params_active(asked.model)), "params")
    peak = Term("dense bf16 peak", result.peak_flop_per_s, "FLOP/s")
    micro, count = Term("microbatch", step.microbatch_s, "s"), Term("microbatches", step.microbatches, "")
    rest = (
        Term("bubble", step.bubble_s, "s"),
        Term("exposed gradients", step.gradients_s, "s"),
        Term("optimizer", step.optimizer_s, "s"),
        Term("once per step", step.fixed_s, "s"),
        *([] if asked.sites is None else [Term("between sites", step.sites_s, "s")]),
    )
    batch = Term("global batch", asked.global_batch_tokens, "tokens", "plan", ASKED)
    held = ("weights", "gradients", "optimizer", "activations", "logits", "workspace")
    components = tuple(Term(name, getattr(result.memory, f"{name}_bytes"), "bytes") for name in held)
    return (
        Figure(
            "memory_bytes", result.memory.total_bytes, "bytes", " + ".join(held) + ", on the busiest GPU", components
        ),
        Figure(
            "microbatch_s",
            step.microbatch_s,
            "s",
            "(sum of its operations, or the host's launching) x training ratio",
            parts,
        ),
        Figure(
            "step_s",
            result.step_s,
            "s",
            "microbatch x microbatches + bubble + gradients + optimizer + once per step",
            (micro, count, *rest),
        ),
        Figure(
            "tokens_per_s_per_gpu",
            result.tokens_per_s_per_gpu,
            "tokens/s",
            "global batch / step / GPUs",
            (batch, Term("step", result.step_s, "s"), Term("GPUs", asked.layout.n_gpus, "GPUs", "plan", ASKED)),
        ),
        Figure(
            "mfu_fraction",
            result.mfu_fraction,
            "fraction",
            "model FLOP per token x tokens/s/GPU / dense bf16 peak",
            (Term("6 N + causal attention", result.flop_per_token, "FLOP"), params, speed, peak),
        ),
        Figure(
            "gpu_hours",
            result.gpu_hours,
            "GPU-hours",
            "D / (tokens/s/GPU x 3600), without failures",
            (Term("D", asked.tokens, "tokens", "plan", ASKED), speed),
        ),
    )
