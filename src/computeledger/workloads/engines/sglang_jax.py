"""SGLang on JAX: no constants of its own; its scheduler is SGLang's."""

from __future__ import annotations

from computeledger.workloads.engines.engine import Engine

ENGINE = Engine("sglang-jax", reads_prompts_first=True)
