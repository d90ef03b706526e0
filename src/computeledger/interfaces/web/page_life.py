"""The page *Life*: the three ledgers of a model's life in two currencies."""

from __future__ import annotations

import json
from typing import Any

from computeledger.economics.ledger import Ledger, estimate_ledger
from computeledger.economics.plan import read_plan
from computeledger.facts.load import model_ids, shipped_model_id, shipped_system_id, system_ids
from computeledger.interfaces import plots
from computeledger.interfaces.documents import plan_document
from computeledger.interfaces.web.spec import Answer, Control, Page, Plot, Table, Tile, Values, View
from computeledger.interfaces.wording import PHASE_NAMES, choice_words, interval_words, percent, point, words

_SAMPLES, _SEED = 4096, 0
_CONTROLS = (
    Control("model", "Model", "choice", default="deepseek-ai/DeepSeek-V3", choices=tuple(model_ids()),
            choice_of=shipped_model_id, group="What"),
    Control("system", "System", "choice", default="h800-nvl8", choices=tuple(system_ids()),
            choice_of=shipped_system_id, group="What"),
    Control("price", "GPU-hour", unit="$/h", default="2", low=0.5, high=20, group="What"),
    Control("pretraining.tokens", "Tokens", unit="tokens", default="14.8T", low=1e11, high=1e14, group="Pretraining"),
    Control("pretraining.gpus", "GPUs", unit="GPUs", default="2048", low=8, high=65536, whole=True, is_power=True,
            group="Pretraining"),
    Control("pretraining.global_batch", "Global batch", unit="tokens", default="62.9M", low=1e5, high=5e8,
            group="Pretraining", help="Tokens per optimiser step; empty: 4.19M."),
    Control("pretraining.utilization", "Utilisation", unit="fraction", low=0.05, high=0.7, log=False,
            group="Pretraining",
            help="FLOP over dense bf16 peak; empty: modelled."),
    Control("rl.gpus", "GPUs", unit="GPUs", default="512", low=8, high=65536, whole=True, is_power=True, group="RL"),
    Control("rl.steps", "Steps", unit="steps", default="8K..12K", low=10, high=100000, whole=True, group="RL"),
    Control("rl.prompts_per_step", "Prompts a step", unit="prompts", default="32", low=1, high=4096, whole=True,
            group="RL"),
    Control("rl.group_size", "Rollouts a prompt", unit="rollouts", default="16", low=1, high=256, whole=True,
            group="RL"),
    Control("rl.rollout", "Rollout", unit="tokens", default="4K..10K", low=128, high=131072, whole=True, group="RL"),
    Control("rl.prompt", "Prompt", unit="tokens", default="200..600", low=16, high=65536, whole=True, group="RL"),
    Control("inference.rate", "Traffic", unit="tokens/s", default="5M..15M", low=1e3, high=2e9, group="Inference"),
    Control("inference.life", "Life", unit="days", default="180..365", low=1, high=1500, group="Inference"),
    Control("inference.input", "New input", unit="tokens", default="2000", low=64, high=131072, whole=True,
            group="Inference"),
    Control("inference.cached", "Cached prefix", unit="tokens", default="2500", low=64, high=131072, whole=True,
            has_zero=True, group="Inference"),
    Control("inference.output", "Output", unit="tokens", default="1200", low=16, high=65536, whole=True,
            group="Inference"),
    Control("inference.tpot", "Slowest time per token", unit="ms", default="50", low=5, high=500, group="Inference"),
    Control("inference.occupancy", "Busy share", unit="fraction", default="0.6..0.95", low=0.05, high=1, log=False,
            group="Inference", help="Busy GPU-hours over those paid for."),
)  # fmt: skip
#: Units that a plan's bare number has anyway.
_UNWRITTEN = ("fraction", "rollouts")
_UNITS = {one.name: "" if one.unit in _UNWRITTEN else one.unit for one in _CONTROLS}


def plan_tables(values: Values) -> dict[str, Any]:
    """Tables of the plan that the controls describe.

    Parameters
    ----------
    values : dict of str to str
        Of the page.

    Returns
    -------
    dict
        As a PLAN.toml holds them.

    Examples
    --------
    >>> plan_tables({"price": "2", "rl.gpus": "8"})
    {'title': 'A scenario', 'price': '2 $/h', 'pretraining': {}, 'rl': {'gpus': '8 GPUs'}, 'inference': {}}
    """
    tables: dict[str, Any] = {"title": "A scenario"}
    sections: dict[str, dict[str, str]] = {"pretraining": {}, "rl": {}, "inference": {}}
    for name, text in values.items():
        section, _, key = name.rpartition(".")
        plain = text[-1:].isdigit() or text[-1:] in "kKMGBTP"
        written = f"{text} {_UNITS[name]}" if plain and _UNITS[name] else text
        (sections[section] if section else tables)[key] = written
    return {**tables, **sections}


def plan_text(tables: dict[str, Any]) -> str:
    """The same as the text of a PLAN.toml.

    Parameters
    ----------
    tables : dict
        Of :func:`plan_tables`.

    Returns
    -------
    str
        TOML.

    Examples
    --------
    >>> print(plan_text({"price": "2 $/h", "rl": {"gpus": "8 GPUs"}}), end="")
    price = "2 $/h"
    <BLANKLINE>
    [rl]
    gpus = "8 GPUs"
    """
    top = [f"{key} = {json.dumps(value)}" for key, value in tables.items() if not isinstance(value, dict)]
    for name, section in tables.items():
        if isinstance(section, dict):
            top += ["", f"[{name}]", *(f"{key} = {json.dumps(value)}" for key, value in section.items())]
    return "\n".join(top) + "\n"


def _answer(values: Values, working: bool) -> Answer:
    tables = plan_tables(values)
    ledger = estimate_ledger(read_plan(tables, "PLAN.toml"), _SAMPLES, _SEED)
    return Answer(plan_document(ledger, working=working), "computeledger plan PLAN.toml", ledger, plan_text(tables))


def _view(answer: Answer) -> View:
    document, ledger = answer.document, answer.source
    shares = document["shares"]["gpu_time"]
    largest = max(shares, key=lambda name: point(shares[name]))
    total = document["total"]
    headline = (
        f"{words(point(total['gpu_hours']), 'GPU-hours')} over the model's life, "
        f"{words(point(total['usd']), 'USD')}; {PHASE_NAMES[largest]} takes "
        f"{percent(point(shares[largest]))} of the GPU-time."
    )
    return View(headline, _tiles(document), _plots(document, ledger), (_phases(document),), _notes(document))


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
        "DeepSeek-V3 and R1, about as published": {},
        "A dense 405B, served for a year": {
            "model": "meta-llama/Meta-Llama-3.1-405B", "system": "h100-nvl8", "price": "2..3",
            "pretraining.tokens": "15.6T", "pretraining.gpus": "16384", "pretraining.global_batch": "16.8M",
            "rl.gpus": "4096", "rl.steps": "1K..3K",
            "rl.prompts_per_step": "512", "rl.rollout": "2K..6K", "rl.prompt": "300..800", "inference.rate": "200K..2M",
            "inference.input": "1500..3000", "inference.cached": "0", "inference.output": "300..800",
            "inference.tpot": "60", "inference.occupancy": "0.4..0.8",
        },
        "RL as dear as pretraining": {"rl.steps": "200K", "rl.rollout": "8K", "rl.gpus": "2048"},
        "A model that few use": {"inference.rate": "50K..200K"},
    },
)  # fmt: skip
