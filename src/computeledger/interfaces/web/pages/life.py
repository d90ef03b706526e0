"""The page *Life*: the three phases of a model's life in two currencies."""

from __future__ import annotations

import dataclasses
import math
import tomllib
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from computeledger.economics.plan.ledger import Ledger
from computeledger.economics.plan.read import read_plan
from computeledger.facts.load import (
    bundled_system_id,
    load_model,
    load_system,
    model_ids,
    model_name,
    offered_systems,
)
from computeledger.facts.schema import Fact
from computeledger.interfaces.view import Tile
from computeledger.interfaces.views.display_names import chip_name
from computeledger.interfaces.views.evidence import unmeasured
from computeledger.interfaces.views.plan import currencies, ledger_view, stated_beside
from computeledger.interfaces.views.published import off_words, published_hours
from computeledger.interfaces.web.plan_boxes import PLANS, box, boxes_of, plan_tables, plan_text, plan_toml
from computeledger.interfaces.web.spec import PLAN, Answer, Control, Page, Values, View
from computeledger.physics.calibration.efficiency import median_of
from computeledger.physics.parallelism import parse_layout
from computeledger.questions.answers.plan import answer_plan
from computeledger.questions.plan import PlanQuestion
from computeledger.questions.wording import (
    PHASE_NAMES,
    listed,
    point,
    short_model,
    trusted_to_words,
    with_interval_words,
    words,
)
from computeledger.units import KILO, MEGA, format_si
from computeledger.workloads.questions.setup import BACKENDS
from computeledger.workloads.serving.pool_search import MOST_BUSY_FRACTION

_SCENARIO = (
    Control("model", "Model", "choice", choices=tuple(model_ids()), choice_of=model_name,
            group="What"),
    Control("system", "System", "choice", choices=tuple(offered_systems()), choice_of=bundled_system_id,
            group="What", help="One node, such as 8 H800; GPUs counts those of all nodes."),
    Control("precision", "Precision", "choice", choices=("", "bf16", "fp8", "fp4"), blank="the model's own",
            follows="model", group="What"),
    box("price", "GPU-hour", follows="system", group="What", blank="rent"),
    box("pretraining.tokens", "Tokens", low=1e11, high=1e14, group="Pretraining"),
    box("pretraining.gpus", "GPUs", unit="GPUs", high=65536, is_power=True, group="Pretraining"),
    box("pretraining.global_batch", "Global batch", group="Pretraining", whole=False, high=5e8),
    box("pretraining.utilization", "Utilisation", unit="fraction", log=False, group="Pretraining"),
    box("rl.gpus", "GPUs", unit="GPUs", high=65536, is_power=True, group="RL"),
    box("rl.steps", "Steps", unit="steps", low=10, whole=True, group="RL"),
    box("rl.prompts_per_step", "Prompts per step", unit="prompts", whole=True, group="RL"),
    box("rl.group_size", "Rollouts per prompt", unit="rollouts", whole=True, group="RL"),
    box("rl.rollout", "Rollout", group="RL"),
    box("rl.prompt", "Prompt", group="RL"),
    box("inference.rate", "Traffic", group="Inference", help="Input and output together."),
    box("inference.life", "Life", unit="days", low=1, high=1500, group="Inference"),
    box("inference.input", "New input", group="Inference"),
    box("inference.cached", "Cached prefix", has_zero=True, group="Inference", blank="none"),
    box("inference.output", "Output", group="Inference"),
    box("inference.tpot", "Slowest time per token", unit="ms", low=5, high=500, group="Inference", blank="none",
        shares=()),
    box("inference.backend", "Engine", kind="choice", choices=("", *BACKENDS), group="Inference",
        blank="as on Serve"),
    box("inference.occupancy", "Busy share", unit="fraction", log=False, group="Inference"),
    box("income.input_price", "Input token", group="Income", blank="not sold"),
    box("income.cached_price", "Cached input token", group="Income", blank="as input"),
    box("income.output_price", "Output token", group="Income", blank="not sold"),
    box("income.batch_share", "Sold as batches", unit="fraction", log=False, group="Income", blank="none"),
    box("income.subscription_price", "Subscription, a month", group="Income", blank="none"),
    box("income.paying_users", "Subscribers", group="Income", blank="none"),
    box("income.subscription_traffic", "Their share of the traffic", unit="fraction", log=False, group="Income",
        blank="none"),
    box("income.free_users", "Free users", group="Income", blank="none"),
    box("income.free_traffic", "Free users' share of the traffic", unit="fraction", log=False, group="Income",
        blank="none"),
    box("income.conversion", "Free users who start to pay, by month", unit="fraction", log=False, group="Income",
        blank="none"),
    box("income.churn", "Subscribers lost by month", unit="fraction", log=False, group="Income", blank="none"),
    box("income.growth", "Growth by month", unit="fraction", log=False, group="Income", blank="none"),
    box("income.price_decline", "Competitors' decline by month", unit="fraction", log=False, group="Income",
        blank="17..26%"),
    box("income.follow", "How far the price follows", unit="fraction", log=False, group="Income", blank="25..75%"),
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
    found = answer_plan(PlanQuestion(plan=read_plan(tables, "PLAN.toml")))
    text = plan_toml(values["plan"]) if is_published else plan_text(tables)
    return Answer(found.to_dict(working=working), "computeledger plan PLAN.toml", (found, dropped), text, values)


def _view(answer: Answer) -> View:
    found, dropped = answer.source
    view = ledger_view(answer.document, found.ledger)
    published = published_hours(*_modelled(answer.document))
    evidence = view.evidence or unmeasured("PlanAnswer")
    stated = _stated_later(answer.document)
    if published and evidence and "gpu_hours" in found.ledger.plan.sections["pretraining"]:
        first = published[0].rows[0]
        said = f"Pretraining took {first[1]} GPU-hours as published; the model gives {first[2]}."
        evidence = dataclasses.replace(evidence, details=f"{said} {evidence.details}".strip())
    if evidence:
        text = " ".join(
            part for part in (_trusted(answer.document), _stated_words(answer.document), evidence.text) if part
        )
        evidence = dataclasses.replace(evidence, text=text)
    published = tuple(
        dataclasses.replace(one, rows=[*one.rows, *stated], is_detail=True, note=_assumed_words(stated))
        for one in published
    )
    ledger, *others = view.tables
    left = _left_over(answer.asked, answer.document)
    address = _serve_address(answer, found.ledger)
    return dataclasses.replace(
        view,
        context=f"{left} {currencies(answer.document, found.ledger)}" if left else view.context,
        tiles=_on_serve(view.tiles, address),
        plots=tuple(
            dataclasses.replace(one, also=("Serve with these settings", address)) if one.name == "speed" else one
            for one in view.plots
        ),
        evidence=evidence,
        tables=(ledger, *published, *others),
        facts=(),  # below the plots, which are what a slider moves
        notes=(
            *_dropped(dropped),
            *view.notes,
            *(f"{label}: {text}" for label, text in view.facts if not _is_aside(label, text)),
        ),
        working=(),
    )


#: Ends of labels of facts that define a coefficient, which the page does not show.
_DEFINES = ("MFU", "compares with")


def _is_aside(label: str, text: str) -> bool:
    """Whether a fact stands elsewhere on the page, or defines what is not on it."""
    return text.startswith("the plan states") or label.endswith(_DEFINES)


#: Boxes that a plan fills for its own model, in the order of the first lines.
_RL = tuple(one.name for one in _SCENARIO if one.name.startswith("rl."))


def _left_over(asked: Mapping[str, str], document: Mapping[str, Any]) -> str:
    """What stands as the plan's own model had it, beside another model.

    Examples
    --------
    >>> asked = {"model": "Qwen/Qwen3-8B", "pretraining.tokens": "14.8T", "inference.rate": "1B"}
    >>> _left_over(asked, {"phases": {"pretraining": {"model": "Qwen/Qwen3-8B"}}})
    "Still DeepSeek-V3's: 14.8T tokens (published: 36T)."
    """
    base = _BOXES.get(asked.get("plan", ""), _BOXES[PLANS[0]])
    if asked.get("model", base["model"]) == base["model"]:
        return ""
    chip = f" {chip_name(load_system(base['system']).accelerator.id)}" if asked.get("system") == base["system"] else ""
    parts = (
        (("pretraining.tokens",), f"{base['pretraining.tokens']} tokens{_own_tokens(document)}"),
        (("pretraining.gpus",), f"{int(base['pretraining.gpus']):,}{chip or ' GPUs'}"),
        (_RL, "RL"),
        (("inference.rate",), "traffic"),
    )
    left = [said for names, said in parts if all(asked.get(one, "") == base[one] for one in names)]
    return f"Still {short_model(base['model'])}'s: {listed(left)}." if left else ""


def _own_tokens(document: Mapping[str, Any]) -> str:
    """Tokens that the model was in truth pretrained on, where its makers published them."""
    model = next(one["model"] for one in document["phases"].values())
    known = load_model(model).published.get("tokens_pretraining")
    return f" (published: {format_si(known.value)})" if known else ""


def _serve_address(answer: Answer, ledger: Ledger) -> str:
    """Serve with the plan's settings of serving, its lengths and its price; empty where the model is not served."""
    section = ledger.plan.sections.get("inference")
    if section is None or "inference" not in answer.document["phases"]:
        return ""
    phase, asked = answer.document["phases"]["inference"], answer.asked
    fields = {"model": phase["model"], "system": str(section.values.get("system", asked.get("system", "")))}
    fields["price"] = asked.get("price", "")
    fields["precision"] = str(section.values.get("precision", asked.get("precision", "")))
    for name in ("backend", "tuning", "layout", "prefill_layout", "tpot", *_COUNTS):
        value = section.values.get(name)
        if value is not None:
            said = f"{KILO * median_of(value):g}ms" if name == "tpot" else _said(value)
            fields[name.replace("_", "-")] = said
    if section.values.get("two_batches") == "yes":
        fields["two-batches"] = "on"
    reads, decodes = (section.values.get(name) for name in ("prefill_layout", "layout"))
    if isinstance(reads, str) and isinstance(decodes, str):
        gpus = _gpus_of_pools(phase, int(parse_layout(reads).n_gpus), int(parse_layout(decodes).n_gpus))
        fields |= {"mode": "disaggregated", "gpus": str(gpus)}
    return f"/serve?{urlencode({name: value for name, value in fields.items() if value})}"


#: Counts that a plan may state of serving, as Serve has them.
_COUNTS = ("batch", "redundant_experts", "input_tokens", "cached_tokens", "output_tokens")


def _said(value: Any) -> str:
    return value if isinstance(value, str) else f"{median_of(value):.0f}"


def _gpus_of_pools(phase: Mapping[str, Any], reads: int, decodes: int) -> int:
    """GPUs of one decode worker and of the prefill workers that keep up with it, with one to spare."""
    details = phase["details"]
    made_usd = point(details["output_tokens"]) / MEGA * point(details["inference: usd_per_mtok_output"])
    others = max(point(phase["usd"]) / made_usd - 1, 0.0) if made_usd else 0.0
    return decodes + reads * (math.ceil(others * decodes / reads / MOST_BUSY_FRACTION) + 1)


def _on_serve(tiles: tuple[Tile, ...], address: str) -> tuple[Tile, ...]:
    """The first figure leads to the page that serves the model alone."""
    if not address or not tiles:
        return tiles
    return (dataclasses.replace(tiles[0], also=("Serve it alone", address)), *tiles[1:])


def _trusted(document: Mapping[str, Any]) -> str:
    """How far the total can be trusted, by its own interval: no whole life was measured."""
    cost = document["total"]["usd"]
    if not isinstance(cost, Mapping) or cost["p05"] <= 0:  # nothing is uncertain of it, or GPU-time costs nothing
        return ""
    return f"Trust the total to {trusted_to_words(cost)} in nine of ten cases, if its inputs hold."


def _stated_words(document: Mapping[str, Any]) -> str:
    """Phases that count GPU-hours which the plan states, and what the total would be by the model's."""
    total, out = point(document["total"]["gpu_hours"]), []
    for name, phase in document["phases"].items():
        modelled = stated_beside(phase)
        if name == "pretraining" or modelled is None:
            continue
        stated = point(phase["gpu_hours"])
        more = words(abs(point(modelled) - stated) / total, "fraction", 2)
        side = "more" if point(modelled) > stated else "less"
        out.append(
            f"{PHASE_NAMES[name]} counts the {words(stated, '')} GPU-hours that were published; by the plan's assumed "
            f"steps and lengths it would be {words(point(modelled), '', 2)}, which is {more} {side} in all."
        )
    return " ".join(out)


def _stated_later(document: Mapping[str, Any]) -> list[list[str]]:
    """GPU-hours that a plan states of phases after pretraining, beside those that the engine gives."""
    return [
        [
            PHASE_NAMES[name],
            words(point(phase["gpu_hours"]), ""),
            with_interval_words(modelled, ""),
            off_words(point(modelled), point(phase["gpu_hours"])),
            "stated in the plan",
        ]
        for name, phase in document["phases"].items()
        if name != "pretraining" and (modelled := stated_beside(phase)) is not None
    ]


def _assumed_words(stated: list[list[str]]) -> str:
    """Why the model is far from GPU-hours of a later phase."""
    if not stated:
        return ""
    phases = listed([row[0] for row in stated])
    return f"{phases}: the GPU-hours are published, steps and lengths are not; the model runs what the plan assumes"


def _modelled(document: Any) -> tuple[Mapping[str, Fact], Any]:
    """What is published of the model; GPU-hours of pretraining as the engine gives them, whatever the plan states."""
    phase = document["phases"]["pretraining"]
    return load_model(phase["model"]).published, phase["details"].get("modelled_gpu_hours", phase["gpu_hours"])


def _dropped(dropped: tuple[str, ...]) -> tuple[str, ...]:
    said = ", ".join(one.replace(".", " ").replace("_", " ").replace("gpu hours", "GPU-hours") for one in dropped)
    return (f"the scenario differs from the plan, so these no longer hold: {said}",) * bool(said)


PAGE = Page(
    "life",
    "Life",
    "What does a model cost over its life, and where does it go?",
    _CONTROLS,
    _answer,
    _view,
    short="What does a model cost over its life?",
    section=PLAN,
    presets={
        "DeepSeek-V3 and R1": {},
        "A dense 405B, served for a year": {"plan": "llama-3.1-405b"},
        "RL as dear as pretraining": {"rl.steps": "200K", "rl.rollout": "8K", "rl.gpus": "2048"},
        "A model that few use": {"inference.rate": "50K..200K"},
        "Sold at R1's prices": {
            "income.input_price": "0.55",
            "income.cached_price": "0.14",
            "income.output_price": "2.19",
        },
        "Sold by token and by month": {
            "income.input_price": "0.55",
            "income.cached_price": "0.14",
            "income.output_price": "2.19",
            "income.subscription_price": "10",
            "income.paying_users": "5M",
            "income.subscription_traffic": "0.1",
            "income.free_users": "100M",
            "income.free_traffic": "0.5",
            "income.conversion": "0.002..0.01",
            "income.churn": "0.04..0.1",
        },
    },
    bases=_BOXES,
    is_ahead=True,
)
