"""gpt-fast: no constants of its own and no server; it generates one sequence at a time."""

from __future__ import annotations

from computeledger.workloads.engines.engine import Engine, only_tensor_parallel

ENGINE = Engine("gpt-fast", names=("gpt-fast",), quantises_on_loading=False, refusal=only_tensor_parallel)
