"""LMDeploy: no constants of its own.

Arguments as ``lmdeploy/cli/utils.py`` defines them (commit 1263d5c, August 2026).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from computeledger.workloads.engines.engine import Engine, Launch, shell

if TYPE_CHECKING:
    from computeledger.physics.parallelism import Layout


def _refusal(layout: Layout) -> str | None:
    return "it has no pipeline parallelism" if layout.pp > 1 else None


def _commands(one: Launch) -> list[str]:
    layout = one.layout
    options = [f"--tp {layout.tp}"]
    options += [f"--dp {layout.dp}"] if layout.dp > 1 else []
    options += [f"--ep {layout.ep}"] if layout.ep > 1 else []
    options += [f"--session-len {one.context_tokens}", f"--max-batch-size {one.per_rank}"]
    options += [f"--cache-max-entry-count {one.cache_fraction:g}", f"--max-prefill-token-num {one.chunk_tokens}"]
    cache = ENGINE.caches[one.kv]
    options += [f"--quant-policy {cache}"] if cache else []
    options += ["--enable-prefix-caching"] if one.cached else []
    options += ["--backend pytorch", "--eager-mode"] if one.eager else []
    return shell(f"lmdeploy serve api_server {one.model}", options)


ENGINE = Engine(
    "lmdeploy",
    names=("lmdeploy", "turbomind"),
    memory_share="--cache-max-entry-count: the cache's share of the memory that weights and workspace leave",
    quantises_on_loading=False,
    caches={"bf16": "", "fp8": "fp8", "int8": "int8", "int4": "int4"},
    refusal=_refusal,
    commands=_commands,
)
