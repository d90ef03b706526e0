"""The page *RL*: where the GPU-time of a reinforcement-learning run goes, and who waits."""

from __future__ import annotations

from computeledger.facts.load import bundled_system_id, model_ids, model_name, offered_systems
from computeledger.interfaces.web.ask import ask_question
from computeledger.interfaces.web.controls import choices, controls_of, real_presets
from computeledger.interfaces.web.spec import PLAN, Answer, Page, Values, with_times
from computeledger.physics.calibration.weight_sync import sync_mechanisms
from computeledger.questions.answers.rl.answer import answer_rl
from computeledger.workloads.questions.rl import RLQuestion
from computeledger.workloads.questions.setup import BACKENDS

_CONTROLS = controls_of(RLQuestion, {
    "model": choices(model_ids, model_name, "Qwen/Qwen3-8B"),
    "system": choices(offered_systems, bundled_system_id, "h100-nvl8") | {
        "help": "One node, such as 8 H100 or 2xl40s, or the path of a system TOML; GPUs counts those of all nodes."
    },
    "gpus": {"default": "64", "unit": "GPUs", "is_power": True},
    "rollout_tokens": {"name": "rollout", "default": "4K..8K"},
    "prompt_tokens": {"name": "prompt"},
    "prompts_per_step": {"name": "prompts", "unit": "prompts"},
    "group_size": {"unit": "rollouts"},
    "steps": {"unit": "steps"},
    "verifier_time": {"default": "0.1"},
    "verifier_cores": {"unit": "cores"},
    "max_lag": {"unit": "steps", "log": False, "help": "0: generators and trainer take turns."},
    "training_gpus": {"unit": "GPUs", "is_power": True, "blank": "searched", "help": "With a lag; empty: searched."},
    "drained": {},
    "framework": {},
    "weight_sync": {"kind": "choice", "choices": ("", *sync_mechanisms())},
    "compare_to": {"is_wide": True,
                   "help": "Such as step=290,generation=180,update=70: is it normal, and what would help."},
    "backend": {"kind": "choice", "choices": ("", *BACKENDS)},
    "layout": {"help": "Such as tp2; empty: searched."},
    "training_layout": {"help": "Such as tp4-dp16; empty: searched."},
    "price": {"follows": "system", "blank": "rent", "help": "Empty: rent of the price edition."},
})  # fmt: skip


def _answer(values: Values, working: bool) -> Answer:
    return ask_question("rl", RLQuestion, answer_rl, with_times(_CONTROLS, values), working)


PAGE = Page(
    "rl", "RL", "Where does the GPU-time of an RL run go, and what idles?", _CONTROLS, _answer,
    short="Where does the GPU-time go?", section=PLAN,
    presets={
        "Eight billion, one team": {},
        **real_presets("rl", {"rollout-tokens": "rollout", "prompt-tokens": "prompt", "prompts-per-step": "prompts"}),
        "DeepSeek-R1 style on H800": {"model": "deepseek-ai/DeepSeek-V3", "system": "h800-nvl8", "gpus": "512",
                                      "rollout": "4K..10K", "prompts": "32", "steps": "10000"},
        "Asynchronous, two steps behind": {"max-lag": "2"},
        "Slow verifiers": {"verifier-time": "30", "verifier-cores": "256"},
    },
)  # fmt: skip
