"""The page *Serve*: speed, cost and memory of serving a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from computeledger.facts.load import model_ids, shipped_model_id, shipped_system_id, system_ids
from computeledger.interfaces import plots_serving as plots
from computeledger.interfaces.answers_serving import answer_serve
from computeledger.interfaces.cli_serving import serve
from computeledger.interfaces.web.ask import ask
from computeledger.interfaces.web.spec import Answer, Control, Page, Plot, Table, Values, View, rent, tile, with_times
from computeledger.interfaces.web.working import BELOW
from computeledger.interfaces.wording import (
    margins_words,
    percent,
    point,
    pools_words,
    price_words,
    sureness_words,
    words,
)

_CONTROLS = (
    Control("model", "Model", "choice", default="deepseek-ai/DeepSeek-V3", choices=tuple(model_ids()),
            choice_of=shipped_model_id, group="What"),
    Control("system", "System", "choice", default="h200-nvl8", choices=tuple(system_ids()),
            choice_of=shipped_system_id, group="What"),
    Control("gpus", "GPUs", unit="GPUs", low=1, high=512, whole=True, is_power=True, group="What",
            help="Empty: as many as the best layout asks for."),
    Control("layout", "Layout", "text", group="What", help="Such as tp8 or tp1-dp32-ep32; empty: searched."),
    Control("batch", "Batch", unit="sequences", low=1, high=16384, whole=True, group="Load",
            ends=("fast mode, dear", "slow mode, cheap"),
            help="Sequences decoding per replica; empty: the cheapest that is fast enough."),
    Control("tpot", "Slowest time per token", unit="s", low=0.005, high=0.5, group="Load", blank="none",
            help="Where the batch is searched."),
    Control("input-tokens", "New input", unit="tokens", default="4096", low=64, high=131072, whole=True, group="Load"),
    Control("cached-tokens", "Cached prefix", unit="tokens", default="0", low=64, high=131072, whole=True,
            has_zero=True, group="Load"),
    Control("output-tokens", "Output", unit="tokens", default="1024", low=16, high=65536, whole=True, group="Load"),
    Control("backend", "Engine", "choice", default="vllm", choices=("vllm", "sglang", "trtllm", "ideal"), group="How"),
    Control("precision", "Weights", "choice", choices=("", "bf16", "fp8", "fp4", "int8", "int4"), blank="as stored",
            group="How"),
    Control("kv-precision", "KV cache", "choice", default="bf16", choices=("bf16", "fp8"), group="How"),
    Control("price", "GPU-hour", unit="$/h", low=0.5, high=20, follows="system", group="How", blank="rent",
            help="Empty: rent of the price edition."),
)  # fmt: skip


def _answer(values: Values, working: bool) -> Answer:
    return ask(["serve"], serve, answer_serve, with_times(_CONTROLS, values), working)


def _view(answer: Answer) -> View:
    document = answer.document
    bound = max(document["bound_fractions"], key=document["bound_fractions"].get)
    cost = words(point(document["usd_per_mtok_output"]), "USD/Mtok")
    headline = (
        f"{document['layout']} at batch {document['batch']:g}: a million output tokens cost "
        f"{cost.removesuffix('/Mtok')}, and each user sees "
        f"{words(point(document['output_tokens_per_s_per_user']), 'tokens/s')}. Decoding waits mostly for {bound}."
    )
    return View(
        headline,
        tiles=(
            tile(document, "output_tokens_per_s_per_user", "Speed for one user", "tokens/s"),
            tile(document, "usd_per_mtok_output", "Output", "USD/Mtok"),
            tile(document, "usd_per_mtok_input", "Input", "USD/Mtok"),
            tile(document, "ttft_s", "Time to first token", "s"),
            tile(document, "tpot_s", "Time per output token", "s"),
            tile(document, "output_tokens_per_s_per_gpu", "Output per GPU", "tokens/s"),
        ),
        plots=(
            Plot("pareto", "What speed costs", "Right: fast for one user, small batches. Down: cheap, large batches. "
                 "The ring is the answer.", plots.pareto_figure(document), "usd_per_mtok_output"),
            Plot("step", "Where a step's time goes", "By operation, coloured by what it waits for.",
                 plots.step_bounds(document), "decode_s"),
            Plot("roofline", "What binds", "Each point is an operation, larger where it takes more of the step. Under "
                 "the slope memory binds, under the flat roof compute.", plots.serving_roofline(document), BELOW),
            Plot("memory", "Memory of the busiest GPU", f"{words(document['memory_bytes']['total'], 'B')} of "
                 f"{words(document['memory_bytes']['capacity'], 'B')}; the largest batch that fits is "
                 f"{document['largest_batch']:g}.", plots.memory_figure(document), "memory_bytes"),
        ),
        tables=_alternatives(answer),
        notes=(
            sureness_words(document["interval"]),
            *([f"Two pools would give more: {pools_words(document)}"] if "two_pools" in document else []),
            *_cheapest(document),
            _limit(document),
            price_words(document["price"]),
            *document.get("remarks", ()),
        ),
        chosen={**rent(document), **_searched(document)},
    )  # fmt: skip


def _searched(document: Mapping[str, Any]) -> dict[str, str]:
    limit = document["assumptions"].get("slowest_tpot_s_of_the_search")
    gpus = {"gpus": f"{document['n_gpus_per_replica'] * document['n_replicas']:g}"}
    return gpus if limit is None else {**gpus, "tpot": f"{limit:g}"}


def _limit(document: Mapping[str, Any]) -> str:
    limit = document["physical_limit"]
    token, first = (words(point(limit[name]), "s") for name in ("tpot_s", "ttft_s"))
    return f"physical limit: {token} per token, {first} to the first"


def _alternatives(answer: Answer) -> tuple[Table, ...]:
    """The answer and what else meets the limits, all at the medians of the inputs, the cheapest request first."""
    margins = answer.document.get("margins")
    if not margins or not margins["rivals"]:
        return ()
    others = sorted(margins["rivals"][:8], key=lambda one: -float(one["throughput_ratio"]))
    rows = [
        [f"{one['layout']} (answer)" if one is winner else one["layout"], f"{one['batch']:,}",
         words(one["output_tokens_per_s_per_user"], ""),
         *(words(one[f"usd_per_mtok_{kind}"], "USD") for kind in ("output", "input")),
         f"{1 / one.get('throughput_ratio', 1.0) - 1:+.1%}" if one is not winner else "–",
         percent(one["better_probability"]) if one is not winner else "–"]
        for winner in [answer.document["winner"]] for one in [winner, *others]
    ]  # fmt: skip
    columns = ["layout", "batch #", "tokens/s per user #", "output USD/Mtok #", "input USD/Mtok #",
               "cost of a request #", "chance to be better #"]  # fmt: skip
    title = "The answer and the layouts next to it, at the medians of all inputs"
    return (Table(title, columns, rows, "output_tokens_per_s_per_gpu"),)


def _cheapest(document: Mapping[str, Any]) -> tuple[str, ...]:
    """Why the answer is taken: it has the cheapest request, input and output together."""
    if "margins" not in document:
        return ()
    why = (
        "of all layouts within the limits the answer gives the most output tokens per GPU: its requests cost least; "
        "where another layout's output is cheaper, its input costs more"
    )
    return why, margins_words(document["margins"])


PAGE = Page(
    "serve",
    "Serve",
    "How fast and how cheap is a model served, and what binds?",
    _CONTROLS,
    _answer,
    _view,
    presets={
        "DeepSeek-V3 on a GB200 rack": {"model": "deepseek-ai/DeepSeek-V3", "system": "gb200-nvl72", "gpus": "72"},
        "Fast mode: one user": {"model": "deepseek-ai/DeepSeek-V3", "system": "gb200-nvl72", "gpus": "8", "batch": "1"},
        "Slow mode: as cheap as it gets": {"system": "gb200-nvl72", "gpus": "72", "tpot": "0.2"},
        "Llama 3.3 70B on eight H200": {
            "model": "meta-llama/Llama-3.3-70B-Instruct",
            "system": "h200-nvl8",
            "gpus": "8",
        },
        "Long context": {"input-tokens": "65536", "output-tokens": "2048"},
    },
)
