"""A layout written as training frameworks take it."""

from __future__ import annotations

import math
from dataclasses import replace

from computeledger.arrays import median
from computeledger.errors import InputError, nearest
from computeledger.physics.training.batch import BY_OPERATION, RECOMPUTE, REVERSIBLE
from computeledger.workloads.launches import Launch, fill, load_templates
from computeledger.workloads.pretraining.estimate import PretrainingScenario
from computeledger.workloads.pretraining.megatron import megatron_launch
from computeledger.workloads.questions.pretrain import EMITTED

#: Where the templates of training frameworks lie.
PACKAGE = "computeledger.workloads.pretraining"


def launch(framework: str, scenario: PretrainingScenario, n_scale_up: int, fp8_recipe: str = "blockwise") -> Launch:
    """Write a configuration as a framework takes it.

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> from computeledger.physics.parallelism import Layout
    >>> from computeledger.physics.roofline import Precision
    >>> from computeledger.physics.training.batch import Batch
    >>> scenario = PretrainingScenario(load_model("llama-3.1-8b"), Layout(tp=2, dp=4), Precision(), Batch(8192, 128))
    >>> dict(launch("torchtitan", scenario, 8).arguments)["--parallelism.tensor_parallel_degree"]
    '2'
    """
    if framework == "megatron":
        return megatron_launch(scenario, fp8_recipe)
    if framework not in EMITTED:
        raise InputError(f"emit {framework!r}: {nearest(framework, EMITTED)}")
    recompute = scenario.batch.recompute
    if recompute == REVERSIBLE:
        raise InputError(f"--emit {framework}: it has no reversible layers; it recomputes none, selective or full")
    if recompute == BY_OPERATION and framework != "torchtitan":
        raise InputError(f"--emit {framework}: {recompute} is torchtitan's; it recomputes none, selective or full")
    if recompute == BY_OPERATION:  # torchtitan's own name, whose option is op where nobody says
        scenario = replace(scenario, batch=replace(scenario.batch, recompute="selective"))
    beside = () if scenario.lora is None else ("adapters (LoRA) are not part of it: add them",)
    return fill(framework, load_templates(PACKAGE)[framework], values(scenario, n_scale_up), beside)


def values(scenario: PretrainingScenario, n_scale_up: int) -> dict[str, str]:
    """What templates may name, as text; empty where it does not apply.

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> from computeledger.physics.parallelism import Layout
    >>> from computeledger.physics.roofline import Precision
    >>> from computeledger.physics.training.batch import Batch
    >>> scenario = PretrainingScenario(load_model("llama-3.1-8b"), Layout(dp=8), Precision(), Batch(8192, 128))
    >>> values(scenario, 8)["rounds"], values(scenario, 8)["piped_rounds"]
    ('16', '')
    """
    layout, batch, model = scenario.layout, scenario.batch, scenario.model
    stack, away = batch.stack, batch.offloaded
    tp, pp, dp, cp, ep = (int(median(one)) for one in (layout.tp, layout.pp, layout.dp, layout.cp, layout.ep))
    pieces, micro = int(median(batch.virtual_stages)), int(median(batch.microbatch_sequences))
    sequence, sequences = median(batch.sequence_tokens), int(median(batch.global_sequences))
    rounds, tokens = max(sequences // (dp * micro), 1), median(scenario.tokens)
    named = batch.recompute not in RECOMPUTE
    out = {
        "tp": tp, "pp": pp, "dp": dp, "cp": cp, "ep": ep, "gpus": tp * pp * dp * cp, "micro": micro, "rounds": rounds,
        "tp_if_cut": tp if tp > 1 else "", "cp_if_cut": cp if cp > 1 else "",
        "sequence_parallel": "true" if tp > 1 else "", "pieces": pieces if pieces > 1 else "",
        "experts_over": ep if model.is_moe else "", "experts_cut": max(tp // ep, 1) if model.is_moe else "",
        "sequence": f"{sequence:.0f}", "sequences": sequences, "micro_tokens": f"{micro * sequence:.0f}",
        "batch_tokens": f"{sequences * sequence:.0f}",
        "steps": math.ceil(tokens / sequences / sequence) if tokens else "",
        "recompute": "named" if named else batch.recompute,
        "recompute_modules": batch.recompute if named else "core_attn" if batch.recompute == "selective" else "",
        "precision": scenario.precision.name, "optimizer": stack.optimizer, "moments": stack.moment_precision,
        "zero": 3 if batch.sharded_weights else 2 if stack.sharded_gradients else 1, "schedule": scenario.schedule,
        "piped_schedule": "" if pp == 1 else "interleaved" if pieces > 1 else scenario.schedule,
        "piped_rounds": rounds if pp > 1 else "", "even_stages": "false" if model.n_layers % (pp * pieces) else "true",
        "piece_layers": "" if pp == 1 or model.n_layers % (pp * pieces) else model.n_layers // (pp * pieces),
        **{f"{name}_away": "true" if name in away else "" for name in ("activations", "optimizer", "weights")},
        "optimizer_alone_away": "true" if "optimizer" in away and "weights" not in away else "",
        "checkpointing": "" if named else batch.recompute, "mtp": stack.mtp_layers or "",
        "accumulated": rounds if pp == 1 else 1,
        "per_device": f"{sequences / (tp * pp * dp * cp) / (rounds if pp == 1 else 1):g}",
        **_slices(scenario, n_scale_up),
    }  # fmt: skip
    return {name: str(value) for name, value in out.items()}


def _slices(scenario: PretrainingScenario, n_scale_up: int) -> dict[str, object]:
    """Data parallelism inside a slice and over slices; MaxText's experts take ranks of it."""
    n_gpus, dp, ep = (int(median(one)) for one in (scenario.layout.n_gpus, scenario.layout.dp, scenario.layout.ep))
    slices = max(n_gpus // n_scale_up, 1)
    fits = dp % (slices * ep) == 0
    inside = dp // (slices * ep) if fits else dp
    sharded = scenario.batch.sharded_weights
    return {
        "ici": n_gpus // slices, "slices": slices, "ici_fits": "true" if fits else "false",
        "ici_fsdp": inside if sharded else 1, "ici_data": 1 if sharded else inside,
    }  # fmt: skip
