"""The page *RL*: where the GPU-time of a reinforcement-learning run goes, and who waits."""

from __future__ import annotations

from typing import Any

from computeledger.facts.load import model_ids, shipped_model_id, shipped_system_id, system_ids
from computeledger.interfaces.cli_rl import rl
from computeledger.interfaces.plot_parts import PHASE_COLORS
from computeledger.interfaces.plots_bars import bars_figure, strip_figure, turns_figure
from computeledger.interfaces.web.ask import ask
from computeledger.interfaces.web.spec import Answer, Control, Page, Plot, Table, Values, View, rent, tile, with_times
from computeledger.questions.answers.rl import answer_rl
from computeledger.questions.wording import percent, point, price_words, words

_CONTROLS = (
    Control("model", "Model", "choice", default="Qwen/Qwen3-8B", choices=tuple(model_ids()),
            choice_of=shipped_model_id, group="What"),
    Control("system", "System", "choice", default="h100-nvl8", choices=tuple(system_ids()),
            choice_of=shipped_system_id, group="What"),
    Control("gpus", "GPUs", unit="GPUs", default="64", low=8, high=16384, whole=True, is_power=True, group="What"),
    Control("rollout", "Rollout, mean", unit="tokens", default="4K..8K", low=128, high=131072, whole=True,
            group="Sampling"),
    Control("prompt", "Prompt, mean", unit="tokens", default="500", low=16, high=65536, whole=True, group="Sampling"),
    Control("prompts", "Prompts a step", unit="prompts", default="128", low=1, high=4096, whole=True, group="Sampling"),
    Control("group-size", "Rollouts a prompt", unit="rollouts", default="16", low=1, high=256, whole=True,
            group="Sampling"),
    Control("steps", "Steps", unit="steps", default="1000", low=1, high=100000, whole=True, group="Sampling"),
    Control("verifier-time", "Verdict", unit="s", default="0.1", low=0.001, high=100, group="Verifying",
            help="CPU time of one verdict."),
    Control("verifier-cores", "Verdicts at a time", unit="cores", default="1024", low=1, high=65536, whole=True,
            group="Verifying"),
    Control("max-lag", "Versions behind", unit="steps", default="0", low=0, high=8, log=False, whole=True,
            group="Asynchrony",
            help="0: generators and trainer take turns."),
    Control("training-gpus", "GPUs that only train", unit="GPUs", low=8, high=16384, whole=True, is_power=True,
            group="Asynchrony",
            help="With a lag; empty: searched."),
    Control("drained", "Drain generation before new weights", "switch", group="Asynchrony"),
    Control("backend", "Engine", "choice", default="vllm", choices=("vllm", "sglang", "trtllm", "ideal"), group="How"),
    Control("layout", "Generation layout", "text", group="How", help="Such as tp2; empty: searched."),
    Control("training-layout", "Training layout", "text", group="How", help="Such as tp4-dp16; empty: searched."),
    Control("price", "GPU-hour", unit="$/h", low=0.5, high=20, follows="system", group="How", blank="rent",
            help="Empty: rent of the price edition."),
)  # fmt: skip


def _answer(values: Values, working: bool) -> Answer:
    return ask(["rl"], rl, answer_rl, with_times(_CONTROLS, values), working)


def _view(answer: Answer) -> View:
    document = answer.document
    shares = {name: point(one["fraction"]) for name, one in document["phases"].items()}
    largest = max(shares, key=lambda name: shares[name])
    headline = (
        f"{words(point(document['gpu_hours']), 'GPU-hours')} for {words(point(document['tokens']), 'tokens')} sampled; "
        f"{largest} takes {percent(shares[largest])}, {percent(document['idle_fraction'])} idles. Beta in "
        f"GPU-time is {words(point(document['beta_gpu_time']), '')}, where a pretraining token costs 6."
    )
    return View(
        headline,
        tiles=(
            tile(document, "gpu_hours", "GPU-time", "GPU-hours"),
            tile(document, "usd", "Cost", "USD"),
            tile(document, "days", "Takes", "days"),
            tile(document, "idle_fraction", "Idle: GPUs that wait", "fraction"),
            tile(document, "beta_gpu_time", "Beta in GPU-time", ""),
            tile(document, "beta_flop", "Beta in FLOP", ""),
            tile(document, "utilization_fraction", "Utilisation", "fraction"),
            tile(document, "step_s", "Step", "s", "step"),
        ),
        plots=_plots(document),
        tables=(_split(document),),
        notes=(
            f"interval class: {document['interval']['class']}",
            document["beta"]["convention"],
            price_words(document["price"]),
        ),
        chosen={**rent(document), "layout": document["split"]["layout"],
                "training-layout": document["split"]["training_layout"],
                "training-gpus": f"{document['split']['training_gpus']:g}"},
    )  # fmt: skip


def _plots(document: Any) -> tuple[Plot, ...]:
    phases = document["phases"]
    return (
        Plot("shares", "Who works and who waits", "Shares of the run's GPU-time, with their 90 % intervals.",
             strip_figure({name: one["fraction"] for name, one in phases.items()}), "idle_fraction"),
        Plot("timeline", "One step in time", _turns(document), turns_figure(document["timeline_s"], phases), "step"),
        Plot("utilisation", "Utilisation by phase", "FLOP over dense bf16 peak.",
             bars_figure(document["phase_utilization_fraction"], "fraction", PHASE_COLORS["inference"]),
             "utilization_fraction"),
        Plot("phases", "GPU-hours by phase", "Median and 90 % interval.",
             bars_figure({name: one["gpu_hours"] for name, one in phases.items()}, "GPU-hours", PHASE_COLORS["rl"]),
             "gpu_hours"),
        Plot("beta", "Beta by phase, in GPU-time", "What a sampled token costs where a pretraining token costs 6.",
             bars_figure(document["beta"]["gpu_time_by_phase"], "", PHASE_COLORS["pretraining"]), "beta_gpu_time"),
    )  # fmt: skip


def _turns(document: Any) -> str:
    """How to read the timeline."""
    if document["split"]["colocated"]:
        return "All GPUs generate, then all train; each span as long as its mean GPU is in it. Waiting is hatched."
    return "Generators and trainer work beside one another; the slower side sets the pace. Waiting is hatched."


def _split(document: Any) -> Table:
    split = document["split"]
    rows = [
        ["GPUs that generate", f"{split['generation_gpus']:,.0f}"],
        ["GPUs that train", f"{split['training_gpus']:,.0f}"],
        ["generation layout", split["layout"]],
        ["training layout", split["training_layout"]],
        ["replicas", words(point(document["generation"]["replicas"]), "")],
        ["rollouts decoding on each", words(point(document["generation"]["rollouts_decoding"]), "")],
        ["verifier cores that are busy", words(point(document["verifier_cores_needed"]), "")],
    ]
    return Table("How it runs", ["part", "value #"], rows, "step")


PAGE = Page(
    "rl", "RL", "Where does the GPU-time of an RL run go, and what idles?", _CONTROLS, _answer, _view,
    presets={
        "Eight billion, one team": {},
        "DeepSeek-R1 style on H800": {"model": "deepseek-ai/DeepSeek-V3", "system": "h800-nvl8", "gpus": "512",
                                      "rollout": "4K..10K", "prompts": "32", "steps": "10000"},
        "Asynchronous, two versions behind": {"max-lag": "2"},
        "Slow verifiers": {"verifier-time": "30", "verifier-cores": "256"},
    },
)  # fmt: skip
