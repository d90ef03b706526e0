"""TensorRT-LLM.

Arguments as ``trtllm-serve`` documents them (November 2026). Speculation was read in
``docs/source/features/speculative-decoding.md`` (commit 04c8822) and in pull request 12341, which renamed MTP's field.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from computeledger.workloads.engines.engine import Engine, Launch, shell

if TYPE_CHECKING:
    from computeledger.physics.parallelism import Layout


def _refusal(layout: Layout) -> str | None:
    if layout.dp > 1 and layout.tp > 1:
        return "attention data parallelism there takes every GPU of the stage (tp1), not groups of tensor parallelism"
    return None


def _commands(one: Launch) -> list[str]:
    layout = one.layout
    name = f"{one.role}.yaml" if one.role else "serving.yaml"
    settings = [f"enable_attention_dp: {'true' if layout.dp > 1 else 'false'}", "enable_chunked_prefill: true"]
    settings += ["kv_cache_config:", f"  dtype: {'fp8' if one.kv == 'fp8' else 'auto'}"]
    settings += [
        f"  enable_block_reuse: {'false' if one.no_prefix_cache else 'true'}",
        f"  free_gpu_memory_fraction: {one.cache_fraction:g}",
    ]
    options = [f"--tp_size {layout.n_gpus_per_stage}", f"--pp_size {layout.pp}", f"--ep_size {layout.ep}"]
    options += [f"--max_batch_size {one.per_rank}", f"--max_num_tokens {one.chunk_tokens}"]
    options += [f"--max_seq_len {one.context_tokens}", f"--config {name}"]
    notes = ["# --tp_size counts all GPUs of a stage; the batch is per attention rank"] if layout.dp > 1 else []
    settings += ["cuda_graph_config: null"] if one.eager else []
    if one.role:
        notes.append("# trtllm-serve disaggregated -c FILE joins the servers: FILE lists their addresses")
        settings += ["cache_transceiver_config:", "  backend: DEFAULT"]
        settings += ["disable_overlap_scheduler: true"] if one.role == "prefill" else []
    if one.drafts:
        if one.is_drafted_by_mtp:
            notes.append("# TensorRT-LLM before March 2026 calls max_draft_len of MTP num_nextn_predict_layers")
        settings += ["speculative_config:", f"  decoding_type: {'MTP' if one.is_drafted_by_mtp else 'Eagle3'}"]
        settings += [f"  max_draft_len: {one.drafts}"]
        settings += [] if one.is_drafted_by_mtp else ["  speculative_model: $DRAFT_MODEL"]
    end = "END" if one.drafts and not one.is_drafted_by_mtp else "'END'"  # the variable is filled in
    file = [f"cat > {name} <<{end}", *settings, "END"]
    return [*notes, *file, *shell(f"trtllm-serve {one.model}", options)]


ENGINE = Engine(
    "trtllm",
    makers=("NVIDIA",),
    names=("tensorrt", "trt-llm", "trtllm"),
    has_narrow_cache=True,
    memory_share="free_gpu_memory_fraction: the cache's share of the memory that weights and workspace leave",
    quantises_on_loading=False,
    refusal=_refusal,
    commands=_commands,
)
