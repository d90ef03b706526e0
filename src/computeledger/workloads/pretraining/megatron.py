"""The arguments of Megatron-LM that launch a configuration.

Names as its parser has them at commit d98e8a6 of 2026-08-22 (https://github.com/NVIDIA/Megatron-LM).
"""

from __future__ import annotations

from collections.abc import Iterator

from computeledger.arrays import median
from computeledger.errors import InputError
from computeledger.facts.architecture import Attention, FeedForward, Model
from computeledger.physics.attention import mixer_of
from computeledger.physics.training.batch import BY_OPERATION, RECOMPUTE, REVERSIBLE, Batch
from computeledger.units import format_count
from computeledger.workloads.launches import Launch
from computeledger.workloads.pretraining.estimate import PretrainingScenario

#: Optimizers that it has: the usual one by another name.
OPTIMIZERS = ("adamw", "sgd", "lion", "muon", "soap")


def megatron_launch(scenario: PretrainingScenario, fp8_recipe: str = "blockwise") -> Launch:
    """Write a configuration as arguments of Megatron-LM.

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> from computeledger.physics.parallelism import Layout
    >>> from computeledger.physics.roofline import Precision
    >>> from computeledger.physics.training.batch import Batch
    >>> scenario = PretrainingScenario(load_model("llama-3.1-8b"), Layout(tp=2, dp=4), Precision(), Batch(8192, 128))
    >>> dict(megatron_launch(scenario).arguments)["--tensor-model-parallel-size"]
    '2'
    """
    if scenario.schedule != "1f1b":
        raise InputError(
            f"--emit megatron: Megatron-LM has no {scenario.schedule} schedule; it runs 1f1b and interleaved"
        )
    if scenario.batch.recompute in (REVERSIBLE, BY_OPERATION):
        has = "reversible layers" if scenario.batch.recompute == REVERSIBLE else "checkpointing by operation"
        raise InputError(f"--emit megatron: Megatron-LM has no {has}; it recomputes none, selective or full")
    if scenario.batch.stack.optimizer not in OPTIMIZERS:
        known = ", ".join(OPTIMIZERS)
        raise InputError(f"--emit megatron: Megatron-LM has no {scenario.batch.stack.optimizer}; it has {known}")
    arguments = [*_parallel(scenario), *_batch(scenario), *_recompute(scenario), *_precision(scenario, fp8_recipe)]
    arguments += _shape(scenario.model)
    return Launch("megatron", "pretrain_gpt.py", tuple(arguments), tuple(_remarks(scenario)))


Arguments = Iterator[tuple[str, str]]


def _parallel(scenario: PretrainingScenario) -> Arguments:
    layout, batch, model = scenario.layout, scenario.batch, scenario.model
    tp, pp, cp, ep = (int(median(one)) for one in (layout.tp, layout.pp, layout.cp, layout.ep))
    pieces = int(median(batch.virtual_stages))
    yield "--tensor-model-parallel-size", str(tp)
    if tp > 1:
        yield "--sequence-parallel", ""
    yield "--pipeline-model-parallel-size", str(pp)
    if pp > 1 and model.n_layers % (pp * pieces):
        yield "--pipeline-model-parallel-layout", f"'{stage_layout(model, pp * pieces)}'"
    elif pieces > 1:
        yield "--num-virtual-stages-per-pipeline-rank", str(pieces)
    if cp > 1:
        yield "--context-parallel-size", str(cp)
    if model.is_moe:
        yield "--expert-model-parallel-size", str(ep)
        yield "--expert-tensor-parallel-size", str(max(tp // ep, 1))
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


def stage_layout(model: Model, n_pieces: int) -> str:
    """Spread layers over pieces as evenly as they go: the embedding and the output head count as a layer each.

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> stage_layout(load_model("deepseek-v3"), 16)
    'Ettt|tttt|tttt|tttt|tttt|tttt|tttt|tttt|tttt|tttt|tttt|tttt|tttt|tttt|tttt|ttmL'
    """
    units = "E" + "t" * model.n_layers + "m" * model.n_mtp_layers + "L"
    short, longer = divmod(len(units), n_pieces)
    sizes = [short + (place < longer) for place in range(n_pieces)]
    cut, parts = 0, []
    for size in sizes:
        parts.append(units[cut : cut + size])
        cut += size
    return "|".join(parts)


def _batch(scenario: PretrainingScenario) -> Arguments:
    batch = scenario.batch
    sequence = f"{median(batch.sequence_tokens):.0f}"
    yield "--seq-length", sequence
    yield "--max-position-embeddings", sequence
    yield "--micro-batch-size", f"{median(batch.microbatch_sequences):.0f}"
    yield "--global-batch-size", f"{median(batch.global_sequences):.0f}"
    if median(scenario.tokens) > 0:
        yield "--train-samples", f"{median(scenario.tokens) / median(batch.sequence_tokens):.0f}"


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


def _precision(scenario: PretrainingScenario, fp8_recipe: str) -> Arguments:
    yield "--bf16", ""
    name = scenario.precision.name
    if name == "fp8":
        yield "--fp8-format", "e4m3"
        yield "--fp8-recipe", fp8_recipe
    elif name == "fp4":
        yield "--fp4-format", "e2m1"


def _shape(model: Model) -> Arguments:
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
    if part.n_matrices == 3:
        yield "--swiglu", ""
    if not model.tied_embeddings:
        yield "--untie-embeddings-and-output-weights", ""
    yield from _moe(model, part)
    if model.n_mtp_layers:
        yield "--mtp-num-layers", str(model.n_mtp_layers)


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


def _remarks(scenario: PretrainingScenario) -> Iterator[str]:
    gpus = format_count(median(scenario.layout.n_gpus), "GPU")
    yield f"$LAUNCH holds torchrun's own arguments for {gpus}, such as --nnodes and --nproc-per-node"
    yield "data, tokenizer, learning rate, initialisation and checkpoints are not part of a layout: add them"
    yield _LEFT_OUT
    if scenario.model.is_moe:
        yield _LEFT_OUT_EXPERTS
    mixers = [mixer_of(group.attention) for group in scenario.model.layers]
    kinds = {mixer.kind for mixer in mixers}
    windows = {group.attention.window for group in scenario.model.layers}
    if scenario.batch.stack.activation_precision == "fp8":
        yield "8-bit activations: Transformer Engine keeps what fp8 products need in 8 bits; dispatch in bf16 stays"
    if len(kinds) > 1 or len(windows) > 1 or not all(mixer.attends for mixer in mixers):
        yield f"{scenario.model.id} mixes or uses kinds of layers that these arguments do not describe: check its shape"
    if "weights" in scenario.batch.offloaded:
        yield "cannot be expressed here: weights in host memory"
    if "activations" in scenario.batch.offloaded:
        yield "cannot be expressed here: all activations in host memory: --offload-modules names some"
    if scenario.lora is not None:
        yield "Megatron-LM has no LoRA of its own: adapters come from Megatron Bridge or NeMo"
