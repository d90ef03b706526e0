"""The page *Pretrain*: step time, utilisation, memory and days of a training run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from computeledger.facts.load import bundled_system_id, model_ids, model_name, offered_systems
from computeledger.interfaces.views import view_of
from computeledger.interfaces.web.ask import ask_question
from computeledger.interfaces.web.controls import choices, controls_of
from computeledger.interfaces.web.spec import PLAN, Answer, Page, Values, View, with_times
from computeledger.questions.answers.pretraining.answer import answer_pretrain
from computeledger.questions.wording import listed
from computeledger.workloads.questions.pretrain import PretrainQuestion

_CONTROLS = controls_of(PretrainQuestion, {
    "model": choices(model_ids, model_name, "deepseek-ai/DeepSeek-V3"),
    "system": choices(offered_systems, bundled_system_id, "h800-nvl8") | {
        "help": "One node, such as 8 H100 or 2xl40s, or the path of a system TOML; GPUs counts those of all nodes."
    },
    "gpus": {"default": "2048", "unit": "GPUs", "is_power": True},
    "tokens": {"default": "14.8T", "whole": False},
    "sequence_tokens": {},
    "global_batch_tokens": {"default": "62.9M", "whole": False},
    "stage": {"help": "Such as until=250B,global_batch=4M; several with ; between them."},
    "unique_tokens": {},
    "documents": {"help": "p50=800,p95=8K; empty: one document in each sequence."},
    "packing": {"choices": ("", "masked", "joined", "padded")},
    "layout": {"default": "tp1-pp16-dp128-ep64", "follows": "model|system|gpus", "group": "How",
               "help": "Such as tp8-pp16-dp128; empty: searched."},
    "precision": {"kind": "choice", "choices": ("bf16", "fp8"), "default": "fp8", "follows": "model",
                  "otherwise": "bf16"},
    "recompute": {"default": "layernorm,mla_up_proj,moe_act", "follows": "model|system|gpus|layout",
                  "help": "none, selective, full, reversible, or operations such as moe_act; empty: searched."},
    "schedule": {"default": "dualpipe", "follows": "model", "otherwise": "1f1b"},
    "sharding": {"choices": ("", "zero-1", "zero-2", "zero-3"), "default": "zero-1", "follows": "model"},
    "activation_precision": {"default": "fp8", "follows": "model", "otherwise": "bf16"},
    "moment_precision": {"default": "bf16", "follows": "model", "otherwise": "fp32"},
    "optimizer": {},
    "expert_imbalance": {},
    "capacity_factor": {},
    "offload": {"help": "activations, optimizer, weights; empty: nothing."},
    "recipe": {"default": "block", "follows": "model", "otherwise": "tensor"},
    "mtp_layers": {"default": "1", "follows": "model"},
    "sites": {},
    "site_bandwidth": {"help": "What leaves one site for the others, such as 800Gb/s."},
    "local_steps": {},
    "levers": {},
    "anchor": {
        "help": "Such as tokens_per_s_per_gpu=4200,layout=tp2-dp4, or a line of a log; several with ; between them."
    },
    "price": {"follows": "system", "blank": "rent", "help": "Empty: rent of the price edition."},
})  # fmt: skip


def _answer(values: Values, working: bool) -> Answer:
    found = ask_question("pretrain", PretrainQuestion, answer_pretrain, with_times(_CONTROLS, values), working)
    return replace(found, asked=values)


def _view(answer: Answer) -> View:
    """The answer, and what of DeepSeek-V3's run is left over where another model was chosen."""
    shown = view_of(answer.source)
    left = _left_over(answer.asked)
    return replace(shown, context=f"{left} {shown.context}") if left else shown


def _left_over(asked: Mapping[str, str]) -> str:
    """What stands as DeepSeek-V3's run had it, beside another model.

    Examples
    --------
    >>> _left_over({"model": "70B", "system": "h800-nvl8", "gpus": "2048", "tokens": "2T", "global-batch-tokens": "4M"})
    "Left from DeepSeek-V3's run: 2,048 H800."
    """
    usual = {one.name: one.default for one in _CONTROLS}
    if asked.get("model", usual["model"]) == usual["model"]:
        return ""
    parts = (
        (("system", "gpus"), "2,048 H800"),
        (("tokens",), "14.8T tokens"),
        (("global-batch-tokens",), "a batch of 62.9M"),
    )
    left = [said for names, said in parts if all(asked.get(name, "") == usual[name] for name in names)]
    return f"Left from DeepSeek-V3's run: {listed(left)}." if left else ""


PAGE = Page(
    "pretrain", "Pretrain", "How long does a training run take, what does it cost, what is the bottleneck?", _CONTROLS,
    _answer, _view,
    short="How long, and for how much?", section=PLAN,
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
