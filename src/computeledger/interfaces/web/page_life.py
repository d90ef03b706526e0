"""The page *Life*: the three ledgers of a model's life in two currencies."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Mapping
from typing import Any

from computeledger.economics.ledger import Ledger, estimate_ledger
from computeledger.economics.plan import read_plan
from computeledger.facts.load import load_model, model_ids, shipped_model_id, shipped_system_id, system_ids
from computeledger.facts.schema import Fact
from computeledger.interfaces import plots
from computeledger.interfaces.views.published import published_hours
from computeledger.interfaces.web.plan_boxes import PLANS, boxes_of, plan_tables, plan_text, plan_toml
from computeledger.interfaces.web.spec import Answer, Control, Page, Plot, Table, Tile, Values, View
from computeledger.questions.documents.records import plan_document
from computeledger.questions.wording import PHASE_NAMES, choice_words, interval_words, percent, point, words

_SAMPLES, _SEED = 4096, 0
_SCENARIO = (
    Control("model", "Model", "choice", choices=tuple(model_ids()), choice_of=shipped_model_id,
            group="What"),
    Control("system", "System", "choice", choices=tuple(system_ids()), choice_of=shipped_system_id,
            group="What"),
    Control("precision", "Precision", "choice", choices=("", "bf16", "fp8", "fp4"), blank="the model's own",
            follows="model", group="What"),
    Control("price", "GPU-hour", unit="$/h", low=0.5, high=20, follows="system", group="What", blank="rent",
            help="Empty: rent of the price edition."),
    Control("pretraining.tokens", "Tokens", unit="tokens", low=1e11, high=1e14, group="Pretraining"),
    Control("pretraining.gpus", "GPUs", unit="GPUs", low=8, high=65536, whole=True, is_power=True,
            group="Pretraining"),
    Control("pretraining.global_batch", "Global batch", unit="tokens", low=1e5, high=5e8,
            group="Pretraining", help="Tokens per optimiser step; empty: 4.19M."),
    Control("pretraining.utilization", "Utilisation", unit="fraction", low=0.05, high=0.7, log=False,
            group="Pretraining",
            help="FLOP over dense bf16 peak; empty: modelled."),
    Control("rl.gpus", "GPUs", unit="GPUs", low=8, high=65536, whole=True, is_power=True, group="RL"),
    Control("rl.steps", "Steps", unit="steps", low=10, high=100000, whole=True, group="RL"),
    Control("rl.prompts_per_step", "Prompts per step", unit="prompts", low=1, high=4096, whole=True, group="RL"),
    Control("rl.group_size", "Rollouts per prompt", unit="rollouts", low=1, high=256, whole=True, group="RL"),
    Control("rl.rollout", "Rollout", unit="tokens", low=128, high=131072, whole=True, group="RL"),
    Control("rl.prompt", "Prompt", unit="tokens", low=16, high=65536, whole=True, group="RL"),
    Control("inference.rate", "Traffic", unit="tokens/s", low=1e3, high=2e9, group="Inference", blank="the plan's",
            help="Input and output together."),
    Control("inference.life", "Life", unit="days", low=1, high=1500, group="Inference", blank="the plan's"),
    Control("inference.input", "New input", unit="tokens", low=64, high=131072, whole=True, group="Inference"),
    Control("inference.cached", "Cached prefix", unit="tokens", low=64, high=131072, whole=True,
            has_zero=True, group="Inference", blank="none"),
    Control("inference.output", "Output", unit="tokens", low=16, high=65536, whole=True, group="Inference"),
    Control("inference.tpot", "Slowest time per token", unit="ms", low=5, high=500, group="Inference", blank="none"),
    Control("inference.occupancy", "Busy share", unit="fraction", low=0.05, high=1, log=False,
            group="Inference", help="Busy GPU-hours over those paid for."),
)  # fmt: skip
_BOXES = {name: boxes_of(name, _SCENARIO) for name in PLANS}
_CONTROLS = (
    Control("plan", "Starts from", "choice", default=PLANS[0], choices=PLANS, group="What", is_wide=True,
            help="A published plan; boxes that you change replace what it states."),
    *(dataclasses.replace(one, default=_BOXES[PLANS[0]][one.name]) for one in _SCENARIO),
)  # fmt: skip


def _answer(values: Values, working: bool) -> Answer:
    tables, dropped = plan_tables(values, _SCENARIO)
    is_published = tables == tomllib.loads(plan_toml(values["plan"]))
    ledger = estimate_ledger(read_plan(tables, "PLAN.toml"), _SAMPLES, _SEED)
    text = plan_toml(values["plan"]) if is_published else plan_text(tables)
    document = plan_document(ledger, working=working)
    return Answer(document, "computeledger plan PLAN.toml", (ledger, dropped), text)


def _view(answer: Answer) -> View:
    document, (ledger, dropped) = answer.document, answer.source
    shares = document["shares"]["gpu_time"]
    largest = max(shares, key=lambda name: point(shares[name]))
    total = document["total"]
    headline = (
        f"{words(point(total['gpu_hours']), 'GPU-hours')} over the model's life, "
        f"{words(point(total['usd']), 'USD')}; {PHASE_NAMES[largest]} takes "
        f"{percent(point(shares[largest]))} of the GPU-time."
    )
    published = published_hours(*_modelled(document))
    if published and "gpu_hours" in ledger.plan.sections["pretraining"]:
        first = published[0].rows[0]
        headline += f" Pretraining took {first[1]} GPU-hours as published; the model gives {first[2]}."
    tables = (*published, _phases(document))
    return View(headline, _tiles(document), _plots(document, ledger), tables, (*_dropped(dropped), *_notes(document)))


def _modelled(document: Any) -> tuple[Mapping[str, Fact], Any]:
    """What is published of the model; GPU-hours of pretraining as the engine gives them, whatever the plan states."""
    phase = document["phases"]["pretraining"]
    return load_model(phase["model"]).published, phase["details"].get("modelled_gpu_hours", phase["gpu_hours"])


def _dropped(dropped: tuple[str, ...]) -> tuple[str, ...]:
    said = ", ".join(one.replace(".", " ").replace("_", " ").replace("gpu hours", "GPU-hours") for one in dropped)
    return (f"the scenario differs from the plan, so these no longer hold: {said}",) * bool(said)


def _tiles(document: Any) -> tuple[Tile, ...]:
    rows = (("gpu_hours", "GPU-time", "GPU-hours"), ("usd", "Cost", "USD"), ("energy_j", "Energy", "J"),
            ("flop", "Compute", "FLOP"))  # fmt: skip
    total = document["total"]
    return tuple(
        Tile(label, words(point(total[key]), unit), interval_words(total[key], unit), point(total[key]), key)
        for key, label, unit in rows
    )


def _plots(document: Any, ledger: Ledger) -> tuple[Plot, ...]:
    found = [
        Plot("shares", "Three ledgers, two currencies", "The same life counted in FLOP and in GPU-time: what is cheap "
             "in one is dear in the other.", plots.shares_figure(document), "gpu_hours"),
        Plot("phases", "GPU-hours of each ledger", "Median and 90 % interval; the hill is the distribution.",
             plots.phases_figure(ledger), "gpu_hours"),
        Plot("bounds", "What binds each step", "Compute, memory, network, or overhead.", plots.bounds_figure(ledger),
             "utilization_fraction"),
    ]  # fmt: skip
    if document["drivers"]:
        found.append(Plot("drivers", "What drives the spread", "Rank correlation of each uncertain input with the "
                          "totals: narrow the upper ones first.", plots.drivers_figure(document, 6),
                          "gpu_hours"))  # fmt: skip
    if ledger.phases["inference"].curves:
        found.append(Plot("speed", "What speed costs", "Each engine over its batches; the ring is the batch in use.",
                          plots.speed_figure(ledger), "busy_gpu_hours"))  # fmt: skip
    return tuple(found)


def _phases(document: Any) -> Table:
    columns = (("tokens", "tokens", "tokens"), ("flop", "FLOP", "FLOP"), ("gpu_hours", "GPU-hours", "GPU-hours"),
               ("utilization_fraction", "utilisation", "fraction"), ("usd", "cost", "USD"))  # fmt: skip
    rows = []
    for name, phase in document["phases"].items():
        cells = [words(point(phase[key]), unit).removesuffix(f"\u00a0{label}") for key, label, unit in columns]
        rows.append([PHASE_NAMES[name], *cells])
    return Table("The ledgers", ["ledger", *(f"{label} #" for _, label, _ in columns)], rows,
                 "gpu_hours")  # fmt: skip


def _notes(document: Any) -> tuple[str, ...]:
    chosen = choice_words(document["phases"])
    return (*chosen, *_assumed(document))


def _assumed(document: Any) -> tuple[str, ...]:
    return tuple(
        f"assumed, because the scenario does not say: {one['name'].replace('.', ' ').replace('_', ' ')} = "
        f"{words(point(one['value']), one['unit'])}" for one in document["assumptions"]
    )  # fmt: skip


PAGE = Page(
    "life",
    "Life",
    "What does a model's whole life cost, and which ledger takes it?",
    _CONTROLS,
    _answer,
    _view,
    presets={
        "DeepSeek-V3 and R1, as published": {},
        "A dense 405B, served for a year": {"plan": "llama-3.1-405b"},
        "RL as dear as pretraining": {"rl.steps": "200K", "rl.rollout": "8K", "rl.gpus": "2048"},
        "A model that few use": {"inference.rate": "50K..200K"},
    },
    bases=_BOXES,
)  # fmt: skip
