"""From parsed options to a pretraining document: the call that the command line and the web share."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from computeledger.errors import InputError, nearest
from computeledger.facts.load import (
    load_model,
    load_system,
)
from computeledger.interfaces import documents
from computeledger.interfaces.answers_setting import check_positive, draw_machine, is_moe, price_of, whole_number
from computeledger.physics.efficiency import middle
from computeledger.physics.parallelism import Layout, check_layout, parse_layout
from computeledger.physics.roofline import parse_precision
from computeledger.physics.training import RECOMPUTE, Batch
from computeledger.workloads.figures import pretraining_figures
from computeledger.workloads.pretraining import (
    PretrainingScenario,
    check_shared,
    estimate_pretraining,
    power_of_two,
    search_pretraining,
    training_layouts,
)


def answer_pretrain(options: Mapping[str, Any]) -> dict[str, Any]:
    """Answer ``computeledger pretrain``."""
    model, system = load_model(options["model"]), load_system(options["system"])
    price, price_ground = price_of(system, options["price"])
    recompute, microbatch = options["recompute"], options["microbatch_sequences"]
    if recompute is not None and recompute not in RECOMPUTE:
        raise InputError(f"--recompute {recompute!r}: {nearest(recompute, RECOMPUTE)}")
    for name in ("tokens", "sequence_tokens", "global_batch_tokens"):
        check_positive(f"--{name.replace('_', '-')}", options[name])
    for name in ("microbatch_sequences", "virtual_stages"):
        check_positive(f"--{name.replace('_', '-')}", float(options[name]) if options[name] is not None else None)
    draws, machine, typical = draw_machine(options, {"tokens": options["tokens"], "price": price})
    sequence, wanted = middle(options["sequence_tokens"]), middle(options["global_batch_tokens"])
    batch = Batch(
        sequence_tokens=sequence,
        global_sequences=float(power_of_two(wanted / sequence)),
        microbatch_sequences=float(microbatch or 1),
        recompute=recompute or "selective",
        virtual_stages=float(options["virtual_stages"]),
    )
    scenario = PretrainingScenario(
        model,
        Layout(),
        parse_precision(options["precision"] or "bf16", is_moe(model)),
        batch,
        draws["tokens"],
        draws["price"],
    )
    gpus = whole_number("--gpus", options["gpus"])
    if options["layout"] is not None:
        layout = parse_layout(options["layout"])
        if gpus is not None and layout.dp == 1 and gpus % int(layout.n_gpus) == 0:
            layout = replace(layout, dp=gpus // int(layout.n_gpus))
        layout = check_layout(layout, model, gpus)
        gpus = gpus or int(layout.n_gpus)
        scenario = check_shared(replace(scenario, layout=layout))
    gpus = gpus or int(system.n_gpus_scale_up.value)
    domain = int(system.n_gpus_scale_up.value)
    search = replace(scenario, tokens=0.0)
    best = [
        one
        for one in search_pretraining(search, training_layouts(model, gpus, domain), typical, top=sys.maxsize)
        if recompute in (None, one.recompute) and microbatch in (None, one.microbatch_sequences)
    ][: options["top"]]
    if not best:
        raise InputError(f"no layout fits with recompute {recompute or 'any'} and microbatch {microbatch or 'any'}")
    if options["layout"] is None:
        first = best[0]
        chosen = replace(batch, microbatch_sequences=float(first.microbatch_sequences), recompute=first.recompute)
        scenario = replace(scenario, layout=first.layout, batch=chosen)
    result = estimate_pretraining(scenario, machine)
    document = {"system": system.id, "accelerator": system.accelerator.id, **documents.pretrain_document(result, best)}
    document |= {"price": price_ground, "efficiency_profile": "assumed", "asked_global_batch_tokens": wanted}
    if options["working"]:
        document["working"] = [documents.figure_document(one) for one in pretraining_figures(result)]
        document["efficiency"] = documents.efficiency_document()
    return document
