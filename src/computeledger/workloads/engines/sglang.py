"""SGLang.

Arguments as its server arguments are documented (November 2026).
"""

from __future__ import annotations

from computeledger.workloads.engines.engine import Engine, Launch, on_several_hosts, shell


def _commands(one: Launch) -> list[str]:
    layout = one.layout
    options = [f"--model-path {one.model}", f"--tp-size {layout.n_gpus_per_stage}"]
    if layout.pp > 1:
        options.append(f"--pp-size {layout.pp}")
    if layout.dp > 1:
        options += [f"--dp-size {layout.dp}", "--enable-dp-attention"]
    if layout.ep > 1:
        options.append(f"--ep-size {layout.ep}")
    options += [f"--max-running-requests {one.per_rank * layout.dp}", f"--context-length {one.context_tokens}"]
    options += [f"--chunked-prefill-size {one.chunk_tokens * layout.dp}"]
    options += [f"--mem-fraction-static {one.static_fraction:.2f}"]
    options += ["--quantization fp8"] if one.online_fp8 else []
    options += ["--kv-cache-dtype fp8_e4m3"] if one.kv == "fp8" else []
    options += ["--disable-radix-cache"] if not one.cached else []
    if one.drafts:  # a chain: as many steps as drafts, and one token more to verify
        options.append(f"--speculative-algorithm {'EAGLE' if one.is_drafted_by_mtp else 'EAGLE3'}")
        options += [] if one.is_drafted_by_mtp else ['--speculative-draft-model-path "$DRAFT_MODEL"']
        options += [f"--speculative-num-steps {one.drafts}", "--speculative-eagle-topk 1"]
        options += [f"--speculative-num-draft-tokens {one.drafts + 1}"]
    options += [f"--disaggregation-mode {one.role}"] if one.role else []
    notes = []
    if layout.dp > 1:
        notes.append("# --tp-size counts all GPUs of a stage; requests and chunk are shared by the data-parallel ranks")
    notes += on_several_hosts(layout, "--nnodes, --node-rank and --dist-init-addr")
    return [*notes, *shell("python3 -m sglang.launch_server", options)]


ENGINE = Engine(
    "sglang",
    names=("sglang",),
    publishers=("lmsys", "deepseek"),
    reads_prompts_first=True,
    memory_share="--mem-fraction-static: the share of memory for weights and cache; the rest is for activations",
    commands=_commands,
)
