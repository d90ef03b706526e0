"""The arguments of Megatron-LM that launch a configuration.

Names as its parser has them at :data:`COMMIT` (https://github.com/NVIDIA/Megatron-LM).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from computeledger.arrays import median
from computeledger.errors import InputError
from computeledger.facts.architecture import Attention, FeedForward, Model
from computeledger.physics.attention import mixer_of
from computeledger.physics.training.batch import RECOMPUTE, Batch
from computeledger.units import format_count
from computeledger.workloads.launches import Launch
from computeledger.workloads.pretraining.estimate import PretrainingScenario

#: Optimizers that it has: the usual one by another name.
OPTIMIZERS = ("adamw", "sgd", "lion", "muon", "soap")
#: Where the names are from.
COMMIT = "commit d98e8a6, 2026-08-22"
#: Arguments of 8- and 4-bit products, by what they are scaled over.
PRODUCTS = {
    "bf16": {},
    "fp8 per tensor": {"--fp8-format": "hybrid", "--fp8-recipe": "tensorwise"},
    "fp8 per block": {"--fp8-format": "e4m3", "--fp8-recipe": "blockwise"},
    "fp8 per block of 32": {"--fp8-format": "e4m3", "--fp8-recipe": "mxfp8"},
    "fp4 per block": {"--fp4-format": "e2m1", "--fp4-recipe": "nvfp4"},
}


def megatron_launch(scenario: PretrainingScenario, said: Mapping[str, str], missing: Sequence[str] = ()) -> Launch:
    """Write a configuration as arguments of Megatron-LM; remarks end with what is ``missing``.

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> from computeledger.physics.parallelism import Layout
    >>> from computeledger.physics.roofline import Precision
    >>> from computeledger.physics.training.batch import Batch
    >>> scenario = PretrainingScenario(load_model("llama-3.1-8b"), Layout(tp=2, dp=4), Precision(), Batch(8192, 128))
    >>> from computeledger.workloads.pretraining.launches import Job, values
    >>> dict(megatron_launch(scenario, values(scenario, Job(8))).arguments)["--tensor-model-parallel-size"]
    '2'
    """
    if scenario.schedule != "1f1b":
        raise InputError(
            f"--emit megatron: Megatron-LM has no {scenario.schedule} schedule; it runs 1f1b and interleaved"
        )
    if scenario.batch.stack.optimizer not in OPTIMIZERS:
        known = ", ".join(OPTIMIZERS)
        raise InputError(f"--emit megatron: Megatron-LM has no {scenario.batch.stack.optimizer}; it has {known}")
    arguments = [*_parallel(scenario, said), *_batch(said), *_recompute(scenario), ("--bf16", "")]
    arguments += PRODUCTS.get(said["products"], {}).items()
    arguments += _shape(scenario.model, scenario.batch.stack.mtp_layers)
    if said["capacity"]:
        arguments.append(("--moe-expert-capacity-factor", said["capacity"]))
    remarks = (f"megatron as of {COMMIT}", *_remarks(scenario, said), *missing)
    return Launch("megatron", "pretrain_gpt.py", tuple(arguments), remarks)


Arguments = Iterator[tuple[str, str]]


def _parallel(scenario: PretrainingScenario, said: Mapping[str, str]) -> Arguments:
    batch, model = scenario.batch, scenario.model
    tp, pp, cp = (int(said[name]) for name in ("tp", "pp", "cp"))
    pieces = int(median(batch.virtual_stages))
    yield "--tensor-model-parallel-size", str(tp)
    if tp > 1:
        yield "--sequence-parallel", ""
    yield "--pipeline-model-parallel-size", str(pp)
    if pp > 1 and model.n_layers % (pp * pieces):
        yield "--pipeline-model-parallel-layout", f"'{stage_layout(model, pp * pieces, batch.stack.mtp_layers)}'"
    elif pieces > 1:
        yield "--num-virtual-stages-per-pipeline-rank", str(pieces)
    if cp > 1:
        yield "--context-parallel-size", str(cp)
    if model.is_moe:
        yield "--expert-model-parallel-size", said["experts_over"]
        yield "--expert-tensor-parallel-size", said["experts_cut"]
    if batch.sharded_weights or batch.stack.sharded_gradients:
        yield "--use-megatron-fsdp", ""
        shared = "optim_grads_params" if batch.sharded_weights else "optim_grads"
        yield "--data-parallel-sharding-strategy", shared
    yield "--use-distributed-optimizer", ""
    if batch.stack.optimizer != "adamw":
        yield "--optimizer", batch.stack.optimizer
    if batch.stack.moment_precision == "bf16":
        yield "--use-precision-aware-optimizer", ""
        yield "--exp-avg-dtype", "bf16"
        yield "--exp-avg-sq-dtype", "bf16"
    yield from _away(batch)
    yield "--overlap-grad-reduce", ""
    yield "--overlap-param-gather", ""


def _away(batch: Batch) -> Arguments:
    """What stays in the host's memory."""
    if "optimizer" in batch.offloaded:
        yield "--optimizer-cpu-offload", ""
        yield "--optimizer-offload-fraction", "1.0"
        yield "--overlap-cpu-optimizer-d2h-h2d", ""
        if batch.stack.moment_precision == "fp32":
            yield "--use-precision-aware-optimizer", ""
    if "activations" in batch.offloaded and batch.recompute != "full":
        yield "--fine-grained-activation-offloading", ""
        yield "--offload-modules", "core_attn attn_proj"


def stage_layout(model: Model, n_pieces: int, n_mtp_layers: int = 0) -> str:
    """Spread layers over pieces as evenly as they go: the embedding and the output head count as a layer each.

    Multi-token-prediction modules (``m``) stand before the head, as many as are trained.

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> stage_layout(load_model("deepseek-v3"), 16, 1)
    'Ettt|tttt|tttt|tttt|tttt|tttt|tttt|tttt|tttt|tttt|tttt|tttt|tttt|tttt|tttt|ttmL'
    """
    units = "E" + "t" * model.n_layers + "m" * n_mtp_layers + "L"
    short, longer = divmod(len(units), n_pieces)
    sizes = [short + (place < longer) for place in range(n_pieces)]
    cut, parts = 0, []
    for size in sizes:
        parts.append(units[cut : cut + size])
        cut += size
    return "|".join(parts)


def _batch(said: Mapping[str, str]) -> Arguments:
    yield "--seq-length", said["sequence"]
    yield "--max-position-embeddings", said["sequence"]
    yield "--micro-batch-size", said["micro"]
    yield "--global-batch-size", said["sequences"]
    if said["samples"]:
        yield "--train-samples", said["samples"]


def _recompute(scenario: PretrainingScenario) -> Arguments:
    if scenario.batch.recompute == "selective":
        yield "--recompute-granularity", "selective"
        yield "--recompute-modules", "core_attn"
    elif scenario.batch.recompute not in RECOMPUTE:
        yield "--recompute-granularity", "selective"
        yield "--recompute-modules", scenario.batch.recompute.replace(",", " ")
    elif scenario.batch.recompute == "full":
        yield "--recompute-granularity", "full"
        yield "--recompute-method", "uniform"
        yield "--recompute-num-layers", "1"


def _shape(model: Model, n_mtp_layers: int) -> Arguments:
    mixer, part = model.layers[-1].attention, model.layers[-1].feed_forward
    dense = next((group.feed_forward for group in model.layers if group.feed_forward.width), part)
    yield "--use-mcore-models", ""
    yield "--transformer-impl", "transformer_engine"
    yield "--num-layers", str(model.n_layers)
    yield "--hidden-size", str(model.hidden_size)
    if dense.width:
        yield "--ffn-hidden-size", str(dense.width)
    yield from _mixer(mixer)
    yield "--normalization", "RMSNorm"
    yield "--position-embedding-type", "rope"
    yield "--disable-bias-linear", ""
    # its own default is 0.1 of either, whose masks take memory
    yield "--attention-dropout", "0.0"
    yield "--hidden-dropout", "0.0"
    if part.n_matrices == 3:
        yield "--swiglu", ""
    if not model.tied_embeddings:
        yield "--untie-embeddings-and-output-weights", ""
    yield from _moe(model, part)
    if n_mtp_layers:
        yield "--mtp-num-layers", str(n_mtp_layers)


def _mixer(mixer: Attention) -> Arguments:
    yield "--num-attention-heads", str(mixer.n_query_heads)
    if mixer.kv_lora_rank:
        yield "--multi-latent-attention", ""
        if mixer.q_lora_rank:
            yield "--q-lora-rank", str(mixer.q_lora_rank)
        yield "--kv-lora-rank", str(mixer.kv_lora_rank)
        yield "--qk-head-dim", str(mixer.qk_head_dim - mixer.rope_head_dim)
        yield "--qk-pos-emb-head-dim", str(mixer.rope_head_dim)
        yield "--v-head-dim", str(mixer.v_head_dim)
        return
    if mixer.n_kv_heads != mixer.n_query_heads:
        yield "--group-query-attention", ""
        yield "--num-query-groups", str(mixer.n_kv_heads)
    yield "--kv-channels", str(mixer.qk_head_dim)


def _moe(model: Model, part: FeedForward) -> Arguments:
    if not part.n_experts:
        return
    yield "--num-experts", str(part.n_experts)
    yield "--moe-router-topk", str(part.n_experts_active)
    yield "--moe-ffn-hidden-size", str(part.expert_width)
    if part.n_shared_experts:
        yield "--moe-shared-expert-intermediate-size", str(part.n_shared_experts * part.shared_width)
    flags = [(int(group.feed_forward.n_experts > 0), group.count) for group in model.layers]
    if any(flag == 0 for flag, _ in flags):
        yield "--moe-layer-freq", "'" + "+".join(f"[{flag}]*{count}" for flag, count in flags) + "'"
    yield "--moe-grouped-gemm", ""
    yield "--moe-token-dispatcher-type", "alltoall"


#: What a configuration holds and a layout does not: nothing of it moves the time of a step.
_LEFT_OUT = (
    "left out, from the model's config.json: --rotary-base (rope_theta), --use-rope-scaling with --rope-scaling-factor "
    "(rope_scaling), --norm-epsilon (rms_norm_eps), --qk-layernorm and --add-qkv-bias where the model has them"
)
_LEFT_OUT_EXPERTS = (
    "left out of the router: --moe-router-score-function (scoring_func), --moe-router-num-groups (n_group), "
    "--moe-router-group-topk (topk_group), --moe-router-topk-scaling-factor (routed_scaling_factor), "
    "--moe-router-enable-expert-bias, --moe-router-load-balancing-type, --moe-aux-loss-coeff"
)


def _remarks(scenario: PretrainingScenario, said: Mapping[str, str]) -> Iterator[str]:
    gpus = format_count(median(scenario.layout.n_gpus), "GPU")
    yield f"$LAUNCH holds torchrun's own arguments for {gpus}, such as --nnodes and --nproc-per-node"
    yield "data, tokenizer, learning rate, initialisation and checkpoints are not part of a layout: add them"
    yield _LEFT_OUT
    if scenario.model.is_moe:
        yield _LEFT_OUT_EXPERTS
    mixers = [mixer_of(group.attention) for group in scenario.model.layers]
    kinds = {mixer.kind for mixer in mixers}
    windows = {group.attention.window for group in scenario.model.layers}
    if len(kinds) > 1 or len(windows) > 1 or not all(mixer.attends for mixer in mixers):
        yield f"{scenario.model.id} mixes or uses kinds of layers that these arguments do not describe: check its shape"
    if "weights" in scenario.batch.offloaded:
        yield "cannot be expressed here: weights in host memory"
    if "activations" in scenario.batch.offloaded:
        yield "cannot be expressed here: all activations in host memory: --offload-modules names some"
    if said["products"] not in PRODUCTS:
        allowed = ", ".join(one for one in PRODUCTS if one != "bf16")
        yield f"cannot be expressed here: products {said['products']}, so they stay in bf16; it has {allowed}"
    if said["packing"] in ("masked", "padded"):
        yield f"cannot be expressed here: documents {said['packing']} in sequences of {said['sequence']} tokens"
    if scenario.lora is not None:
        yield "Megatron-LM has no LoRA of its own: adapters come from Megatron Bridge or NeMo"
