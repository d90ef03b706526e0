"""The page *Memory*: on how few GPUs a model fits, by format and system."""

from __future__ import annotations

from computeledger.facts.load import bundled_system_id, model_ids, model_name, offered_systems
from computeledger.interfaces.web.ask import ask_question
from computeledger.interfaces.web.controls import choices, controls_of, several
from computeledger.interfaces.web.spec import PLAN, Answer, Page, Values
from computeledger.questions.answers.serving.memory import answer_memory
from computeledger.questions.memory import MemoryQuestion

_CONTROLS = controls_of(MemoryQuestion, {
    "model": choices(model_ids, model_name, "meta-llama/Llama-3.3-70B-Instruct"),
    "system": {**several(offered_systems, bundled_system_id, ","), "default": "2xrtx-4090,1xm4-max,h100-nvl8",
               "help": "Ids, or N x CHIP such as 2xl40s, with commas; empty: domains of several generations."},
    "precision": {"help": "Such as bf16,int4,gguf-q4_k_m; empty: as stored, and of fp8, int4 and gguf-q4_k_m what is "
                          "narrower.", "blank": "as stored and narrower ones"},
    "gpus": {"is_power": True},
    "context_tokens": {},
    "batch": {},
    "kv_precision": {"kind": "choice", "choices": ("bf16", "fp8", "int8", "q8_0", "q4_0")},
})  # fmt: skip


def _answer(values: Values, working: bool) -> Answer:
    return ask_question("memory", MemoryQuestion, answer_memory, values, working)


PAGE = Page(
    "memory",
    "Memory",
    "Will it fit: on how few GPUs, in which format, with which context and batch?",
    _CONTROLS,
    _answer,
    short="Will it fit, and on how few GPUs?",
    section=PLAN,
    presets={
        "Llama 3.3 70B: desk, Mac, server": {},
        "A 70B on a desk": {"system": "1xrtx-4090,2xrtx-4090,2xrtx-3090,1xm4-max,1xm3-ultra,1xgb10"},
        "DeepSeek-V3 on one node": {
            "model": "deepseek-ai/DeepSeek-V3",
            "system": "h100-nvl8,h200-nvl8,b200-nvl8,mi300x-8",
            "batch": "64",
        },
        "A long context": {"model": "Qwen/Qwen3-32B", "context-tokens": "32768", "batch": "8"},
    },
)
