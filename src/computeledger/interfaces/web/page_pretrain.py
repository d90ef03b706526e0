"""The page *Pretrain*: step time, utilisation, memory and days of a training run."""

from __future__ import annotations

from typing import Any

from computeledger.facts.load import model_ids, shipped_model_id, shipped_system_id, system_ids
from computeledger.interfaces import plots_training
from computeledger.interfaces.cli_training import pretrain
from computeledger.interfaces.plot_parts import PHASE_COLORS
from computeledger.interfaces.plots_bars import bars_figure, strip_figure
from computeledger.interfaces.web.ask import ask
from computeledger.interfaces.web.published import published_hours
from computeledger.interfaces.web.spec import Answer, Control, Page, Plot, Table, Values, View, rent, tile
from computeledger.questions.answers.pretrain import answer_pretrain
from computeledger.questions.wording import percent, point, price_words, words

_CONTROLS = (
    Control("model", "Model", "choice", default="deepseek-ai/DeepSeek-V3", choices=tuple(model_ids()),
            choice_of=shipped_model_id, group="What"),
    Control("system", "System", "choice", default="h800-nvl8", choices=tuple(system_ids()),
            choice_of=shipped_system_id, group="What"),
    Control("gpus", "GPUs", unit="GPUs", default="2048", low=8, high=32768, whole=True, is_power=True, group="What"),
    Control("tokens", "Tokens of the run", unit="tokens", default="14.8T", low=2e9, high=1e14, group="Run"),
    Control("sequence-tokens", "Sequence", unit="tokens", default="4096", low=512, high=131072, whole=True,
            group="Run"),
    Control("global-batch-tokens", "Global batch", unit="tokens", default="62.9M", low=65536, high=2e8, group="Run"),
    Control("layout", "Layout", "text", default="tp1-pp16-dp128-ep64", follows="model|system|gpus", group="How",
            help="Such as tp8-pp16-dp128; empty: searched."),
    Control("precision", "Precision", "choice", choices=("bf16", "fp8"), default="fp8", follows="model",
            otherwise="bf16", group="How"),
    Control("recompute", "Recompute", "text", default="layernorm,mla_up_proj,moe_act",
            follows="model|system|gpus|layout", group="How",
            help="none, selective, full, or operations such as layernorm, moe_act; empty: searched."),
    Control("schedule", "Schedule", "choice", default="dualpipe", choices=("1f1b", "zero-bubble", "dualpipe", "any"),
            follows="model", otherwise="1f1b", group="How"),
    Control("sharding", "Sharding", "choice", default="zero-1", choices=("", "zero-1", "zero-2", "zero-3"),
            follows="model", group="How", help="What data-parallel ranks share: the optimiser, gradients too, all."),
    Control("activation-precision", "Kept activations", "choice", default="fp8", choices=("bf16", "fp8"),
            follows="model", otherwise="bf16", group="How",
            help="Of what products keep for the backward pass, and dispatch to experts."),
    Control("moment-precision", "Optimiser's moments", "choice", default="bf16", choices=("fp32", "bf16"),
            follows="model", otherwise="fp32", group="How"),
    Control("recipe", "Scales of 8-bit products", "choice", default="block", choices=("tensor", "row", "block"),
            follows="model", otherwise="tensor", group="How"),
    Control("mtp-layers", "Multi-token-prediction modules", "text", default="1", follows="model", blank="none",
            group="How"),
    Control("price", "GPU-hour", unit="$/h", low=0.5, high=20, follows="system", group="How", blank="rent",
            help="Empty: rent of the price edition."),
)  # fmt: skip


def _answer(values: Values, working: bool) -> Answer:
    return ask(["pretrain"], pretrain, answer_pretrain, values, working)


def _view(answer: Answer) -> View:
    document = answer.document
    headline = (
        f"{words(point(document['effective_days']), 'days')} and "
        f"{words(point(document['effective_gpu_hours']), 'GPU-hours')} "
        f"with failures, at {percent(point(document['mfu_fraction']))} MFU: {document['binds_words']}."
    )
    return View(
        headline,
        tiles=(
            tile(document, "effective_days", "Takes, failures included", "days"),
            tile(document, "effective_gpu_hours", "GPU-time", "GPU-hours"),
            tile(document, "effective_usd", "Cost", "USD"),
            tile(document, "mfu_fraction", "MFU", "fraction"),
            tile(document, "step_s", "Step", "s"),
            tile(document, "tokens_per_s_per_gpu", "Tokens per GPU", "tokens/s"),
        ),
        plots=_plots(document),
        tables=(*published_hours(document["model"], document["gpu_hours"]), _layouts(document), _advice(document)),
        notes=_notes(document),
        chosen=rent(document),
    )


def _plots(document: Any) -> tuple[Plot, ...]:
    held = {
        name.replace("_", " "): value
        for name, value in document["memory_bytes"].items()
        if name not in ("total", "usable")
    }
    return (
        Plot("parts", "Where a step's time goes", "Each part with its 90 % interval.",
             bars_figure(document["components"], "s", PHASE_COLORS["pretraining"]), "step_s"),
        Plot("binds", "What binds", "Shares of the step by what it waits for.", strip_figure(document["binds"]),
             "microbatch_s"),
        Plot("goodput", "What failures take", "Useful time, and what stops and slow hosts cost.",
             plots_training.goodput_figure(document["goodput"]), "goodput_fraction"),
        Plot("memory", "Memory of the busiest GPU", f"{words(document['memory_bytes']['total'], 'B')} of "
             f"{words(document['memory_bytes']['usable'], 'B')}.", bars_figure(held, "B", PHASE_COLORS["inference"]),
             "memory_bytes"),
    )  # fmt: skip


def _layouts(document: Any) -> Table:
    rows = [
        [one["layout"], f"{one['microbatch_sequences']:g}", one["recompute"], words(one["step_s"], "s"),
         percent(one["mfu_fraction"]), words(_total(one["memory_bytes"]), "B")]
        for one in document["best_layouts"]
    ]  # fmt: skip
    columns = ["layout", "microbatch #", "recompute", "step #", "MFU #", "memory #"]
    return Table(f"Best of {document['n_configurations']:,} configurations", columns, rows, "step_s")


def _total(held: Any) -> float:
    return float(held["total"] if isinstance(held, dict) else held)


def _advice(document: Any) -> Table:
    rows = [[one["change"], f"+{percent(one['gain_fraction'])}", one["remark"]] for one in document["advice"]]
    return Table("What would help", ["change", "gain #", "remark"], rows, "step_s")


def _notes(document: Any) -> tuple[str, ...]:
    fits = () if document["fits"] else ("this configuration does not fit in memory",)
    return (*fits, price_words(document["price"]))


PAGE = Page(
    "pretrain", "Pretrain", "How long does a training run take, what binds it, and what does it cost?", _CONTROLS,
    _answer,
    _view,
    presets={
        "DeepSeek-V3 as published": {},
        "Llama 3.1 405B on 16K H100": {
            "model": "meta-llama/Meta-Llama-3.1-405B", "system": "h100-nvl8", "gpus": "16384", "tokens": "15.6T",
            "sequence-tokens": "8192", "global-batch-tokens": "16.8M",
        },
        "An 8B on eight nodes": {
            "model": "meta-llama/Meta-Llama-3.1-8B", "system": "h100-nvl8", "gpus": "64", "tokens": "1T",
            "sequence-tokens": "8192", "global-batch-tokens": "4M",
        },
    },
)  # fmt: skip
