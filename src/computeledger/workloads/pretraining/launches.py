"""A layout written as training frameworks take it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from computeledger.arrays import median
from computeledger.errors import InputError, nearest
from computeledger.physics.training.batch import BY_OPERATION, RECOMPUTE, REVERSIBLE, Batch
from computeledger.workloads.launches import Launch, fill, load_templates
from computeledger.workloads.pretraining.estimate import PretrainingScenario
from computeledger.workloads.pretraining.expressible import sequence_unit
from computeledger.workloads.pretraining.megatron import megatron_launch
from computeledger.workloads.questions.pretrain import EMITTED

#: Where the templates of training frameworks lie.
PACKAGE = "computeledger.workloads.pretraining"


@dataclass(frozen=True, slots=True)
class Job:
    """What a launch has to say beside a configuration.

    Attributes
    ----------
    n_scale_up : int
        GPUs of a scale-up domain, or chips of a slice [-].
    vendor : str
        Maker of the chips.
    has_mx : bool
        Whether they multiply blocks of 32 with a scale each (MX formats).
    capacity_factor : float or None
        What experts take at most, over the mean; None drops no token [-].
    left_out : tuple of str
        What was asked and no file of a framework holds.
    """

    n_scale_up: int
    vendor: str = "NVIDIA"
    has_mx: bool = False
    capacity_factor: float | None = None
    left_out: tuple[str, ...] = ()


def launch(framework: str, scenario: PretrainingScenario, job: Job) -> Launch:
    """Write a configuration as a framework takes it.

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> from computeledger.physics.parallelism import Layout
    >>> from computeledger.physics.roofline import Precision
    >>> from computeledger.physics.training.batch import Batch
    >>> scenario = PretrainingScenario(load_model("llama-3.1-8b"), Layout(tp=2, dp=4), Precision(), Batch(8192, 128))
    >>> dict(launch("torchtitan", scenario, Job(8)).arguments)["--parallelism.tensor_parallel_degree"]
    '2'
    """
    if framework not in EMITTED:
        raise InputError(f"emit {framework!r}: {nearest(framework, EMITTED)}")
    recompute = scenario.batch.recompute
    if recompute == REVERSIBLE:
        raise InputError(f"--emit {framework}: it has no reversible layers; it recomputes none, selective or full")
    if recompute == BY_OPERATION and framework != "torchtitan":
        raise InputError(f"--emit {framework}: {recompute} is torchtitan's; it recomputes none, selective or full")
    _check_divides(framework, scenario)
    said = values(scenario, job)
    missing = [f"cannot be expressed here: {one}" for one in (*job.left_out, *_missing(framework, scenario))]
    if framework == "megatron":
        return megatron_launch(scenario, said, missing)
    return fill(framework, load_templates(PACKAGE)[framework], said, missing)


def _check_divides(framework: str, scenario: PretrainingScenario) -> None:
    """Refuse what a framework refuses when it starts: pieces of a sequence or of a batch that are not whole."""
    layout, batch = scenario.layout, scenario.batch
    tp, cp, dp = (int(median(one)) for one in (layout.tp, layout.cp, layout.dp))
    sequence, unit = median(batch.sequence_tokens), int(sequence_unit(framework, tp, cp))
    if sequence % unit:
        near = max(round(sequence / unit), 1) * unit
        raise InputError(
            f"--emit {framework}: a sequence of {sequence:.0f} tokens does not divide over tp{tp} and cp{cp}, which "
            f"take multiples of {unit}; nearest: --sequence-tokens {near}"
        )
    sequences, each = int(median(batch.global_sequences)), dp * int(median(batch.microbatch_sequences))
    if sequences % each:
        raise InputError(
            f"--emit {framework}: a batch of {sequences} sequences does not divide into microbatches of dp{dp}: it "
            f"takes multiples of {each}"
        )


def _missing(framework: str, scenario: PretrainingScenario) -> Iterator[str]:
    """What a scenario holds and no option of the framework does."""
    stack, lora = scenario.batch.stack, scenario.lora
    if stack.activation_precision != "bf16":
        yield f"kept activations in {stack.activation_precision}, beside those that 8-bit products keep anyway"
    if median(stack.residual_streams) > 1:
        yield f"{median(stack.residual_streams):g} residual streams: they are the model's own"
    if scenario.sites is not None:
        yield f"{scenario.sites.n} sites and their exchange"
    if lora is not None and not (framework == "megatron-bridge" and _has_bridge_targets(scenario)):
        yield f"adapters (LoRA) of rank {lora.rank} on {lora.targets} layers: add them"


def _has_bridge_targets(scenario: PretrainingScenario) -> bool:
    """Whether Megatron-Bridge's names of adapted layers are those of a model without experts and latents."""
    mixers = [group.attention for group in scenario.model.layers]
    return not scenario.model.is_moe and not any(one.kv_lora_rank for one in mixers)


def products_of(scenario: PretrainingScenario, job: Job) -> str:
    """Precision of products with their scales, in words that templates turn into a framework's own.

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> from computeledger.physics.parallelism import Layout
    >>> from computeledger.physics.roofline import parse_precision
    >>> scenario = PretrainingScenario(load_model("llama-3.1-8b"), Layout(), parse_precision("fp8"), Batch(8192, 128))
    >>> products_of(scenario, Job(8))
    'fp8 per tensor'
    """
    name, recipe = scenario.precision.name, scenario.batch.stack.recipe
    if name not in ("fp8", "fp4"):
        return name
    blocks_of_32 = name == "fp8" and recipe == "block" and job.has_mx
    return f"{name} per {'block of 32' if blocks_of_32 else recipe}"


def values(scenario: PretrainingScenario, job: Job) -> dict[str, str]:
    """What templates may name, as text; empty where it does not apply.

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> from computeledger.physics.parallelism import Layout
    >>> from computeledger.physics.roofline import Precision
    >>> from computeledger.physics.training.batch import Batch
    >>> scenario = PretrainingScenario(load_model("llama-3.1-8b"), Layout(dp=8), Precision(), Batch(8192, 128))
    >>> values(scenario, Job(8))["rounds"], values(scenario, Job(8))["piped_rounds"]
    ('16', '')
    """
    layout, batch, model = scenario.layout, scenario.batch, scenario.model
    stack, away = batch.stack, batch.offloaded
    tp, pp, dp, cp, ep = (int(median(one)) for one in (layout.tp, layout.pp, layout.dp, layout.cp, layout.ep))
    pieces, micro = int(median(batch.virtual_stages)), int(median(batch.microbatch_sequences))
    sequence, sequences = median(batch.sequence_tokens), int(median(batch.global_sequences))
    rounds = max(sequences // (dp * micro), 1)
    # padding is read and not trained on
    samples = median(scenario.tokens) / sequence / batch.useful_fraction
    named = batch.recompute not in (*RECOMPUTE, BY_OPERATION)
    out = {
        "tp": tp, "pp": pp, "dp": dp, "cp": cp, "ep": ep, "gpus": tp * pp * dp * cp, "micro": micro, "rounds": rounds,
        "tp_if_cut": tp if tp > 1 else "", "cp_if_cut": cp if cp > 1 else "", "processes": tp * dp * cp,
        "sequence_parallel": "true" if tp > 1 else "", "pieces": pieces if pieces > 1 else "",
        "experts_over": ep if model.is_moe else "", "experts_cut": expert_tensor(tp, ep) if model.is_moe else "",
        "sequence": f"{sequence:.0f}", "sequences": sequences, "micro_tokens": f"{micro * sequence:.0f}",
        "batch_tokens": f"{sequences * sequence:.0f}", "samples": math.ceil(samples) if samples else "",
        "steps": math.ceil(samples / sequences) if samples else "",
        "recompute": "named" if named else batch.recompute,
        "recompute_modules": batch.recompute if named else "core_attn" if batch.recompute == "selective" else "",
        "checkpointing": {BY_OPERATION: "selective", "none": "none", "full": "full"}.get(batch.recompute, ""),
        "products": products_of(scenario, job), "optimizer": stack.optimizer, "moments": stack.moment_precision,
        "zero": 3 if batch.sharded_weights else 2 if stack.sharded_gradients else 1, "schedule": scenario.schedule,
        "piped_schedule": "" if pp == 1 else "interleaved" if pieces > 1 else scenario.schedule,
        "piped_rounds": rounds if pp > 1 else "", "even_stages": "false" if model.n_layers % (pp * pieces) else "true",
        "whole_rounds": "false" if rounds % pp else "true",
        "piece_layers": "" if pp == 1 or model.n_layers % (pp * pieces) else model.n_layers // (pp * pieces),
        **{f"{name}_away": "true" if name in away else "" for name in ("activations", "optimizer", "weights")},
        "optimizer_alone_away": "true" if "optimizer" in away and "weights" not in away else "",
        "mtp": stack.mtp_layers or "", "no_mtp": "null" if model.n_mtp_layers and not stack.mtp_layers else "",
        "mode": "" if scenario.lora is None else "lora", "accumulated": rounds if pp == 1 else 1,
        "per_device": f"{sequences / (tp * pp * dp * cp) / (rounds if pp == 1 else 1):g}",
        "capacity": "" if job.capacity_factor is None else f"{job.capacity_factor:g}",
        "no_dropless": "" if job.capacity_factor is None else "false",
        "packing": _packing(batch), "hardware": "" if job.vendor == "Google" else "gpu",
        "products_there": products_of(scenario, job) + (" on AMD" if job.vendor == "AMD" else ""),
        **_adapters(scenario), **_mesh(scenario, job.n_scale_up),
    }  # fmt: skip
    return {name: str(value) for name, value in out.items()}


def expert_tensor(tp: int, ep: int) -> int:
    """Tensor-parallel ranks that are left to each expert where experts take ranks of it.

    Examples
    --------
    >>> expert_tensor(8, 2), expert_tensor(2, 8), expert_tensor(6, 4)
    (4, 1, 1)
    """
    return tp // ep if tp % ep == 0 else 1


def _packing(batch: Batch) -> str:
    """How documents share sequences; empty where each sequence is one."""
    if batch.documents is None:
        return ""
    if batch.useful_fraction < 1:
        return "padded"
    return "masked" if median(batch.attended_tokens) < median(batch.sequence_tokens) else "joined"


def _adapters(scenario: PretrainingScenario) -> dict[str, str]:
    """Rank of adapters and, where not all layers have them, their layers."""
    lora = scenario.lora
    if lora is None or not _has_bridge_targets(scenario):
        return {"lora_rank": "", "lora_targets": ""}
    return {"lora_rank": str(lora.rank), "lora_targets": "" if lora.targets == "all" else lora.targets}


#: Axes of MaxText's mesh, in the order in which they take the chips of a slice: the busiest first.
AXES = ("tensor", "context", "expert", "fsdp", "data", "pipeline")


def _mesh(scenario: PretrainingScenario, n_scale_up: int) -> dict[str, object]:
    """Axes of MaxText's mesh inside a slice (ici) and over slices (dcn); experts take ranks of data parallelism."""
    layout = scenario.layout
    tp, pp, dp, cp, ep = (int(median(one)) for one in (layout.tp, layout.pp, layout.dp, layout.cp, layout.ep))
    n_gpus, beside = tp * pp * dp * cp, max(dp // ep, 1)
    sharded = scenario.batch.sharded_weights
    sizes = dict(zip(AXES, (tp, cp, ep, beside if sharded else 1, 1 if sharded else beside, pp), strict=True))
    slices = next(count for count in range(1, n_gpus + 1) if n_gpus % count == 0 and n_gpus <= count * n_scale_up)
    free, out = n_gpus // slices, dict[str, object]()
    for axis, size in sizes.items():
        inside = math.gcd(size, free)
        free //= inside
        outside = size // inside
        out |= {f"ici_{axis}": inside, f"dcn_{axis}": outside if outside > 1 or axis == "data" else ""}
    return {**out, "ici": n_gpus // slices, "slices": slices, "is_mesh": "false" if dp % ep else "true"}
